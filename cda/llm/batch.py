"""Answers through the OpenAI Batch API: half the price, within a day, and a restart picks up running batches."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cda.errors import LLMError, out_of_files
from cda.files.jsonl import open_new
from cda.llm.asking import Answers, with_progress
from cda.llm.cache import Cache
from cda.llm.ledger import TRIES, BatchPart, InputFiles, Ledger, locked, on_disk
from cda.llm.limiter import retry_after_s
from cda.llm.money import Price, Purse
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Again, Rejected, Throttled, keyless, of_data, of_status, problem_inside
from cda.llm.protocol import Completion, Request, in_plain_words, json_of

if TYPE_CHECKING:
    import openai
    from openai.types import Batch, BatchError


T = TypeVar("T")
ENDED = ("completed", "failed", "expired", "cancelled")
_QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch that came while too many others wait; it may come again once they are through."""
_LISTED = 1000
"""Batches looked through, newest first, for one that was submitted but not recorded."""
_LONGEST_WAIT_S = 600.0
"""Between two attempts of a call, whatever the server asks for."""


class NotOfferedError(LLMError):
    """Status 404, 405 or 501: there is no such thing on this server."""


class AwayError(LLMError):
    """No usable answer after all attempts; another time there may be one."""


class BatchServer:
    """A connection. Every method raises LLMError if trying again would not help, NotOfferedError if the server has no such
    thing, and AwayError if all attempts failed. `max_bytes`: largest input file, for a message.
    """

    def __init__(self, client: OpenAIClient, sleep: Callable[[float], None], attempts: int, max_bytes: int) -> None:
        from cda.llm.connection import Bounds, opened

        self._client, self._sleep, self._attempts, self._max_bytes = client, sleep, attempts, max_bytes
        self._where = client.endpoint.server
        # The package's own retries are off: a batch that is submitted twice is paid twice.
        base_url = client.settings["base_url"]
        self._bounds = Bounds(base_url, f"{client.section}.base_url")
        self._openai = opened(client.endpoint.connection_key(), base_url, client.timeout_s, self._bounds)

    def close(self) -> None:
        self._openai.close()

    def uploaded(self, path: Path, n_requests: int) -> str:
        """Id of the file that the server made of this one."""

        def upload() -> str:
            # A handle, not a path: openai would read a path's 200 MB into memory.
            with path.open("rb") as file:
                made = self._openai.files.create(file=(path.name, file, "application/jsonl"), purpose="batch")
            return _with_id(made).id

        return self._call(upload, f"the upload of {n_requests} requests")

    def created(self, part_id: str, file_id: str) -> Batch:
        """A batch of an uploaded file; `part_id` is noted in it."""

        def create() -> Batch:
            made = self._openai.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"cda_part": part_id},
            )
            return _with_id(made)

        # The answer may be lost and the batch run all the same.
        return self._call(create, "a batch", look=lambda: self.listed(part_id, file_id))

    def listed(self, part_id: str, file_id: str) -> Batch | None:
        """The batch of this part, if the server lists batches and has one."""

        def find() -> Batch | None:
            for batch in itertools.islice(self._openai.batches.list(limit=100), _LISTED):
                ours = (batch.metadata or {}).get("cda_part") == part_id or batch.input_file_id == file_id
                if ours and batch.status != "failed":
                    return batch
            return None

        try:
            return self._call(find, "the list of batches")
        except NotOfferedError:
            return None

    def polled(self, batch_id: str) -> Batch | None:
        """The batch as it is now, asked once; None if the server knows it no longer."""
        try:
            return self._call(lambda: self._openai.batches.retrieve(batch_id), f"the state of {batch_id}", attempts=1)
        except NotOfferedError:
            return None

    def download(self, file_id: str, path: Path, what: str, max_bytes: int) -> None:
        """Stream a file of at most so many bytes to disk, unless it is there; it has its name only when it is whole."""

        def stream() -> None:
            partial = path.with_name(f"{path.name}.partial")
            with self._openai.files.with_streaming_response.content(file_id) as response, on_disk(partial):
                with open_new(partial, private=True) as file:
                    for chunk in response.iter_bytes(1 << 16):
                        file.write(chunk)
                partial.replace(path)

        if path.is_file():
            return
        usual, self._bounds.max_bytes = self._bounds.max_bytes, max_bytes
        try:
            self._call(stream, what)
        finally:
            self._bounds.max_bytes = usual

    def _call(
        self,
        action: Callable[[], T],
        what: str,
        look: Callable[[], T | None] | None = None,
        attempts: int | None = None,
    ) -> T:
        """Act, again after 429, 5xx and lost connections. `look` may find that a lost attempt did its work."""
        import httpx2
        import openai

        wanted = attempts or self._attempts
        pause_s = 1.0
        for attempt in range(1, wanted + 1):
            wait_s = pause_s
            try:
                return action()
            except openai.APIStatusError as error:
                if final := self._final(error, what):
                    raise final from None
                problem = f"status {error.status_code}"
                wait_s = max(wait_s, min(retry_after_s(error.response.headers, time.time()) or 0.0, _LONGEST_WAIT_S))
            except LLMError as error:
                raise LLMError(f"{self._where}: {what}: {error}") from None
            # ValueError: an answer that is not JSON, or names nothing; RecursionError: JSON in JSON without end.
            except (openai.APIConnectionError, httpx2.HTTPError, ValueError, RecursionError) as error:
                if isinstance(error.__cause__, LLMError):
                    raise LLMError(f"{self._where}: {what}: {error.__cause__}") from None
                if crowded := out_of_files(error):
                    raise LLMError(crowded) from None
                problem = self._client.endpoint.hide(str(error.__cause__ or error) or type(error).__name__)
            if attempt == wanted:
                break
            self._sleep(wait_s)
            pause_s = min(2 * pause_s, 60.0)
            if look is not None and (done := look()) is not None:
                return done
        raise AwayError(f"{self._where}: {what} failed {wanted} times, at last with: {problem}")

    def _final(self, error: openai.APIStatusError, what: str) -> LLMError | None:
        """The error to raise if the same call would fail again."""
        status, kind, key = error.status_code, LLMError, self._client.api_key_env
        if status in (401, 403):
            problem = f"the key in {key} is refused ({status})"
        elif status in (404, 405, 501):
            kind = NotOfferedError
            problem = f"{what} is not possible ({status}); the server may offer no batches: ask without them"
        elif status == 413:
            problem = f"{what} is too large for this server (413); it takes less than {self._max_bytes} bytes"
        elif status == 402 or error.code == "insufficient_quota":
            problem = f"no money left on the account of the key in {key}"
        elif status < 500 and status not in (408, 409, 429):
            problem = f"{what} is refused ({status}): {self._client.endpoint.hide(error.message)}"
        else:
            return None
        return kind(f"{self._where}: {problem}")


def is_queue_full(batch: Batch) -> bool:
    """True if it failed because the account has too many requests waiting."""
    return batch.status == "failed" and _QUEUE_FULL in [problem.code for problem in _problems(batch)]


def why_unanswered(batch: Batch | None) -> str:
    """Reason why a request of this batch may have no answer."""
    if batch is None:
        return "the server does not know the batch any more"
    if batch.status == "completed":
        return "left out of the batch's results"
    words = [problem.message or problem.code or "" for problem in _problems(batch)]
    return f"batch {batch.status}" + (f": {words[0]}" if words and words[0] else "")


def _problems(batch: Batch) -> list[BatchError]:
    return (batch.errors.data if batch.errors else None) or []


def _with_id(made: T) -> T:
    """A file or batch that the server says it has made; ValueError if it has no id, by which it could be asked for later."""
    name = getattr(made, "id", None)
    if not isinstance(name, str) or not name:
        raise ValueError("an answer without an id")
    return made


MAX_REQUESTS = 50_000
"""Requests that a batch may hold, by OpenAI's rules."""
MAX_BYTES = 200_000_000
"""Size of an input file, by OpenAI's rules."""
MAX_LINE_BYTES = 16 << 20
"""Longest result line that is read; each such piece of a longer one counts as unreadable."""
ABSENCES = 20
"""Polls in a row that may find no server; at the longest pause this is an hour and a half."""
GROUP = 64
"""Requests looked up, and answers written, together."""
_BYTES_PER_TOKEN, _BYTES_PER_LINE = 16, 1 << 14
"""Largest result file: an escaped character takes six bytes, and a token is seldom more than two characters."""
_SENT = dict.fromkeys(("max_completion_tokens", "temperature", "seed"), 0)
"""Parameters of a request that a server may reject and that can be left out."""
NOT_HELD = "the answer does not follow its schema"


@dataclass(frozen=True, slots=True, eq=False)
class BatchLLM:
    """The same answers as `CachedLLM(client, cache)`, through batches. A ledger next to the cache
    (`<cache>.batches.sqlite`, files in `<cache>.batches/`) is written before and after each step, so that after any
    kill the next process goes on.
    """

    client: OpenAIClient
    cache: Cache
    sleep: Callable[[float], None] = time.sleep
    max_requests: int = MAX_REQUESTS
    max_bytes: int = MAX_BYTES
    first_pause_s: float = 5.0
    """Pause before running batches are polled again; grows by half each time, to `longest_pause_s`."""
    longest_pause_s: float = 300.0
    attempts: int = 6
    """At a call that is answered with 429 or 5xx or not at all."""
    price: Price | None = None
    """Of the model in batches; None: unknown."""
    purse: Purse = field(default_factory=Purse)
    ignored: Counter[str] = field(default_factory=Counter)
    """Result lines that are `duplicate` (the first counts), of `unknown` requests, or `unreadable`: no JSON with a custom_id."""

    @property
    def name(self) -> str:
        return self.client.name

    @property
    def spent_usd(self) -> float | None:
        """Dollars for the answers so far; None if no price is known."""
        return self.purse.spent if self.price is not None else None

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request (LLM.answers); those that a batch leaves out are submitted once more.
        LLMError: key refused, no batches offered, a request too large or for token probabilities, server away, or
        ledger in use by another process. Running batches go on, and the next call takes them up.
        """
        return with_progress(self._answers(requests), requests, label, total, lambda: self.spent_usd)

    def _answers(self, requests: Iterable[Request]) -> Answers:
        with ExitStack() as stack:
            stack.enter_context(locked(Path(f"{self.cache.path}.batches.lock")))
            try:
                yield from _BatchRun(self, stack).answers(requests)
            except sqlite3.Error as error:
                raise LLMError(f"{self.cache.path}.batches.sqlite: cannot be written or read ({error})") from None


class _BatchRun:
    """One call of `answers`: its connection, its ledger and its files."""

    def __init__(self, llm: BatchLLM, stack: ExitStack) -> None:
        self.llm = llm
        self.endpoint = llm.client.endpoint
        self.where = self.endpoint.server
        self.folder = Path(f"{llm.cache.path}.batches")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ledger = stack.enter_context(closing(Ledger(Path(f"{llm.cache.path}.batches.sqlite"), self.where)))
        self.input = stack.enter_context(closing(InputFiles(self.folder, self.ledger, llm.max_requests, llm.max_bytes)))
        self.server = stack.enter_context(closing(BatchServer(llm.client, llm.sleep, llm.attempts, llm.max_bytes)))
        self.queued: set[str] = set()
        self.absences = 0
        self.paid: dict[str, Completion] = {}
        """Tokens by key, those of unusable answers included: the final answer or failure carries them all."""
        self.members: dict[str, str | None] = {}
        """Of the part that is collected; see `Ledger.members`."""
        self.noted: dict[str, str] = {}
        """Why that part has no answer to a key."""
        self.plain: set[str] = set()
        """Keys of that part for which plain words may help."""

    def answers(self, requests: Iterable[Request]) -> Iterator[tuple[int, Completion]]:
        """First the cached answers, then those of each batch."""
        self._drop_strays()
        for group in self.llm.cache.looked_up(self.llm.client.settings, requests):
            for position, request, key, known in group:
                if request.top_logprobs:
                    raise LLMError("token probabilities are asked for one call at a time: set llm.mode=calls")
                if known is not None:
                    yield position, known
                elif self.ledger.want(key, position) and self.ledger.tried(key) < TRIES and not self.ledger.held(key):
                    self._write(key, request, self.llm.client.body(request))
        self.input.finish()
        yield from self._given_up()
        pause_s = self.llm.first_pause_s
        while parts := self.ledger.wanted_parts():
            for part in parts:
                self._advance(part)
            ended = False
            for part in self.ledger.wanted_parts():
                is_there, batch = self._polled(part)
                if is_there and (batch is None or batch.status in ENDED):
                    yield from self._collect(part, batch)
                    ended = True
            if ended:
                self.queued.clear()
                pause_s = self.llm.first_pause_s
            elif self.ledger.wanted_parts():
                self.llm.sleep(pause_s)
                pause_s = min(1.5 * pause_s, self.llm.longest_pause_s)
        self.ledger.forget_tries()

    def _polled(self, part: BatchPart) -> tuple[bool, Batch | None]:
        """A part's batch as the server has it, None if it knows it no longer; False if nothing is known now."""
        if part.batch_id is None:
            return False, None
        try:
            batch = self.server.polled(part.batch_id)
        except AwayError as error:
            # A day is long: a server that is away for a while ends nothing.
            self.absences += 1
            if self.absences >= ABSENCES:
                raise LLMError(f"{error}. Its batches go on; run the same command again to collect them") from None
            return False, None
        self.absences = 0
        others = any(other.batch_id and other.id != part.id for other in self.ledger.wanted_parts())
        if batch is not None and is_queue_full(batch) and others:  # they will end, and make room for it
            self.ledger.set_state(part.id, "uploaded", batch_id=None)
            self.queued.add(part.id)
            return False, None
        return True, batch

    def _write(self, key: str, request: Request, body: Mapping[str, object]) -> None:
        """Add a request to the input file; one with a schema also with its plain words, to ask again without it."""
        form = self.ledger.form(request.schema, request.plain) if "response_format" in body else None
        line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        self.input.add(key, json.dumps(line, default=dict).encode() + b"\n", form)

    def _advance(self, part: BatchPart) -> None:
        """Take a part from the state in which an earlier process left it to a running batch."""
        if part.state == "submitted" or part.id in self.queued:
            return
        file_id = part.file_id
        if file_id is None:
            path = self.input.path(part.id)
            if not path.is_file():
                raise LLMError(
                    f"{path} is gone, and with it the requests of a batch; delete {self.ledger.path} and run again"
                )
            file_id = self.server.uploaded(path, part.n_requests)
            self.ledger.set_state(part.id, "uploaded", file_id=file_id)
        # `creating` without a batch: an earlier process died around the call, and the batch may be running.
        batch = self.server.listed(part.id, file_id) if part.state == "creating" else None
        if batch is None:
            self.ledger.set_state(part.id, "creating")
            try:
                batch = self.server.created(part.id, file_id)
            except AwayError:
                raise
            except LLMError:
                # Refused, so nothing runs. It may be the file, which servers delete after a while: upload it anew next time.
                self.ledger.set_state(part.id, "written", file_id=None)
                raise
        self.ledger.set_state(part.id, "submitted", batch_id=batch.id)
        self.llm.client.say(
            f"{self.where} works on {part.n_requests} requests ({batch.id}). You may stop, and run the same command again "
            "to collect the answers"
        )

    def _collect(self, part: BatchPart, batch: Batch | None) -> Iterator[tuple[int, Completion]]:
        """The answers of a batch that ended. Missing requests go to a new input file, or are given up with the reason."""
        self.members, self.noted, self.plain = self.ledger.members(part.id), {}, set()
        seen: set[str] = set()
        reason = self.endpoint.hide(why_unanswered(batch))
        for kind in ("output", "error"):
            if file_id := getattr(batch, f"{kind}_file_id", None):
                path = self.folder / f"{part.id}.{kind}"
                try:
                    most = part.n_requests * (_BYTES_PER_LINE + _BYTES_PER_TOKEN * self.llm.client.max_tokens)
                    self.server.download(file_id, path, f"the {kind} file of a batch", MAX_LINE_BYTES + most)
                except NotOfferedError:
                    reason = f"the {kind} file of the batch is gone"
                    continue
                yield from self._merge(path, seen)
        for key, body in self._left_out(part):
            if self.ledger.tried(key) + 1 < TRIES:
                self._rewrite(key, body)
        self.input.finish(part.id, self.noted, reason)
        self._drop_strays()
        yield from self._given_up()

    def _merge(self, path: Path, seen: set[str]) -> Iterator[tuple[int, Completion]]:
        """Write result lines into the cache and, once safe there, hand them out; strangers and second lines are counted."""
        group: list[tuple[str, Completion]] = []
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                    key = row["custom_id"]
                except (ValueError, KeyError, TypeError, RecursionError):
                    self.llm.ignored["unreadable"] += 1
                    continue
                if not isinstance(key, str) or key not in self.members:
                    self.llm.ignored["unknown"] += 1
                elif key in seen:
                    self.llm.ignored["duplicate"] += 1
                elif isinstance(answer := self._read(key, row), str):
                    self.noted[key] = answer
                else:
                    seen.add(key)
                    group.append((key, answer))
                if len(group) >= GROUP:
                    yield from self._keep(group)
                    group = []
        yield from self._keep(group)

    def _read(self, key: str, row: Mapping[str, object]) -> Completion | str:
        """The answer or lasting failure in a result line, or the reason for one if asking again may help."""
        response = row.get("response")
        if not isinstance(response, dict):
            problem = problem_inside(row)
            if problem is None or problem.told_status is None:
                code = problem and problem.code
                return self.endpoint.hide(code or "no response").replace("_", " ")
            response = {"status_code": 200, "body": {"error": row["error"]}}
        status, body = response.get("status_code"), response.get("body")
        if not isinstance(status, int) or not (isinstance(body, dict) or status != 200):
            return "unreadable answer"
        try:
            if status == 200:
                outcome = of_data(body, self.endpoint)
            else:
                outcome = of_status(status, {}, json.dumps(body).encode(), self.endpoint)
        except LLMError as error:
            # One line does not end the work: the others may hold answers that are paid for.
            return Completion(None, str(error))
        if isinstance(outcome, Again | Completion) and status == 200:
            self._pay(key, outcome)
        if isinstance(outcome, Rejected):
            if not self.llm.client.give_up_parameter(_SENT, outcome.param, outcome.message):
                if self.members[key] is None:
                    return outcome.completion
                self.plain.add(key)
            return outcome.completion.reason or ""
        if isinstance(outcome, Throttled):
            return "status 429"
        if isinstance(outcome, Again):
            return self.endpoint.hide(outcome.reason)
        return self._held(key, keyless(outcome, self.endpoint.key)) if status == 200 else outcome

    def _held(self, key: str, completion: Completion) -> Completion | str:
        """The answer if it follows its schema; else it is asked for again in plain words."""
        form = self.members[key]
        if form is not None and completion.text is not None:
            text = json_of(completion.text, self.ledger.form_named(form)[0])
            if text is None:
                self.plain.add(key)
                return NOT_HELD
            completion = replace(completion, text=text)
        return self._with_all_tokens(key, completion)

    def _pay(self, key: str, answer: Completion | Again) -> None:
        if self.llm.price is not None:
            self.llm.purse.spent += self.llm.price.of(answer.input_tokens, answer.output_tokens)
        paid = Completion(None, None, answer.input_tokens, answer.output_tokens)
        self.paid[key] = paid.with_tokens_of(self.paid.get(key, Completion(None)))

    def _with_all_tokens(self, key: str, completion: Completion) -> Completion:
        paid = self.paid.pop(key, Completion(None))
        return replace(completion, input_tokens=paid.input_tokens, output_tokens=paid.output_tokens)

    def _keep(self, group: list[tuple[str, Completion]]) -> Iterator[tuple[int, Completion]]:
        written = [self.llm.cache.keep(key, completion) for key, completion in group if completion.is_lasting]
        for future in written:
            future.result()
        for key, completion in group:
            yield from self._settle(key, completion)

    def _left_out(self, part: BatchPart) -> Iterator[tuple[str, dict[str, object]]]:
        """Key and body of each wanted request that the batch did not answer; but none that an earlier run had begun to send again."""
        path = self.input.path(part.id)
        if not path.is_file():
            return
        with path.open("rb") as file:
            for line in file:
                row = json.loads(line)
                if self.ledger.is_open(row["custom_id"]) and not self.ledger.held(row["custom_id"], but=part.id):
                    yield row["custom_id"], row["body"]

    def _rewrite(self, key: str, sent: Mapping[str, Any]) -> None:
        """Add the same request to a new input file, without the fields that the server rejected."""
        form = self.members[key]
        schema, plain = (None, "") if form is None else self.ledger.form_named(form)
        system, user = (str(message["content"]) for message in sent["messages"])
        request = Request(system, user, schema, plain)
        body = self.llm.client.body(in_plain_words(request) if key in self.plain else request)
        if "seed" in body and "seed" in sent:
            body["seed"] = sent["seed"]  # which sample it is
        self._write(key, request, body)

    def _given_up(self) -> Iterator[tuple[int, Completion]]:
        for key, reason in self.ledger.given_up():
            yield from self._settle(key, self._with_all_tokens(key, Completion(None, reason)))

    def _settle(self, key: str, completion: Completion) -> Iterator[tuple[int, Completion]]:
        """The answer for every position that asks the same; only the first one paid for it."""
        for number, position in enumerate(self.ledger.settle(key)):
            yield position, completion if number == 0 else replace(completion, cached=True)

    def _drop_strays(self) -> None:
        """Delete files of parts that are not in the ledger: half written when a process died, or done with."""
        known = self.ledger.part_ids()
        for path in self.folder.iterdir():
            if path.name.split(".")[0] not in known:
                path.unlink(missing_ok=True)
