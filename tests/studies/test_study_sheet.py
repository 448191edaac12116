"""Cells of the table: none opens a formula, and each comes back as it was."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.errors import DataError
from cda.studies.design import Pairing, Plan, designed
from cda.studies.forms import guarded, sheet, sheet_rows, unguarded

ATTACKS = ("=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "'=1", "''")


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.sampled_from(ATTACKS)))
def test_a_guarded_cell_is_inert_and_comes_back(text: str) -> None:
    cell = guarded(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert unguarded(cell) == text


def test_hostile_texts_are_guarded_and_counted() -> None:
    pairings = [Pairing(f"c{at}", "b", f"p{at}", text, f"base {at}", f"{text}!") for at, text in enumerate(ATTACKS)]
    study = designed(pairings, "experts", Plan(1, 1, len(ATTACKS), 0), seed=0)
    table, n_guarded = sheet(study)
    assert n_guarded == 2 * len(ATTACKS)  # the prompt and one answer of each row
    raw = list(csv.reader(io.StringIO(table, newline="")))
    assert len(raw) == 1 + len(ATTACKS)
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in raw for cell in row)
    assert {row["prompt"] for _, row in sheet_rows(table, "items.csv")} == set(ATTACKS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,choice\ni1,A\n", "no column study, participant"),
        ("study,participant,item,choice\nx,p01,i1\n", "row 2 has not as many cells"),
        ('study,participant,item,choice\nx,p01,i1,"A', "not valid CSV"),
        ("", "no column"),
    ],
)
def test_broken_tables_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(sheet_rows(text, "f.csv"))
