"""Rows given in memory: the files that stand for them, and messages about these in a caller's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from cda.errors import CdaError, DataError, RecipeError, RunError
from cda.files.jsonl import write_jsonl
from cda.files.paths import place_for, writing
from cda.records import content_id

_SAID = {"quality": "quality pairs", "supplement": "supplementary pairs", "taught": "contrasts to teach"}
_SECTION = re.compile(r"\b(\w+)\.(\w*columns)\.(<?\w+>?)=<your column>")
_OPTION = re.compile(r"--column (<?\w+>?)=<your column>")


@dataclass(frozen=True, slots=True)
class _Call:
    """The files of one call's rows, each with what the rows were given as, and the paths that it made."""

    names: dict[str, str] = field(default_factory=dict)
    made: list[Path] = field(default_factory=list)

    def said(self, text: str) -> str:
        """A message with the rows by their name, and columns mapped as in Python."""
        for file, name in self.names.items():
            text = text.replace(file, f"the given {_SAID.get(name, name)}")
        text = _SECTION.sub(r'\1={"\2": {"\3": "<your column>"}}', text)
        return _OPTION.sub(r'columns={"\1": "<your column>"}', text)

    def take_back(self) -> None:
        """Remove what was made, files before their folders; a folder that holds more stays."""
        for path in self.made:
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


@contextmanager
def python_call() -> Iterator[None]:
    """A call from Python: its errors name rows as they were given, and refused rows leave no file behind."""
    call = _Call()
    before = _CALL.set(call)
    try:
        yield
    except CdaError as error:
        error.args = tuple(call.said(part) if isinstance(part, str) else part for part in error.args)
        if isinstance(error, RecipeError):
            error.problems = tuple(map(call.said, error.problems))
        if isinstance(error, RecipeError | DataError | RunError):
            call.take_back()
        raise
    finally:
        _CALL.reset(before)


def from_python() -> bool:
    """True within a call from Python, False in a command."""
    return _CALL.get() is not None


def file_of(rows: list[dict[str, object]], name: str, folder: Path) -> str:
    """A file of these rows, named after what they are given as and their content; equal rows share one, which is never overwritten.

    Raises RunError if it cannot be written.
    """
    file = folder / f"{name}-{content_id(rows)}.jsonl"
    call = _CALL.get() or _Call()
    call.names[str(file)] = name
    with writing(file):
        call.made.extend(path for path in (file, *file.parents) if not path.exists())
        if not file.is_file():
            write_jsonl(place_for(file), rows)
    return str(file)
