"""Connections of the openai package, without its retries, redirects to another host, or endless answers."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx2
import openai

from cda.errors import LLMError, out_of_files
from cda.llm.outcome import Again

MAX_ANSWER_BYTES = 16 << 20
"""Largest answer, unpacked: about ten times the longest answers of today's models."""


class TooLargeError(LLMError):
    """An answer exceeds the limit on its size."""


def own_error(error: BaseException) -> LLMError | None:
    """The LLMError within a call's error: openai passes it on unchanged or wraps it, depending on its version."""
    return next((raised for raised in (error, error.__cause__) if isinstance(raised, LLMError)), None)


def opened_async(key: str, base_url: str, timeout_s: float, setting: str) -> openai.AsyncOpenAI:
    """A connection for an event loop; see `Bounds` for `setting`. Retries are ours."""
    bounds = Bounds(base_url, setting)
    http = openai.DefaultAsyncHttpxClient(
        headers=_HEADERS, timeout=timeout_s, event_hooks={"request": [bounds.sent], "response": [bounds.received]}
    )
    return openai.AsyncOpenAI(api_key=key, timeout=timeout_s, max_retries=0, http_client=http, **_addressed(base_url))


def opened(key: str, base_url: str, timeout_s: float, bounds: Bounds) -> openai.OpenAI:
    """The same outside an event loop."""
    hooks: dict[str, list[Any]] = {"request": [bounds.check_address], "response": [bounds.bound]}
    http = openai.DefaultHttpxClient(headers=_HEADERS, timeout=timeout_s, event_hooks=hooks)
    return openai.OpenAI(api_key=key, timeout=timeout_s, max_retries=0, http_client=http, **_addressed(base_url))


def _addressed(base_url: str) -> dict[str, Any]:
    """Address and query of every call; the package itself would put its paths behind the query."""
    url = urlsplit(base_url)
    path = url.path.removesuffix("/chat/completions")
    return {
        "base_url": urlunsplit((url.scheme, url.netloc, path, "", "")),
        "default_query": dict(parse_qsl(url.query)),
    }


async def posted(
    http: Any, path: str, body: Mapping[str, Any], timeout_s: float, concurrency: str, cast_to: type[object] = str
) -> Any:
    """One attempt: an answer (its content, or httpx2.Response), an APIStatusError of another status, Again, or an LLMError.
    ConnectionRefusedError if nothing listens; LLMError, naming `concurrency`, if no more files can be opened.
    """
    try:
        # The package's own timeout is for each read, and a server that sends a byte a minute never exceeds it.
        async with asyncio.timeout(timeout_s):
            # The package's `create` checks each part of the body against its types, a quarter of a call's work here;
            # the body is ours, and the answer is read as JSON by the caller.
            return await http.post(path, body=dict(body), cast_to=cast_to)
    except openai.APIStatusError as error:
        return error
    except (openai.APITimeoutError, TimeoutError) as error:
        return Again(f"timed out after {timeout_s:g} s", lost=type(error.__cause__).__name__ == "ConnectTimeout")
    except (openai.APIConnectionError, LLMError) as error:
        if (own := own_error(error)) is not None:
            return own
        if crowded := out_of_files(error, concurrency):
            raise LLMError(crowded) from None
        if type(error.__cause__).__name__ == "ConnectError":
            raise ConnectionRefusedError(str(error.__cause__)) from None
        return Again("connection lost")


# Other packings are not unpacked.
_HEADERS = {"Accept-Encoding": "gzip"}


class Bounds:
    """Limits of a connection, as hooks of its HTTP client. A redirect to the host of `base_url`, which `setting` names,
    is followed, also from http to https. `max_bytes`, of an answer unpacked, may be changed between calls.
    """

    def __init__(self, base_url: str, setting: str, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        self.max_bytes = max_bytes
        self._base, self._setting = httpx2.URL(base_url), setting
        self._is_azure = "api-version" in self._base.params

    def check_address(self, request: httpx2.Request) -> None:
        """Raise LLMError if a redirect leads the call, with its texts, to another host. With an `api-version` in the address the server
        is Azure's, which takes a key as `api-key` and a token (a JWT) as `Authorization`, but not both.
        """
        url, base = request.url, self._base
        same = (url.scheme, url.port) == (base.scheme, base.port)
        if url.host != base.host or not (same or (base.scheme, url.scheme) == ("http", "https")):
            port = "" if url.port is None else f":{url.port}"
            raise LLMError(
                f"{base.scheme}://{base.netloc.decode('ascii', 'replace').rpartition('@')[2]}: sends calls on to "
                f"{url.scheme}://{url.host[:100]}{port}, and nothing was sent there. Where you trust it, name it in {self._setting}"
            )
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_azure and key and not key.startswith("eyJ"):
            del request.headers["authorization"]
            request.headers["api-key"] = key

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
    """A body with a limit on the bytes that are passed on or unpacked."""

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
