"""What a run has written and read, and what has changed since: SHA-256 of files by their content; the names in folders, environment
variables."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from cda.files.jsonl import open_new
from cda.files.paths import cache_folder

_READ_EACH_TIME_BYTES = 64 * 2**20  # smaller files take less than a tenth of a second
_SETTLED_S = 10.0
"""Two writes within one tick of a file system's clock leave the same times: a file that has just changed is read again."""
_HASH = re.compile(r"[0-9a-f]{64}")


def sha256_of(file: Path) -> str:
    """SHA-256 of a file's whole content, as 64 hex digits.

    A file above 64 MB is remembered in this user's cache folder by path, device, inode, size, time of change of its content
    and time of change of its inode. The last is set by the system alone, whatever copies and archives do to the other.
    """
    with file.open("rb") as opened:
        before = os.fstat(opened.fileno())
        # Elsewhere the time of change is the time of making, which a program can set.
        remembers = before.st_size > _READ_EACH_TIME_BYTES and os.name == "posix"
        note = _note(file, before)
        if remembers and (known := _read(note)):
            return known
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        settled = time.time() - max(before.st_mtime, before.st_ctime) > _SETTLED_S
        if remembers and settled and _note(file, os.fstat(opened.fileno())) == note:
            _write(note, digest)
    return digest


def _note(file: Path, stat: os.stat_result) -> Path:
    known_by = (str(file.resolve()), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return cache_folder() / "hashes" / hashlib.sha256(repr(known_by).encode("utf-8", "surrogatepass")).hexdigest()


def _read(note: Path) -> str | None:
    try:
        digest = note.read_text("ascii")
    except (OSError, ValueError):
        return None
    return digest if _HASH.fullmatch(digest) else None


def _write(note: Path, digest: str) -> None:
    # Without a cache folder the file is read again each time.
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        partial = note.with_name(f"{note.name}.{os.getpid()}.partial")
        with open_new(partial, private=True) as file:
            file.write(digest.encode())
        partial.replace(note)


def contents(folder: Path, leave_out: Collection[str] = (), sizes_above_bytes: int | None = None) -> dict[str, str]:
    """Every file below a folder, by its path in it, to its size in bytes and sixteen hex digits of its content.

    Files named `leave_out` are no part of it; those larger than `sizes_above_bytes` are known by their size alone.
    """
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in leave_out)
    return {file.relative_to(folder).as_posix(): _content(file, sizes_above_bytes) for file in files}


def changed(folder: Path, known: Mapping[str, str]) -> list[str]:
    """Files that differ from an earlier result of `contents`; new files do not count."""

    def is_same(file: Path, content: str) -> bool:
        try:
            return _content(file, None if ":" in content else 0) == content
        except (OSError, ValueError):  # the latter: a NUL in the name
            return False

    return [name for name, content in known.items() if not is_same(folder / name, content)]


def _content(file: Path, sizes_above_bytes: int | None) -> str:
    size = file.stat().st_size
    if sizes_above_bytes is not None and size > sizes_above_bytes:
        return f"{size}"
    return f"{size}:{sha256_of(file)[:16]}"


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
