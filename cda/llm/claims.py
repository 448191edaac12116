"""Claims on questions: of several runs that want the same answer one asks, and the others wait for what it is told."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cda.errors import LLMError, out_of_files
from cda.files.paths import own_folder

_NAME = re.compile(r"[0-9a-f]{32}")


class Claim(Protocol):
    """A question that is ours until it is released."""

    def release(self) -> None:
        """Let others have it; at most once."""
        ...


class Claims:
    """Claims in a folder: a file for each question under way, locked by the process that asks it.

    The system lets go of a lock when its process ends, however that ends: a killed run holds nothing. On systems without
    `flock` every question is free, and two runs at once may both pay.

    Args:
        folder: Made where it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folder = str(folder)
        self._is_open = False

    def take(self, key: str) -> Claim | None:
        """The claim on a question; None while somebody else holds it.

        Raises:
            LLMError: The folder cannot be used, or too many files are open.
        """
        try:
            import fcntl
        except ImportError:
            return _Free()
        path = os.path.join(self._folder, key[:32])  # noqa: PTH118 — for each call; a Path takes as long as the lock
        try:
            if not self._is_open:
                self._open()
            # A link in its place would have another file made or locked.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LLMError(out_of_files(error) or f"{path}: cannot be written ({error.strerror or error})") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES):
                return None
            return _Free()  # a file system without locks
        if not os.fstat(handle).st_nlink:  # its owner released it, file and all, between our two steps
            os.close(handle)
            return None
        return _Held(path, handle)

    def _open(self) -> None:
        """Make the folder; take away what killed processes left in it."""
        own_folder(self.folder)
        self._is_open = True
        for left in self.folder.iterdir():
            if _NAME.fullmatch(left.name) and (claim := self.take(left.name)) is not None:
                claim.release()


@dataclass(frozen=True, slots=True)
class _Held:
    path: str
    handle: int

    def release(self) -> None:
        # First the name and then the lock: whoever opened the name meanwhile sees that the file has none.
        with suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108
        os.close(self.handle)


@dataclass(frozen=True, slots=True)
class _Free:
    def release(self) -> None:
        pass
