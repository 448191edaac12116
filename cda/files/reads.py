"""States of what a run has read beside its inputs: files, the names in folders, environment variables; and what has changed since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cda.files.hashes import sha256_of

VARIABLE, FOLDER, ANSWERING = "environment variable ", "folder ", "the model that answers for "
"""How names of these begin; any other is a file's path."""
_answering: dict[str, set[str]] = {}


def states(names: Iterable[str]) -> dict[str, str]:
    """Each name with sixteen hex digits of what it stands for now, or `none`; no value is stored."""
    return {name: _state(name) for name in names}


def changed_reads(known: Mapping[str, str]) -> list[str]:
    """The names whose state is another than it was."""
    return [name for name, state in known.items() if _state(name) != state]


def answering(asked: str, model: str) -> str:
    """The name of a model that answers when an LLM is asked by its name."""
    return f"{ANSWERING}{asked} ({model})"


def asked_name(name: str) -> str | None:
    """The name by which an LLM was asked, if this is the name of a model that answered."""
    return name.removeprefix(ANSWERING).partition(" (")[0] if name.startswith(ANSWERING) else None


def note_answering(now: Mapping[str, Iterable[str]]) -> None:
    """Note which models answer to each name, as far as known, in place of those noted before: `changed_reads` cannot ask."""
    _answering.clear()
    _answering.update({asked: {answering(asked, model) for model in models} for asked, models in now.items()})


def _state(name: str) -> str:
    if (asked := asked_name(name)) is not None:
        return "answers" if name in _answering.get(asked, {name}) else "another answers"
    if name.startswith(VARIABLE):
        value = os.environ.get(name.removeprefix(VARIABLE))
        return "none" if value is None else _digest(f"{name}={value}")
    try:
        if name.startswith(FOLDER):
            return _digest("\0".join(sorted(path.name for path in Path(name.removeprefix(FOLDER)).iterdir())))
        return sha256_of(Path(name))[:16]
    except OSError:
        return "none"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
