"""Types of the arguments of the Python API, checked before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from os import PathLike

from cda.errors import RecipeError

Check = Callable[[object], bool]


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


def _kind(*kinds: type) -> Check:
    """A test for values of these types; True and False are no numbers."""
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _list_of(check: Check) -> Check:
    def is_list(value: object) -> bool:
        return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping) and all(map(check, value))

    return is_list


def _is_columns(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(word, str) for pair in value.items() for word in pair)


_text, _path, _flag, _whole = _kind(str), _kind(str, PathLike), _kind(bool), _kind(Integral)
_paths = _list_of(_path)
_FORMS: dict[str, tuple[Check, str]] = {
    **dict.fromkeys(("adapter", "out", "recipe"), (_path, "a path")),
    **dict.fromkeys(("dry_run", "formats", "only", "progress", "review"), (_flag, "True or False")),
    "attributes": (_paths, "a list of texts or bias files"),
    "bias": (_path, "a name or a path"),
    "biases": (lambda value: _path(value) or _paths(value), "a name, a path, or a list of them"),
    "budget_usd": (_kind(Real), "a number of dollars"),
    "columns": (_is_columns, "a dict of names, such as {'prompt': 'question'}"),
    "confirm": (lambda value: _flag(value) or value == "ask", "True, False or 'ask'"),
    "dose": (_kind(Real), "a number"),
    "overrides": (_list_of(_text), "a list of words such as 'seed=1'"),
    "seed": (_whole, "a whole number"),
    "sizes": (_list_of(_whole), "a list of whole numbers"),
    "split": (_text, "a name"),
}
"""Arguments, which mean the same in every function, to a test of their type and the words for it."""
