"""RATE triples from rows, by every rule of an attribute; what cannot be used is counted."""

from __future__ import annotations

from typing import Any

import pytest

from cda.data.load import RowError
from cda.data.triples import AttributeRule, FailedTriple, clean_triples
from cda.errors import DataError

ROW: dict[str, Any] = {"prompt": "q", "original": "a", "rewrite": "b", "rewrite_of_rewrite": "a2", "has_attribute": 1}


def test_columns_and_biases() -> None:
    row = {"q": "q", "first": "a", "rewrite": "b", "rewrite_of_rewrite": "c", "w": "yes", "bias": "length"}
    columns = {"prompt": "q", "original": "first", "has_attribute": "w"}
    cleaned = clean_triples([row, row | {"bias": "tone", "first": "z"}], ["jargon", "length"], columns, "f")
    assert [triple.bias for triple in cleaned.triples] == ["length"]
    assert dict(cleaned.exclusions.reasons) == {"of another bias (tone)": 1}
    with pytest.raises(DataError) as caught:
        clean_triples([{"prompt": "q"}], ["jargon"], {}, "f.csv")
    assert len(str(caught.value).splitlines()) == 4
    with pytest.raises(DataError, match=r"no usable triple; 1 of 1 dropped \(1 a side is missing\)"):
        clean_triples([ROW | {"rewrite": ""}], ["jargon"], {}, "f")


def test_one_response_with_the_attribute_and_without_it_is_refused() -> None:
    other = {"prompt": "r", "has_attribute": 0, "rewrite": "c", "rewrite_of_rewrite": "a3"}
    rows = [ROW, ROW | {"has_attribute": 0, "prompt": "q\n"}, ROW | {"prompt": "r"}, ROW | other]
    with pytest.raises(DataError) as caught:
        clean_triples(rows, ["jargon"], {}, "f.csv")
    same = "the same original, with jargon and without it. Keep those that are right"
    assert str(caught.value).splitlines() == [f"f.csv: rows {numbers}: {same}" for numbers in ("1, 2", "3, 4")]


def test_readers_of_one_triple_may_be_silent_and_not_disagree() -> None:
    rows = [ROW | {"flipped": word} for word in ("", "yes", "")]
    found = clean_triples(rows, ["jargon"], {}, "f")
    assert [triple.flipped for triple in found.triples] == [True] and found.exclusions.reasons == {"duplicate": 2}
    with pytest.raises(DataError, match="rows 1, 2, 3, 4: the same triple, and flipped says yes and no"):
        clean_triples([*rows, ROW | {"flipped": "no"}], ["jargon"], {}, "f")


def test_originals_that_were_tried_in_vain_are_kept_apart() -> None:
    row = ROW | {"rewrite": None, "rewrite_of_rewrite": None, "failed": "rewrite: refused"}
    found = clean_triples([ROW, row | {"original": "z"}, row | {"has_attribute": None}], ["jargon"], {}, "f")
    assert found.failed == (FailedTriple("jargon", True, "rewrite: refused"),)  # of the other nobody knows the side
    assert len(found.triples) == 1 and found.exclusions.reasons == {"no triple: rewrite: refused": 2}


ABOVE, ENDS, KINDS = AttributeRule(above=2), AttributeRule(low=1, high=3), AttributeRule(having="list", lacking="prose")


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (AttributeRule(), [1, "0", True, "No", 0.0], [True, False, True, False, False]),
        (ABOVE, [2, 2.01, "3", -1, True], [False, True, True, False, False]),
        (ENDS, [1, 3, "0.5", 4], [False, True, False, True]),
        (KINDS, ["list", " prose "], [True, False]),
    ],
)
def test_what_a_cell_says(rule: AttributeRule, values: list[Any], expected: list[bool]) -> None:
    assert [rule.read(value) for value in values] == expected


@pytest.mark.parametrize(
    ("rule", "value", "reason"),
    [
        (AttributeRule(), 2, "has_attribute is neither yes nor no"),
        (ABOVE, "many", "has_attribute is no number"),
        (ABOVE, float("nan"), "has_attribute is no number"),
        (ENDS, 2, "has_attribute lies between 1 and 3"),
        (KINDS, "table", "has_attribute is neither 'list' nor 'prose'"),
    ],
)
def test_cells_that_say_neither(rule: AttributeRule, value: Any, reason: str) -> None:
    with pytest.raises(RowError) as caught:
        rule.read(value)
    assert str(caught.value) == reason


def test_a_category_that_no_row_has_is_an_error() -> None:
    rows = [ROW | {"has_attribute": "list"}, ROW | {"original": "d", "has_attribute": "table"}]
    with pytest.raises(DataError, match=r"f: audit.attribute: no row has the category 'prose'. Found: list, table"):
        clean_triples(rows, ["jargon"], {}, "f", KINDS)
