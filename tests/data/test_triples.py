"""RATE triples from rows; what cannot be used is counted."""

from __future__ import annotations

from typing import Any

import pytest

from cda.data.triples import clean_triples
from cda.errors import DataError

ROW: dict[str, Any] = {"prompt": "q", "original": "a", "rewrite": "b", "rewrite_of_rewrite": "a2", "has_attribute": 1}


@pytest.mark.parametrize(("word", "expected"), [(1, True), ("0", False), (True, True), ("No", False), (0.0, False)])
def test_attribute_words(word: Any, expected: bool) -> None:
    (triple,) = clean_triples([ROW | {"has_attribute": word}], ["jargon"], {}, "f").triples
    assert (triple.has_attribute, triple.bias, triple.rewrite_of_rewrite) == (expected, "jargon", "a2")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rewrite": " "}, "a side is missing"),
        ({"rewrite": 12}, "a side is no text"),
        ({"rewrite_of_rewrite": None}, "a side is missing"),
        ({"rewrite": "a"}, "a rewrite that changed nothing"),
        ({"has_attribute": "maybe"}, "has_attribute is neither yes nor no"),
        ({"prompt": ""}, "empty prompt"),
        ({}, "duplicate"),
    ],
)
def test_what_cannot_be_used_is_counted(change: dict[str, Any], reason: str) -> None:
    cleaned = clean_triples([ROW, ROW | change], ["jargon"], {}, "f")
    assert len(cleaned.triples) == 1
    assert dict(cleaned.exclusions.reasons) == {reason: 1}


def test_columns_and_biases() -> None:
    row = {"q": "q", "first": "a", "rewrite": "b", "rewrite_of_rewrite": "c", "w": "yes", "bias": "length"}
    columns = {"prompt": "q", "original": "first", "has_attribute": "w"}
    cleaned = clean_triples([row, row | {"bias": "tone", "first": "z"}], ["jargon", "length"], columns, "f")
    assert [triple.bias for triple in cleaned.triples] == ["length"]
    assert dict(cleaned.exclusions.reasons) == {"of another bias (tone)": 1}
    with pytest.raises(DataError) as caught:
        clean_triples([{"prompt": "q"}], ["jargon"], {}, "f.csv")
    assert len(str(caught.value).splitlines()) == 4


def test_nothing_usable() -> None:
    with pytest.raises(DataError, match=r"no usable triple; 1 of 1 dropped \(1 a side is missing\)"):
        clean_triples([ROW | {"rewrite": ""}], ["jargon"], {}, "f")


def test_one_response_with_the_attribute_and_without_it_is_refused() -> None:
    other = {"rewrite": "c", "rewrite_of_rewrite": "a3"}
    rows = [
        ROW,
        ROW | {"has_attribute": 0, "prompt": "q\n"},
        ROW | {"prompt": "r"},
        ROW | {"prompt": "r", "has_attribute": 0} | other,
    ]
    with pytest.raises(DataError) as caught:
        clean_triples(rows, ["jargon"], {}, "f.csv")
    assert str(caught.value).splitlines() == [
        "f.csv: rows 1, 2: the same original, with jargon and without it. Keep those that are right",
        "f.csv: rows 3, 4: the same original, with jargon and without it. Keep those that are right",
    ]


def test_readers_of_one_triple_may_be_silent_and_not_disagree() -> None:
    rows = [ROW | {"flipped": word} for word in ("", "yes", "")]
    found = clean_triples(rows, ["jargon"], {}, "f")
    assert [one.flipped for one in found.triples] == [True] and dict(found.exclusions.reasons) == {"duplicate": 2}
    with pytest.raises(DataError, match="rows 1, 2, 3, 4: the same triple, and flipped says yes and no"):
        clean_triples([*rows, ROW | {"flipped": "no"}], ["jargon"], {}, "f")


def test_a_rewrite_that_is_the_same_text_changed_nothing() -> None:
    found = clean_triples([ROW, ROW | {"rewrite": "a\r\n"}], ["jargon"], {}, "f")
    assert dict(found.exclusions.reasons) == {"a rewrite that changed nothing": 1}
