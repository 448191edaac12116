"""Sampled responses from both layouts; what cannot be used is counted, and repeats are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cda.data.sampled import clean_sampled, load_outputs, load_sampled, placed_outputs
from cda.errors import DataError

LISTED: dict[str, Any] = {"prompt": "q", "responses": ["a", "b", "a"]}


def test_both_layouts_give_the_same() -> None:
    long = [{"prompt": "q", "response": text} for text in ("a", "b")]
    long.insert(1, {"prompt": "other", "response": "c"})
    long.append({"prompt": [{"role": "user", "content": "q"}], "response": [{"role": "assistant", "content": "a"}]})  # type: ignore[dict-item]
    one = clean_sampled([LISTED, {"prompt": "other", "responses": ["c"]}], {}, "f")
    other = clean_sampled(long, {}, "f")
    assert one.prompts == other.prompts
    assert [sampled.responses for sampled in one.prompts] == [("a", "b", "a"), ("c",)]
    assert one.n_repeated == other.n_repeated == 1  # sampled twice, so kept
    assert (one.responses.seen, other.responses.seen, one.rows.seen, other.rows.seen) == (4, 4, 2, 4)
    assert not one.has_quality and one.prompts[0].quality == (None, None, None)


def test_rows_of_one_prompt_are_put_together() -> None:
    (sampled,) = clean_sampled([LISTED, {"prompt": "q", "responses": ["c"]}], {}, "f").prompts
    assert sampled.responses == ("a", "b", "a", "c")


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
    cleaned = clean_sampled([LISTED, row], {}, "f")
    assert (dict(cleaned.rows.reasons), dict(cleaned.responses.reasons)) == (rows, responses)
    n_kept = sum(len(one.responses) for one in cleaned.prompts)
    assert n_kept == cleaned.responses.seen - cleaned.responses.dropped


def test_quality_goes_with_its_response() -> None:
    rows = [
        {"prompt": "q", "responses": ["a", "", "b"], "quality": [1, 9, 0.5]},
        {"prompt": "r", "responses": ["a", "b"], "quality": [1]},
        {"prompt": "s", "responses": ["a", "b"], "quality": [None, "high"]},
        {"prompt": "t", "responses": ["a", "b"], "quality": "[1, 2"},
        {"prompt": "u", "responses": ["a", "b"]},
    ]
    cleaned = clean_sampled(rows, {}, "f")
    assert [one.quality for one in cleaned.prompts] == [(1.0, 0.5), *([(None, None)] * 4)]
    assert cleaned.has_quality
    assert dict(cleaned.quality.reasons) == {
        "quality is not a finite number": 1,
        "quality is not one number for each response": 4,
    }
    long = [{"prompt": "q", "response": text, "gold": number} for text, number in (("a", "2.5"), ("b", float("nan")))]
    (sampled,) = clean_sampled(long, {"quality": "gold"}, "f").prompts
    assert sampled.quality == (2.5, None)


def test_columns_are_mapped_and_mistakes_are_all_named() -> None:
    rows = [{"instruction": "q", "outputs": ["a", "b"]}]
    columns = {"prompt": "instruction", "responses": "outputs"}
    assert clean_sampled(rows, columns, "f").prompts[0].responses == ("a", "b")
    with pytest.raises(DataError) as caught:
        clean_sampled(rows, {"prompt": "instructions", "answer": "outputs"}, "f")
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "--column answer is unknown" in lines[0]
    assert "no column 'instructions'. Did you mean 'instruction'?" in lines[1]
    assert "neither responses (a list) nor response" in lines[2]


def test_a_file_with_both_columns_is_asked_about() -> None:
    rows = [LISTED | {"response": "x"}]
    with pytest.raises(DataError, match="both responses and response"):
        clean_sampled(rows, {}, "f")
    assert clean_sampled(rows, {"responses": "responses"}, "f").prompts[0].responses == ("a", "b", "a")


def test_nothing_to_choose_from() -> None:
    with pytest.raises(DataError, match="no prompt has two responses"):
        clean_sampled([{"prompt": "q", "response": "a"}, {"prompt": "r", "response": ""}], {}, "f")


def test_from_files(tmp_path: Path) -> None:
    """A list stands as JSON text in a CSV file."""
    (tmp_path / "f.jsonl").write_text(json.dumps(LISTED) + "\n")
    (tmp_path / "f.csv").write_text('prompt,responses,quality\nq,"[""a"", ""b"", ""a""]","[1, 2, 3]"\n')
    one, other = load_sampled(str(tmp_path / "f.jsonl")), load_sampled(str(tmp_path / "f.csv"))
    assert one.prompts[0].responses == other.prompts[0].responses == ("a", "b", "a")
    assert other.prompts[0].quality == (1.0, 2.0, 3.0)


def test_every_output_keeps_its_place() -> None:
    rows = [
        {"prompt": "q", "response": " "},
        {"prompt": "r", "response": "x"},
        {"prompt": "q", "response": "b", "quality": 2},
        {"prompt": "", "response": "lost"},
    ]
    q, r = placed_outputs(rows, {}, "f").by_prompt.values()
    assert [(one.text, one.reason, one.quality) for one in q.outputs] == [
        (None, "empty response", None),
        ("b", None, 2.0),
    ]
    assert [one.text for one in r.outputs] == ["x"] and q.whole and r.whole


def test_a_list_that_cannot_be_read_leaves_places_unknown() -> None:
    rows = [LISTED, {"prompt": "q", "responses": None}, {"prompt": "r", "responses": ["", "x"]}]
    outputs = placed_outputs(rows, {}, "f")
    q, r = outputs.by_prompt.values()
    assert (q.whole, len(q.outputs), r.whole, [one.text for one in r.outputs]) == (False, 3, True, [None, "x"])
    assert dict(outputs.rows.reasons) == {"responses is missing": 1}


def test_one_output_a_prompt_is_enough_to_compare_and_none_is_not(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text(json.dumps({"prompt": "q", "response": "a"}) + "\n")
    assert len(load_outputs(str(tmp_path / "f.jsonl")).by_prompt) == 1
    (tmp_path / "f.jsonl").write_text(json.dumps({"prompt": "q", "response": ""}) + "\n")
    with pytest.raises(DataError, match=r"no usable response.*1 empty response"):
        load_outputs(str(tmp_path / "f.jsonl"))


def test_from_files_messages_name_what_the_commands_take(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps({"question": "q", "response": "a"}) + "\n")
    for load in (load_sampled, load_outputs):
        with pytest.raises(DataError, match="Map it with --column prompt=<your column>"):
            load(str(path))
