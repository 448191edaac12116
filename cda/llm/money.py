"""Costs and counts of calls: prices, estimated tokens, a budget that is never exceeded, and the models that have answered."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cda.errors import LLMError
from cda.inert import inert
from cda.llm.asking import Answers, Ask, Asker, pause
from cda.llm.protocol import LLM, Completion, Request

_BYTES_PER_TOKEN = 4
_FRAME_TOKENS = 16
"""Roles and marks around a system and a user text, generously."""
_LOOK_AGAIN_S = 0.02
_VERSION = re.compile(r"[-@:_](?:\d{4}[\d-]*|v?\d{1,3})")
"""A date or number behind a model's name."""


class Price(BaseModel):
    """Dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars for so many tokens.

        >>> Price(input=1.25, output=5.0).of(1_000_000, 100_000)
        1.75
        """
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


def tokens_of(text: str) -> int:
    """Estimated tokens of a text: one for four characters of English, more for scripts of more bytes. For plans, not
    for bills: tokenizers differ by a third either way.
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def request_tokens(request: Request) -> int:
    """Estimated input tokens of a request."""
    return tokens_of(_everything(request)) + _FRAME_TOKENS


@dataclass(eq=False)
class Purse:
    """Money that several clients spend together."""

    n_calls: int = 0
    spent: float = 0.0
    set_aside: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(eq=False)
class Budgeted:
    """A client that stops before it could spend more than its budget (dollars; None: everything is only counted).

    Before each call the most it could cost is set aside: every byte of the request a token, the longest answer allowed,
    and twice that if a schema may have to be asked for again. If that does not fit next to the calls under way, it
    waits for them; if it does not fit alone, it stops. A server that reports no usage is counted by estimate.
    """

    llm: Asker
    price: Price
    budget_usd: float | None = None
    purse: Purse = field(default_factory=Purse)

    @property
    def name(self) -> str:
        return self.llm.name

    @property
    def concurrency(self) -> int:
        return self.llm.concurrency

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the client: money decides no answer."""
        return self.llm.settings

    @property
    def spent_usd(self) -> float:
        """Dollars paid from the purse so far."""
        return self.purse.spent

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """A session of the client; raises LLMError before a call that could exceed the budget."""
        async with self.llm.session() as ask:

            async def paid(request: Request) -> Completion:
                most = self._most(request)
                while not self._begin(most):
                    await pause(_LOOK_AGAIN_S)
                cost = 0.0
                try:
                    completion = await ask(request)
                    cost = self._cost(request, completion)
                finally:
                    self._end(most, cost)
                return completion

            yield paid

    def _begin(self, most: float) -> bool:
        """Set aside the most that a call could cost; False if it has to wait for calls under way."""
        purse = self.purse
        with purse.lock:
            if self.budget_usd is not None and purse.spent + purse.set_aside + most > self.budget_usd:
                if purse.set_aside > 0:
                    return False
                raise LLMError(
                    f"the budget of ${self.budget_usd:g} (llm.budget_usd) is used up: ${purse.spent:.4f} are spent on "
                    f"{purse.n_calls} calls, and the next could cost ${most:.4f}. Everything answered so far is kept: "
                    "raise the budget and start again to go on"
                )
            purse.set_aside += most
            return True

    def _end(self, most: float, cost: float) -> None:
        purse = self.purse
        with purse.lock:
            purse.set_aside = max(0.0, purse.set_aside - most)
            if purse.set_aside < 1e-12:  # what rounding leaves would be waited for without end
                purse.set_aside = 0.0
            purse.spent += cost
            purse.n_calls += 1

    def _most(self, request: Request) -> float:
        n_bytes = len(_everything(request).encode("utf-8", "replace"))
        once = self.price.of(n_bytes + _FRAME_TOKENS, 1 if request.top_logprobs else self.settings["max_tokens"])
        return once if request.schema is None else 2 * once

    def _cost(self, request: Request, completion: Completion) -> float:
        if completion.input_tokens or completion.output_tokens:
            return self.price.of(completion.input_tokens, completion.output_tokens)
        if completion.text is None:
            return 0.0
        return self.price.of(request_tokens(request), tokens_of(completion.text))


def _everything(request: Request) -> str:
    schema = json.dumps(request.schema, default=dict) if request.schema is not None else ""
    return f"{request.system}\n{request.plain}\n{request.user}{schema}"


@dataclass(slots=True)
class AnsweredBy:
    """Number of answers by the name of the model that gave them, asked for now or kept from before."""

    now: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)

    def add(self, completion: Completion) -> None:
        """Count an answer of a server that named its model."""
        if completion.model is not None:
            (self.kept if completion.cached else self.now)[completion.model] += 1

    @property
    def models(self) -> dict[str, int]:
        """Answers by model, the kept ones first."""
        return dict(self.kept + self.now)

    def notes(self, asked: str, earlier: Collection[str]) -> list[str]:
        """Sentences about answers by another model than `asked`, or than the `earlier` ones under that name."""
        notes = []
        others = [name for name in self.models if not is_version_of(name, asked)]
        if others:
            notes.append(f"{asked} was asked for, but the server says that {', '.join(map(inert, others))} answered.")
        if len(self.models) > 1:
            counts = [f"{n} by {inert(name)}" for name, n in self.models.items()]
            since = " since some were kept" if self.now and self.kept and {*self.now} != {*self.kept} else ""
            notes.append(
                f"The server has changed the model behind {asked}{since}: {', '.join(counts)}. These answers are not those of "
                "one model. Name a dated model, or have all of them asked again with llm.cache=<a new file>."
            )
        before = sorted({*earlier} - {*self.models})
        if before and self.models:
            notes.append(
                f"Asked for {asked}, the server answered earlier runs by {', '.join(map(inert, before))} and this one by "
                f"{', '.join(map(inert, self.models))}: a difference between these runs may be one between the models."
            )
        return notes


def is_version_of(name: str, asked: str) -> bool:
    """True if a server's name of a model is the one asked for, or a dated or numbered version of it.

    >>> is_version_of("gpt-4o-2024-08-06", "gpt-4o"), is_version_of("gpt-4o-mini", "gpt-4o"), is_version_of("m", "org/m")
    (True, False, True)
    """
    short, wanted = (full.rstrip("/").rpartition("/")[2].casefold().removesuffix("-latest") for full in (name, asked))
    return short.startswith(wanted) and (short == wanted or bool(_VERSION.fullmatch(short[len(wanted) :])))


@dataclass(slots=True)
class Tally:
    """Counts of one model's answers: asked for now, cached (from before, or from an identical question of the same call), and
    unusable, of either sort.

    Tokens and dollars (None without a price) are those of answers asked for now, as far as the server counted; `uncounted`
    ones have a text and no count. `models`: answers by the name of the model that gave them, if the server named it.
    """

    asked: int = 0
    cached: int = 0
    unusable: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    dollars: float | None = None
    models: Mapping[str, int] = field(default_factory=dict)

    def add(self, completion: Completion, price: Price | None) -> None:
        """Count an answer."""
        self.unusable += completion.text is None
        if completion.model is not None:
            # A new mapping: earlier states hold the old one.
            self.models = {**self.models, completion.model: self.models.get(completion.model, 0) + 1}
        if completion.cached:
            self.cached += 1
            return
        n_in, n_out = completion.input_tokens, completion.output_tokens
        self.asked += 1
        self.input_tokens += n_in
        self.output_tokens += n_out
        self.uncounted += completion.text is not None and not (n_in or n_out)
        if price is not None:
            self.dollars = (self.dollars or 0.0) + price.of(n_in, n_out)

    def since(self, earlier: Tally) -> dict[str, Any]:
        """The growth since an earlier state, as JSON; empty if there is none."""
        before, now = asdict(earlier), asdict(self)
        models = {name: n - earlier.models.get(name, 0) for name, n in now.pop("models").items()}
        moved: dict[str, Any] = {name: value - (before[name] or 0) for name, value in now.items() if value is not None}
        if answered := {name: n for name, n in models.items() if n}:
            moved["models"] = answered
        return {"dollars": None, **moved} if moved["asked"] or moved["cached"] else {}


@dataclass(frozen=True, slots=True, eq=False)
class CountedLLM:
    """An LLM whose answers are counted as they are passed on; the price is None if it is unknown."""

    llm: LLM
    tally: Tally
    price: Price | None = None

    @property
    def name(self) -> str:
        return self.llm.name

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request, as they come; see LLM.answers."""
        with closing(_generator(self.llm.answers(requests, label, total))) as answers:
            for position, completion in answers:
                self.tally.add(completion, self.price)
                yield position, completion


def _generator(answers: Iterator[tuple[int, Completion]]) -> Answers:
    """Any iterator of answers as a generator, so that closing the outer one closes the inner one."""
    yield from answers
