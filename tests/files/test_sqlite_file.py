"""A shared SQLite file: what goes wrong comes as the owner's own error, in words; nothing is half written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cda.errors import LLMError, RunError
from cda.files import sqlite_file
from cda.files.sqlite_file import SqliteFile, transaction

TABLE = "CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, value REAL NOT NULL)"


def file_at(path: Path, say: Callable[[str], None] = print, **changes: Any) -> SqliteFile:
    probe = "SELECT name, value FROM numbers LIMIT 0"
    return SqliteFile(path, TABLE, probe, **({"what": "list", "kept": "k", "error": RunError, "say": say} | changes))


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM numbers").fetchone()[0])


def test_what_one_connection_writes_another_reads(tmp_path: Path) -> None:
    file = file_at(tmp_path / "new" / "a.sqlite", further=("CREATE TABLE IF NOT EXISTS more (one TEXT)",))
    with closing(file.opened()) as first, closing(file.connected()) as second:
        with transaction(first):
            first.execute("INSERT INTO numbers VALUES ('a', 1.0)")
        assert count(second) == 1
        assert second.execute("SELECT count(*) FROM more").fetchone() == (0,)


@pytest.mark.parametrize(("synchronous", "number"), [("NORMAL", 1), ("FULL", 2)])
def test_how_sure_a_commit_is_can_be_said(tmp_path: Path, synchronous: Any, number: int) -> None:
    file = file_at(tmp_path / "a.sqlite", synchronous=synchronous)
    for make in (file.opened, file.connected):
        with closing(make()) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (number,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with closing(file_at(tmp_path / "a.sqlite").opened()) as connection:
        with pytest.raises(KeyboardInterrupt), transaction(connection):
            connection.execute("INSERT INTO numbers VALUES ('a', 1.0)")
            raise KeyboardInterrupt
        assert count(connection) == 0 and not connection.in_transaction


@pytest.mark.parametrize("error", [RunError, LLMError])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, error: type[Exception]) -> None:
    path, said = tmp_path / "a.sqlite", []
    for number in (1, 2):
        path.write_bytes(b"no database " * 100)
        with closing(file_at(path, said.append, error=error).opened()) as connection:
            assert count(connection) == 0
        assert path.with_name(f"a.sqlite.corrupt-{number}").read_bytes() == b"no database " * 100
        assert said[-1] == f"{path}: the list is damaged; moved to a.sqlite.corrupt-{number}, and a new one is begun"
        path.unlink()


@pytest.mark.parametrize(
    ("table", "problem"), [("numbers", r"no such column: name"), ("theirs", r"no such table: numbers")]
)
def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, table: str, problem: str) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"CREATE TABLE {table} (something TEXT)")
    with pytest.raises(LLMError, match=rf"a\.sqlite: the list cannot be used \({problem}\)"):
        file_at(path, error=LLMError, further=("CREATE TABLE more (one TEXT)",)).opened()
    with closing(sqlite3.connect(path)) as other:
        assert [name for (name,) in other.execute("SELECT name FROM sqlite_master")] == [table]
    with pytest.raises(RunError, match="the list cannot be opened"):
        file_at(path / "below.sqlite").opened()


def test_a_new_file_and_what_sqlite_puts_beside_it_are_this_users_alone(tmp_path: Path) -> None:
    file = file_at(tmp_path / "a.sqlite")
    with closing(file.opened()) as connection, transaction(connection):
        connection.execute("INSERT INTO numbers VALUES ('a', 1.0)")
        modes = {
            path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("a.sqlite*") if path.suffix != ".lock"
        }
    assert modes == dict.fromkeys(("a.sqlite", "a.sqlite-wal", "a.sqlite-shm"), 0o600)


def test_a_file_that_is_shared_already_keeps_its_mode(tmp_path: Path) -> None:
    with closing(file_at(tmp_path / "a.sqlite").opened()):
        (tmp_path / "a.sqlite").chmod(0o660)
    with closing(file_at(tmp_path / "a.sqlite").opened()):
        assert (tmp_path / "a.sqlite").stat().st_mode & 0o777 == 0o660


def test_a_file_that_is_held_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.05)
    file = file_at(tmp_path / "a.sqlite", kept="what was counted is kept")
    held = pytest.raises(RunError, match=r"held by another program for more than 0\.05 s; what was counted is kept")
    with closing(file.opened()) as holder, closing(file.connected()) as other, transaction(holder):  # noqa: SIM117
        with held, file.explained(), transaction(other):
            pass
