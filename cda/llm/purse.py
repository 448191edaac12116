"""Money that several clients, and all starts of a command, spend together: set aside before an attempt, counted after it."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cda.errors import LLMError, out_of_files
from cda.files.paths import own_folder
from cda.files.sqlite_file import SqliteFile, transaction
from cda.llm.asking import print_line

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


FOLDER = "spent"
"""Folder of the purse in that of a run."""
_TABLE = """CREATE TABLE IF NOT EXISTS spent (
    owner TEXT PRIMARY KEY, dollars REAL NOT NULL DEFAULT 0, uncounted REAL NOT NULL DEFAULT 0, n_calls INTEGER NOT NULL DEFAULT 0,
    set_aside REAL NOT NULL DEFAULT 0, n_under_way INTEGER NOT NULL DEFAULT 0
)"""
_BATCH = "batch "
"""Begins the owner of a batch's money: the batch goes on when the process has ended."""


class Purse:
    """Dollars spent and set aside, kept in a folder (None: in memory) and shared by all processes and threads that use it.

    A process that is killed leaves its attempts under way set aside; they then count as made, since they may be billed.
    LLMError: the file cannot be read or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._owner = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._file = SqliteFile(
            Path(":memory:") if folder is None else folder / "purse.sqlite",
            _TABLE,
            "SELECT owner, dollars, uncounted, n_calls, set_aside, n_under_way FROM spent LIMIT 0",
            what="purse",
            kept="what was answered until now is kept",
            error=LLMError,
            say=print_line,
        )
        self._claims = None if folder is None else Claims(folder / "owners")
        if self._claims is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.execute(_TABLE)
            return
        if (claim := self._claims.take(self._owner)) is not None:
            weakref.finalize(self, claim.release)  # or at the end of the process, however it ends
        self._db = self._file.opened()
        self._settle_killed()

    @property
    def spent(self) -> float:
        """Dollars of attempts that have ended, in all starts."""
        return self._sum("dollars")

    @property
    def uncounted(self) -> float:
        """The part of `spent` of attempts whose cost the server did not say; each is counted at the most it could be."""
        return self._sum("uncounted")

    @property
    def set_aside(self) -> float:
        """Dollars for attempts and batches under way."""
        return self._sum("set_aside")

    @property
    def in_batches(self) -> float:
        """The part of `set_aside` of batches."""
        return self._sum("set_aside", f"{_BATCH}%")

    @property
    def n_calls(self) -> int:
        """Attempts that have ended, in all starts; a batch is one."""
        return int(self._sum("n_calls"))

    def batch_set_aside(self, batch: str) -> float:
        """Dollars that are set aside for a batch."""
        return self._sum("set_aside", _BATCH + batch)

    def begin(
        self, dollars: float, budget_usd: float | None, batch: str | None = None, running: Collection[str] = ()
    ) -> bool | None:
        """Set aside the most that an attempt, or a batch of this name, could cost. None: it does not fit into what is left of the
        budget; False: not next to what is under way, which will end: attempts, and the batches that the caller knows to be
        `running`. A batch that has it set aside already is not counted twice.
        """
        owner = self._owner if batch is None else _BATCH + batch
        with self._lock, self._file.explained(), transaction(self._db):
            if (
                batch is not None
                and self._db.execute("SELECT 1 FROM spent WHERE owner = ? AND n_under_way", [owner]).fetchone()
            ):
                return True
            rows = self._db.execute("SELECT owner, dollars, set_aside FROM spent").fetchall()
            ends = [row for row in rows if not row[0].startswith(_BATCH) or row[0].removeprefix(_BATCH) in running]
            under_way = sum(aside for *_, aside in ends)
            counted = dollars + sum(spent + aside for _, spent, aside in rows)
            if budget_usd is None or counted <= budget_usd:
                self._db.execute(
                    "INSERT INTO spent (owner, set_aside, n_under_way) VALUES (?, ?, 1) ON CONFLICT (owner) DO UPDATE SET "
                    "set_aside = set_aside + excluded.set_aside, n_under_way = n_under_way + 1",
                    [owner, dollars],
                )
                return True
        if under_way and counted - under_way <= budget_usd:
            self._settle_killed()
            return False
        return None

    def end(self, set_aside: float, dollars: float, uncounted: float = 0.0, batch: str | None = None) -> None:
        """Count an attempt that has ended, with the part that the server did not say; or a batch, once, whose `set_aside` is known."""
        # With the last attempt nothing is set aside: what rounding leaves would be waited for without end.
        with self._lock, self._file.explained():
            self._db.execute(
                "UPDATE spent SET set_aside = CASE WHEN n_under_way > 1 THEN max(0, set_aside - ?) ELSE 0 END, "
                "dollars = dollars + ?, uncounted = uncounted + ?, n_calls = n_calls + 1, n_under_way = max(0, n_under_way - 1) "
                "WHERE owner = ? AND n_under_way > 0",
                [set_aside, dollars, uncounted, self._owner if batch is None else _BATCH + batch],
            )

    def _settle_killed(self) -> None:
        """Count what killed processes left set aside as spent."""
        if self._claims is None:
            return
        with self._lock, self._file.explained(), transaction(self._db):
            rows = self._db.execute("SELECT owner FROM spent WHERE n_under_way AND owner != ?", [self._owner])
            for (owner,) in rows.fetchall():
                if owner.startswith(_BATCH) or (claim := self._claims.take(owner)) is None:
                    continue
                self._db.execute(
                    "UPDATE spent SET dollars = dollars + set_aside, uncounted = uncounted + set_aside, n_calls = n_calls + n_under_way, "
                    "set_aside = 0, n_under_way = 0 WHERE owner = ?",
                    [owner],
                )
                claim.release()

    def _sum(self, column: str, owner: str | None = None) -> float:
        where = "" if owner is None else " WHERE owner LIKE ?"
        with self._lock, self._file.explained():
            found = self._db.execute(f"SELECT total({column}) FROM spent{where}", [] if owner is None else [owner])
            return float(found.fetchone()[0])
