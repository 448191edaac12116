"""Rates, pauses and adaptive concurrency on a clock of our own, and the headers that say how long to wait."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable
from email.utils import formatdate
from typing import Any

import pytest

from cda.llm.limiter import Limiter, retry_after_s


class Clock:
    """Time that passes only while everybody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._number), done))
        await done

    def run(self, *jobs: Awaitable[Any]) -> None:
        async def all_jobs() -> None:
            tasks = [asyncio.ensure_future(job) for job in jobs]
            while not all(task.done() for task in tasks):
                for _ in range(20):
                    await asyncio.sleep(0)
                if self._sleepers:
                    self.now, _, done = heapq.heappop(self._sleepers)
                    done.set_result(None)
            for task in tasks:
                task.result()

        asyncio.run(all_jobs())


def limiter(clock: Clock, concurrency: int, **options: Any) -> Limiter:
    return Limiter(concurrency, **options, clock=clock, sleep=clock.sleep)


def asker(limit: Limiter, clock: Clock, n: int, began: list[float], tokens: int = 1, takes_s: float = 0.0) -> Any:
    async def job() -> None:
        for _ in range(n):
            async with limit.turn(tokens) as turn:
                began.append(clock.now)
                await clock.sleep(takes_s)
                limit.succeeded(turn, tokens)

    return job()


def busiest_minute(began: list[float], weight: float = 1.0) -> float:
    return max(weight * sum(start <= other < start + 60 for other in began) for start in began)


@pytest.mark.parametrize(
    ("options", "tokens", "per_request", "n"),
    [({"requests_per_minute": 30}, 1, 1, 12), ({"tokens_per_minute": 6000}, 900, 900, 4)],
    ids=["requests", "tokens, of requests larger than a second"],
)
def test_limits_a_minute_are_kept_and_used(options: dict[str, float], tokens: int, per_request: int, n: int) -> None:
    clock, began = Clock(), []
    limit = limiter(clock, 10, **options)
    clock.run(*(asker(limit, clock, n, began, tokens) for _ in range(10)))
    (most,) = options.values()
    assert busiest_minute(began, per_request) <= most * (1 + 1 / 60) + per_request
    assert clock.now == pytest.approx(10 * n * per_request / most * 60, rel=0.05)


def test_tokens_that_were_not_used_are_given_back() -> None:
    clock = Clock()
    limit = limiter(clock, 1, tokens_per_minute=6000)

    async def job() -> None:
        for _ in range(20):
            async with limit.turn(3000) as turn:
                limit.succeeded(turn, 300)

    clock.run(job())
    assert clock.now < 20 * 300 / 6000 * 60 + 35


def test_a_429_pauses_everybody_halves_once_for_calls_under_way_and_successes_bring_it_back_one_by_one() -> None:
    clock, began = Clock(), []
    limit = limiter(clock, 16)

    async def job(number: int) -> None:
        async with limit.turn(1) as turn:
            await clock.sleep(0.1 + number / 1000)
            limit.throttled(turn, 20.0)
        async with limit.turn(1):
            began.append(clock.now)
            await clock.sleep(1.0)

    async def again() -> None:
        async with limit.turn(1) as turn:
            limit.throttled(turn, 1.0)

    clock.run(*(job(number) for number in range(16)))
    assert min(began) >= 20.1
    assert limit.allowed == 8
    assert max(sum(start <= other < start + 0.9 for other in began) for start in began) == 8
    clock.run(again())
    assert limit.allowed == 4
    clock.run(asker(limit, clock, 4, began))
    assert 4.8 < limit.allowed <= 5
    clock.run(asker(limit, clock, 200, began))
    assert limit.allowed == 16 and limit.in_flight == 0


def test_a_cancelled_turn_gives_its_place_back() -> None:
    async def job() -> None:
        limit = Limiter(1, requests_per_minute=1)
        async with limit.turn(1):
            pass
        waiting = asyncio.create_task(hold(limit))
        await asyncio.sleep(0.01)
        assert limit.in_flight == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert limit.in_flight == 0

    async def hold(limit: Limiter) -> None:
        async with limit.turn(1):
            raise AssertionError("a second call within the minute")

    asyncio.run(job())


NOW = 1_800_000_000.0
RESETS = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-requests")
HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0.25"}, 0.25),
    ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90.0),
    ({"retry-after": formatdate(NOW - 90, usegmt=True)}, 0.0),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "9", "retry-after-ms": "1250"}, 1.25),
    ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
    (dict(zip(RESETS, ("120ms", "1h", "0"), strict=True)), 0.12),
    ({"x-ratelimit-reset-tokens": "1m2.5s"}, 62.5),
    ({"x-ratelimit-reset-requests": str(int(NOW + 30))}, 30.0),
    ({"x-ratelimit-reset-requests": str(int(1000 * (NOW + 30)))}, 30.0),
    ({"x-ratelimit-reset-requests": "tomorrow"}, None),
    ({"retry-after": "2", "x-ratelimit-reset-requests": "8s"}, 2.0),
]


@pytest.mark.parametrize(("headers", "seconds"), HEADERS, ids=str)
def test_the_wait_a_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == (None if seconds is None else pytest.approx(seconds))
