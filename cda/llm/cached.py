"""An LLM that asks only questions that are not in the cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from typing import Any

from cda.llm.asking import GRACE_S, Answers, Ask, Asker, answered, pause, with_progress
from cda.llm.cache import Cache, Claim, key_of
from cda.llm.protocol import Completion, Request

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.02, 0.5
"""Between two looks for the answer of another run."""


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
