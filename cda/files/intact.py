"""What the files of a folder were when it was finished, so that one that is cut, changed or gone is noticed and not used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from cda.files.hashes import sha256_of


def contents(folder: Path, leave_out: Collection[str] = (), sizes_above_bytes: int | None = None) -> dict[str, str]:
    """Every file below a folder, by its path in it, to its size in bytes and sixteen hex digits of its content.

    Args:
        folder: Looked through with its subfolders.
        leave_out: File names that are no part of the content.
        sizes_above_bytes: Of a larger file only the size is kept; None: every file is read.
    """
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name not in leave_out)
    return {file.relative_to(folder).as_posix(): _content(file, sizes_above_bytes) for file in files}


def changed(folder: Path, known: Mapping[str, str]) -> list[str]:
    """Files that are no longer what `contents` said; files that have come since are no matter."""
    return [name for name, content in known.items() if _found(folder / name, content) != content]


def _found(file: Path, known: str) -> str | None:
    try:
        return _content(file, None if ":" in known else 0)
    except (OSError, ValueError):  # the latter: a NUL in the name
        return None


def _content(file: Path, sizes_above_bytes: int | None) -> str:
    size = file.stat().st_size
    if sizes_above_bytes is not None and size > sizes_above_bytes:
        return f"{size}"
    return f"{size}:{sha256_of(file)[:16]}"
