"""A result as a flat table: a row for each estimate, and for each that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from cda.results.base import NOT_TRAINED, Estimate, Missing, Test

Moment = Literal["", "before", "after", "change", "unpaired"]
_MOMENTS: tuple[Moment, ...] = ("before", "after", "change", "unpaired")


@dataclass(frozen=True, slots=True)
class Line:
    """One number of a result.

    Attributes:
        measure: Field of the result that it is in, such as `skew`.
        of: What it is of, such as a bias; names of parts within parts are joined by dots.
        moment: Of which scoring it is, or the change between two; empty where it is of neither.
        found: The number, or why there is none.
        test: Of a change: its test.
    """

    measure: str
    of: str
    moment: Moment
    found: Estimate | Missing
    test: Test | None = None

    def cells(self) -> dict[str, object]:
        """Column to value; None where a column says nothing of it."""
        return {
            "measure": self.measure,
            "of": self.of,
            "scoring": self.moment,
            **dict.fromkeys(Estimate.model_fields),
            "p_value": None if self.test is None else self.test.p_value,
            "p_holm": None if self.test is None else self.test.p_holm,
            "reason": None,
            **self.found.model_dump(),
        }


def lines(result: BaseModel) -> Iterator[Line]:
    """Every estimate of a result, in its order. What is missing because nothing was trained is left out."""
    for path, found, test in _walked(result, ()):
        if found == NOT_TRAINED:
            continue
        moment: Moment = next((one for one in _MOMENTS if path[-1] == one), "")
        parts = path[1:-1] if moment else path[1:]
        yield Line(path[0], ".".join(parts), moment, found, test if moment == "change" else None)


def _walked(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Estimate | Missing, Test | None]]:
    if isinstance(value, Estimate | Missing):
        yield path, value, None
    elif isinstance(value, BaseModel):
        test = getattr(value, "test", None)
        for name in type(value).model_fields:
            for inner, found, own in _walked(getattr(value, name), (*path, name)):
                of_this = inner == (*path, "change") and isinstance(test, Test)
                yield inner, found, test if of_this else own
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _walked(one, (*path, str(name)))
    elif isinstance(value, tuple | list):
        for place, one in enumerate(value):
            yield from _walked(one, (*path, str(place)))
