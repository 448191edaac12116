"""Costs and counts of calls: prices, also listed ones, a budget that holds, a plan that asks once it is exceeded, and who answered."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sized
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field

from cda.errors import LLMError, RunError
from cda.inert import inert
from cda.llm.asking import Answers, pause
from cda.llm.protocol import LLM, Completion, Request
from cda.llm.purse import Purse

_BYTES_PER_TOKEN = 4
_FRAME_TOKENS = 16
"""Roles and marks around a system and a user text, generously."""
_LOOK_AGAIN_S = 0.02
_VERSION = re.compile(r"[-@:_](?:\d{4}[\d-]*|v?\d{1,3})")
"""A date or number behind a model's name."""


class Price(BaseModel):
    """Dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars for so many tokens.

        >>> Price(input=1.25, output=5.0).of(1_000_000, 100_000)
        1.75
        """
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


OPENAI = "https://api.openai.com/v1"
FILE = Path(__file__).with_name("prices.yaml")
"""List prices of common models, by the host where they are asked: dated, and no more than a start."""


def listed_price(base_url: str | None, model: str | None) -> Price | None:
    """The list price of a model at an address, which None takes from OPENAI_BASE_URL, else OpenAI's; None if it is not listed.

    >>> listed_price(None, "gpt-4o"), listed_price("http://localhost:8000/v1", "gpt-4o")
    (Price(input=2.5, output=10.0), None)
    """
    try:
        host = urlsplit(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI).hostname
    except ValueError:
        return None
    found = _table()["hosts"].get(host, {}).get(model)
    return None if found is None else Price.model_validate(found)


def listed_on() -> str:
    """The day on which the list was read, as YYYY-MM-DD."""
    return str(_table()["read_on"])


@cache
def _table() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def tokens_of(text: str) -> int:
    """Estimated tokens of a text: one for four characters of English, more for scripts of more bytes. For plans, not
    for bills: tokenizers differ by a third either way.
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def request_tokens(request: Request) -> int:
    """Estimated input tokens of a request."""
    return tokens_of(_everything(request)) + _FRAME_TOKENS


@dataclass(slots=True)
class Bill:
    """Tokens that an attempt is counted with: none before it is sent, then the most it could use, and at last those that the
    server says it used. A server that says nothing, or only one of the two, may have billed as many as the request allowed.
    """

    most: tuple[int, int]
    """Of input and output: every byte of the request a token, and the longest answer allowed."""
    counted: tuple[int, int] = (0, 0)
    said: bool = True
    """The server has said both."""

    def sent(self) -> None:
        """It may be billed from now on."""
        self.counted, self.said = self.most, False

    def free(self) -> None:
        """It was not sent, or refused before the model was asked."""
        self.counted, self.said = (0, 0), True

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """Tokens as the server counted them; 0 for what it does not say."""
        self.said = bool(input_tokens and output_tokens)
        self.counted = (input_tokens or self.most[0], output_tokens or self.most[1])


@dataclass(frozen=True, eq=False)
class Account:
    """The money of one model's calls: its price, the budget (dollars; None: everything is only counted), and the purse.

    Before each attempt the most it could cost is set aside. If that does not fit next to the attempts under way, it waits for
    them; if it does not fit alone, it stops. So the budget is only exceeded by a server that bills more than it was allowed to,
    and then by the attempts under way.
    """

    price: Price
    budget_usd: float | None = None
    purse: Purse = field(default_factory=Purse)

    @asynccontextmanager
    async def attempt(self, request: Request, max_tokens: int) -> AsyncIterator[Bill]:
        """Room in the budget for one attempt, counted by its bill in the end. LLMError: it could exceed the budget."""
        bill = Bill((len(_everything(request).encode("utf-8", "replace")) + _FRAME_TOKENS, max_tokens))
        most = self.price.of(*bill.most)
        while (has_room := self.purse.begin(most, self.budget_usd)) is not True:
            if has_room is None:
                raise self.used_up(f"the next could cost ${most:.4f}")
            await pause(_LOOK_AGAIN_S)
        try:
            yield bill
        finally:
            cost = self.price.of(*bill.counted)
            self.purse.end(most, cost, 0.0 if bill.said else cost)

    def used_up(self, why: str) -> LLMError:
        """The error for calls that do not fit into the budget any more."""
        purse = self.purse
        since = " in all starts of this run" if purse.folder else ""
        unsaid = (
            f" (${purse.uncounted:.4f} of it at the most it could be, since the server did not say)"
            if purse.uncounted
            else ""
        )
        batches = (
            f", ${purse.in_batches:.4f} are set aside for batches under way (llm.mode=batch collects them)"
            if purse.in_batches
            else ""
        )
        return LLMError(
            f"the budget of ${self.budget_usd:g} (llm.budget_usd) is used up: ${purse.spent:.4f} are spent on {purse.n_calls} "
            f"calls{since}{unsaid}{batches}, and {why}. Everything answered so far is kept: raise the budget and start again to go on"
        )


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

    def notes(self, asked: str) -> list[str]:
        """Sentences about answers by another model than `asked`, or by several."""
        notes = []
        others = [name for name in self.models if not is_version_of(name, asked)]
        if others:
            notes.append(f"{asked} was asked for, but the server says that {', '.join(map(inert, others))} answered.")
        if len(self.models) > 1:
            counts = [f"{n} by {inert(name)}" for name, n in self.models.items()]
            notes.append(
                f"Several models answered for {asked}: {', '.join(counts)}. Name a dated model, so that all answers are of one."
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


_SHARE, _FEW = 1.5, 10
"""More calls than that share of the plan and a few exceed it: unreadable answers are asked for again."""


@dataclass(eq=False)
class Agreed:
    """Counts of one run; calls that cost nothing are not in them."""

    planned: int | None = None
    """None: the user was not asked, having agreed to everything, or up to a budget."""
    made: int = 0

    def plan(self, calls: int) -> None:
        """The user is asked about so many more."""
        self.planned = (self.planned or 0) + calls

    def again(self) -> None:
        """A call is made once more; the next one that is admitted finds out whether that exceeds the plan."""
        self.made += 1

    def admit(self) -> None:
        """Count one more call. RunError: it exceeds the plan, and the user declines or cannot be asked."""
        if self.planned is not None and self.made >= _SHARE * self.planned + _FEW:
            said = f"{self.made:,} LLM calls were made, and about {self.planned:,} were planned"
            if not sys.stdin.isatty():
                raise RunError(
                    f"{said}. What was answered is kept: start again with --yes to go on without being asked"
                )
            if input(f"  {said}. Go on? [y/N] ").strip().lower() not in ("y", "yes"):
                raise RunError(f"{said}. What was answered is kept, and nothing more was sent")
            self.planned = self.made
        self.made += 1


@dataclass(frozen=True, slots=True, eq=False)
class CountedLLM:
    """An LLM whose answers are counted as they are passed on; the price is None if it is unknown. `agreed`: its calls may not
    exceed a plan.
    """

    llm: LLM
    tally: Tally
    price: Price | None = None
    agreed: Agreed | None = None

    @property
    def name(self) -> str:
        return self.llm.name

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request, as they come; see LLM.answers. RunError: they exceed the plan."""
        if self.agreed is not None:
            total = len(requests) if total is None and isinstance(requests, Sized) else total
            requests = _admitted(requests, self.agreed)
        with closing(_generator(self.llm.answers(requests, label, total))) as answers:
            for position, completion in answers:
                self.tally.add(completion, self.price)
                if self.agreed is not None and completion.cached:
                    self.agreed.made -= 1
                yield position, completion


def _admitted(requests: Iterable[Request], agreed: Agreed) -> Iterator[Request]:
    for request in requests:
        agreed.admit()
        yield request


def _generator(answers: Iterator[tuple[int, Completion]]) -> Answers:
    """Any iterator of answers as a generator, so that closing the outer one closes the inner one."""
    yield from answers
