"""A table in one SQLite file: opened by any number of processes, moved aside if it is damaged, its errors in words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cda.errors import CdaError
from cda.files.jsonl import make_private

BUSY_S = 60.0
"""Longest wait for another program that holds the file."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """A table in its own file, which is made with its folder for this user alone to read; with the words for messages about it.

    `table` makes the table in a new file, `probe` is a query of its columns that fails in a file of something else, and `further`
    are statements for a file that is known to be the right one. `what` names the file, such as `score cache`, and `kept` the state
    after a failure, such as `what was scored until now is kept`. `error` is raised for all problems; `say` tells of a file that was
    moved aside. With `NORMAL` a commit outlives the process, if not always a power cut; with `FULL` it outlives that too.
    """

    path: Path
    table: str
    probe: str
    what: str
    kept: str
    error: type[CdaError]
    say: Callable[[str], None]
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    further: Sequence[str] = ()

    def opened(self) -> sqlite3.Connection:
        """A connection to a sound file with the table in it; a damaged file is moved aside, one of something else is left as it is."""
        from filelock import FileLock

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # One process at a time looks and moves, or a second would move the first one's new file.
            with self.explained(), FileLock(self.path.with_name(self.path.name + ".lock")):
                try:
                    return self._sound()
                except sqlite3.DatabaseError as error:
                    if _code(error) not in _DAMAGED:
                        raise
                self._move_aside()
                return self._sound()
        except OSError as error:
            raise self.error(f"{self.path}: the {self.what} cannot be opened ({error.strerror or error})") from None

    def connected(self) -> sqlite3.Connection:
        """One more connection to a file that was opened before; raises as sqlite3 does."""
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={self.synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of sqlite3 inside the block into `error`, with the remedy."""
        try:
            yield
        except sqlite3.Error as error:
            raise self.error(f"{self.path}: the {self.what} {self._problem(error)}") from None

    def _sound(self) -> sqlite3.Connection:
        make_private(self.path)  # SQLite makes -wal and -shm with the mode of the file
        connection = self.connected()
        try:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                connection.execute(self.table)
            connection.execute(self.probe)
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                damaged = sqlite3.DatabaseError("quick_check")
                damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise damaged
            for statement in self.further:
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _move_aside(self) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.corrupt-{number}")).exists():
            number += 1
        for ending in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + ending)
            if part.exists():
                part.rename(aside.with_name(aside.name + ending))
        self.say(f"{self.path}: the {self.what} is damaged; moved to {aside.name}, and a new one is begun")

    def _problem(self, error: sqlite3.Error) -> str:
        problems = {
            _FULL: f"cannot be written ({error}), as on a full disk; {self.kept}. Free some space and start again",
            _DAMAGED: "is damaged; start again, and it is moved aside and a new one is started",
            _HELD: f"is held by another program for more than {BUSY_S:g} s; {self.kept}",
        }
        known = (problem for codes, problem in problems.items() if _code(error) in codes)
        return next(known, f"cannot be used ({error})")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write everything inside the block, or nothing of it; waits for other writers first."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _code(error: sqlite3.Error) -> int:
    """The primary result code of an extended one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
