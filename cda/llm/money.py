"""Costs and durations of calls: prices, estimates beforehand, and a budget that is never exceeded."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cda.errors import LLMError
from cda.llm.asking import Answers, Ask, Asker, answered, pause, with_progress
from cda.llm.protocol import Completion, Request

_BYTES_PER_TOKEN = 4
_FRAME_TOKENS = 16
"""Roles and marks around a system and a user text, generously."""
_LOOK_AGAIN_S = 0.02


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


@dataclass(frozen=True, slots=True)
class CallCost:
    """Estimated cost of calls; the dollars are None without a price, the seconds wall clock."""

    dollars: float | None
    seconds: float


def estimate(
    n_requests: int,
    mean_input_tokens: float,
    mean_output_tokens: float,
    price: Price | None,
    concurrency: int,
    requests_per_minute: float | None,
    seconds_per_call: float,
) -> CallCost:
    """Cost and duration of so many calls that are not in the cache, from the means of a call.

    The duration is that of the calls or of the limit on requests, whichever is longer.
    """
    dollars = n_requests * price.of(mean_input_tokens, mean_output_tokens) if price is not None else None
    by_calls = n_requests * seconds_per_call / min(concurrency, max(n_requests, 1))
    by_limit = n_requests * 60 / requests_per_minute if requests_per_minute is not None else 0.0
    return CallCost(dollars, max(by_calls, by_limit))


def tokens_of(text: str) -> int:
    """Estimated tokens of a text: one for four characters of English, more for scripts of more bytes.

    For plans, not for bills: tokenizers differ by a third either way.
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
    """A client that stops before it could spend more than its budget.

    Before each call the most it could cost is set aside: every byte of the request a token, the longest answer allowed,
    and twice that if a schema may have to be asked for again. If that does not fit next to the calls under way, it
    waits for them; if it does not fit alone, it stops. A server that reports no usage is counted by estimate.

    Args:
        llm: The client.
        price: Price of its model.
        budget_usd: Budget for everything paid from the purse; None: only counted.
        purse: By default this object's own.
    """

    llm: Asker
    price: Price
    budget_usd: float | None = None
    purse: Purse = field(default_factory=Purse)

    @property
    def name(self) -> str:
        """Model name."""
        return self.llm.name

    @property
    def concurrency(self) -> int:
        """Delegates to the client."""
        return self.llm.concurrency

    @property
    def settings(self) -> Mapping[str, Any]:
        """Delegates to the client: money decides no answer."""
        return self.llm.settings

    @property
    def spent_usd(self) -> float:
        """Dollars paid from the purse so far."""
        return self.purse.spent

    @property
    def n_calls(self) -> int:
        """Calls behind them."""
        return self.purse.n_calls

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request, as they come; see LLM.answers.

        Raises:
            LLMError: The next call could exceed the budget; or as of the client.
        """
        return with_progress(answered(self, enumerate(requests)), requests, label, total, lambda: self.spent_usd)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """A session of the client, with every call counted."""
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
        one = self.price.of(n_bytes + _FRAME_TOKENS, 1 if request.top_logprobs else self.settings["max_tokens"])
        return one if request.schema is None else 2 * one

    def _cost(self, request: Request, completion: Completion) -> float:
        if completion.input_tokens or completion.output_tokens:
            return self.price.of(completion.input_tokens, completion.output_tokens)
        if completion.text is None:
            return 0.0
        return self.price.of(request_tokens(request), tokens_of(completion.text))


def _everything(request: Request) -> str:
    schema = json.dumps(request.schema, default=dict) if request.schema is not None else ""
    return f"{request.system}\n{request.plain}\n{request.user}{schema}"
