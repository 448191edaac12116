"""Contrasts in both layouts, with votes, majorities and ties; what cannot be used is counted; files of votes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cda.data.contrasts import CleanContrasts, clean_contrasts, load_votes, with_votes
from cda.errors import DataError
from cda.records import Contrast, Exclusions, user_prompt

DIRECT = {"prompt": "q", "base": "plain", "perturbed": "biased"}
NAMED = {"prompt": "q", "response_1": "biased", "response_2": "plain", "biased": "response_1"}
OTHER_ORDER = {"prompt": "q", "response_1": "plain", "response_2": "biased", "biased": "Response 2"}
EXPECTED = Contrast("jargon", user_prompt("q"), perturbed="biased", base="plain")


def read(*rows: dict[str, Any], votes: Any = None, verdicts: Any = None) -> CleanContrasts:
    return clean_contrasts(rows, ["jargon"], {}, "f", votes, verdicts)


def only(row: dict[str, Any]) -> Contrast:
    cleaned = read(row)
    assert cleaned.exclusions.dropped == 0
    (contrast,) = cleaned.contrasts
    return contrast


@pytest.mark.parametrize(
    "row", [DIRECT, NAMED, OTHER_ORDER, DIRECT | {"base": [{"role": "assistant", "content": "plain"}]}]
)
def test_every_layout_gives_the_same_contrast(row: dict[str, Any]) -> None:
    assert only(row) == EXPECTED


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (DIRECT | {"preferred": ""}, None),
        (DIRECT | {"preferred": " Base "}, "base"),
        (DIRECT | {"preferred": "TIE"}, "tie"),
        (DIRECT | {"votes": ["perturbed"], "preferred": "base"}, "base"),
        (NAMED | {"preferred": "response_1"}, "perturbed"),
        (NAMED | {"preferred": "response_2"}, "base"),
        (OTHER_ORDER | {"preferred": "response_1"}, "base"),
        (OTHER_ORDER | {"preferred": "Response 2"}, "perturbed"),
        (OTHER_ORDER | {"preferred": "base"}, "base"),
    ],
)
def test_preferences(row: dict[str, Any], expected: str | None) -> None:
    assert only(row).preferred == expected
    if expected is not None:
        assert only(row | {"votes": [row["preferred"]]}).votes == (expected,)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (DIRECT | {"prompt": ""}, "empty prompt"),
        (DIRECT | {"perturbed": None}, "a side is missing"),
        (DIRECT | {"base": 5}, "a side is no text"),
        (DIRECT | {"base": "biased\r\n"}, "identical sides"),
        (DIRECT | {"preferred": "response_1"}, "unreadable preference"),
        (DIRECT | {"direction": "sideways"}, "direction is neither added nor removed"),
        (NAMED | {"biased": "both"}, "biased is neither response_1 nor response_2"),
        (DIRECT, "duplicate"),
        (DIRECT | {"bias": "length"}, "of another bias (length)"),
    ],
)
def test_what_cannot_be_used_is_counted(row: dict[str, Any], reason: str) -> None:
    cleaned = read(DIRECT | {"bias": "jargon"}, {"bias": "jargon"} | row)
    assert [contrast.id for contrast in cleaned.contrasts] == [EXPECTED.id]
    assert cleaned.exclusions == Exclusions(2, {reason: 1})


def test_rows_of_other_biases_are_taken_if_asked_for_and_one_without_a_bias_file_is_counted() -> None:
    rows = [DIRECT | {"bias": name} for name in ("jargon", "structure", "charm")]
    found = clean_contrasts(rows, ["jargon"], {}, "f", others=["structure"])
    assert [contrast.bias for contrast in found.contrasts] == ["jargon", "structure"]
    assert found.exclusions == Exclusions(3, {"of a bias without a bias file (charm)": 1})
    # Without the column every row is of the one bias that is meant.
    assert clean_contrasts([DIRECT], ["jargon"], {}, "f", others=["structure"]).contrasts[0].bias == "jargon"


def test_several_biases_and_mapped_columns() -> None:
    rows = [{"q": "q", "neutral": "plain", "loaded": "biased", "bias": name} for name in ("jargon", "length")]
    columns = {"prompt": "q", "base": "neutral", "perturbed": "loaded"}
    found = clean_contrasts(rows, ["jargon", "length"], columns, "f").contrasts
    assert [(contrast.bias, contrast.base, contrast.perturbed) for contrast in found] == [
        ("jargon", "plain", "biased"),
        ("length", "plain", "biased"),
    ]
    with pytest.raises(DataError, match="2 biases are meant") as caught:
        clean_contrasts([{"base": "a"}], ["jargon", "length"], {}, "f")
    assert len(str(caught.value).splitlines()) == 3  # layout, prompt, bias
    with pytest.raises(DataError, match=r"f: no usable contrast; 1 of 1 dropped \(1 identical sides\)"):
        read(DIRECT | {"base": "biased"})


@pytest.mark.parametrize(
    ("votes", "expected", "unread"),
    [
        (["base", "perturbed", "base"], ("base", "perturbed", "base"), None),
        ('["base", "tie"]', ("base", "tie"), None),  # a cell of a CSV file
        ("base; perturbed", ("base", "perturbed"), None),
        ("base,tie", ("base", "tie"), None),
        ("", (), None),
        (None, (), None),
        (3, (), "3"),
        (["base", 5], ("base",), "5"),
        ("base; maybe", ("base",), "maybe"),
    ],
)
def test_votes_of_every_form(votes: Any, expected: tuple[str, ...], unread: str | None) -> None:
    cleaned = read(DIRECT | {"votes": votes})
    assert cleaned.contrasts[0].votes == expected and cleaned.exclusions.dropped == 0
    assert dict(cleaned.votes.reasons) == ({f"unreadable vote '{unread}'": 1} if unread else {})


def test_votes_from_a_file_of_their_own_go_first() -> None:
    rows = [DIRECT | {"id": 7, "votes": ["base"]}, DIRECT | {"id": "8", "base": "other"}]
    first, second = read(*rows, votes={"7": ["perturbed", "tie"]}).contrasts
    assert (first.votes, second.votes) == (("perturbed", "tie"), ())
    assert read(DIRECT, votes={EXPECTED.id: ["base"]}).contrasts[0].votes == ("base",)
    found, unread = with_votes([EXPECTED], {EXPECTED.id: ["tie", "response_1"], "nobody": ["base"]}, {})
    assert found[0].votes == ("tie",) and unread == Exclusions(2, {"unreadable vote 'response_1'": 1})


def test_votes_need_ids_that_name_one_pair() -> None:
    rows = [DIRECT | {"id": 7, "base": "a"}, DIRECT | {"id": "7", "base": "b"}]
    assert len(read(*rows).contrasts) == 2  # without votes an id is just a name
    with pytest.raises(DataError, match=r"several rows share one: '7' \(2 times\)"):
        read(*rows, votes={"7": ["base"]})


def exported(prompt: str = "q", **change: Any) -> dict[str, Any]:
    """A row as `cda texts` writes it, its id made from its text, and then edited."""
    made = Contrast("jargon", user_prompt(prompt), perturbed="biased", base="plain")
    return {"id": made.id, "bias": "jargon"} | DIRECT | {"prompt": prompt} | change


def test_votes_on_other_text_are_not_taken_for_an_edited_row() -> None:
    rows = [exported(base="biased", perturbed="plain"), exported("r")]
    votes = {row["id"]: ("perturbed",) for row in rows}
    found = read(*rows, votes=votes, verdicts=votes)
    assert [row.votes for row in found.contrasts] == [row.verdicts for row in found.contrasts] == [(), ("perturbed",)]
    assert "item" not in found.contrasts[0].tags
    assert found.ids.exclusions == Exclusions(2, {"made from other text": 1})
    assert str(found.ids.notice).startswith("1 of 2 rows carry an id that was made from other text")
    alone = read(rows[0], votes=votes)  # swapped sides alone show that ids are ours
    assert (alone.contrasts[0].votes, alone.ids.exclusions.dropped) == ((), 1)
    new = only(DIRECT | {"base": "plainer"}).id
    edited = read(exported(base="plainer"), exported("r"), votes={EXPECTED.id: ("base",), new: ("tie",)})
    assert edited.contrasts[0].votes == ("tie",)
    unedited = read(exported(), exported("r"))
    assert unedited.ids.notice is None and unedited.ids.exclusions == Exclusions(2, {})


@pytest.mark.parametrize("name", ["0123456789abcdef", "my-row", "0123456789ABCDEF", "7"])
def test_ids_of_the_users_own_stay(name: str) -> None:
    """Anybody's hash may look like ours: where no row shows that ids are ours, it is said, and nothing is changed."""
    found = read(DIRECT | {"id": name}, votes={name: ("perturbed",)})
    assert (found.contrasts[0].votes, found.contrasts[0].tags["item"]) == (("perturbed",), name)
    assert found.ids.exclusions == Exclusions(1, {})
    assert (found.ids.notice is not None) == (name == "0123456789abcdef")


@pytest.mark.parametrize("name", [None, "", "mine"])
def test_votes_of_a_file_count_once_however_often_the_row_is_given(name: str | None) -> None:
    key = name or EXPECTED.id
    rows = [DIRECT | {"id": name, "votes": ["tie"]}] * 3
    cleaned = read(*rows, votes={key: ["base", "perturbed"]}, verdicts={key: ["base"]})
    (found,) = cleaned.contrasts
    assert (found.votes, found.verdicts) == (("base", "perturbed"), ("base",))
    assert dict(cleaned.exclusions.reasons) == {"duplicate": 2}


def test_a_second_vote_of_one_annotator_is_refused() -> None:
    rows = [DIRECT | {"annotator": name, "preferred": "base"} for name in ("ann", "bob", "ann")]
    assert read(*rows[:2]).contrasts[0].votes == ("base", "base")
    with pytest.raises(DataError, match=r"f: rows 1, 3: the same two answers, and ann votes on them 2 times"):
        read(*rows)
    assert read(*[DIRECT | {"annotator": "ann"}] * 2).contrasts[0].votes == ()


def test_rows_that_contradict_each_other_are_refused() -> None:
    rows = [
        DIRECT,
        DIRECT | {"prompt": "r", "direction": "added"},
        {"prompt": "q ", "base": "biased", "perturbed": "plain"},
        DIRECT | {"prompt": "r", "direction": "removed"},
    ]
    with pytest.raises(DataError) as caught:
        read(*rows)
    swapped, direction = sorted(str(caught.value).splitlines())
    assert swapped.startswith("f: rows 1, 3: the same two answers with their sides swapped")
    assert direction.startswith("f: rows 2, 4: the same two answers, and the direction is added and removed")


EXPECTED_FILES = {"a": ("perturbed", "base", "tie"), "b": ("base",)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("votes.json", json.dumps({"a": ["perturbed", "base", "tie"], "b": ["base"]})),
        ("rows.json", json.dumps([{"id": "a", "votes": ["perturbed", "base", "tie"]}, {"id": "b", "votes": ["base"]}])),
        ("long.jsonl", "\n".join(json.dumps({"id": item, "vote": vote, "who": 3})
                                 for item, votes in EXPECTED_FILES.items() for vote in votes)),
        ("wide.csv", 'id,votes\na,"perturbed; base; tie"\nb,base\n'),
        ("long.csv", "id,vote\na,perturbed\nb,base\na,base\na,tie\n"),
        ("cells.csv", 'id,votes\na,"[""perturbed"", ""base"", ""tie""]"\nb,base\n'),
    ],
)  # fmt: skip
def test_every_layout_gives_the_same_votes(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert load_votes(str(path)) == EXPECTED_FILES


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
