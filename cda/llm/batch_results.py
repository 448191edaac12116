"""The answers in the result files of a batch: read, paid, kept, handed out; and the reasons of those that are missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from cda.errors import LLMError
from cda.llm.batch_server import LEFT_OUT, Line, OddAnswerError, Response, read
from cda.llm.cache import Cache
from cda.llm.ledger import BatchPart, Ledger
from cda.llm.money import Account
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
from cda.llm.protocol import FILTERED, Completion, json_of


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
