"""An attribute from a column: words, a threshold, two ends, two categories; what says neither is a reason."""

from __future__ import annotations

from typing import Any

import pytest

from cda.data.messages import RowError
from cda.data.triples import AttributeRule, clean_triples
from cda.errors import DataError

ABOVE, ENDS, KINDS = AttributeRule(above=2), AttributeRule(low=1, high=3), AttributeRule(having="list", lacking="prose")
ROW: dict[str, Any] = {"prompt": "q", "original": "a", "rewrite": "b", "rewrite_of_rewrite": "c"}


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
        (AttributeRule(), None, "has_attribute is neither yes nor no"),
        (ABOVE, "many", "has_attribute is no number"),
        (ABOVE, float("nan"), "has_attribute is no number"),
        (ABOVE, None, "has_attribute is no number"),
        (ENDS, 2, "has_attribute lies between 1 and 3"),
        (KINDS, "table", "has_attribute is neither 'list' nor 'prose'"),
    ],
)
def test_cells_that_say_neither(rule: AttributeRule, value: Any, reason: str) -> None:
    with pytest.raises(RowError) as caught:
        rule.read(value)
    assert str(caught.value) == reason


def test_triples_by_a_rating() -> None:
    rows = [ROW | {"original": f"a{stars}", "stars": stars} for stars in (0, 1, 2, 3, 4)]
    columns = {"has_attribute": "stars"}
    by_ends = clean_triples(rows, ["jargon"], columns, "f", ENDS)
    assert [one.has_attribute for one in by_ends.triples] == [False, False, True, True]
    assert dict(by_ends.exclusions.reasons) == {"has_attribute lies between 1 and 3": 1}
    above = clean_triples(rows, ["jargon"], columns, "f", ABOVE)
    assert [one.has_attribute for one in above.triples] == [False, False, False, True, True]


def test_a_category_that_no_row_has_is_an_error() -> None:
    rows = [ROW | {"has_attribute": "list"}, ROW | {"original": "d", "has_attribute": "table"}]
    with pytest.raises(DataError, match=r"f: audit.attribute: no row has the category 'prose'. Found: list, table"):
        clean_triples(rows, ["jargon"], {}, "f", KINDS)
