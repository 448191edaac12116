"""Answers through the OpenAI Batch API: half the price, within a day, and a restart picks up what is still running."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from cda.errors import LLMError
from cda.llm.cache import Cache, key_of
from cda.llm.money import Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Again, Rejected, Throttled, completion_of, of_status
from cda.llm.progress import Answers, with_progress
from cda.llm.protocol import Completion, Request
from cda.llm.reasons import is_lasting
from cda.llm.retry_after import retry_after_s
from cda.llm.structured import in_plain_words, json_of

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

T = TypeVar("T")
MAX_REQUESTS = 50_000
"""Requests a batch may hold, by OpenAI's rules."""
MAX_BYTES = 200_000_000
"""Size of an input file, by OpenAI's rules."""
TRIES = 2
"""How often a request is submitted before it counts as failed."""
ABSENCES = 20
"""Looks in a row at which the server may be away; at the longest pause this is an hour and a half."""
ENDED = ("completed", "failed", "expired", "cancelled")
QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch that came while too many others wait; it may come again once they are through."""
LISTED = 1000
"""Batches looked through, newest first, for one that was submitted but not recorded."""
GROUP = 64
"""Requests looked up, and answers written, together."""
LONGEST_WAIT_S = 600.0
"""Between two attempts of a call, whatever the server asks for."""
_SENT = dict.fromkeys(("max_completion_tokens", "temperature", "seed"), 0)
"""Parameters of a request that a server may reject and that can be left out."""
NOT_HELD = "the answer does not follow its schema"
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
CREATE TEMP TABLE filling (key TEXT PRIMARY KEY, form TEXT) WITHOUT ROWID;
CREATE TEMP TABLE seen (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE noted (key TEXT PRIMARY KEY, reason TEXT NOT NULL, plain INTEGER NOT NULL) WITHOUT ROWID;
"""


class _NotOfferedError(LLMError):
    """Status 404, 405 or 501: there is no such thing on this server."""


class _AwayError(LLMError):
    """No usable answer after all attempts; another time there may be one."""


@dataclass(slots=True)
class BatchCounts:
    """What happened that a report should say.

    Attributes:
        submitted: Requests sent in batches, those sent again included.
        resubmitted: Requests sent a second time.
        adopted: Batches that an earlier process had started.
        duplicates: Result lines for a request that had one; the first counts.
        unknown: Result lines for requests that were not in the batch.
        unreadable: Result lines that are not JSON objects with a custom_id.
        input_tokens: Paid for, as the server counted them.
        output_tokens: The same of the answers.
    """

    submitted: int = 0
    resubmitted: int = 0
    adopted: int = 0
    duplicates: int = 0
    unknown: int = 0
    unreadable: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class BatchLLM:
    """The same answers as `CachedLLM(client, cache)`, through batches.

    A ledger beside the cache (`<cache>.batches.sqlite`, with files in `<cache>.batches/`) is written before and after each
    step. A process killed at any moment is followed by one that takes up its uploaded files and running batches.

    Args:
        client: Names model, server and key, and writes the request bodies.
        cache: Looked into first; answers go there.
        sleep: Waits so many seconds.
        max_requests: Requests a batch.
        max_bytes: Bytes of an input file.
        first_pause_s: Before running batches are looked at again; grows by half each time.
        longest_pause_s: Where that growth stops.
        attempts: Of a call that is answered with 429 or 5xx or not at all.
        price: Of the model in batches, which is half of the other; None: the dollars are not known.
        counts: Filled as the work goes on.
    """

    client: OpenAIClient
    cache: Cache
    sleep: Callable[[float], None] = time.sleep
    max_requests: int = MAX_REQUESTS
    max_bytes: int = MAX_BYTES
    first_pause_s: float = 5.0
    longest_pause_s: float = 300.0
    attempts: int = 6
    price: Price | None = None
    counts: BatchCounts = field(default_factory=BatchCounts)

    @property
    def name(self) -> str:
        """Model name, for artifacts."""
        return self.client.name

    @property
    def spent_usd(self) -> float | None:
        """Dollars for the answers so far; None where no price is known."""
        return self.price.of(self.counts.input_tokens, self.counts.output_tokens) if self.price is not None else None

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request; see LLM.answers. What a batch leaves out is submitted once more.

        Raises:
            LLMError: The key is refused, the server offers no batches, a request is too large, the server stays away, or
                another process works with this ledger. Running batches go on, and the next call takes them up.
        """
        return with_progress(self._answers(requests), requests, label, total, lambda: self.spent_usd)

    def _answers(self, requests: Iterable[Request]) -> Generator[tuple[int, Completion], None, None]:
        with ExitStack() as stack:
            stack.enter_context(_alone(Path(f"{self.cache.path}.batches.lock")))
            try:
                yield from _Run(self, stack).answers(requests)
            except sqlite3.Error as error:
                raise LLMError(f"{self.cache.path}.batches.sqlite: cannot be written or read ({error})") from None


class _Run:
    """One call of `answers`: its connection, its ledger and its files."""

    def __init__(self, llm: BatchLLM, stack: ExitStack) -> None:
        import openai

        self.llm = llm
        self.counts = llm.counts
        self.endpoint = llm.client._endpoint
        self.where = self.endpoint.server
        self.folder = Path(f"{llm.cache.path}.batches")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ledger = stack.enter_context(closing(_Ledger(Path(f"{llm.cache.path}.batches.sqlite"), self.where)))
        self.input = stack.enter_context(closing(_Input(self.folder, self.ledger, llm.max_requests, llm.max_bytes)))
        # Retries of its own are off: a batch that is submitted twice is paid twice.
        self.server: OpenAI = stack.enter_context(
            openai.OpenAI(
                api_key=_key(llm.client.api_key_env),
                base_url=llm.client.settings["base_url"],
                timeout=llm.client.timeout_s,
                max_retries=0,
            )
        )
        self.own: set[str] = set()
        self.queued: set[str] = set()

    def answers(self, requests: Iterable[Request]) -> Iterator[tuple[int, Completion]]:
        """First what the cache holds, then what each batch brings."""
        self._drop_strays()
        settings, numbered = self.llm.client.settings, enumerate(requests)
        while group := [(row, one, key_of(settings, one)) for row, one in itertools.islice(numbered, GROUP)]:
            known = self.llm.cache.lookup([key for _, _, key in group])
            for position, request, key in group:
                if key in known:
                    yield position, known[key]
                elif self.ledger.want(key, position) and self.ledger.tried(key) < TRIES and not self.ledger.held(key):
                    self._write(key, request, self.llm.client.body(request))
        self.input.finish()
        yield from self._given_up()
        pause_s, absences = self.llm.first_pause_s, 0
        while parts := self.ledger.wanted_parts():
            for part in parts:
                self._advance(part)
            ended = False
            for part in self.ledger.wanted_parts():
                if part.batch_id is None:
                    continue
                try:
                    batch = self._polled(part.batch_id)
                except _AwayError as error:
                    # A day is long: a server that is away for a while ends nothing.
                    absences += 1
                    if absences >= ABSENCES:
                        raise LLMError(
                            f"{error}. Its batches go on; run the same command again to collect them"
                        ) from None
                    continue
                absences = 0
                if batch is not None and self._is_queue_full(part, batch):
                    self.ledger.set_state(part.id, "uploaded", batch_id=None)
                    self.queued.add(part.id)
                elif batch is None or batch.status in ENDED:
                    yield from self._collect(part, batch)
                    ended = True
            if ended:
                self.queued.clear()
                pause_s = self.llm.first_pause_s
            elif self.ledger.wanted_parts():
                self.llm.sleep(pause_s)
                pause_s = min(1.5 * pause_s, self.llm.longest_pause_s)
        self.ledger.forget_tries()

    def _write(self, key: str, request: Request, body: Mapping[str, Any]) -> None:
        """One request to the input file; where it asks for a schema, with what is needed to ask without one."""
        form = self.ledger.form(request.schema, request.plain) if "response_format" in body else None
        line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        self.input.add(key, json.dumps(line, default=dict).encode() + b"\n", form)

    def _advance(self, part: _Part) -> None:
        """Take a part from wherever an earlier process left it to a running batch."""
        if part.state == "submitted":
            self.counts.adopted += part.id not in self.own
            self.own.add(part.id)
            return
        if part.id in self.queued:
            return
        file_id = part.file_id
        if file_id is None:
            file_id = self._call(lambda: self._uploaded(part), f"the upload of {part.n_requests} requests")
            self.ledger.set_state(part.id, "uploaded", file_id=file_id)
        # `creating` without a batch: an earlier process died around the call, and the batch may be running.
        batch = self._listed(part.id, file_id) if part.state == "creating" else None
        if batch is not None:
            self.counts.adopted += 1
        else:
            self.ledger.set_state(part.id, "creating")
            try:
                batch = self._created(part, file_id)
            except _AwayError:
                raise
            except LLMError:
                # Refused, so nothing runs. It may be the file, which servers delete after a while: upload it anew next time.
                self.ledger.set_state(part.id, "written", file_id=None)
                raise
            self.counts.submitted += part.n_requests
        self.ledger.set_state(part.id, "submitted", batch_id=batch.id)
        self.own.add(part.id)
        self.llm.client.say(
            f"{self.where} works on {part.n_requests} requests ({batch.id}). You may stop, and run the same command again "
            "to collect the answers"
        )

    def _uploaded(self, part: _Part) -> str:
        path = self.input.path(part.id)
        if not path.is_file():
            raise LLMError(
                f"{path} is gone, and with it the requests of a batch; delete {self.ledger.path} and run again"
            )
        # A handle, not a path: openai would read a path's 200 MB into memory.
        with path.open("rb") as file:
            return self.server.files.create(file=(path.name, file, "application/jsonl"), purpose="batch").id

    def _created(self, part: _Part, file_id: str) -> Batch:
        def create() -> Batch:
            return self.server.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"cda_part": part.id},
            )

        # The answer may be lost and the batch run all the same.
        return self._call(create, "a batch", look=lambda: self._listed(part.id, file_id))

    def _listed(self, part_id: str, file_id: str) -> Batch | None:
        """The batch of this part, where the server lists batches and has one."""

        def find() -> Batch | None:
            for batch in itertools.islice(self.server.batches.list(limit=100), LISTED):
                ours = (batch.metadata or {}).get("cda_part") == part_id or batch.input_file_id == file_id
                if ours and batch.status != "failed":
                    return batch
            return None

        try:
            return self._call(find, "the list of batches")
        except _NotOfferedError:
            return None

    def _polled(self, batch_id: str) -> Batch | None:
        """The batch as it is now; None where the server knows it no longer."""
        try:
            return self._call(lambda: self.server.batches.retrieve(batch_id), f"the state of {batch_id}", attempts=1)
        except _NotOfferedError:
            return None

    def _is_queue_full(self, part: _Part, batch: Batch) -> bool:
        """Whether it failed only because other batches, which will end, take up all that the account may have waiting."""
        codes = [one.code for one in (batch.errors.data if batch.errors else None) or []]
        others = (one for one in self.ledger.wanted_parts() if one.batch_id is not None and one.id != part.id)
        return batch.status == "failed" and QUEUE_FULL in codes and any(others)

    def _collect(self, part: _Part, batch: Batch | None) -> Iterator[tuple[int, Completion]]:
        """The answers of a batch that ended. What it lacks goes to a new input file, or is given up with the reason."""
        reason = _reason(batch)
        for kind in ("output", "error"):
            file_id = getattr(batch, f"{kind}_file_id", None)
            if file_id:
                path = self.folder / f"{part.id}.{kind}"
                try:
                    self._call(lambda: self._download(file_id, path), f"the {kind} file of a batch")  # noqa: B023
                except _NotOfferedError:
                    reason = f"the {kind} file of the batch is gone"
                    continue
                yield from self._merge(part, path)
        for key, body in self._left_out(part):
            if self.ledger.tried(key) + 1 < TRIES:
                self._rewrite(part, key, body)
                self.counts.resubmitted += 1
        self.input.finish(instead_of=part.id, reason=reason)
        self._drop_strays()
        yield from self._given_up()

    def _download(self, file_id: str, path: Path) -> None:
        """Stream a file to disk; it has its name only when it is whole."""
        if path.is_file():
            return
        partial = path.with_name(f"{path.name}.partial")
        with self.server.files.with_streaming_response.content(file_id) as response, _on_disk(partial):
            with partial.open("wb") as file:
                for chunk in response.iter_bytes(1 << 16):
                    file.write(chunk)
            partial.replace(path)

    def _merge(self, part: _Part, path: Path) -> Iterator[tuple[int, Completion]]:
        """Result lines into the cache and, once safe there, to whoever waits. Strangers and second lines are counted."""
        group: list[tuple[str, Completion]] = []
        with path.open("rb") as file:
            for line in file:
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                    key = row["custom_id"]
                except (ValueError, KeyError, TypeError, RecursionError):
                    self.counts.unreadable += 1
                    continue
                if not isinstance(key, str) or not self.ledger.in_part(key, part.id):
                    self.counts.unknown += 1
                elif self.ledger.is_seen(key):
                    self.counts.duplicates += 1
                elif (completion := self._read(part, key, row)) is not None:
                    self.ledger.see(key)
                    group.append((key, completion))
                if len(group) >= GROUP:
                    yield from self._keep(group)
                    group = []
        yield from self._keep(group)

    def _read(self, part: _Part, key: str, row: Mapping[str, Any]) -> Completion | None:
        """The answer or lasting failure in a result line; None where asking again may help, and why is noted."""
        response = row.get("response")
        if not isinstance(response, dict):
            error = row.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            self.ledger.note(key, str(code or "no response").replace("_", " "))
            return None
        status, body = response.get("status_code"), response.get("body")
        if status == 200 and isinstance(body, dict):
            return self._held(part, key, completion_of(body))
        if not isinstance(status, int) or status == 200:
            self.ledger.note(key, "unreadable answer")
            return None
        try:
            outcome = of_status(status, {}, json.dumps(body).encode(), self.endpoint)
        except LLMError as error:
            # One line does not end the work: the others may hold answers that are paid for.
            return Completion(None, str(error))
        if isinstance(outcome, Completion):
            return outcome
        if isinstance(outcome, Rejected):
            learnt = self.llm.client._parameters.give_up(_SENT, outcome.param, outcome.message)
            if not learnt and self.ledger.form_of(key, part.id) is None:
                return outcome.completion
            self.ledger.note(key, outcome.completion.reason or "", plain=not learnt)
            return None
        assert isinstance(outcome, Again | Throttled)
        self.ledger.note(key, f"status {status}")
        return None

    def _held(self, part: _Part, key: str, completion: Completion) -> Completion | None:
        """The answer if it follows its schema; else it is asked for again in plain words."""
        self.counts.input_tokens += completion.input_tokens
        self.counts.output_tokens += completion.output_tokens
        form = self.ledger.form_of(key, part.id)
        if form is None or completion.text is None:
            return completion
        text = json_of(completion.text, form[0])
        if text is None:
            self.ledger.note(key, NOT_HELD, plain=True)
            return None
        return replace(completion, text=text)

    def _keep(self, group: list[tuple[str, Completion]]) -> Iterator[tuple[int, Completion]]:
        written = [self.llm.cache.keep(key, completion) for key, completion in group if is_lasting(completion)]
        for one in written:
            one.result()
        for key, completion in group:
            yield from self._settle(key, completion)

    def _left_out(self, part: _Part) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and body of each wanted request that the batch did not answer."""
        path = self.input.path(part.id)
        if not path.is_file():
            return
        with path.open("rb") as file:
            for line in file:
                row = json.loads(line)
                if self.ledger.is_open(row["custom_id"]):
                    yield row["custom_id"], row["body"]

    def _rewrite(self, part: _Part, key: str, sent: Mapping[str, Any]) -> None:
        """The same request to a new input file, without what the server turned out not to take."""
        schema, plain = self.ledger.form_of(key, part.id) or (None, "")
        system, user = (str(one["content"]) for one in sent["messages"])
        request = Request(system, user, schema, plain)
        body = self.llm.client.body(in_plain_words(request) if self.ledger.noted_plain(key) else request)
        if "seed" in body and "seed" in sent:
            body["seed"] = sent["seed"]  # which sample it is
        self._write(key, request, body)

    def _given_up(self) -> Iterator[tuple[int, Completion]]:
        for key, reason in self.ledger.given_up(TRIES):
            yield from self._settle(key, Completion(None, reason))

    def _settle(self, key: str, completion: Completion) -> Iterator[tuple[int, Completion]]:
        """The answer to everyone who asks the same; only the first one paid for it."""
        for number, position in enumerate(self.ledger.settle(key)):
            yield position, completion if number == 0 else replace(completion, cached=True)

    def _drop_strays(self) -> None:
        """Delete files of parts that are not in the ledger: half written when a process died, or done with."""
        known = self.ledger.part_ids()
        for path in self.folder.iterdir():
            if path.name.split(".")[0] not in known:
                path.unlink(missing_ok=True)

    def _call(
        self,
        action: Callable[[], T],
        what: str,
        look: Callable[[], T | None] | None = None,
        attempts: int | None = None,
    ) -> T:
        """Act, again after 429, 5xx and lost connections. `look` may find that a lost attempt did its work.

        Raises:
            LLMError: Trying again would not help.
            _NotOfferedError: Status 404, 405 or 501.
            _AwayError: All attempts failed.
        """
        import httpx2
        import openai

        wanted = attempts or self.llm.attempts
        pause_s = 1.0
        for attempt in range(1, wanted + 1):
            wait_s = pause_s
            try:
                return action()
            except openai.APIStatusError as error:
                self._raise_if_final(error, what)
                problem = f"status {error.status_code}"
                wait_s = max(wait_s, min(retry_after_s(error.response.headers, time.time()) or 0.0, LONGEST_WAIT_S))
            # ValueError: an answer that is not JSON.
            except (openai.APIConnectionError, httpx2.HTTPError, ValueError) as error:
                problem = self.endpoint.hide(str(error.__cause__ or error) or type(error).__name__)
            if attempt == wanted:
                break
            self.llm.sleep(wait_s)
            pause_s = min(2 * pause_s, 60.0)
            if look is not None and (found := look()) is not None:
                return found
        raise _AwayError(f"{self.where}: {what} failed {wanted} times, at last with: {problem}")

    def _raise_if_final(self, error: Any, what: str) -> None:
        """Raise where the same call would fail again."""
        status = error.status_code
        if status in (401, 403):
            raise LLMError(f"{self.where}: the key in {self.llm.client.api_key_env} is refused ({status})") from None
        if status in (404, 405, 501):
            raise _NotOfferedError(
                f"{self.where}: {what} is not possible ({status}); the server may offer no batches: ask without them"
            ) from None
        if status == 413:
            raise LLMError(
                f"{self.where}: {what} is too large for this server (413); it takes less than {self.llm.max_bytes} bytes"
            ) from None
        if status == 402 or error.code == "insufficient_quota":
            raise LLMError(
                f"{self.where}: no money left on the account of the key in {self.llm.client.api_key_env}"
            ) from None
        if status < 500 and status not in (408, 409, 429):
            raise LLMError(f"{self.where}: {what} is refused ({status}): {self.endpoint.hide(error.message)}") from None


@dataclass(frozen=True, slots=True)
class _Part:
    """One input file and its batch. State: written, uploaded, creating (it may be running), submitted."""

    id: str
    state: str
    n_requests: int
    file_id: str | None
    batch_id: str | None


class _Input:
    """Input files of at most so many requests and bytes; each enters the ledger when it is whole and on disk."""

    def __init__(self, folder: Path, ledger: _Ledger, max_requests: int, max_bytes: int) -> None:
        self.folder = folder
        self.ledger = ledger
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self._file: BinaryIO | None = None
        self._id = ""
        self._n_requests = self._n_bytes = 0

    def path(self, part_id: str) -> Path:
        return self.folder / f"{part_id}.jsonl"

    def add(self, key: str, line: bytes, form: str | None) -> None:
        """One more request.

        Raises:
            LLMError: It alone is larger than a file may be.
        """
        if len(line) > self.max_bytes:
            raise LLMError(f"a request of {len(line)} bytes is larger than a batch file may be ({self.max_bytes})")
        if self._n_requests >= self.max_requests or self._n_bytes + len(line) > self.max_bytes:
            self.finish()
        with _on_disk(self.folder):
            if self._file is None:
                self._id = uuid.uuid4().hex
                self._file = self.path(self._id).open("wb")
            self._file.write(line)
        self._n_requests += 1
        self._n_bytes += len(line)
        self.ledger.fill(key, form)

    def finish(self, instead_of: str | None = None, reason: str = "") -> None:
        """Enter the file, and in the same step strike out the part whose missing requests it holds."""
        if self._file is not None:
            with _on_disk(self.folder):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
        self.ledger.enter(self._id if self._file is not None else None, self._n_requests, instead_of, reason)
        self._file = None
        self._n_requests = self._n_bytes = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Ledger:
    """What is uploaded and running, in SQLite; and, in tables that end with the connection, what is wanted now."""

    def __init__(self, path: Path, server: str) -> None:
        self.path = path
        self.server = server
        self._forms: dict[str, tuple[Mapping[str, Any], str]] = {}
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
        """Note who waits for the key; whether nobody did before."""
        first = not self._is("wanted WHERE key = ?", key)
        self._db.execute("INSERT INTO wanted (key, position) VALUES (?, ?)", (key, position))
        return first

    def is_open(self, key: str) -> bool:
        """Whether somebody still waits for it."""
        return self._is("wanted WHERE key = ? AND NOT done", key)

    def settle(self, key: str) -> list[int]:
        """Positions that waited for it; they wait no longer."""
        rows = self._db.execute("SELECT position FROM wanted WHERE key = ? AND NOT done", (key,)).fetchall()
        self._db.execute("UPDATE wanted SET done = 1 WHERE key = ?", (key,))
        return [row[0] for row in rows]

    def tried(self, key: str) -> int:
        """How often a batch with it ended without an answer to it."""
        row = self._db.execute("SELECT times FROM tried WHERE key = ?", (key,)).fetchone()
        return row[0] if row else 0

    def given_up(self, tries: int) -> list[tuple[str, str]]:
        """Keys waited for that were tried so often, with the last reason."""
        return self._db.execute(
            "SELECT DISTINCT key, reason FROM wanted JOIN tried USING (key) WHERE NOT done AND times >= ?", (tries,)
        ).fetchall()

    def held(self, key: str) -> bool:
        """Whether a file or batch of this server has it."""
        return self._is("member JOIN part ON part = id WHERE key = ? AND server = ?", key, self.server)

    def in_part(self, key: str, part_id: str) -> bool:
        return self._is("member WHERE key = ? AND part = ?", key, part_id)

    def is_seen(self, key: str) -> bool:
        """Whether a result line for it was taken."""
        return self._is("seen WHERE key = ?", key)

    def see(self, key: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,))

    def note(self, key: str, reason: str, plain: bool = False) -> None:
        """Why its batch has no answer to it, and whether plain words may bring one."""
        self._db.execute("INSERT OR REPLACE INTO noted VALUES (?, ?, ?)", (key, reason, plain))

    def noted_plain(self, key: str) -> bool:
        return self._is("noted WHERE key = ? AND plain", key)

    def form(self, schema: Mapping[str, Any] | None, plain: str) -> str:
        """Name of a schema and its plain words; there are few of them, so requests only name theirs."""
        text = json.dumps(schema, sort_keys=True, default=dict)
        name = hashlib.sha256(f"{text}\n{plain}".encode("utf-8", "surrogatepass")).hexdigest()
        if name not in self._forms:
            written = plain.encode("utf-8", "replace").decode()
            self._db.execute("INSERT OR IGNORE INTO form VALUES (?, ?, ?)", (name, text, written))
            self._forms[name] = (json.loads(text), written)
        return name

    def form_of(self, key: str, part_id: str) -> tuple[Mapping[str, Any], str] | None:
        """Schema and plain words of a request; None where it was sent without a schema."""
        row = self._db.execute("SELECT form FROM member WHERE key = ? AND part = ?", (key, part_id)).fetchone()
        if row is None or row[0] is None:
            return None
        if row[0] not in self._forms:
            schema, plain = self._db.execute("SELECT schema, plain FROM form WHERE id = ?", row).fetchone()
            self._forms[row[0]] = (json.loads(schema), plain)
        return self._forms[row[0]]

    def fill(self, key: str, form: str | None) -> None:
        self._db.execute("INSERT OR IGNORE INTO filling VALUES (?, ?)", (key, form))

    def enter(self, part_id: str | None, n_requests: int, instead_of: str | None, reason: str) -> None:
        """In one step: a new part with the keys filled in, and the end of another, whose open keys count as tried.

        Keys that are open and not in the new part are given up.
        """
        self._db.execute("BEGIN IMMEDIATE")
        if instead_of is not None:
            self._db.execute(
                "INSERT INTO tried SELECT key, CASE WHEN key IN (SELECT key FROM filling) THEN 1 ELSE ? END, "
                "COALESCE((SELECT noted.reason FROM noted WHERE noted.key = member.key), ?) FROM member "
                "WHERE part = ? AND key IN (SELECT key FROM wanted WHERE NOT done) "
                "ON CONFLICT (key) DO UPDATE SET times = max(times + 1, excluded.times), reason = excluded.reason",
                (TRIES, reason, instead_of),
            )
            self._db.execute("DELETE FROM member WHERE part = ?", (instead_of,))
            self._db.execute("DELETE FROM part WHERE id = ?", (instead_of,))
        if part_id is not None:
            self._db.execute(
                "INSERT INTO part VALUES (?, ?, 'written', ?, NULL, NULL)", (part_id, self.server, n_requests)
            )
            self._db.execute("INSERT INTO member SELECT key, ?, form FROM filling", (part_id,))
        self._db.execute("COMMIT")
        for table in ("filling", "seen", "noted"):
            self._db.execute(f"DELETE FROM {table}")

    def set_state(self, part_id: str, state: str, **ids: str | None) -> None:
        """Record a step, with the id that it brought (file_id, batch_id)."""
        names = "".join(f", {name} = ?" for name in ids)
        self._db.execute(f"UPDATE part SET state = ?{names} WHERE id = ?", (state, *ids.values(), part_id))

    def wanted_parts(self) -> list[_Part]:
        """Parts of this server with a key that somebody waits for, oldest first."""
        rows = self._db.execute(
            "SELECT id, state, n_requests, file_id, batch_id FROM part WHERE server = ? AND EXISTS ("
            "SELECT 1 FROM member WHERE member.part = part.id AND EXISTS ("
            "SELECT 1 FROM wanted WHERE wanted.key = member.key AND NOT done)) ORDER BY part.rowid",
            (self.server,),
        )
        return [_Part(*row) for row in rows]

    def part_ids(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT id FROM part")}

    def forget_tries(self) -> None:
        """All that was wanted is answered or given up: the next call starts anew."""
        self._db.execute("DELETE FROM tried WHERE key IN (SELECT key FROM wanted)")

    def _is(self, where: str, *values: object) -> bool:
        return self._db.execute(f"SELECT 1 FROM {where} LIMIT 1", values).fetchone() is not None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: two would collect, and submit again, the same batches."""
    import filelock

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(path, timeout=0):
            yield
    except filelock.Timeout:
        raise LLMError(f"{path}: another process works with these batches; wait for it or stop it") from None


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LLMError(f"{path}: cannot be written ({error.strerror or error}); what was answered is kept") from None


def _reason(batch: Batch | None) -> str:
    """Why a request of this batch may have no answer."""
    if batch is None:
        return "the server does not know the batch any more"
    if batch.status == "completed":
        return "left out of the batch's results"
    said = [one.message or one.code or "" for one in (batch.errors.data if batch.errors else None) or []]
    return f"batch {batch.status}" + (f": {said[0]}" if said and said[0] else "")


def _key(variable: str) -> str:
    """The key for the connection; a local server asks for none, but the openai package wants one.

    Raises:
        LLMError: It cannot be a key.
    """
    key = os.environ.get(variable, "").strip() or "none"
    if not key.isascii() or not key.isprintable():
        raise LLMError(f"the environment variable {variable} holds characters that no key has (llm.api_key_env)")
    return key
