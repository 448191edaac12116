"""Rows that a page folds, and two texts as one with their changes."""

from __future__ import annotations

import pytest

from cda.report.page import Change, word_changes
from cda.report.tables import Table, folded_rows

HEADER = ("measure", "share", "p", "n")


@pytest.mark.parametrize(
    ("row", "folded"),
    [
        (("a", "0% [0, 0]", "1.000", "140"), True), (("b", "+0.00 [−0.00, +0.00]", "", "140 (20 prompts)"), True),
        (("c", "0% [0, 3]", "", "140"), False), (("d", "50% [10, 90]", "0.5", "2"), True),
        (("e", "50% [10, 90]", "0.5", "2 (2 prompts)"), True), (("f", "50%", "", "20"), False), (("g", "no votes", "", ""), False),
    ],
)  # fmt: skip
def test_rows_of_zeros_and_of_two_observations_are_folded(row: tuple[str, ...], folded: bool) -> None:
    other = ("kept", "84% [74, 90]", "0.001", "80")
    assert folded_rows(Table("", HEADER, (row, other))) == (((other,), (row,)) if folded else ((row, other), ()))
    assert folded_rows(Table("", HEADER, (row,))) == ((row,), ())  # none is folded where all would be


def test_an_n_that_names_the_rows_counts_nothing() -> None:
    rows = tuple((n, "50% [40, 60]", "12") for n in ("1", "2", "4"))
    assert folded_rows(Table("", ("n", "model", "prompts"), rows)) == (rows, ())


def test_changes_keep_both_texts_and_give_up_on_texts_that_share_little() -> None:
    first, second = "Use a pan and stir slowly, please.", "Utilize a large pan and then stir slowly, please."
    changes = word_changes(first, second)
    assert "".join(change.text for change in changes if change.kind != "ins") == first
    assert "".join(change.text for change in changes if change.kind != "del") == second
    assert changes[:3] == [Change("del", "Use"), Change("ins", "Utilize"), Change("same", " a")]
    assert word_changes("Boil rice.", "Simmer the grains gently until done") == []
    assert word_changes("word " * 5000, "word " * 5000) == []
