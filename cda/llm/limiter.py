"""Rates: requests and tokens a minute, a cool-down of all workers together, and waits that a server's headers ask for."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_EPOCH = 1e9
"""Larger numbers are points in time, not durations."""
_LONGEST_S = 365 * 86_400.0
_LONGEST_CHARACTERS = 100
"""Over a longer row of digits the pattern would run for minutes."""
LOOK_AGAIN_S = 0.02
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
"""The longest pause that we choose ourselves; a server may ask for a longer one."""


@dataclass(slots=True)
class Bucket:
    """A token bucket of one second's worth (a minute's would allow twice the limit in the first minute) that may go
    into debt, so that calls are served in order and large amounts are not starved: the level at second `at` is then
    negative.
    """

    per_minute: float
    at: float
    level: float = float("inf")

    def take(self, amount: float, now: float) -> float:
        """Take an amount; gives the seconds to wait before it may be used."""
        self.level = min(self._most, self.level + (now - self.at) * self.per_minute / 60)
        self.at = now
        wait = max(0.0, min(amount, self._most) - self.level) * 60 / self.per_minute
        self.level -= amount
        return wait

    @property
    def _most(self) -> float:
        return max(1.0, self.per_minute / 60)


@dataclass(frozen=True, slots=True)
class Turn:
    """Permission for one call: its time and its number of tokens."""

    started: float
    tokens: int


class Limiter:
    """Shared by all workers; safe in several event loops and threads. Tokens are those of input and output together. A
    429 halves the number of concurrent calls; as many successes as are allowed add one, up to `concurrency`.
    """

    def __init__(
        self,
        concurrency: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.concurrency = concurrency
        self.allowed = float(concurrency)
        self.in_flight = 0
        self._requests, self._tokens = (
            None if per_minute is None else Bucket(per_minute, clock())
            for per_minute in (requests_per_minute, tokens_per_minute)
        )
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._paused_until = clock()
        self._halved_at = float("-inf")
        self._in_a_row = 0

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[Turn]:
        """Wait for leave to make one call of about so many tokens; the leave ends with the block."""
        while (wait := self._enter()) > 0:
            await self._sleep(wait)
        try:
            wait = self._take(tokens)
            while wait > 0:
                await self._sleep(wait)
                with self._lock:
                    wait = self._paused_until - self._clock()
            yield Turn(self._clock(), tokens)
        finally:
            with self._lock:
                self.in_flight -= 1

    def succeeded(self, turn: Turn, tokens: int) -> None:
        """The call was answered and used so many tokens; 0: unknown."""
        with self._lock:
            self._in_a_row = 0
            self.allowed = min(self.concurrency, self.allowed + 1 / self.allowed)
            if self._tokens is not None and tokens:
                self._tokens.level += turn.tokens - tokens

    def throttled(self, turn: Turn, wait_s: float | None) -> float:
        """After an answer of 429, pause all calls and lower the number of concurrent ones; seconds of pause from now.
        Calls already under way at the last 429 do not halve the limit again. `wait_s`: pause that the server asks for;
        None or 0 if it names none, then longer each time.
        """
        with self._lock:
            now = self._clock()
            if turn.started >= self._halved_at:
                self.allowed = max(1.0, self.allowed / 2)
                self._halved_at = now
                self._in_a_row += 1
            pause_s = wait_s or min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._in_a_row - 1, 30))
            self._paused_until = max(self._paused_until, now + pause_s)
            if self._tokens is not None:
                self._tokens.level += turn.tokens
            return self._paused_until - now

    def _enter(self) -> float:
        """Take a place; gives the seconds after which to look again if there is none."""
        with self._lock:
            left = self._paused_until - self._clock()
            if left > 0:
                return left
            if self.in_flight >= int(self.allowed):
                return LOOK_AGAIN_S
            self.in_flight += 1
            return 0.0

    def _take(self, tokens: int) -> float:
        with self._lock:
            now = self._clock()
            requests = self._requests.take(1, now) if self._requests is not None else 0.0
            return max(requests, self._tokens.take(tokens, now) if self._tokens is not None else 0.0)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, at most a year; None if the headers do not say. `now`: seconds since 1970, for dates.

    Read in this order: `retry-after-ms`; `retry-after` in seconds or as a date; `x-ratelimit-reset`, `-requests` and
    `-tokens` of the limit that has nothing remaining, of all if the answer does not tell. Names in lower case.

    >>> retry_after_s({"retry-after-ms": "1500"}, 0.0), retry_after_s({"x-ratelimit-reset-tokens": "6m0s"}, 0.0)
    (1.5, 360.0)
    """
    wait_s = _asked_s(headers, now)
    return None if wait_s is None else min(wait_s, _LONGEST_S)


def _asked_s(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    asked = headers.get("retry-after")
    if asked is not None:
        seconds = _wait(asked, now)
        return seconds if seconds is not None else _until(asked, now)
    waits = {kind: _wait(headers.get(f"x-ratelimit-reset{kind}"), now) for kind in ("", "-requests", "-tokens")}
    spent = {kind for kind in waits if _number(headers.get(f"x-ratelimit-remaining{kind}")) == 0}
    known = [wait for kind, wait in waits.items() if wait is not None and (not spent or kind in spent)]
    return max(known, default=None)


def _wait(value: str | None, now: float) -> float | None:
    """Seconds from a number, or from a duration such as 1h2m3.5s or 120ms."""
    if len(value or "") > _LONGEST_CHARACTERS:
        return None
    number = _number(value)
    if number is not None:
        point = number / 1000 if number > 1000 * _EPOCH else number
        return max(0.0, point - now if point > _EPOCH else point)
    parts = _PART.findall(value or "")
    if not parts or "".join(number + unit for number, unit in parts) != (value or "").strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None  # also drops nan


def _until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
