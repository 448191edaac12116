"""Files that appear whole or not at all, and are never written through a link that somebody else has put there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write into, beside the wanted one as `.partial`, which takes its place once all is on disk.

    Args:
        path: Replaced where it is there; a link is replaced itself, and not the file that it leads to.
        private: Only this user may read it.

    Raises:
        OSError: Cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    with open_new(partial, private=private) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def open_new(path: Path, *, private: bool = False) -> BinaryIO:
    """A new file in the place of what is there: a half file that a kill left, or a link, which is removed and not followed.

    Args:
        path: Of the file.
        private: Only this user may read it.

    Raises:
        OSError: Cannot be made; FileExistsError where something is put there at the same moment.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(_made(path, private), "wb")


def make_private(path: Path) -> None:
    """Make an empty file that only this user may read, where there is none; what is there stays as it is.

    Raises:
        OSError: Cannot be made.
    """
    if path.exists():
        return
    try:
        os.close(_made(path, private=True))
    except FileExistsError:  # another process was faster
        if not path.exists():
            raise


def _made(path: Path, private: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o600 if private else 0o666)
