"""What the files of a folder were when it was finished, so that one that is cut, changed or gone is noticed and not used."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path

_HASHED_BYTES = 64 * 2**20
"""Of a larger file only the size is kept: reading optimizer states of gigabytes again would take longer than a step."""


def contents(folder: Path, leave_out: Collection[str] = ()) -> dict[str, str]:
    """Every file below a folder, by its path in it, to its size in bytes and sixteen hex digits of its content.

    Args:
        folder: Looked through with its subfolders.
        leave_out: File names that are no part of the content.
    """
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in leave_out)
    return {file.relative_to(folder).as_posix(): _content(file) for file in files}


def changed(folder: Path, known: Mapping[str, str]) -> list[str]:
    """Files that are no longer what `contents` said; files that have come since are no matter."""
    return [name for name, content in known.items() if _found(folder / name) != content]


def _found(file: Path) -> str | None:
    try:
        return _content(file)
    except (OSError, ValueError):  # the latter: a NUL in the name
        return None


def _content(file: Path) -> str:
    size = file.stat().st_size
    if size > _HASHED_BYTES:
        return f"{size}"
    with file.open("rb") as opened:
        return f"{size}:{hashlib.file_digest(opened, 'sha256').hexdigest()[:16]}"
