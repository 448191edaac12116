"""A result with one value changed, for tests of what is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cda.numbers.measures import MEASURES, numbers_of
from cda.results.audit import AuditResult
from cda.results.base import Measure, Number, PerScoring, Result


def changed(value: Any, path: str | tuple[str, ...], new: Any) -> Any:
    """A copy with another value at a path such as `skew.jargon.test.p_holm`; the rest is shared, and the original untouched.

    Args:
        value: A result, or a mapping or sequence within one.
        path: Fields, keys and positions, joined by dots; or a tuple of them, where a key has a dot of its own.
        new: The new value, which is not checked.

    Raises:
        KeyError, AttributeError, IndexError: There is nothing at that path.
    """
    head, *rest = path.split(".") if isinstance(path, str) else path
    if isinstance(value, AuditResult) and head not in AuditResult.model_fields:  # a view of its stored numbers
        new = _within(getattr(value, head), rest, new)
        return with_measured(value, *(("accuracy", {"": new}) if head == "quality" else (head, new)))
    if isinstance(value, Result):
        return value.model_copy(update={head: _within(getattr(value, head), rest, new)})
    if isinstance(value, Mapping):
        return {**value, head: _within(value[head], rest, new)}
    copy = list(value)
    copy[int(head)] = _within(copy[int(head)], rest, new)
    return type(value)(copy)


def _within(value: Any, rest: list[str], new: Any) -> Any:
    return changed(value, tuple(rest), new) if rest else new


def with_measured(audit: AuditResult, key: str, found: Mapping[str, Any]) -> AuditResult:
    """The audit with these results of a measure, by bias, in place of its own: of a share a `Measure`, of a change alone its number."""
    numbers, ties = [each for each in audit.measured if each.measure != key], {}
    for bias, own in found.items():
        at = {"bias": bias} if bias else {}
        if not isinstance(own, PerScoring):
            numbers += [Number.of(key, moment, at, own) for moment in ("before", "after", "change")]
            continue
        if isinstance(own, Measure):
            ties[bias] = own.ties
            if own.is_trained:
                numbers.append(Number.of(key, "change", {**at, "interval": "unpaired"}, own.unpaired))
        numbers += numbers_of(key, own, at)
    on = MEASURES[key].on
    update = {"measured": tuple(numbers), "ties": {**audit.ties, on: {**audit.ties.get(on, {}), **ties}}}
    return audit.model_copy(update=update)


def stored(audit: Mapping[str, Any], measure: str, moment: str, **at: str) -> dict[str, Any]:
    """A number that audit.json, as it was read, keeps of a measure: its value, interval and n, or why there is none."""
    named = (measure, moment, at)
    (found,) = (each for each in audit["measured"] if (each["measure"], each["moment"], each["at"]) == named)
    return dict(found["found"])
