"""Turns pydantic's validation errors into lines that say where, what was found and what to do."""

from __future__ import annotations

import re
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from cda.errors import did_you_mean


def describe(error: ValidationError, model: type[BaseModel], where: str) -> list[str]:
    """One line for each mistake in a validated mapping."""
    lines: dict[tuple[str, ...], str] = {}
    for item in error.errors(include_url=False):
        # Where several types are allowed, pydantic reports each that did not fit; one mistake is one line.
        location = _keys_only(item["loc"], model)
        lines.setdefault(location, _line({**item, "loc": location}, model, where))
    # A part that is wrong makes the whole wrong; the part alone says where.
    return [line for place, line in lines.items() if not any(_is_inside(other, place) for other in lines)]


def _is_inside(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    return len(inner) > len(outer) > 0 and inner[: len(outer)] == outer


def _keys_only(location: tuple[int | str, ...], model: type[BaseModel]) -> tuple[str, ...]:
    """The location without the names pydantic gives to the members of a union."""
    kept: list[str] = []
    for part in map(str, location):
        if not re.fullmatch(r"constrained-\w+|dict\[.*\]|list\[.*\]|str|int|float", part) or part in _fields_at(
            model, kept
        ):
            kept.append(part)
    return tuple(kept)


def _line(item: dict[str, Any], model: type[BaseModel], where: str) -> str:
    location = [str(part) for part in item["loc"]]
    path = ".".join(location)
    found = item.get("input")
    if item["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        return f"{where}: {path}: unknown key.{did_you_mean(location[-1], known)} Known: {', '.join(known)}"
    if item["type"] == "missing":
        return f"{where}: {path}: missing; it has no default"
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message[0].lower() + message[1:] if message else "not allowed"
    return f"{where}: {path or '(top level)'}: {message}, found {_short(found)}"


def _fields_at(model: type[BaseModel], location: list[str]) -> list[str]:
    """Names of the keys allowed at a place in a nested model."""
    current: object = model
    for part in location:
        if not (isinstance(current, type) and issubclass(current, BaseModel)) or part not in current.model_fields:
            continue
        current = _model_in(current.model_fields[part].annotation)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return sorted(current.model_fields)
    return []


def _model_in(annotation: object) -> object:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None


def _short(value: object, limit: int = 60) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or nested too deeply
        text = f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= limit else text[: limit - 1] + "…"
