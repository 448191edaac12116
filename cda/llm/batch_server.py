"""The server's side of the OpenAI Batch API: files, batches, and retries of calls if they may help."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cda.errors import LLMError, out_of_files
from cda.files.jsonl import open_new
from cda.llm.batch_answers import Batch, Made, OddAnswerError, Page, read
from cda.llm.ledger import on_disk
from cda.llm.limiter import retry_after_s
from cda.llm.openai_client import OpenAIClient

if TYPE_CHECKING:
    import openai

T = TypeVar("T")
_LISTED = 1000
"""Batches looked through, newest first, for one that was submitted but not recorded."""
_LONGEST_WAIT_S = 600.0
"""Between two attempts of a call, whatever the server asks for."""
_NOT_FOUND_ATTEMPTS = 3
"""Before 404 is believed: proxies answer so while the server behind them starts."""


class NotOfferedError(LLMError):
    """Status 404, 405 or 501: there is no such thing on this server."""


class AwayError(LLMError):
    """No usable answer after all attempts; another time there may be one."""


class LostError(AwayError):
    """No usable answer to a call that may have done its work all the same; hardly so if it was `denied`, by 404 or 429."""

    def __init__(self, message: str, denied: bool) -> None:
        super().__init__(message)
        self.denied = denied


class BatchServer:
    """A connection. Every method raises LLMError if trying again would not help, NotOfferedError if the server has no such
    thing, and AwayError if all attempts failed. `max_bytes`: largest input file, for a message.
    """

    def __init__(self, client: OpenAIClient, sleep: Callable[[float], None], attempts: int, max_bytes: int) -> None:
        from cda.llm.connection import Bounds, opened

        self._client, self._sleep, self._attempts, self._max_bytes = client, sleep, attempts, max_bytes
        self._endpoint, self._where = client.endpoint, client.endpoint.server
        # The package's own retries are off: a batch that is submitted twice is paid twice.
        base_url = client.settings["base_url"]
        self._bounds = Bounds(base_url, f"{client.section}.base_url")
        self._openai = opened(client.endpoint.connection_key(), base_url, client.timeout_s, self._bounds)
        self._files, self._batches = self._openai.files.with_raw_response, self._openai.batches.with_raw_response

    def close(self) -> None:
        self._openai.close()

    def uploaded(self, path: Path, n_requests: int) -> str:
        """Id of the file that the server made of this one."""

        def upload() -> str:
            # A handle, not a path: openai would read a path's 200 MB into memory.
            with path.open("rb") as file:
                made = self._files.create(file=(path.name, file, "application/jsonl"), purpose="batch")
            return read(Made, made.content, self._endpoint).id

        return self._call(upload, f"the upload of {n_requests} requests")

    def created(self, part_id: str, file_id: str) -> str:
        """Id of a new batch of an uploaded file; `part_id` is noted in it. LostError: it may be there, or not."""

        def create() -> str:
            made = self._batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"cda_part": part_id},
            )
            return read(Made, made.content, self._endpoint).id

        return self._call(create, "a batch", once=True)

    def listed(self, part_id: str, file_id: str) -> str | None:
        """Id of the batch of this part; None if it is not in the server's list."""
        last, seen = "", 0
        while seen < _LISTED:
            page = self._call(partial(self._page, last), "the list of batches")
            if (ours := next((one for one in page.data if one.is_of(part_id, file_id)), None)) is not None:
                return ours.id
            if not page.data or page.has_more is False or page.data[-1].id == last:
                break
            last, seen = page.data[-1].id, seen + len(page.data)
        return None

    def _page(self, after: str) -> Page:
        listed = self._batches.list(limit=100, after=after) if after else self._batches.list(limit=100)
        page = read(Page, listed.content, self._endpoint)
        if any(one.is_nameless for one in page.data):
            raise OddAnswerError("a batch of which nothing tells whose it is")
        return page

    def polled(self, batch_id: str) -> Batch:
        """The batch as it is now, asked once."""

        def poll() -> Batch:
            batch = read(Batch, self._batches.retrieve(batch_id).content, self._endpoint)
            if batch.id != batch_id:
                raise OddAnswerError("another batch")
            return batch

        return self._call(poll, f"the state of {batch_id}", attempts=1)

    def download(self, file_id: str, path: Path, what: str, max_bytes: int) -> None:
        """Stream a file of at most so many bytes to disk, asked once, unless it is there; it has its name only when it is whole."""

        def stream() -> None:
            partial = path.with_name(f"{path.name}.partial")
            with self._openai.files.with_streaming_response.content(file_id) as response, on_disk(partial):
                with open_new(partial, private=True) as file:
                    for chunk in response.iter_bytes(1 << 16):
                        file.write(chunk)
                partial.replace(path)

        if path.is_file():
            return
        usual, self._bounds.max_bytes = self._bounds.max_bytes, max_bytes
        try:
            self._call(stream, what, attempts=1)
        finally:
            self._bounds.max_bytes = usual

    def _call(self, action: Callable[[], T], what: str, attempts: int | None = None, once: bool = False) -> T:
        """Act, again after 404, 429, 5xx, odd answers and lost connections. `once`: only if nothing can have been done,
        else LostError."""
        import httpx2
        import openai

        wanted = attempts or self._attempts
        pause_s = 1.0
        for attempt in range(1, wanted + 1):
            wait_s, lost, denied = pause_s, once, False
            try:
                return action()
            except openai.APIStatusError as error:
                final = self._final(error, what, reads=attempts == 1)
                denied = error.status_code in (404, 429)
                if final and (error.status_code != 404 or (attempt >= min(wanted, _NOT_FOUND_ATTEMPTS) and not once)):
                    raise final from None
                problem = f"status {error.status_code}"
                wait_s = max(wait_s, min(retry_after_s(error.response.headers, time.time()) or 0.0, _LONGEST_WAIT_S))
            except LLMError as error:
                raise LLMError(f"{self._where}: {what}: {error}") from None
            except (openai.OpenAIError, httpx2.HTTPError, OddAnswerError) as error:
                if isinstance(error.__cause__, LLMError):
                    raise LLMError(f"{self._where}: {what}: {error.__cause__}") from None
                if crowded := out_of_files(error):
                    raise LLMError(crowded) from None
                problem = self._endpoint.hide(str(error.__cause__ or error) or type(error).__name__)
                lost = once and not isinstance(error.__cause__, httpx2.ConnectError)
            if attempt < wanted:
                self._sleep(wait_s)
                pause_s = min(2 * pause_s, 60.0)
            if lost:
                raise LostError(f"{self._where}: {what} was asked for, and the answer was {problem}", denied)
        times = "" if wanted == 1 else f" {wanted} times, at last"
        raise AwayError(f"{self._where}: {what} failed{times} with: {problem}")

    def _final(self, error: openai.APIStatusError, what: str, reads: bool) -> LLMError | None:
        """The error to raise if the same call would fail again; a call that only `reads` may be made again after most."""
        status, kind, key = error.status_code, LLMError, self._client.api_key_env
        if status in (401, 403):
            problem = f"the key in {key} is refused ({status})"
        elif status in (404, 405, 501):
            kind = NotOfferedError
            problem = f"{what} is not possible ({status}); the server may offer no batches: set llm.mode=calls"
        elif status == 413:
            problem = f"{what} is too large for this server (413); it takes less than {self._max_bytes} bytes"
        elif status == 402 or error.code == "insufficient_quota":
            problem = f"no money left on the account of the key in {key}"
        elif status < 500 and status not in (408, 409, 429) and not reads:
            problem = f"{what} is refused ({status}): {self._endpoint.hide(error.message)}"
        else:
            return None
        return kind(f"{self._where}: {problem}")
