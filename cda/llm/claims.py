"""Names that one process holds at a time, and that a killed one holds no longer: questions under way, owners of money."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cda.errors import LLMError, out_of_files
from cda.files.paths import own_folder

_NAME = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that is ours until it is released, by a locked file; `handle` is None if the system has no locks."""

    path: str
    handle: int | None

    def release(self) -> None:
        """Let others have it; at most once."""
        if self.handle is None:
            return
        # First the name and then the lock: a process that opened the name meanwhile sees that the file has none.
        with suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108
        os.close(self.handle)


class Claims:
    """Claims in a folder, made with the first one: a file for each name of 32 hex digits, locked by the process that holds
    it, so that a killed run holds nothing. Without `flock` every name is free, and two runs at once may both pay.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_open = False

    def take(self, key: str) -> Claim | None:
        """The claim on a name, by its first 32 digits; None while another process holds it. LLMError: the folder or a file cannot be opened."""
        path = os.path.join(self.folder, key[:32])  # noqa: PTH118 — for each call; a Path takes as long as the lock
        try:
            import fcntl
        except ImportError:
            return Claim(path, None)
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
            return Claim(path, None)  # a file system without locks
        if not os.fstat(handle).st_nlink:  # its owner released it, file and all, between our two steps
            os.close(handle)
            return None
        return Claim(path, handle)

    def _open(self) -> None:
        """Make the folder; remove the leftovers of killed processes."""
        own_folder(self.folder)
        self._is_open = True
        for left in self.folder.iterdir():
            if _NAME.fullmatch(left.name) and (claim := self.take(left.name)) is not None:
                claim.release()
