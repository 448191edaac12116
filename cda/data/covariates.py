"""Checks of the columns by which effects are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cda.data.load import Row, covariates
from cda.errors import did_you_mean


def by_problems(columns: Sequence[str], files: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Columns that no file has, or that are the same or empty in every row; `files` are the rows by name of the file."""
    if columns and not files:
        yield (
            "audit.by: embedded texts have no columns to compare by; give contrasts or triples of your own (audit.contrasts, "
            "audit.triples)"
        )
        return
    present = sorted({key for rows in files.values() for row in rows for key in row})
    for name in dict.fromkeys(columns):
        values = {value for rows in files.values() for row in rows for value in covariates(row, [name]).values()}
        where = " and ".join(files)
        if name not in present:
            yield f"{where}: audit.by: no column '{name}'.{did_you_mean(name, present)} Found: {', '.join(present)}"
        elif len(values) < 2:
            found = f"the same in every row ('{values.pop()[:40]}')" if values else "empty in every row"
            yield f"{where}: audit.by: the column '{name}' is {found}, so that there is nothing to compare"


def cutoff_problems(columns: Sequence[str], cutoffs: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Cutoffs without a column of `by`, without a number, or with one twice."""
    for name, bounds in cutoffs.items():
        if name not in columns:
            yield f"audit.cutoffs: '{name}' is no column of audit.by ({', '.join(columns) or 'which is empty'})"
        elif not bounds or len(set(bounds)) < len(bounds):
            yield f"audit.cutoffs.{name}: give different numbers, one at least; found {list(bounds)}"
