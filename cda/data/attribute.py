"""Whether a response has an attribute, read from a column: yes or no, a number that is cut, or one category against another."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cda.data.messages import RowError
from cda.errors import DataError

SETTING = "audit.attribute"
_WORDS = {"1": True, "1.0": True, "true": True, "yes": True, "0": False, "0.0": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """How a column says whether a response has the attribute; without any of these, by yes and no.

    Attributes:
        above: A number above this has it, any other has not.
        low: A number up to this has it not, with `high`; rows between the two are left out.
        high: A number from this on has it.
        having: The category that has it, with `lacking`; rows of other categories are left out.
        lacking: The category that has it not.
    """

    above: float | None = None
    low: float | None = None
    high: float | None = None
    having: str | None = None
    lacking: str | None = None

    def read(self, value: object, column: str = "has_attribute") -> bool:
        """Whether a cell says that the attribute is there.

        Raises:
            RowError: It says neither; the message is the reason that is counted.
        """
        word = str(value).strip()
        if self.having is not None:
            if word not in (self.having, self.lacking):
                raise RowError(f"{column} is neither '{self.having}' nor '{self.lacking}'")
            return word == self.having
        if self.above is not None:
            return _number(word, column) > self.above
        if self.low is None or self.high is None:
            if word.lower() not in _WORDS:
                raise RowError(f"{column} is neither yes nor no")
            return _WORDS[word.lower()]
        found = _number(word, column)
        if self.low < found < self.high:
            raise RowError(f"{column} lies between {self.low:g} and {self.high:g}")
        return found >= self.high

    def check(self, values: Iterable[object], where: str) -> None:
        """Find a category that no row has, which would leave one side without any.

        Raises:
            DataError: Names the categories that there are.
        """
        if self.having is None:
            return
        present = {str(value).strip() for value in values if value not in (None, "")}
        if missing := [name for name in (self.having, self.lacking) if name not in present]:
            raise DataError(
                f"{where}: {SETTING}: no row has the category '{missing[0]}'. Found: {', '.join(sorted(present)[:10]) or 'none'}"
            )


BY_WORDS = AttributeRule()
"""Yes and no."""


def _number(word: str, column: str) -> float:
    """A cell's number.

    Raises:
        RowError: It is none.
    """
    try:
        number = float({"True": "1", "False": "0"}.get(word, word))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RowError(f"{column} is no number")
    return number
