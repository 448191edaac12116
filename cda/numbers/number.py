"""A result as rows: each number with its measure, its moment, and what it is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from cda.errors import DataError
from cda.numbers.measures import MEASURES, Found, known_key, unknown
from cda.results.base import Estimate, Moment, Number, Test

LEVELS = ("bias", "section", "audit", "kind", "audits", "topic", "seed", "dose", "judge", "kl")
"""What a number can be of: names of its `at`."""


class Numbers(tuple[Number, ...]):
    """Numbers in the order of their result."""

    def where(self, measure: str | None = None, moment: str | None = None, **at: str) -> Numbers:
        """Those of a measure, a moment, and one of each level that is named.

        Raises:
            DataError: No such measure, moment, level, or one of it; with the nearest name of each.
        """
        wanted = {"measure": measure and known_key(measure, MEASURES), "moment": moment, **at}
        problems = []
        for name, value in wanted.items():
            known = {"measure": tuple(MEASURES), "moment": get_args(Moment)}.get(name) or self.values_of(name)
            if name in at and name not in LEVELS:
                problems.append(unknown(name, LEVELS, "level"))
            elif value is not None and value not in known:
                problems.append(unknown(value, known, name))
        if problems:
            raise DataError("\n".join(problems))
        wanted = {name: value for name, value in wanted.items() if value is not None}
        return Numbers(number for number in self if all(number.value_of(key) == each for key, each in wanted.items()))

    def values_of(self, name: str) -> list[str]:
        """The measures, the moments, or those of a level, in the order of the numbers."""
        return list(dict.fromkeys(found for number in self if (found := number.value_of(name))))

    def pivot(self, rows: str, columns: str) -> dict[str, dict[str, Number]]:
        """Numbers by two of measure, moment and levels: those of a row by those of a column.

        Raises:
            DataError: Two numbers belong into one cell: choose among them with `where`.
        """
        found: dict[str, dict[str, Number]] = {row: {} for row in self.values_of(rows)}
        for number in self:
            if (own := found.get(number.value_of(rows))) is not None and (column := number.value_of(columns)):
                if column in own:
                    raise DataError(
                        f"two numbers of {number.value_of(rows)} and {column}, such as {own[column]} and {number}: choose with where()"
                    )
                own[column] = number
        return found

    def rows(self) -> Iterator[dict[str, object]]:
        """Each as a flat row: measure, moment, levels, then the estimate's fields, p-values of its test, and why there is none."""
        levels = [level for level in LEVELS if self.values_of(level)]
        for number in self:
            named = {name: number.value_of(name) for name in ("measure", "moment", *levels)}
            yield named | flat(number.found, number.test)


def flat(found: Found, test: Test | None) -> dict[str, object]:
    """An estimate's fields, p-values of its test, and the reason of a missing one."""
    blank = dict.fromkeys((*Estimate.model_fields, "p_value", "p_holm", "reason"))
    return {**blank, **(test.model_dump(include={"p_value", "p_holm"}) if test else {}), **found.model_dump()}
