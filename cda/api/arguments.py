"""Types of the arguments of the Python API, checked before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from os import PathLike

from cda.errors import RecipeError


def check_arguments(function: str, **given: object) -> None:
    """Refuse arguments of another type than the function takes; None stands for a default and is not checked.

    Args:
        function: Name in messages, such as `cda.audit`.
        given: Arguments by name; each must be in `_FORMS`.

    Raises:
        RecipeError: Carries every wrong argument.
    """
    wrong = {name: value for name, value in given.items() if value is not None and not _FORMS[name][0](value)}
    problems = [f"{function}: {name}: give {_FORMS[name][1]}; found {value!r}" for name, value in wrong.items()]
    if problems:
        raise RecipeError(problems)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    return isinstance(value, str | PathLike)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_list_of(value: object, kind: Callable[[object], bool]) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping) and all(map(kind, value))


def _is_columns(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(word, str) for pair in value.items() for word in pair)


_PATH = (_is_path, "a path")
_FLAG = (_is_flag, "True or False")
_FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "adapter": _PATH,
    "attributes": (lambda value: _is_list_of(value, _is_path), "a list of texts or bias files"),
    "bias": (_is_path, "a name or a path"),
    "biases": (lambda value: _is_path(value) or _is_list_of(value, _is_path), "a name, a path, or a list of them"),
    "budget_usd": (_is_number, "a number of dollars"),
    "columns": (_is_columns, "a dict of names, such as {'prompt': 'question'}"),
    "confirm": (lambda value: _is_flag(value) or value == "ask", "True, False or 'ask'"),
    "dose": (_is_number, "a number"),
    "dry_run": _FLAG,
    "formats": _FLAG,
    "only": _FLAG,
    "out": _PATH,
    "overrides": (lambda value: _is_list_of(value, _is_text), "a list of words such as 'seed=1'"),
    "progress": _FLAG,
    "recipe": _PATH,
    "review": _FLAG,
    "seed": (_is_whole, "a whole number"),
    "sizes": (lambda value: _is_list_of(value, _is_whole), "a list of whole numbers"),
    "split": (_is_text, "a name"),
}
"""Arguments, which mean the same in every function, to a test of their type and what to give."""
