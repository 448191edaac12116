"""How long a server asks to wait, from the headers of its answer."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import openai

from cda.errors import LLMError
from cda.inert import sendable as sendable
from cda.llm.protocol import Request
from cda.llm.structured import response_format

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_EPOCH = 1e9
"""Numbers beyond this are points in time, not durations."""


_LONGEST_S = 365 * 86_400.0
"""More is not told apart from this."""
_LONGEST = 100
"""Characters of a wait; over a longer row of digits the pattern would run for minutes."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait; None where the headers do not say.

    Read in this order: `retry-after-ms`; `retry-after` in seconds or as a date; `x-ratelimit-reset-requests` and
    `-tokens` of whichever limit has nothing remaining, of both where that is not said.

    Args:
        headers: With names in lower case, or insensitive to it.
        now: Seconds since 1970, for dates.

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
    waits = {kind: _wait(headers.get(f"x-ratelimit-reset-{kind}"), now) for kind in ("requests", "tokens")}
    spent = {kind for kind in waits if _number(headers.get(f"x-ratelimit-remaining-{kind}")) == 0}
    known = [wait for kind, wait in waits.items() if wait is not None and (not spent or kind in spent)]
    return max(known, default=None)


def _wait(value: str | None, now: float) -> float | None:
    """Seconds from a number, or from a duration such as 1h2m3.5s or 120ms."""
    if len(value or "") > _LONGEST:
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


_OPTIONAL = ("max_completion_tokens", "temperature", "seed")


class Parameters:
    """What is sent with each call; learns from rejections.

    Args:
        model: Model name.
        max_tokens: Longest answer; sent as `max_completion_tokens`, or as `max_tokens` to servers that only know that.
        temperature: Left out where the model rejects it.
        seed: None: not sent. Sample k of a request is asked for with seed + k, or all samples would be the same.
        say: Told once of each parameter that is given up.
    """

    def __init__(
        self, model: str, max_tokens: int, temperature: float, seed: int | None, say: Callable[[str], None]
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._seed = seed
        self._say = say
        self._given_up: set[str] = set()

    def body(self, request: Request) -> dict[str, object]:
        """Arguments of a chat completion."""
        longest = 1 if request.top_logprobs else self._max_tokens
        body: dict[str, object] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": sendable(request.system)},
                {"role": "user", "content": sendable(request.user)},
            ],
            "max_completion_tokens": longest,
            "temperature": 0.0 if request.top_logprobs else self._temperature,
        }
        if self._seed is not None:
            body["seed"] = self._seed + request.sample
        if request.schema is not None:
            body["response_format"] = response_format(request.schema)
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        for name in self._given_up:
            body.pop(name, None)
        if "max_completion_tokens" in self._given_up:
            body["max_tokens"] = longest
        return body

    def give_up(self, sent: Mapping[str, object], param: str | None, message: str) -> bool:
        """Leave out from now on what a rejection names; False where it names nothing that was sent and can be left out.

        Args:
            sent: Body of the rejected call.
            param: The rejection's own `param`; trusted where there is one.
            message: Searched otherwise.
        """
        name = _named(param, message)
        if name is None or name not in sent:
            return False
        if name not in self._given_up:
            self._given_up.add(name)
            instead = "'max_tokens' is sent instead" if name == "max_completion_tokens" else "it is not sent any more"
            self._say(f"{self._model} does not take '{name}': {instead}")
        return True


def _named(param: str | None, message: str) -> str | None:
    if param:
        return param if param in _OPTIONAL else None
    # Servers may repeat the whole request further on, prompt and all.
    start = message[:300]
    return next((name for name in _OPTIONAL if re.search(rf"(?<!\w){name}(?!\w)", start)), None)


MAX_ANSWER_BYTES = 16 << 20
"""Of one answer, unpacked: some ten times what the longest answers of today's models take."""


class TooLargeError(LLMError):
    """An answer of more bytes than are read."""


def own_error(error: BaseException) -> LLMError | None:
    """The error of ours in one that was raised by a call: openai passes it on as it is, or wraps it, by version."""
    return next((one for one in (error, error.__cause__) if isinstance(one, LLMError)), None)


def opened_async(key: str, base_url: str, timeout_s: float, setting: str) -> openai.AsyncOpenAI:
    """A connection for an event loop; see `Bounds` for `setting`. Retries are ours."""
    bounds = Bounds(base_url, setting)
    http = openai.DefaultAsyncHttpxClient(
        headers=_HEADERS, timeout=timeout_s, event_hooks={"request": [bounds.sent], "response": [bounds.received]}
    )
    return openai.AsyncOpenAI(api_key=key, base_url=base_url, timeout=timeout_s, max_retries=0, http_client=http)


def opened(key: str, base_url: str, timeout_s: float, bounds: Bounds) -> openai.OpenAI:
    """The same outside an event loop."""
    hooks: dict[str, list[Any]] = {"request": [bounds.check_address], "response": [bounds.bound]}
    http = openai.DefaultHttpxClient(headers=_HEADERS, timeout=timeout_s, event_hooks=hooks)
    return openai.OpenAI(api_key=key, base_url=base_url, timeout=timeout_s, max_retries=0, http_client=http)


# What is packed in another way is not unpacked.
_HEADERS = {"Accept-Encoding": "gzip"}


class Bounds:
    """What a connection keeps to, as hooks of its HTTP client.

    Args:
        base_url: Where all calls go. A redirect to the same host is followed, and from http to https.
        setting: Names the address in messages.
        max_bytes: Of one answer, unpacked; may be changed between calls.
    """

    def __init__(self, base_url: str, setting: str, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        self.max_bytes = max_bytes
        self._base, self._setting = httpx2.URL(base_url), setting

    def check_address(self, request: httpx2.Request) -> None:
        """Raise LLMError where a redirect leads the call, texts and all, to somebody else."""
        url, base = request.url, self._base
        same = (url.scheme, url.port) == (base.scheme, base.port)
        if url.host != base.host or not (same or (base.scheme, url.scheme) == ("http", "https")):
            port = "" if url.port is None else f":{url.port}"
            raise LLMError(
                f"{base.scheme}://{base.netloc.decode('ascii', 'replace').rpartition('@')[2]}: sends calls on to "
                f"{url.scheme}://{url.host[:100]}{port}, and nothing was sent there. Where you trust it, name it in {self._setting}"
            )

    def bound(self, response: httpx2.Response) -> None:
        """Have the body read and unpacked within the limit, whatever the headers say."""
        packed = response.headers.pop("content-encoding", "").strip().casefold() in ("gzip", "x-gzip")
        response.headers.pop("content-length", None)
        response.stream = _Body(response.stream, self.max_bytes, packed)

    async def sent(self, request: httpx2.Request) -> None:
        """`check_address` for an event loop."""
        self.check_address(request)

    async def received(self, response: httpx2.Response) -> None:
        """`bound` for an event loop."""
        self.bound(response)


class _Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body of which no more than so many bytes are handed on or unpacked."""

    def __init__(self, stream: Any, max_bytes: int, packed: bool) -> None:
        self._stream = stream
        self._left = self._max_bytes = max_bytes
        self._unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if packed else None

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield self._within(chunk)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield self._within(chunk)

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _within(self, chunk: bytes) -> bytes:
        try:
            plain = chunk if self._unpack is None else self._unpack.decompress(chunk, self._left + 1)
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None
        self._left -= len(plain)
        if self._left < 0:
            raise TooLargeError(f"the answer is larger than {self._max_bytes:,} bytes")
        return plain
