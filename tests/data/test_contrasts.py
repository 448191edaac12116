"""Contrasts in both layouts, with votes, majorities and ties; what cannot be used is counted."""

from __future__ import annotations

from typing import Any

import pytest

from cda.data.contrasts import clean_contrasts, with_votes
from cda.errors import DataError
from cda.records import Contrast, Exclusions, user_prompt

DIRECT = {"prompt": "q", "base": "plain", "perturbed": "biased"}
NAMED = {"prompt": "q", "response_1": "biased", "response_2": "plain", "biased": "response_1"}


def clean(row: dict[str, Any], **columns: str) -> Contrast:
    cleaned = clean_contrasts([row], ["jargon"], columns, "f.jsonl")
    assert cleaned.exclusions.dropped == 0
    (contrast,) = cleaned.contrasts
    return contrast


def test_both_layouts_give_the_same_contrast() -> None:
    expected = Contrast("jargon", user_prompt("q"), perturbed="biased", base="plain")
    assert clean(DIRECT) == expected
    assert clean(NAMED) == expected
    swapped = {"prompt": "q", "response_1": "plain", "response_2": "biased", "biased": "Response 2"}
    assert clean(swapped) == expected


@pytest.mark.parametrize(("cell", "expected"), [("added", "added"), (" Removed ", "removed"), ("", None), (None, None)])
def test_the_direction_in_which_a_contrast_was_made(cell: str | None, expected: str | None) -> None:
    assert clean(DIRECT | {"direction": cell}).tags.get("direction") == expected
    assert clean(DIRECT | {"made": cell}, direction="made").tags.get("direction") == expected


def test_an_unknown_direction_is_counted() -> None:
    rows = [DIRECT, DIRECT | {"prompt": "r", "direction": "sideways"}]
    found = clean_contrasts(rows, ["jargon"], {}, "f.jsonl")
    assert found.exclusions.reasons == {"direction is neither added nor removed": 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"preferred": None}, None),
        ({"preferred": ""}, None),
        ({"preferred": "perturbed"}, "perturbed"),
        ({"preferred": " Base "}, "base"),
        ({"preferred": "TIE"}, "tie"),
        ({"votes": ["perturbed"], "preferred": "base"}, "base"),
    ],
)
def test_preferences_of_the_direct_layout(change: dict[str, Any], expected: str | None) -> None:
    assert clean(DIRECT | change).preferred == expected


@pytest.mark.parametrize(
    ("biased", "preferred", "expected"),
    [
        ("response_1", "response_1", "perturbed"),
        ("response_1", "response_2", "base"),
        ("response_2", "response_1", "base"),
        ("response_2", "Response 2", "perturbed"),
        ("response_2", "tie", "tie"),
        ("response_2", "base", "base"),
    ],
)
def test_preferences_that_name_a_response(biased: str, preferred: str, expected: str) -> None:
    row = NAMED | {"biased": biased}
    assert clean(row | {"preferred": preferred}).preferred == expected
    assert clean(row | {"votes": [preferred]}).votes == (expected,)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (DIRECT | {"prompt": ""}, "empty prompt"),
        (DIRECT | {"prompt": 5}, "prompt is neither text nor messages"),
        (DIRECT | {"base": " "}, "a side is missing"),
        (DIRECT | {"perturbed": None}, "a side is missing"),
        (DIRECT | {"base": 5}, "a side is no text"),
        (DIRECT | {"perturbed": {"text": "biased"}}, "a side is no text"),
        (DIRECT | {"base": "biased"}, "identical sides"),
        (DIRECT | {"preferred": "maybe"}, "unreadable preference"),
        (DIRECT | {"preferred": "response_1"}, "unreadable preference"),
        (DIRECT, "duplicate"),
        (DIRECT | {"bias": "length"}, "of another bias (length)"),
    ],
)
def test_what_cannot_be_used_is_counted(row: dict[str, Any], reason: str) -> None:
    cleaned = clean_contrasts([DIRECT | {"bias": "jargon"}, {"bias": "jargon"} | row], ["jargon"], {}, "f")
    assert len(cleaned.contrasts) == 1
    assert (cleaned.exclusions.seen, dict(cleaned.exclusions.reasons)) == (2, {reason: 1})


def test_neither_response_is_biased() -> None:
    cleaned = clean_contrasts([NAMED, NAMED | {"biased": "both"}], ["jargon"], {}, "f")
    assert dict(cleaned.exclusions.reasons) == {"biased is neither response_1 nor response_2": 1}


def test_several_biases_in_one_file() -> None:
    rows = [DIRECT | {"bias": "jargon"}, DIRECT | {"bias": "length"}]
    cleaned = clean_contrasts(rows, ["jargon", "length"], {}, "f")
    assert [contrast.bias for contrast in cleaned.contrasts] == ["jargon", "length"]
    with pytest.raises(DataError, match=r"2 biases are meant \(jargon, length\), so each row needs a column 'bias'"):
        clean_contrasts([DIRECT], ["jargon", "length"], {}, "f")


def test_all_missing_columns_are_listed() -> None:
    with pytest.raises(DataError) as caught:
        clean_contrasts([{"base": "a"}], ["jargon", "length"], {}, "f.csv")
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("f.csv: ") for line in lines)
    assert "Found: base." in lines[0]


def test_columns_are_mapped() -> None:
    row = {"question": "q", "neutral": "plain", "loaded": "biased", "majority": "base"}
    found = clean(row, prompt="question", base="neutral", perturbed="loaded", preferred="majority")
    assert (found.base, found.perturbed, found.preferred) == ("plain", "biased", "base")


def test_nothing_usable_is_an_error_that_says_why() -> None:
    with pytest.raises(DataError, match=r"f: no usable contrast; 1 of 1 dropped \(1 identical sides\)"):
        clean_contrasts([DIRECT | {"base": "biased"}], ["jargon"], {}, "f")


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (["base", "perturbed", "base"], ("base", "perturbed", "base")),
        ('["base", "tie"]', ("base", "tie")),  # a cell of a CSV file
        ("base; perturbed", ("base", "perturbed")),
        ("base,tie", ("base", "tie")),
        ([], ()),
        ("", ()),
        (None, ()),
    ],
)
def test_votes_of_every_form(votes: Any, expected: tuple[str, ...]) -> None:
    assert clean(DIRECT | {"votes": votes}).votes == expected


def test_votes_from_a_file_of_their_own_go_first() -> None:
    rows = [DIRECT | {"id": 7, "votes": ["base"]}, DIRECT | {"id": "8", "base": "other"}]
    votes = {"7": ["perturbed", "tie"]}
    first, second = clean_contrasts(rows, ["jargon"], {}, "f", votes).contrasts
    assert (first.votes, second.votes) == (("perturbed", "tie"), ())
    by_content = clean_contrasts([DIRECT], ["jargon"], {}, "f", {first.id: ["base"]}).contrasts
    assert by_content[0].votes == ("base",)


def test_votes_on_contrasts_that_are_there_already() -> None:
    contrast = clean(DIRECT)
    found, unread = with_votes([contrast], {contrast.id: ["tie", "response_1"], "nobody": ["base"]}, {})
    assert found[0].votes == ("tie",)
    assert (unread.seen, dict(unread.reasons)) == (2, {"unreadable vote 'response_1'": 1})


@pytest.mark.parametrize(("votes", "word"), [(3, "3"), (["base", 5], "5"), ("base; maybe", "maybe")])
def test_an_unreadable_vote_is_counted_and_its_contrast_stays(votes: Any, word: str) -> None:
    cleaned = clean_contrasts([DIRECT | {"votes": votes}], ["jargon"], {}, "f")
    assert cleaned.exclusions.dropped == 0
    assert dict(cleaned.votes.reasons) == {f"unreadable vote '{word}'": 1}
    assert cleaned.contrasts[0].votes == (() if votes == 3 else ("base",))


def test_all_who_voted_on_the_same_texts_count() -> None:
    rows = [DIRECT | {"votes": ["base"]}, DIRECT | {"votes": ["perturbed", "perturbed"], "preferred": "tie"}]
    cleaned = clean_contrasts(rows, ["jargon"], {}, "f")
    assert dict(cleaned.exclusions.reasons) == {"same texts again, counted as votes": 1}
    assert (cleaned.contrasts[0].votes, cleaned.contrasts[0].preferred) == (("base", "perturbed", "perturbed"), "tie")


def test_votes_need_ids_that_name_one_pair() -> None:
    rows = [DIRECT | {"id": 7, "base": "a"}, DIRECT | {"id": "7", "base": "b"}]
    assert len(clean_contrasts(rows, ["jargon"], {}, "f").contrasts) == 2  # without votes an id is just a name
    with pytest.raises(DataError, match=r"several rows share one: '7' \(2 times\)"):
        clean_contrasts(rows, ["jargon"], {}, "f", {"7": ["base"]})


def test_sides_as_messages() -> None:
    row = {"prompt": "q", "base": [{"role": "assistant", "content": "plain"}], "perturbed": "biased"}
    assert clean(row) == clean(DIRECT)


def exported(**change: Any) -> dict[str, Any]:
    """A row as `cda texts` writes it, its id made from its text, and then edited."""
    one = Contrast("jargon", user_prompt("q"), perturbed="biased", base="plain")
    return {"id": one.id, "bias": "jargon"} | DIRECT | change


def second(**change: Any) -> dict[str, Any]:
    one = Contrast("jargon", user_prompt("r"), perturbed="biased", base="plain")
    return {"id": one.id, "bias": "jargon"} | DIRECT | {"prompt": "r"} | change


def test_votes_on_other_text_are_not_taken_for_an_edited_row() -> None:
    rows = [exported(base="biased", perturbed="plain"), second()]
    votes = {row["id"]: ("perturbed",) for row in rows}
    found = clean_contrasts(rows, ["jargon"], {}, "f", votes, votes)
    assert [one.votes for one in found.contrasts] == [one.verdicts for one in found.contrasts] == [(), ("perturbed",)]
    assert "item" not in found.contrasts[0].tags
    assert found.ids.exclusions == Exclusions(2, {"made from other text": 1})
    assert found.ids.notice is not None
    assert found.ids.notice.startswith(
        "1 of 2 rows carry an id that was made from other text (or for another bias); votes on"
    )


def test_an_edited_row_takes_the_votes_of_its_new_text() -> None:
    rows = [exported(base="plainer"), second()]
    new = Contrast("jargon", user_prompt("q"), perturbed="biased", base="plainer").id
    found = clean_contrasts(rows, ["jargon"], {}, "f", {rows[0]["id"]: ("base",), new: ("tie",)})
    assert found.contrasts[0].votes == ("tie",)


def test_swapped_sides_alone_show_that_ids_are_ours() -> None:
    row = exported(base="biased", perturbed="plain")
    found = clean_contrasts([row], ["jargon"], {}, "f", {row["id"]: ("perturbed",)})
    assert (found.contrasts[0].votes, found.ids.exclusions.dropped) == ((), 1)


@pytest.mark.parametrize("name", ["0123456789abcdef", "my-row", "0123456789ABCDEF", "7"])
def test_ids_of_the_users_own_stay(name: str) -> None:
    """Anybody's hash may look like ours: where no row shows that ids are ours, it is said, and nothing is changed."""
    row = DIRECT | {"id": name}
    found = clean_contrasts([row], ["jargon"], {}, "f", {name: ("perturbed",)})
    assert (found.contrasts[0].votes, found.contrasts[0].tags["item"]) == (("perturbed",), name)
    assert found.ids.exclusions == Exclusions(1, {})
    assert (found.ids.notice is not None) == (name == "0123456789abcdef")


def test_an_unedited_export_says_nothing() -> None:
    found = clean_contrasts([exported(), second()], ["jargon"], {}, "f")
    assert found.ids.notice is None and found.ids.exclusions == Exclusions(2, {})


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_row_an_annotator_is_a_vote_an_annotator(order: slice) -> None:
    words = ["base", "perturbed", "perturbed"]
    rows = [
        DIRECT | {"preferred": word, "prompt": text} for word, text in zip(words, ("q", "q ", "q\r\n"), strict=True)
    ]
    cleaned = clean_contrasts(rows[order], ["jargon"], {}, "f")
    (found,) = cleaned.contrasts
    assert (sorted(found.votes), found.preferred) == (words, None)
    assert dict(cleaned.exclusions.reasons) == {"same texts again, counted as votes": 2}


def test_annotators_who_agree_state_one_preference() -> None:
    (found,) = clean_contrasts([DIRECT | {"preferred": "base"}] * 3, ["jargon"], {}, "f").contrasts
    assert (found.votes, found.preferred) == (("base",) * 3, "base")
    (alone,) = clean_contrasts([DIRECT | {"preferred": "base"}], ["jargon"], {}, "f").contrasts
    assert (alone.votes, alone.preferred) == ((), "base")


@pytest.mark.parametrize("name", [None, "", "mine"])
def test_votes_of_a_file_count_once_however_often_the_row_is_given(name: str | None) -> None:
    row = DIRECT | {"id": name, "votes": ["tie"]}
    key = name or clean(DIRECT).id
    cleaned = clean_contrasts([row] * 3, ["jargon"], {}, "f", {key: ["base", "perturbed"]}, {key: ["base"]})
    (found,) = cleaned.contrasts
    assert (found.votes, found.verdicts) == (("base", "perturbed"), ("base",))
    assert dict(cleaned.exclusions.reasons) == {"duplicate": 2}


def test_votes_under_every_id_of_a_duplicate_count() -> None:
    rows = [DIRECT | {"id": "a"}, DIRECT | {"id": "b", "base": "plain\n"}, DIRECT | {"id": "a"}]
    (found,) = clean_contrasts(rows, ["jargon"], {}, "f", {"a": ["base"], "b": ["perturbed", "tie"]}).contrasts
    assert found.votes == ("base", "perturbed", "tie")
    assert {"a", "b"} <= set(found.ids) and found.tags["item"] == "a"


def test_votes_that_name_a_response_are_read_by_their_own_row() -> None:
    other = {"prompt": "q", "response_1": "plain", "response_2": "biased", "biased": "response_2"}
    rows = [NAMED | {"votes": ["response_1"]}, other | {"votes": ["response_1"]}]
    (found,) = clean_contrasts(rows, ["jargon"], {}, "f").contrasts
    assert found.votes == ("perturbed", "base")
    named = [row | {"id": "one"} for row in rows]
    assert clean_contrasts(named, ["jargon"], {}, "f", {"one": ["base"]}).contrasts[0].votes == ("base",)
    cleaned = clean_contrasts(rows, ["jargon"], {}, "f", {found.id: ["response_1", "tie"]})
    assert cleaned.contrasts[0].votes == ("tie",)  # which response it saw is unknown
    assert dict(cleaned.votes.reasons) == {"unreadable vote 'response_1'": 1}


def test_a_second_vote_of_one_annotator_is_refused() -> None:
    rows = [DIRECT | {"annotator": name, "preferred": "base"} for name in ("ann", "bob", "ann")]
    assert clean_contrasts(rows[:2], ["jargon"], {}, "f.csv").contrasts[0].votes == ("base", "base")
    with pytest.raises(DataError, match=r"f\.csv: rows 1, 3: the same two answers, and ann votes on them 2 times"):
        clean_contrasts(rows, ["jargon"], {}, "f.csv")
    silent = [DIRECT | {"annotator": "ann"}] * 2
    assert clean_contrasts(silent, ["jargon"], {}, "f.csv").contrasts[0].votes == ()


def test_rows_that_contradict_each_other_are_refused() -> None:
    swapped = {"prompt": "q ", "base": "biased", "perturbed": "plain"}
    rows = [
        DIRECT,
        DIRECT | {"prompt": "r", "direction": "added"},
        swapped,
        DIRECT | {"prompt": "r", "direction": "removed"},
    ]
    with pytest.raises(DataError) as caught:
        clean_contrasts(rows, ["jargon"], {}, "f.csv")
    assert sorted(str(caught.value).splitlines()) == [
        "f.csv: rows 1, 3: the same two answers with their sides swapped, and each side is said to carry jargon. Keep those "
        "that are right",
        "f.csv: rows 2, 4: the same two answers, and the direction is added and removed. Keep those that are right",
    ]


def test_sides_that_are_one_text_are_identical() -> None:
    cleaned = clean_contrasts([DIRECT, DIRECT | {"base": "biased\r\n"}], ["jargon"], {}, "f")
    assert dict(cleaned.exclusions.reasons) == {"identical sides": 1}
