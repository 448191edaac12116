"""Results as files: written whole, read with every value checked."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from cda.errors import DataError
from cda.files.jsonl import read_json, write_json
from cda.inert import clipped
from cda.results.base import Saved

S = TypeVar("S", bound=Saved)


def save(result: Saved, path: Path) -> None:
    """Write a result as JSON; the file appears whole or not at all. What is only in memory stays out of it."""
    write_json(path, result.model_dump(exclude=set(result.in_memory)))


def load(kind: type[S], path: Path, again: str) -> S:
    """Read a result that `save` wrote.

    Args:
        kind: Its type.
        path: The file.
        again: The command that makes it anew, such as `cda audit`.

    Raises:
        DataError: No such file, no JSON (cut, for one), a result of another command or of another version of cda, or one that
            was changed by hand: names the file, what was found, and what to do.
    """
    content = read_json(path)
    current = kind.current_schema()
    found = content.get("schema_version", 1) if isinstance(content, dict) else None
    if isinstance(found, int) and found != current:
        age = "a newer" if found > current else "an earlier"
        todo = "update cda, or run" if found > current else "run"
        raise DataError(
            f"{path}: written by {age} version of cda (schema {found}, this version reads {current}); {todo} `{again}` again"
        )
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = problems[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise DataError(
            f"{path}: no {kind.__name__} as this version of cda writes it (at {clipped(place, 80)}: {first['msg']}{more}). It is of "
            f"another command, or was changed: run `{again}` again"
        ) from None
