"""Votes in JSON, JSONL and CSV, a row a vote or a row an item."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cda.data.contrasts import load_votes
from cda.errors import DataError

EXPECTED = {"a": ("perturbed", "base", "tie"), "b": ("base",)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("votes.json", json.dumps({"a": ["perturbed", "base", "tie"], "b": ["base"]})),
        ("rows.json", json.dumps([{"id": "a", "votes": ["perturbed", "base", "tie"]}, {"id": "b", "votes": ["base"]}])),
        ("long.jsonl", "\n".join(json.dumps({"id": item, "vote": vote, "who": 3})
                                 for item, votes in EXPECTED.items() for vote in votes)),
        ("wide.csv", 'id,votes\na,"perturbed; base; tie"\nb,base\n'),
        ("long.csv", "id,vote\na,perturbed\nb,base\na,base\na,tie\n"),
        ("cells.csv", 'id,votes\na,"[""perturbed"", ""base"", ""tie""]"\nb,base\n'),
    ],
)  # fmt: skip
def test_every_layout_gives_the_same_votes(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert load_votes(str(path)) == EXPECTED


def test_zero_is_an_id_and_numbers_are_words(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text('{"id": 0, "vote": "base"}\n{"id": 1, "vote": 1}\n', encoding="utf-8")
    assert load_votes(str(path)) == {"0": ("base",), "1": ("1",)}
    path = path.with_suffix(".json")
    path.write_text('{"a": "base", "b": ["tie"]}', encoding="utf-8")
    assert load_votes(str(path)) == {"a": ("base",), "b": ("tie",)}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("id,vote\na,base\n,base\nb,\n", ["row 2 lacks an id", "row 3 lacks a vote"]),
        ("item,word\na,base\n", ["votes need the columns id and vote"]),
        ("id,vote,votes\na,base,tie\n", ["has both the columns vote and votes"]),
        (
            "id,vote,participant\na,base,p1\na,base,p2\na,base,p1\nb,base,p1\nb,tie,p1\n",
            ["row 3: p1 gave the same vote on a in row 1", "row 5: p1 gave another vote on b in row 4"],
        ),
    ],
)
def test_every_problem_is_named(tmp_path: Path, text: str, problems: list[str]) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load_votes(str(path))
    for line, problem in zip(str(caught.value).splitlines(), problems, strict=True):
        assert line.startswith(f"{path}: {problem}")
