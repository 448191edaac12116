"""The columns of sampled responses: which layout a file has, and each response of a row with its quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cda.data.load import Row
from cda.data.messages import RowError
from cda.errors import DataError, did_you_mean
from cda.files.jsonl import parse_json

COLUMNS = ("prompt", "responses", "response", "quality")
Quality = float | None


@dataclass(frozen=True, slots=True)
class Output:
    """What stands at one place of a file: a text, or the reason why there is none to be used."""

    text: str | None
    reason: str | None = None
    quality: Quality = None


@dataclass(slots=True)
class Counted:
    """Counts of responses and quality numbers, and why some were not used."""

    n_responses: int = 0
    n_quality: int = 0
    bad_responses: list[str] = field(default_factory=list)
    bad_quality: list[str] = field(default_factory=list)


def is_listed(rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str) -> bool:
    """Whether a row holds the list of a prompt's responses."""
    problems = [
        f"{where}: {setting}{name} is unknown.{did_you_mean(name, COLUMNS)} Known: {', '.join(COLUMNS)}"
        for name in columns
        if name not in COLUMNS
    ]
    names = {name: columns.get(name, name) for name in COLUMNS}
    present = {key for row in rows for key in row}
    has = ", ".join(sorted(map(str, present)))
    needed = ["prompt", *(name for name in ("responses", "response", "quality") if name in columns)]
    problems += [
        f"{where}: no column '{names[name]}'.{did_you_mean(names[name], present)} Found: {has}. "
        f"Map it with {setting}{name}=<your column>"
        for name in needed
        if names[name] not in present
    ]
    mapped = [name for name in ("responses", "response") if name in columns]
    layouts = mapped or [name for name in ("responses", "response") if name in present]
    if len(layouts) != 1:
        what = "both responses and response" if layouts else "neither responses (a list) nor response"
        problems.append(
            f"{where}: {what}. Found: {has}. Say which holds the sampled texts with {setting}responses=<your column> "
            f"(a list) or {setting}response=<your column> (one text a row)"
        )
    if problems:
        raise DataError("\n".join(problems))
    return layouts == ["responses"]


def cells(row: Row, names: Mapping[str, str], listed: bool, counted: Counted) -> list[Output]:
    """Every response of a row with its quality."""
    quality = row.get(names["quality"])
    if listed:
        responses = _listed(row.get(names["responses"]))
        qualities = _qualities(quality, len(responses), counted)
    else:
        responses, qualities = [row.get(names["response"])], [quality]
    return [_output(value, number, counted) for value, number in zip(responses, qualities, strict=True)]


def _output(value: object, quality: object, counted: Counted) -> Output:
    counted.n_responses += 1
    try:
        text = _text(value)
    except RowError as problem:
        counted.bad_responses.append(str(problem))
        return Output(None, str(problem))
    return Output(text, None, _number(quality, counted))


def _listed(value: object) -> list[object]:
    found = _from_json(value)
    if not isinstance(found, list | tuple):
        raise RowError("responses is missing" if found is None else "responses is not a list")
    if not found:
        raise RowError("no responses")
    return list(found)


def _qualities(value: object, n: int, counted: Counted) -> list[object]:
    """One quality a response; none of them where their number is another, since then nobody knows whose is whose."""
    try:
        found = _from_json(value)
    except RowError:
        found = value
    if found is None or found == "":
        return [None] * n
    if isinstance(found, list | tuple) and len(found) == n:
        return list(found)
    counted.n_quality += n
    counted.bad_quality += ["quality is not one number for each response"] * n
    return [None] * n


def _from_json(value: object) -> object:
    """A list that stands as JSON text, as CSV files hold it; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return parse_json(value)
        except ValueError:
            raise RowError("a list that is not valid JSON") from None
    return value


def _text(value: object) -> str:
    """A response as text, also where it stands as one assistant message."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise RowError("response is not one message")
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("content")
    if value is None:
        raise RowError("empty response")
    if not isinstance(value, str):
        raise RowError("response is not text")
    if not value.strip():
        raise RowError("empty response")
    return value


def _number(value: Any, counted: Counted) -> Quality:
    if value is None or value == "":
        return None
    counted.n_quality += 1
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
        number = math.nan
    if not math.isfinite(number):
        counted.bad_quality.append("quality is not a finite number")
        return None
    return number
