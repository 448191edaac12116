"""Answers through the OpenAI Batch API: half the price, within a day, and a restart picks up running batches."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cda.errors import LLMError
from cda.llm.asking import Answers, with_progress
from cda.llm.batch_server import (
    LEFT_OUT,
    AwayError,
    Batch,
    BatchServer,
    Line,
    LostError,
    NotOfferedError,
    OddAnswerError,
    Response,
    read,
)
from cda.llm.cache import Cache
from cda.llm.ledger import TRIES, BatchPart, InputFiles, Ledger, locked
from cda.llm.money import Account, Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import (
    Again,
    Endpoint,
    Outcome,
    Rejected,
    Throttled,
    of_data,
    of_status,
    problem_inside,
    tokens_used,
)
from cda.llm.protocol import FILTERED, Completion, Request, in_plain_words, json_of
from cda.llm.purse import Purse

MAX_REQUESTS = 50_000
"""Requests that a batch may hold, by OpenAI's rules."""
MAX_BYTES = 200_000_000
"""Size of an input file, by OpenAI's rules."""
LOOKS = {"away": 20, "gone": 11, "completed": 11, "failed": 3, "expired": 3, "cancelled": 3}
"""Looks at a batch, by what they find, until it is believed: no usable answer; no such batch (404); a status without a result
for every request. From the first pause on, 3 looks take 12 seconds, 11 nine minutes and 20 an hour."""
LIST_PAUSES_S = (2.0, 5.0, 15.0)
"""After each look for a batch in the server's list, which may lag behind."""
_BYTES_PER_TOKEN, _BYTES_PER_LINE = 16, 1 << 14
"""Largest result file: an escaped character takes six bytes, and a token is seldom more than two characters."""
_AGAIN = "run the same command again"


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
    resubmit: Callable[[str], bool] = lambda _: False
    """Asked, with the reason, before requests are submitted again that may have been paid for."""
    attempts: int = 6
    """At a call that is answered with 429 or 5xx or not at all."""
    price: Price | None = None
    """Of the model in batches; None: unknown."""
    purse: Purse = field(default_factory=Purse)
    budget_usd: float | None = None
    """None: everything is only counted."""
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


class BatchBill:
    """Bills of batches, paid by an account (None: no price is known). One batch is collected at a time."""

    def __init__(self, account: Account | None, max_tokens: int) -> None:
        self._account, self._max_tokens = account, max_tokens
        self._dollars, self._n_unsaid = 0.0, 0

    def begin(self, part_id: str, n_requests: int, file: Path, running: Collection[str] = ()) -> bool:
        """Set aside the most that a batch could cost, once: every byte of its file a token, and the longest answers. False: not
        before others, of the `running` ones, have ended. LLMError: it could exceed the budget.
        """
        if self._account is None or not file.is_file():
            return True
        most = self._account.price.of(file.stat().st_size, n_requests * self._max_tokens)
        has_room = self._account.purse.begin(most, self._account.budget_usd, part_id, running)
        if has_room is None:
            raise self._account.used_up(
                f"a batch of {n_requests} requests, which cannot be stopped halfway, could cost ${most:.2f} with answers of "
                f"llm.max_tokens={self._max_tokens} tokens (lower that, or use llm.mode=calls)"
            )
        return has_room

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Count a result of the batch that is collected by its tokens; 0 for what the server does not say."""
        if self._account is not None:
            self._dollars += self._account.price.of(input_tokens, output_tokens)
            self._n_unsaid += not (input_tokens and output_tokens)

    def end(self, part_id: str, n_requests: int, n_missing: int = 0) -> None:
        """Count the batch, whose results are all read; those without a count, and the missing ones that may have been answered,
        each at their share of the most.
        """
        if self._account is not None:
            purse = self._account.purse
            unsaid = purse.batch_set_aside(part_id) * (self._n_unsaid + n_missing) / n_requests
            purse.end(0.0, self._dollars + unsaid, unsaid, part_id)
        self._dollars, self._n_unsaid = 0.0, 0


MAX_LINE_BYTES = 16 << 20
"""Longest result line that is read; each such piece of a longer one counts as unreadable."""
GROUP = 64
"""Requests looked up, and answers written, together."""
_SENT = dict.fromkeys(("max_completion_tokens", "temperature", "seed"), 0)
"""Parameters of a request that a server may reject and that can be left out."""
UNSURE = ("gone", "completed")
"""Ends of batches whose missing requests may have been answered and paid for."""
NOT_HELD = "the answer does not follow its schema"


@dataclass(slots=True)
class End:
    """How a batch ended, with the result files that came. `n_lines` name a request, and `names` are those with an answer."""

    sight: str
    """Its status, or `gone`: the server does not know it."""
    reason: str
    """Why a request of it may have no answer."""
    n_completed: int = 0
    """Requests that the server says it has answered; 0 if it does not say."""
    paths: list[Path] = field(default_factory=list)
    lacks_a_file: bool = False
    n_lines: int = 0
    n_unreadable: int = 0
    names: set[str] = field(default_factory=set)

    def count(self, endpoint: Endpoint) -> End:
        """Count the results in the files."""
        for line in (line for path in self.paths for line in _lines(path, endpoint)):
            if line is None:
                self.n_unreadable += 1
            else:
                self.n_lines += 1
                self.names |= {line.custom_id} if line.is_answer else set()
        return self

    @property
    def doubt(self) -> str | None:
        """Why submitting the missing requests again may pay for them twice, or is not wanted; None if some were just left out."""
        if self.n_lines == 0:
            unreadable = f", but {self.n_unreadable:,} lines that cannot be read" if self.n_unreadable else ""
            return f"its results hold no answer{unreadable}" if self.reason == LEFT_OUT else self.reason
        if self.n_lines + self.n_unreadable < self.n_completed:
            return f"{self.n_lines:,} of {self.n_completed:,} answers came"
        return self.reason if self.sight == "cancelled" else None

    @property
    def may_lack_answers(self) -> bool:
        """Requests without a result may have been answered, and are billed then."""
        fewer = self.n_lines < self.n_completed
        return self.sight in UNSURE or self.lacks_a_file or self.n_unreadable > 0 or fewer

    def delete_files(self) -> None:
        """Have them asked for anew at the next look."""
        for path in self.paths:
            path.unlink(missing_ok=True)


def _lines(path: Path, endpoint: Endpoint) -> Iterator[Line | None]:
    """The results in a file; None for a line that is none, or not anybody's."""
    with path.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            if raw.strip():
                try:
                    yield read(Line, raw, endpoint)
                except OddAnswerError:
                    yield None


@dataclass(eq=False)
class Results:
    """Takes the answers of one part after another."""

    client: OpenAIClient
    cache: Cache
    ledger: Ledger
    bill: BatchBill
    ignored: Counter[str]
    members: dict[str, str | None] = field(init=False, default_factory=dict)
    """Of the part that is collected; see `Ledger.members`."""
    noted: dict[str, str] = field(init=False, default_factory=dict)
    """Why that part has no answer to a key."""
    billed: set[str] = field(init=False, default_factory=set)
    """Keys of that part with a result that tells what was used, or that nothing was."""
    plain: set[str] = field(init=False, default_factory=set)
    """Keys of that part for which plain words may help."""
    paid: dict[str, Completion] = field(init=False, default_factory=dict)
    """Tokens by key, those of unusable answers included: the final answer or failure carries them all."""

    @property
    def endpoint(self) -> Endpoint:
        return self.client.endpoint

    def of(self, part: BatchPart, paths: Iterable[Path]) -> Iterator[tuple[int, Completion]]:
        """Write result lines into the cache and, once safe there, hand them out; strangers and second lines are counted."""
        self.members, self.noted, self.plain, self.billed = self.ledger.members(part.id), {}, set(), set()
        group: list[tuple[str, Completion]] = []
        for line in (line for path in paths for line in _lines(path, self.endpoint)):
            if line is None:
                self.ignored["unreadable"] += 1
                continue
            key = line.custom_id
            if key not in self.members:
                self.ignored["unknown"] += 1
            elif key in self.billed and key not in self.noted:
                self.ignored["duplicate"] += 1
            else:
                answer = self._read(key, line)
                if not self.ledger.is_open(key) and self.cache.get(key) is not None:
                    continue  # an earlier run has taken it
                if isinstance(answer, str):
                    self.noted[key] = answer
                else:
                    self.noted.pop(key, None)
                    group.append((key, answer))
            if len(group) >= GROUP:
                yield from self._keep(group)
                group = []
        yield from self._keep(group)

    def _read(self, key: str, line: Line) -> Completion | str:
        """The answer or lasting failure in a result line, or the reason for one if asking again may help."""
        response = line.response
        if response is None:
            problem = problem_inside({"error": line.error})
            if problem is None or problem.told_status is None:
                self.billed |= {key} if problem else set()
                code = problem and problem.code
                return self.endpoint.hide(code or "no response").replace("_", " ")
            response = Response(body={"error": line.error})
        status, body = response.status_code or 200, response.body
        if status == 200 and not isinstance(body, dict):
            return "unreadable answer"
        try:
            if status == 200:
                outcome = of_data(body, self.endpoint)
            else:
                outcome = of_status(status, {}, json.dumps(body).encode(), self.endpoint)
        except LLMError as error:
            # One line does not end the work: the others may hold answers that are paid for.
            self.billed.add(key)
            return Completion(None, str(error))
        self._pay(key, outcome, in_answer=status == 200)
        if isinstance(outcome, Rejected):
            if not self.client.give_up_parameter(_SENT, outcome.param, outcome.message):
                if self.members[key] is None:
                    return outcome.completion
                self.plain.add(key)
            return outcome.completion.reason or ""
        if isinstance(outcome, Throttled):
            return "status 429"
        if isinstance(outcome, Again):
            return self.endpoint.hide(outcome.reason)
        return self._held(key, outcome) if status == 200 else outcome

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

    def _pay(self, key: str, outcome: Outcome, in_answer: bool) -> None:
        """Count what a request's first result was billed with, as for a call: a fault, or a text that a filter stops, may be billed."""
        used = tokens_used(outcome)
        asked = isinstance(outcome, Again) or (
            isinstance(outcome, Completion) and (in_answer or outcome.reason == FILTERED)
        )
        if key not in self.billed and (any(used) or asked):
            self.bill.add(*used)
            self.paid[key] = Completion(None, None, *used).with_tokens_of(self.paid.get(key, Completion(None)))
        self.billed.add(key)

    def _with_all_tokens(self, key: str, completion: Completion) -> Completion:
        paid = self.paid.pop(key, Completion(None))
        return replace(completion, input_tokens=paid.input_tokens, output_tokens=paid.output_tokens)

    def _keep(self, group: list[tuple[str, Completion]]) -> Iterator[tuple[int, Completion]]:
        written = [self.cache.keep(key, completion) for key, completion in group if completion.is_lasting]
        for future in written:
            future.result()
        for key, completion in group:
            yield from self._settle(key, completion)

    def given_up(self) -> Iterator[tuple[int, Completion]]:
        """Those that were tried as often as they may be, with the last reason."""
        for key, reason in self.ledger.given_up():
            yield from self._settle(key, self._with_all_tokens(key, Completion(None, reason)))

    def _settle(self, key: str, completion: Completion) -> Iterator[tuple[int, Completion]]:
        """The answer for every position that asks the same; only the first one paid for it."""
        for number, position in enumerate(self.ledger.settle(key)):
            yield position, completion if number == 0 else replace(completion, cached=True)


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
        account = Account(llm.price, llm.budget_usd, llm.purse) if llm.price is not None else None
        self.bill = BatchBill(account, llm.client.max_tokens)
        self.results = Results(llm.client, llm.cache, self.ledger, self.bill, llm.ignored)
        self.queued: set[str] = set()
        self.looks: dict[str, Counter[str]] = {}
        """By part, how often each thing was seen; see `LOOKS`."""
        self.agreed: set[str] = set()
        """Parts that may be submitted although they may be running."""
        self.pause_s = llm.first_pause_s

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
        yield from self.results.given_up()
        while parts := self.ledger.wanted_parts():
            for part in parts:
                self._advance(part)
            ended = False
            for part in self.ledger.wanted_parts():
                if (end := self._looked_at(part)) is not None:
                    yield from self._collect(part, end)
                    ended = True
            if ended:
                self.queued.clear()
                self.pause_s = self.llm.first_pause_s
            elif self.ledger.wanted_parts():
                self.llm.sleep(self.pause_s)
                self.pause_s = min(1.5 * self.pause_s, self.llm.longest_pause_s)
        self.ledger.forget_tries()
        self.llm.cache.check_unmixed()

    def _looked_at(self, part: BatchPart) -> End | None:
        """The end of a part's batch, once it is sure; None: look again later. LLMError: the server is away."""
        if part.batch_id is None:
            return None
        try:
            batch = self.server.polled(part.batch_id)
            if not batch.has_ended:
                self.looks.pop(part.id, None)
                return None
            others = any(other.batch_id and other.id != part.id for other in self.ledger.wanted_parts())
            if batch.is_queue_full and others:  # they will end, and make room for it
                self.ledger.set_state(part.id, "uploaded", batch_id=None)
                self.queued.add(part.id)
                return None
            end = self._fetched(part, batch)
        except NotOfferedError:
            end = End("gone", "the server does not know the batch any more")
        except AwayError as error:
            if self._looks(part, "away") < LOOKS["away"]:
                return None
            raise LLMError(
                f"{error}, {LOOKS['away']} times in a row. Its batch goes on; {_AGAIN} to collect it"
            ) from None
        if self.ledger.members(part.id).keys() <= end.names or self._looks(part, end.sight) >= LOOKS[end.sight]:
            return end
        end.delete_files()
        return None

    def _looks(self, part: BatchPart, sight: str) -> int:
        """Number of looks that found this, since the batch was last seen to run."""
        looks = self.looks.setdefault(part.id, Counter())
        looks[sight] += 1
        if looks[sight] == 1 and sight != "away":  # the pauses of a long run are too long for this
            self.pause_s = self.llm.first_pause_s
        return looks[sight]

    def _fetched(self, part: BatchPart, batch: Batch) -> End:
        """The end of a batch with its result files."""
        end = End(batch.status, self.endpoint.hide(batch.why_unanswered), batch.n_completed)
        most = part.n_requests * (_BYTES_PER_LINE + _BYTES_PER_TOKEN * self.llm.client.max_tokens)
        for kind, file_id in (("output", batch.output_file_id), ("error", batch.error_file_id)):
            if file_id is not None:
                path = self.folder / f"{part.id}.{kind}"
                try:
                    self.server.download(file_id, path, f"the {kind} file of {batch.id}", MAX_LINE_BYTES + most)
                    end.paths.append(path)
                except NotOfferedError:
                    end.reason, end.lacks_a_file = f"the {kind} file of the batch is gone", True
        return end.count(self.endpoint)

    def _write(self, key: str, request: Request, body: Mapping[str, object]) -> None:
        """Add a request to the input file; one with a schema also with its plain words, to ask again without it."""
        form = self.ledger.form(request.schema, request.plain) if "response_format" in body else None
        line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        self.input.add(key, json.dumps(line, default=dict).encode() + b"\n", form)

    def _advance(self, part: BatchPart) -> None:
        """Take a part from the state in which an earlier process left it to a running batch."""
        if part.state == "submitted" or part.id in self.queued:
            return
        running = [other.id for other in self.ledger.wanted_parts() if other.batch_id]
        if not self.bill.begin(part.id, part.n_requests, self.input.path(part.id), running):
            return  # asked again in the next round
        file_id = part.file_id
        if file_id is None:
            path = self.input.path(part.id)
            if not path.is_file():
                raise LLMError(
                    f"{path} is gone, and with it the requests of a batch; delete {self.ledger.path} and run again"
                )
            file_id = self.server.uploaded(path, part.n_requests)
            self.ledger.set_state(part.id, "uploaded", file_id=file_id)
        batch_id = self._created(part, file_id)
        self.ledger.set_state(part.id, "submitted", batch_id=batch_id)
        self.llm.client.say(
            f"{self.where} works on {part.n_requests} requests ({batch_id}). You may stop, and run the same command again "
            "to collect the answers"
        )

    def _created(self, part: BatchPart, file_id: str) -> str:
        """Id of the part's batch: the one that an unanswered call has made, if there is one, or a new one."""
        lost = None if part.state != "creating" else LostError(f"{self.where}: an earlier run asked for a batch", False)
        for _ in range(self.llm.attempts):
            if lost and (made := self._made(part, file_id, lost)) is not None:
                return made
            self.ledger.set_state(part.id, "creating")
            try:
                return self.server.created(part.id, file_id)
            except LostError as error:
                lost = error
            except AwayError:  # it was not reached
                self.ledger.set_state(part.id, "uploaded")
                raise
            except LLMError:
                # Refused, so nothing runs. It may be the file, which servers delete after a while: upload it anew next time.
                self.ledger.set_state(part.id, "written", file_id=None)
                raise
        hint = ""
        if lost and lost.denied:
            self.ledger.set_state(part.id, "written", file_id=None)
            hint = ", or set llm.mode=calls: the server may offer no batches"
        raise LLMError(
            f"{lost}, {self.llm.attempts} times, and no batch is known. {_AGAIN.capitalize()} to go on{hint}"
        )

    def _made(self, part: BatchPart, file_id: str, lost: LostError) -> str | None:
        """Id of the batch that a call without an answer has made; None if there is none, or the user agrees to another."""
        try:
            for pause_s in LIST_PAUSES_S:
                if (made := self.server.listed(part.id, file_id)) is not None:
                    return made
                self.llm.sleep(pause_s)
        except LLMError as error:
            if lost.denied:
                return None
            why = f"{lost}. Whether it runs {part.n_requests:,} requests, as {file_id}, cannot be looked up ({error})"
            if part.id in self.agreed:  # one agreement is to one more batch
                raise LLMError(f"{why}. {_AGAIN.capitalize()} to go on") from None
            self._ask(why)
            self.agreed.add(part.id)
            self.bill.end(
                part.id, part.n_requests, part.n_requests
            )  # the other batch, if there is one, will be billed too
            self.ledger.set_state(part.id, "uploaded")
            if not self.bill.begin(part.id, part.n_requests, self.input.path(part.id)):
                raise LLMError(f"{why}. {_AGAIN.capitalize()} once other batches have ended") from None
        return None

    def _collect(self, part: BatchPart, end: End) -> Iterator[tuple[int, Completion]]:
        """The answers of a batch that ended. Missing requests go to a new input file, or are given up with the reason;
        LLMError if that may pay twice and the user has not agreed.
        """
        before = self.llm.ignored.copy()
        yield from self.results.of(part, end.paths)
        end.delete_files()
        left = [
            key for key in self.results.members if self.ledger.is_open(key) and not self.ledger.held(key, but=part.id)
        ]
        self._tell(part, Counter(self.results.noted.get(key, end.reason) for key in left), self.llm.ignored - before)
        if left and end.doubt and (end.sight in UNSURE or any(self.ledger.tried(key) + 1 < TRIES for key in left)):
            paid = ", which may have been paid for" * (end.sight in UNSURE)
            self._ask(
                f"{self.where}: {part.batch_id}: {end.doubt} (asked {LOOKS[end.sight]} times); no answer to {len(left):,} of "
                f"its {part.n_requests:,} requests{paid}"
            )
        for key, body in self._left_out(part):
            if self.ledger.tried(key) + 1 < TRIES:
                self._rewrite(key, body)
        n_missing = len(self.results.members.keys() - self.results.billed) if end.may_lack_answers else 0
        self.bill.end(part.id, part.n_requests, n_missing)
        self.input.finish(part.id, self.results.noted, end.reason)
        self._drop_strays()
        yield from self.results.given_up()

    def _ask(self, why: str) -> None:
        """Go on if the user agrees to submit requests again, which may pay for them twice; LLMError if not."""
        if not self.llm.resubmit(why):
            raise LLMError(
                f"{why}. {_AGAIN.capitalize()} to look once more, or add llm.resubmit=yes to have them sent again"
            )

    def _tell(self, part: BatchPart, left: Counter[str], ignored: Counter[str]) -> None:
        """Say what a batch has not answered, and which result lines were of no use, if any."""
        parts = [f"no answer yet to {n:,} of {part.n_requests:,}: {reason}" for reason, n in left.most_common()]
        parts += [f"{n:,} result {'line' if n == 1 else 'lines'} ignored: {kind}" for kind, n in ignored.items()]
        if parts:
            self.llm.client.say(f"{part.batch_id}: {'; '.join(parts)}")

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
        form = self.results.members[key]
        schema, plain = (None, "") if form is None else self.ledger.form_named(form)
        system, user = (str(message["content"]) for message in sent["messages"])
        request = Request(system, user, schema, plain)
        body = self.llm.client.body(in_plain_words(request) if key in self.results.plain else request)
        if "seed" in body and "seed" in sent:
            body["seed"] = sent["seed"]  # which sample it is
        self._write(key, request, body)

    def _drop_strays(self) -> None:
        """Delete files of parts that are not in the ledger: half written when a process died, or done with."""
        known = self.ledger.part_ids()
        for path in self.folder.iterdir():
            if path.name.split(".")[0] not in known:
                path.unlink(missing_ok=True)
