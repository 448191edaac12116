"""A result as a flat table: a row for each estimate, and for each that is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel

from cda.results.base import NOT_TRAINED, Estimate, Missing, Test

_MOMENTS = ("before", "after", "change", "unpaired")


def rows(result: BaseModel) -> Iterator[dict[str, object]]:
    """Every estimate of a result, in its order, as column to value. Values that need a training are left out if there was none.

    Columns are `measure` (field of the result), `of` (names of parts within parts, joined by dots), `scoring` (before, after,
    change or unpaired; empty if it is of neither), those of `Estimate`, `p_value` and `p_holm` (of a change), and `reason`.
    """
    for path, number, test in _walked(result, ()):
        if number == NOT_TRAINED:
            continue
        moment = path[-1] if path[-1] in _MOMENTS else ""
        of_change = test if moment == "change" else None
        yield {
            "measure": path[0],
            "of": ".".join(path[1:-1] if moment else path[1:]),
            "scoring": moment,
            **dict.fromkeys(Estimate.model_fields),
            "p_value": None if of_change is None else of_change.p_value,
            "p_holm": None if of_change is None else of_change.p_holm,
            "reason": None,
            **number.model_dump(),
        }


def _walked(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Estimate | Missing, Test | None]]:
    if isinstance(value, Estimate | Missing):
        yield path, value, None
    elif isinstance(value, BaseModel):
        test = getattr(value, "test", None)
        for name in type(value).model_fields:
            for inner, number, own in _walked(getattr(value, name), (*path, name)):
                of_this = inner == (*path, "change") and isinstance(test, Test)
                yield inner, number, test if of_this else own
    else:
        parts: Iterable[tuple[object, object]] = value.items() if isinstance(value, Mapping) else ()
        if isinstance(value, tuple | list):
            parts = enumerate(value)
        for key, part in parts:
            yield from _walked(part, (*path, str(key)))
