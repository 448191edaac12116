"""Clients: one that answers by itself and counts its calls, and one of a server that is asked once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cda.llm.asking import Asker, answered
from cda.llm.money import Account, Price
from cda.llm.openai_client import OpenAIClient
from cda.llm.protocol import Completion, Request
from cda.llm.purse import Purse

C = TypeVar("C", bound="Stub | OpenAIClient")
SETTINGS = {"model": "m", "base_url": "http://x/v1", "temperature": 0.0, "seed": None, "max_tokens": 100}
QUESTION = Request("s", "u")
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["label"],
    "additionalProperties": False,
}


@dataclass
class Stub:
    """Answers with the user's text in capitals after some time; `reasons`: failures by the user's text."""

    usage: tuple[int, int] = (10, 2)
    concurrency: int = 4
    takes_s: float = 0.002
    name: str = "stub"
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    account: Account | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Callable[[Request], Awaitable[Completion]]]:
        yield self.ask

    @property
    def spent_usd(self) -> float | None:
        return None if self.account is None else self.account.purse.spent

    async def ask(self, request: Request) -> Completion:
        if self.account is None:
            return await self.answer(request)
        longest = 1 if request.top_logprobs else int(self.settings["max_tokens"])
        async with self.account.attempt(request, longest) as bill:
            bill.sent()
            completion = await self.answer(request)
            bill.used(completion.input_tokens, completion.output_tokens)
        return completion

    async def answer(self, request: Request) -> Completion:
        self.calls[request.user] += 1
        await asyncio.sleep(self.takes_s)
        if request.user in self.reasons:
            return Completion(None, self.reasons[request.user], self.usage[0], 0)
        return Completion(request.user.upper(), None, *self.usage)


def budgeted(client: C, price: Price, budget_usd: float | None = None, purse: Purse | None = None) -> C:
    """The client with an account."""
    return replace(client, account=Account(price, budget_usd, purse or Purse()))


def asked(*users: object) -> list[Request]:
    return [Request("s", str(user)) for user in users]


def answers(asker: Asker, requests: Iterable[Request]) -> list[Completion]:
    """Answers of a client without a cache, as they come."""
    return [completion for _, completion in answered(asker, enumerate(requests))]


def client(url: str, **options: Any) -> OpenAIClient:
    return OpenAIClient("m", url, **({"retries": 0, "backoff_s": 0.01, "say": lambda _: None} | options))
