"""Files of scores that somebody has: every layout is read to the same numbers, and every mistake is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas
import pytest

from cda.data.scores import StoredScores, load_scores
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.records import text_key, user_prompt

Rows = list[dict[str, Any]]
SIDES = [("q1", "long a", "short a", 2.5, 1.0), ("q2", "long b", "short b", -1.0, 0.25)]
REWARDS = {
    text_key(user_prompt(q), text): score for q, *rest in SIDES for text, score in zip(rest[:2], rest[2:], strict=True)
}


def read(folder: Path, rows: Rows) -> StoredScores:
    write_jsonl(folder / "scores.jsonl", rows)
    return load_scores(str(folder / "scores.jsonl"))


def two_sided(first: str, second: str, prompt: str = "prompt", end: str = "") -> Rows:
    return [
        {prompt: q, first + end: one, second + end: other, f"{first}_score": high, f"{second}_score": low, "more": "x"}
        for q, one, other, high, low in SIDES
    ]


@pytest.mark.parametrize(
    "rows",
    [
        two_sided("perturbed", "base"),
        two_sided("perturbed", "base", "query", "_response"),
        two_sided("chosen", "rejected"),
        two_sided("response_1", "response_2"),
        [*two_sided("perturbed", "base")[:1], *two_sided("chosen", "rejected")[1:]],
        [{"prompt": q, "response": text, "score": str(score)} for q, *rest in SIDES for text, score in zip(rest[:2], rest[2:], strict=True)],
        [{"prompt": [{"role": "user", "content": q}], "response": [{"role": "assistant", "content": text}], "reward": score}
         for q, *rest in SIDES for text, score in zip(rest[:2], rest[2:], strict=True)],
    ],
)  # fmt: skip
def test_rewards_of_every_layout_are_the_same(tmp_path: Path, rows: Rows) -> None:
    assert read(tmp_path, [*rows, rows[0]]) == StoredScores(REWARDS, {})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_is_read_as_lines_are(tmp_path: Path, ending: str) -> None:
    table = pandas.DataFrame(two_sided("perturbed", "base"))
    path = tmp_path / f"scores.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    assert load_scores(str(path)) == StoredScores(REWARDS, {})


def test_preferences_are_of_two_texts_in_their_order(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "response_a": "a", "response_b": "b", "preference": 0.5},
            {"prompt": "q", "response_a": "b", "response_b": "a", "preference": -1}]  # fmt: skip
    prompt = user_prompt("q")
    assert read(tmp_path, rows).preferences == {text_key(prompt, "a", "b"): 0.5, text_key(prompt, "b", "a"): -1}


TEXT = {"prompt": "q", "response": "a"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "c1", "margin": 1.0}], "scores are looked up by their texts, .*give prompt, response and score; or .* Found: id, margin"),
        ([{"id": "c1", "perturbed_score": 1, "base_score": 0}], "looked up by their texts"),
        ([{"prompt": "q", "perturbed": "a", "base": "b", "margin": 1}], "perturbed_score and base_score .*Found: base, margin, perturbed, prompt"),
        ([TEXT | {"score": 1}, TEXT | {"score": 2}, {"prompt": "q", "response": "", "score": 1},
              {"prompt": "q"}],
         "row 2: 2 for the texts that row 1 gives 1\n.*row 3: a side is missing\n.*row 4: no text with a score"),
        ([TEXT | {"score": cell} for cell in (None, "n/a", True, "nan", 1e200, 10**400)],
         "row 1: score is 'None'; give a number from -1e\\+100 to 1e\\+100\n.*row 2: .*\n.*row 3: .*\n.*row 4: .*\n.*row 5: .*\n.*row 6: "),
        ([{"prompt": "q", "chosen": "a", "rejected": "b", "preference": 3}], "row 1: preference is '3'; give a number from -1 to 1"),
        ([{"prompt": "q", "chosen": "a", "rejected": "b", "perturbed": "c", "base": "d", "preference": 0}], "looked up by their texts"),
    ],
)  # fmt: skip
def test_mistakes_are_named_all_at_once(tmp_path: Path, rows: Rows, message: str) -> None:
    with pytest.raises(DataError) as refused:
        read(tmp_path, rows)
    assert re.search(message, str(refused.value)), refused.value
