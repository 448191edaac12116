"""An LLM that asks only questions without an answer on disk; of several runs with the same question one asks, the others wait."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from cda.errors import LLMError, MovedError
from cda.files.sqlite_file import SqliteFile, transaction
from cda.inert import inert
from cda.llm.asking import GRACE_S, Answers, Ask, Asker, answered, pause, print_line, with_progress
from cda.llm.protocol import LASTING, Completion, Request
from cda.llm.purse import Claim, Claims

_TABLE = """CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, text TEXT, reason TEXT, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    at REAL NOT NULL
)"""
# A separate table, so that earlier files and earlier versions of cda continue to work.
_LOGPROBS_TABLE = "CREATE TABLE IF NOT EXISTS first_logprobs (key TEXT PRIMARY KEY, logprobs TEXT NOT NULL)"
_MODELS_TABLE = "CREATE TABLE IF NOT EXISTS answering_models (key TEXT PRIMARY KEY, model TEXT NOT NULL)"
_NAMES_TABLE = "CREATE TABLE IF NOT EXISTS names (asked TEXT, model TEXT, PRIMARY KEY (asked, model)) WITHOUT ROWID"
_GROUP, _LOOKED_UP = 512, 64
"""Answers written, and requests looked up, together."""
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.02, 0.5
"""Between two looks for the answer of another run."""

_Entry = tuple[str, Completion, "Future[None]"]


def key_of(settings: Mapping[str, object], request: Request) -> str:
    """SHA-256 of everything that determines an answer: model, address, sampling, texts, schema, sample."""
    content = {
        "settings": dict(settings),
        "messages": [request.system, request.user],
        "plain": request.plain,
        "schema": request.schema,
        "sample": request.sample,
    }
    if request.top_logprobs:  # without any, keys are those of earlier versions
        content["top_logprobs"] = request.top_logprobs
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """One SQLite file for any number of processes on one machine, safe against being killed at any moment.

    Holds hashes and answers, not questions, and no key. A file that cannot be read is moved aside as `.corrupt-N`. With
    `ask_failures_again` earlier failures are ignored; answers and failures stored in their place from now on are found.
    With the client's settings (`asked`), the models that answer under its name are known: once another answers, what earlier
    ones answered is not found any more. Every method raises LLMError if the file cannot be read or written.
    """

    def __init__(
        self,
        path: Path | str,
        say: Callable[[str], None] = print_line,
        *,
        ask_failures_again: bool = False,
        asked: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self._say, self._asked_name = say, asked and asked["model"]
        self._asked = asked and _asked(asked)
        self._given, self._live, self._gone = set[str](), set[str](), set[str]()
        self.claims = Claims(self.path.with_name(f"{self.path.name}.claims"))
        self._failures_from = time.time() if ask_failures_again else 0.0
        # FULL: each group is on disk before its workers go on, since the answers are paid for.
        self._file = SqliteFile(
            self.path,
            _TABLE,
            "SELECT key, text, reason, input_tokens, output_tokens, at FROM answers LIMIT 0",
            what="cache",
            kept="what was answered until now is kept",
            error=LLMError,
            say=say,
            synchronous="FULL",
            further=(_LOGPROBS_TABLE, _MODELS_TABLE, _NAMES_TABLE),
        )
        self._lock = threading.Lock()
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._reader = self._file.opened()
        self._answering = self.answering()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            return int(self._reader.execute("SELECT count(*) FROM answers").fetchone()[0])

    def lookup(self, keys: Sequence[str]) -> dict[str, Completion]:
        """The answers and lasting failures for up to 30,000 keys at once."""
        marks = ",".join("?" * len(keys))
        query = (
            "SELECT key, text, reason, input_tokens, output_tokens, logprobs, model FROM answers "
            "LEFT JOIN first_logprobs USING (key) LEFT JOIN answering_models USING (key) "
            f"WHERE key IN ({marks}) AND (text IS NOT NULL OR at >= ? AND reason IN ({','.join('?' * len(LASTING))}))"
        )
        with self._file.explained(), self._lock:
            rows = self._reader.execute(query, [*keys, self._failures_from, *LASTING]).fetchall()
            found = {
                key: Completion(
                    text, reason, n_in, n_out, True, logprobs and tuple(map(tuple, json.loads(logprobs))), model
                )
                for key, text, reason, n_in, n_out, logprobs, model in rows
                if not self._answering or model is None or model in self._answering
            }
            self._given |= {answer.model for answer in found.values() if answer.model is not None}
        return found

    def looked_up(
        self, settings: Mapping[str, object], requests: Iterable[Request]
    ) -> Iterator[list[tuple[int, Request, str, Completion | None]]]:
        """Position, request, key and known answer of each request; some are taken at a time."""
        numbered = enumerate(requests)
        while group := [(row, request, key_of(settings, request)) for row, request in islice(numbered, _LOOKED_UP)]:
            known = self.lookup([key for *_, key in group])
            yield [(row, request, key, known.get(key)) for row, request, key in group]

    def answering(self) -> set[str]:
        """Names of the models that answer under the name and address of the client; empty before any was told."""
        with self._file.explained(), self._lock:
            rows = self._reader.execute("SELECT model FROM names WHERE asked = ?", [self._asked]).fetchall()
        return {model for (model,) in rows}

    def _note(self, model: str) -> None:
        """A model has answered just now: if it is new here, those that have answered in this run take the place of earlier ones."""
        self._live.add(model)
        if self._asked is None or model in self._answering:
            return
        gone, self._answering = self._answering - self._live, set(self._live)
        with self._file.explained(), transaction(self._reader):
            self._reader.execute("DELETE FROM names WHERE asked = ?", [self._asked])
            self._reader.executemany("INSERT INTO names VALUES (?, ?)", [(self._asked, name) for name in self._live])
        if gone:
            self._gone |= gone & self._given
            self._say(
                f"{self._asked_name} is answered by {inert(model)} now, and was by {', '.join(map(inert, sorted(gone)))}: the "
                "earlier model's answers are not used any more"
            )

    def check_unmixed(self) -> None:
        """MovedError, once, if answers of an earlier model were given out in this run before another one answered."""
        gone, self._gone, self._given = sorted(self._gone), set(), set()
        if gone:
            raise MovedError(
                f"{self._asked_name} was answered by {', '.join(map(inert, gone))} until now, and is by "
                f"{', '.join(map(inert, sorted(self._live)))}: answers of both were taken. The same command takes the new model's alone"
            )

    def keep(self, key: str, completion: Completion) -> Future[None]:
        """Write an answer, together with others that come meanwhile; done when it is safe on disk."""
        done: Future[None] = Future()
        with self._lock:
            if completion.model is not None:
                self._note(completion.model)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="llm-cache", daemon=True)
                self._writer.start()
        self._entries.put((key, completion, done))
        return done

    def get(self, key: str) -> Completion | None:
        """The answer to one key, if there is one."""
        return self.lookup([key]).get(key)

    def put(self, key: str, completion: Completion) -> None:
        """Write one answer and wait until it is safe on disk."""
        self.keep(key, completion).result()

    def close(self) -> None:
        """Write pending rows, and close the file."""
        if self._writer is not None:
            self._entries.put(None)
            self._writer.join()
            self._writer = None
        with self._lock:
            self._reader.close()

    def _write(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while group := self._group():
                try:
                    with self._file.explained():
                        connection = connection or self._file.connected()
                        _insert(connection, group)
                    problem = None
                except Exception as error:
                    problem = error
                for _, _, done in group:
                    if not done.set_running_or_notify_cancel():
                        continue
                    if problem is None:
                        done.set_result(None)
                    else:
                        done.set_exception(problem)
        finally:
            if connection is not None:
                connection.close()

    def _group(self) -> list[_Entry]:
        """The entries that wait to be written, at least one; none at the end."""
        group: list[_Entry] = []
        with suppress(queue.Empty):
            while len(group) < _GROUP and (entry := self._entries.get(block=not group)) is not None:
                group.append(entry)
            if group and entry is None:
                self._entries.put(None)
        return group


def _insert(connection: sqlite3.Connection, group: Sequence[_Entry]) -> None:
    now = time.time()
    rows = [
        (key, answer.text, answer.reason, answer.input_tokens, answer.output_tokens, now, answer.model)
        for key, answer, _ in group
    ]
    candidates = [(key, json.dumps(answer.logprobs)) for key, answer, _ in group if answer.logprobs is not None]
    models = [(key, answer.model) for key, answer, _ in group if answer.model is not None]
    with transaction(connection):
        # Another process may have answered the same meanwhile: the first answer stays, but for a failure or another model's.
        connection.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET text = excluded.text, "
            "reason = excluded.reason, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, "
            "at = excluded.at WHERE answers.text IS NULL OR EXISTS "
            "(SELECT 1 FROM answering_models AS by WHERE by.key = answers.key AND by.model <> ?)",
            rows,
        )
        connection.executemany("INSERT OR IGNORE INTO first_logprobs VALUES (?, ?)", candidates)
        connection.executemany("INSERT OR REPLACE INTO answering_models VALUES (?, ?)", models)


def _asked(settings: Mapping[str, Any]) -> str:
    """A hash, since an address may hold secrets."""
    return hashlib.sha256(json.dumps([settings["model"], settings["base_url"]]).encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class CachedLLM:
    """An LLM with a memory on disk. Identical requests of one run are asked once, the others marked as cached like
    those of an earlier run; one that another run is asking is waited for. Failures that may pass are not kept.
    """

    client: Asker
    cache: Cache
    pauses_s: tuple[float, ...] = (1.0, 4.0)
    """Pauses before retries if a paid answer broke off; the budget counts every retry as a call."""

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def concurrency(self) -> int:
        return self.client.concurrency

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.client.settings

    @property
    def spent_usd(self) -> float | None:
        """Dollars of the client: cached answers cost nothing."""
        return self.client.spent_usd

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request, as they come; see LLM.answers. LLMError also if the cache cannot be written."""
        return with_progress(self._answers(requests), requests, label, total, lambda: self.spent_usd)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """A session of the client; an answer is given only once it is safe on disk."""
        async with self.client.session() as ask:

            async def kept(request: Request) -> Completion:
                key = key_of(self.settings, request)
                claim = await self._claim(key)
                if isinstance(claim, Completion):
                    return claim
                try:
                    completion = await self._whole(ask, request)
                except BaseException:
                    claim.release()
                    raise
                if not completion.is_lasting:
                    claim.release()
                    return completion
                written = self.cache.keep(key, completion)
                written.add_done_callback(lambda _: claim.release())
                # A worker that is cancelled meanwhile must not lose an answer that is paid for.
                await asyncio.shield(asyncio.wrap_future(written))
                return completion

            yield kept

    async def _claim(self, key: str) -> Claim | Completion:
        """The right to ask, or the answer that another run got meanwhile."""
        wait_s = _FIRST_LOOK_S
        while (claim := self.cache.claims.take(key)) is None:
            await pause(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_LOOK_S)
        try:
            # It may have been answered between the first look and the claim.
            known = self.cache.get(key)
        except BaseException:
            claim.release()
            raise
        if known is None:
            return claim
        claim.release()
        return known

    async def _whole(self, ask: Ask, request: Request) -> Completion:
        """The answer, asked for again if the server broke off; its tokens are those of all tries."""
        completion = await ask(request)
        for pause_s in self.pauses_s:
            if not completion.is_unfinished:
                break
            await pause(pause_s)
            completion = (await ask(request)).with_tokens_of(completion)
        return completion

    def _answers(self, requests: Iterable[Request]) -> Answers:
        waiting: dict[str, list[int]] = {}
        keys: dict[int, str] = {}
        with closing(answered(self, self._items(requests, waiting, keys), GRACE_S)) as answers:
            for position, completion in answers:
                yield position, completion
                if (key := keys.pop(position, None)) is not None:
                    for same in waiting.pop(key):
                        yield same, replace(completion, cached=True)
        self.cache.check_unmixed()

    def _items(
        self, requests: Iterable[Request], waiting: dict[str, list[int]], keys: dict[int, str]
    ) -> Iterator[tuple[int, Request | Completion]]:
        """Known answers and requests to be asked, whose positions get their key in `keys`; a request like one under way
        is put into `waiting`, by key.
        """
        for group in self.cache.looked_up(self.settings, requests):
            items: list[tuple[int, Request | Completion]] = [(row, hit) for row, _, _, hit in group if hit is not None]
            for row, request, key, hit in group:
                if hit is not None:
                    continue
                if key in waiting:
                    waiting[key].append(row)
                else:
                    waiting[key], keys[row] = [], key
                    items.append((row, request))
            yield from items
