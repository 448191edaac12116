"""A result with one value changed, for tests of what is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cda.results.base import Result


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
    if isinstance(value, Result):
        return value.model_copy(update={head: _within(getattr(value, head), rest, new)})
    if isinstance(value, Mapping):
        return {**value, head: _within(value[head], rest, new)}
    copy = list(value)
    copy[int(head)] = _within(copy[int(head)], rest, new)
    return type(value)(copy)


def _within(value: Any, rest: list[str], new: Any) -> Any:
    return changed(value, tuple(rest), new) if rest else new
