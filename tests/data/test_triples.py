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
