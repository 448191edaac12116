"""Sampled responses from both layouts; what cannot be used is counted, and repeats are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cda.data.sampled import load_outputs, load_sampled, placed_outputs
from cda.errors import DataError

LISTED: dict[str, Any] = {"prompt": "q", "responses": ["a", "b", "a"]}


def test_both_layouts_give_the_same() -> None:
    long: list[dict[str, Any]] = [{"prompt": "q", "response": text} for text in ("a", "b")]
    long.insert(1, {"prompt": "other", "response": "c"})
    long.append({"prompt": [{"role": "user", "content": "q"}], "response": [{"role": "assistant", "content": "a"}]})
    listed = [LISTED, {"prompt": "other", "responses": ["c"]}]
    for rows in (listed, long):
        found = placed_outputs(rows, {}, "f")
        assert [placed.responses for placed in found.prompts] == [("a", "b", "a"), ("c",)]
        assert (found.n_repeated, found.responses.seen, found.rows.seen) == (1, 4, len(rows))  # sampled twice, so kept
        assert not found.has_quality and found.prompts[0].quality == (None, None, None)
    (placed,) = placed_outputs([LISTED, {"prompt": "q", "responses": ["c"]}], {}, "f").prompts
    assert placed.responses == ("a", "b", "a", "c")


@pytest.mark.parametrize(
    ("row", "rows", "responses"),
    [
        ({"prompt": " ", "responses": ["x", "y"]}, {"empty prompt": 1}, {}),
        ({"prompt": "q", "responses": None}, {"responses is missing": 1}, {}),
        ({"prompt": "q", "responses": "x"}, {"responses is not a list": 1}, {}),
        ({"prompt": "q", "responses": "[x"}, {"a list that is not valid JSON": 1}, {}),
        ({"prompt": "q", "responses": []}, {"no responses": 1}, {}),
        ({"prompt": "q", "responses": ["x", " ", None]}, {}, {"empty response": 2}),
        ({"prompt": "q", "responses": [3, [{"role": "user", "content": "x"}] * 2]}, {},
         {"response is not text": 1, "response is not one message": 1}),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_counted(row: dict[str, Any], rows: dict[str, int], responses: dict[str, int]) -> None:
    cleaned = placed_outputs([LISTED, row], {}, "f")
    assert (dict(cleaned.rows.reasons), dict(cleaned.responses.reasons)) == (rows, responses)
    n_kept = sum(len(one.responses) for one in cleaned.prompts)
    assert n_kept == cleaned.responses.seen - cleaned.responses.dropped


def test_quality_goes_with_its_response() -> None:
    rows = [
        {"prompt": "q", "responses": ["a", "", "b"], "quality": [1, 9, 0.5]},
        {"prompt": "r", "responses": ["a", "b"], "quality": [1]},
        {"prompt": "s", "responses": ["a", "b"], "quality": [None, "high"]},
        {"prompt": "t", "responses": ["a", "b"], "quality": "[1, 2"},
        {"prompt": "u", "responses": ["a", "b"], "quality": [1e200, -1e308]},
        {"prompt": "v", "responses": ["a", "b"]},
    ]
    cleaned = placed_outputs(rows, {}, "f")
    assert [one.quality for one in cleaned.prompts] == [(1.0, 0.5), *([(None, None)] * 5)]
    assert cleaned.has_quality
    assert dict(cleaned.quality.reasons) == {
        "quality is not a finite number": 3,
        "quality is not one number for each response": 4,
    }
    long = [{"prompt": "q", "response": text, "gold": number} for text, number in (("a", "2.5"), ("b", float("nan")))]
    (sampled,) = placed_outputs(long, {"quality": "gold"}, "f").prompts
    assert sampled.quality == (2.5, None)


def test_columns_are_mapped_and_mistakes_are_all_named() -> None:
    rows = [{"instruction": "q", "outputs": ["a", "b"]}]
    columns = {"prompt": "instruction", "responses": "outputs"}
    assert placed_outputs(rows, columns, "f").prompts[0].responses == ("a", "b")
    with pytest.raises(DataError) as caught:
        placed_outputs(rows, {"prompt": "instructions", "answer": "outputs"}, "f")
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "--column answer is unknown" in lines[0]
    assert "no column 'instructions'. Did you mean 'instruction'?" in lines[1]
    assert "neither responses (a list) nor response" in lines[2]

    rows = [LISTED | {"response": "x"}]
    with pytest.raises(DataError, match="both responses and response"):
        placed_outputs(rows, {}, "f")
    assert placed_outputs(rows, {"responses": "responses"}, "f").prompts[0].responses == ("a", "b", "a")


def test_from_files(tmp_path: Path) -> None:
    """A list stands as JSON text in a CSV file."""
    path = tmp_path / "f.csv"
    path.write_text('prompt,responses,quality\nq,"[""a"", ""b"", ""a""]","[1, 2, 3]"\n')
    (placed,) = load_sampled(str(path)).prompts
    assert (placed.responses, placed.quality) == (("a", "b", "a"), (1.0, 2.0, 3.0))
    path.write_text("prompt,response\nq,a\n")
    assert len(load_outputs(str(path)).by_prompt) == 1  # one output a prompt is enough to compare, and none is not
    with pytest.raises(DataError, match="no prompt has two responses"):
        load_sampled(str(path))
    path.write_text("prompt,response\nq,\n")
    with pytest.raises(DataError, match=r"no usable response.*1 empty response"):
        load_outputs(str(path))
    path.write_text("question,response\nq,a\n")
    for load in (load_sampled, load_outputs):
        with pytest.raises(DataError, match="Map it with --column prompt=<your column>"):
            load(str(path))
