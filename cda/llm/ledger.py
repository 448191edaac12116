"""Batches on disk: input files, and a ledger that survives a kill between any two steps."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cda.errors import LLMError
from cda.files.jsonl import make_private, open_new
from cda.files.sqlite_file import transaction

TRIES = 2
"""Submissions of a request before it counts as failed."""
TABLES = """
CREATE TABLE IF NOT EXISTS part (
    id TEXT PRIMARY KEY, server TEXT NOT NULL, state TEXT NOT NULL, n_requests INTEGER NOT NULL, file_id TEXT, batch_id TEXT
);
CREATE TABLE IF NOT EXISTS form (id TEXT PRIMARY KEY, schema TEXT NOT NULL, plain TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS member (key TEXT NOT NULL, part TEXT NOT NULL, form TEXT, PRIMARY KEY (key, part)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS member_of ON member (part);
CREATE TABLE IF NOT EXISTS tried (key TEXT PRIMARY KEY, times INTEGER NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TEMP TABLE wanted (key TEXT NOT NULL, position INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0);
CREATE INDEX temp.wanted_key ON wanted (key);
"""


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One input file and its batch. State: written, uploaded, creating (it may be running), submitted."""

    id: str
    state: str
    n_requests: int
    file_id: str | None
    batch_id: str | None


class InputFiles:
    """Input files of at most so many requests and bytes; each enters the ledger when it is whole and on disk."""

    def __init__(self, folder: Path, ledger: Ledger, max_requests: int, max_bytes: int) -> None:
        self.folder = folder
        self.ledger = ledger
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self._file: BinaryIO | None = None
        self._id = ""
        self._members: dict[str, str | None] = {}
        self._n_bytes = 0

    def path(self, part_id: str) -> Path:
        return self.folder / f"{part_id}.jsonl"

    def add(self, key: str, line: bytes, form: str | None) -> None:
        """One more request; LLMError if it alone is larger than a file may be."""
        if len(line) > self.max_bytes:
            raise LLMError(f"a request of {len(line)} bytes is larger than a batch file may be ({self.max_bytes})")
        if len(self._members) >= self.max_requests or self._n_bytes + len(line) > self.max_bytes:
            self.finish()
        with on_disk(self.folder):
            if self._file is None:
                self._id = uuid.uuid4().hex
                self._file = open_new(self.path(self._id), private=True)
            self._file.write(line)
        self._n_bytes += len(line)
        self._members[key] = form

    def finish(self, instead_of: str | None = None, reasons: Mapping[str, str] | None = None, other: str = "") -> None:
        """Enter the file, and in the same step strike out the part whose missing requests it holds; see `Ledger.enter`."""
        if self._file is not None:
            with on_disk(self.folder):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
        self.ledger.enter(self._id if self._file is not None else None, self._members, instead_of, reasons or {}, other)
        self._file, self._members, self._n_bytes = None, {}, 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Ledger:
    """Uploaded files and running batches, in SQLite; and, in a table that ends with the connection, the keys wanted now."""

    def __init__(self, path: Path, server: str) -> None:
        self.path = path
        self.server = server
        self._forms: dict[str, tuple[Mapping[str, object], str]] = {}
        with on_disk(path):
            make_private(path)
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.executescript(TABLES)
        except sqlite3.DatabaseError as error:
            raise LLMError(
                f"{path}: cannot be used as a ledger of batches ({error}); move it away and run again"
            ) from None

    def close(self) -> None:
        self._db.close()

    def want(self, key: str, position: int) -> bool:
        """Note that a position waits for the key; True for the first one."""
        first = not self._is("wanted WHERE key = ?", key)
        self._db.execute("INSERT INTO wanted (key, position) VALUES (?, ?)", (key, position))
        return first

    def is_open(self, key: str) -> bool:
        """True if a position still waits for the key."""
        return self._is("wanted WHERE key = ? AND NOT done", key)

    def settle(self, key: str) -> list[int]:
        """Positions that waited for it; they wait no longer."""
        rows = self._db.execute("SELECT position FROM wanted WHERE key = ? AND NOT done", (key,)).fetchall()
        self._db.execute("UPDATE wanted SET done = 1 WHERE key = ?", (key,))
        return [row[0] for row in rows]

    def tried(self, key: str) -> int:
        """Number of batches with the key that ended without an answer to it."""
        row = self._db.execute("SELECT times FROM tried WHERE key = ?", (key,)).fetchone()
        return row[0] if row else 0

    def given_up(self) -> list[tuple[str, str]]:
        """Open keys that were tried as often as they may be, with the last reason."""
        return self._db.execute(
            "SELECT DISTINCT key, reason FROM wanted JOIN tried USING (key) WHERE NOT done AND times >= ?", (TRIES,)
        ).fetchall()

    def held(self, key: str, but: str = "") -> bool:
        """True if a file or batch of this server, other than `but`, has it."""
        return self._is("member JOIN part ON part = id WHERE key = ? AND server = ? AND id != ?", key, self.server, but)

    def members(self, part_id: str) -> dict[str, str | None]:
        """Keys of a part, with the name of each one's form; None if it was sent without a schema."""
        return dict(self._db.execute("SELECT key, form FROM member WHERE part = ?", (part_id,)).fetchall())

    def form(self, schema: Mapping[str, Any] | None, plain: str) -> str:
        """Name of a schema with its plain words; there are few, so requests only name theirs."""
        text = json.dumps(schema, sort_keys=True, default=dict)
        name = hashlib.sha256(f"{text}\n{plain}".encode("utf-8", "surrogatepass")).hexdigest()
        if name not in self._forms:
            written = plain.encode("utf-8", "replace").decode()
            self._db.execute("INSERT OR IGNORE INTO form VALUES (?, ?, ?)", (name, text, written))
            self._forms[name] = (json.loads(text), written)
        return name

    def form_named(self, name: str) -> tuple[Mapping[str, object], str]:
        """Schema and plain words."""
        if name not in self._forms:
            schema, plain = self._db.execute("SELECT schema, plain FROM form WHERE id = ?", (name,)).fetchone()
            self._forms[name] = (json.loads(schema), plain)
        return self._forms[name]

    def enter(
        self,
        part_id: str | None,
        members: Mapping[str, str | None],
        instead_of: str | None,
        reasons: Mapping[str, str],
        other: str,
    ) -> None:
        """In one step: a new part with its keys and their forms, and the end of another, whose open keys count as
        tried. Those in no part any more are given up. `reasons`: why a key has no answer; `other`: that of the rest.
        """
        with transaction(self._db):
            if part_id is not None:
                part = (part_id, self.server, len(members))
                self._db.execute("INSERT INTO part VALUES (?, ?, 'written', ?, NULL, NULL)", part)
                rows = [(key, part_id, form) for key, form in members.items()]
                self._db.executemany("INSERT INTO member VALUES (?, ?, ?)", rows)
            if instead_of is not None:
                left = [key for key in self.members(instead_of) if self.is_open(key)]
                self._db.execute("DELETE FROM member WHERE part = ?", (instead_of,))
                self._db.execute("DELETE FROM part WHERE id = ?", (instead_of,))
                tried = [(key, 1 if self.held(key) else TRIES, reasons.get(key, other)) for key in left]
                self._db.executemany(
                    "INSERT INTO tried VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                    "times = max(times + 1, excluded.times), reason = excluded.reason",
                    tried,
                )

    def set_state(self, part_id: str, state: str, **ids: str | None) -> None:
        """Record a step, with the id that it brought (file_id, batch_id)."""
        names = "".join(f", {name} = ?" for name in ids)
        self._db.execute(f"UPDATE part SET state = ?{names} WHERE id = ?", (state, *ids.values(), part_id))

    def wanted_parts(self) -> list[BatchPart]:
        """Parts of this server with a key that a caller waits for, oldest first."""
        rows = self._db.execute(
            "SELECT id, state, n_requests, file_id, batch_id FROM part WHERE server = ? AND EXISTS ("
            "SELECT 1 FROM member WHERE member.part = part.id AND EXISTS ("
            "SELECT 1 FROM wanted WHERE wanted.key = member.key AND NOT done)) ORDER BY part.rowid",
            (self.server,),
        )
        return [BatchPart(*row) for row in rows]

    def part_ids(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT id FROM part")}

    def forget_tries(self) -> None:
        """Let the next call start anew: everything wanted is answered or given up."""
        self._db.execute("DELETE FROM tried WHERE key IN (SELECT key FROM wanted)")

    def _is(self, where: str, *values: object) -> bool:
        return self._db.execute(f"SELECT 1 FROM {where} LIMIT 1", values).fetchone() is not None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process in at a time: two would collect, and submit again, the same batches."""
    import filelock

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(path, timeout=0):
            yield
    except filelock.Timeout:
        raise LLMError(f"{path}: another process works with these batches; wait for it or stop it") from None


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LLMError(f"{path}: cannot be written ({error.strerror or error}); what was answered is kept") from None
