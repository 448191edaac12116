"""The server's side of the OpenAI Batch API: files, batches, and calls tried again where that may help."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cda.errors import LLMError, out_of_files
from cda.files.jsonl import open_new
from cda.llm.connection import retry_after_s
from cda.llm.ledger import on_disk
from cda.llm.openai_client import OpenAIClient

if TYPE_CHECKING:
    from openai.types import Batch

T = TypeVar("T")
ENDED = ("completed", "failed", "expired", "cancelled")
QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch that came while too many others wait; it may come again once they are through."""
LISTED = 1000
"""Batches looked through, newest first, for one that was submitted but not recorded."""
LONGEST_WAIT_S = 600.0
"""Between two attempts of a call, whatever the server asks for."""


class NotOfferedError(LLMError):
    """Status 404, 405 or 501: there is no such thing on this server."""


class AwayError(LLMError):
    """No usable answer after all attempts; another time there may be one."""


class BatchServer:
    """A connection. Every method raises LLMError where trying again would not help, NotOfferedError where the server has no such
    thing, and AwayError where all attempts failed.

    Args:
        client: Names server and key.
        sleep: Waits so many seconds.
        attempts: Of a call that is answered with 429 or 5xx or not at all.
        max_bytes: Of an input file, for a message.
    """

    def __init__(self, client: OpenAIClient, sleep: Callable[[float], None], attempts: int, max_bytes: int) -> None:
        from cda.llm.connection import Bounds, opened

        self._client, self._sleep, self._attempts, self._max_bytes = client, sleep, attempts, max_bytes
        self._where = client.endpoint.server
        # Retries of its own are off: a batch that is submitted twice is paid twice.
        self._bounds = Bounds(client.settings["base_url"], "llm.base_url")
        self._openai = opened(_key(client.api_key_env), client.settings["base_url"], client.timeout_s, self._bounds)

    def close(self) -> None:
        self._openai.close()

    def uploaded(self, path: Path, n_requests: int) -> str:
        """Id of the file that the server made of this one."""

        def upload() -> str:
            # A handle, not a path: openai would read a path's 200 MB into memory.
            with path.open("rb") as file:
                return _named(
                    self._openai.files.create(file=(path.name, file, "application/jsonl"), purpose="batch")
                ).id

        return self._call(upload, f"the upload of {n_requests} requests")

    def created(self, part_id: str, file_id: str) -> Batch:
        """A batch of an uploaded file; `part_id` is noted in it."""

        def create() -> Batch:
            return _named(
                self._openai.batches.create(
                    input_file_id=file_id,
                    endpoint="/v1/chat/completions",
                    completion_window="24h",
                    metadata={"cda_part": part_id},
                )
            )

        # The answer may be lost and the batch run all the same.
        return self._call(create, "a batch", look=lambda: self.listed(part_id, file_id))

    def listed(self, part_id: str, file_id: str) -> Batch | None:
        """The batch of this part, where the server lists batches and has one."""

        def find() -> Batch | None:
            for batch in itertools.islice(self._openai.batches.list(limit=100), LISTED):
                ours = (batch.metadata or {}).get("cda_part") == part_id or batch.input_file_id == file_id
                if ours and batch.status != "failed":
                    return batch
            return None

        try:
            return self._call(find, "the list of batches")
        except NotOfferedError:
            return None

    def polled(self, batch_id: str) -> Batch | None:
        """The batch as it is now, asked once; None where the server knows it no longer."""
        try:
            return self._call(lambda: self._openai.batches.retrieve(batch_id), f"the state of {batch_id}", attempts=1)
        except NotOfferedError:
            return None

    def download(self, file_id: str, path: Path, what: str, max_bytes: int) -> None:
        """Stream a file of at most so many bytes to disk, unless it is there; it has its name only when it is whole."""

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
            self._call(stream, what)
        finally:
            self._bounds.max_bytes = usual

    def _call(
        self,
        action: Callable[[], T],
        what: str,
        look: Callable[[], T | None] | None = None,
        attempts: int | None = None,
    ) -> T:
        """Act, again after 429, 5xx and lost connections. `look` may find that a lost attempt did its work.

        Raises:
            LLMError: Trying again would not help.
            NotOfferedError: Status 404, 405 or 501.
            AwayError: All attempts failed.
        """
        import httpx2
        import openai

        wanted = attempts or self._attempts
        pause_s = 1.0
        for attempt in range(1, wanted + 1):
            wait_s = pause_s
            try:
                return action()
            except openai.APIStatusError as error:
                self._raise_if_final(error, what)
                problem = f"status {error.status_code}"
                wait_s = max(wait_s, min(retry_after_s(error.response.headers, time.time()) or 0.0, LONGEST_WAIT_S))
            except LLMError as error:
                raise LLMError(f"{self._where}: {what}: {error}") from None
            # ValueError: an answer that is not JSON, or names nothing; RecursionError: JSON in JSON without end.
            except (openai.APIConnectionError, httpx2.HTTPError, ValueError, RecursionError) as error:
                if isinstance(error.__cause__, LLMError):
                    raise LLMError(f"{self._where}: {what}: {error.__cause__}") from None
                if crowded := out_of_files(error):
                    raise LLMError(crowded) from None
                problem = self._client.endpoint.hide(str(error.__cause__ or error) or type(error).__name__)
            if attempt == wanted:
                break
            self._sleep(wait_s)
            pause_s = min(2 * pause_s, 60.0)
            if look is not None and (found := look()) is not None:
                return found
        raise AwayError(f"{self._where}: {what} failed {wanted} times, at last with: {problem}")

    def _raise_if_final(self, error: Any, what: str) -> None:
        """Raise where the same call would fail again."""
        status = error.status_code
        if status in (401, 403):
            raise LLMError(f"{self._where}: the key in {self._client.api_key_env} is refused ({status})") from None
        if status in (404, 405, 501):
            raise NotOfferedError(
                f"{self._where}: {what} is not possible ({status}); the server may offer no batches: ask without them"
            ) from None
        if status == 413:
            raise LLMError(
                f"{self._where}: {what} is too large for this server (413); it takes less than {self._max_bytes} bytes"
            ) from None
        if status == 402 or error.code == "insufficient_quota":
            raise LLMError(
                f"{self._where}: no money left on the account of the key in {self._client.api_key_env}"
            ) from None
        if status < 500 and status not in (408, 409, 429):
            raise LLMError(
                f"{self._where}: {what} is refused ({status}): {self._client.endpoint.hide(error.message)}"
            ) from None


def is_queue_full(batch: Batch) -> bool:
    """Whether it failed because the account has too many requests waiting."""
    codes = [one.code for one in (batch.errors.data if batch.errors else None) or []]
    return batch.status == "failed" and QUEUE_FULL in codes


def why_unanswered(batch: Batch | None) -> str:
    """Why a request of this batch may have no answer."""
    if batch is None:
        return "the server does not know the batch any more"
    if batch.status == "completed":
        return "left out of the batch's results"
    said = [one.message or one.code or "" for one in (batch.errors.data if batch.errors else None) or []]
    return f"batch {batch.status}" + (f": {said[0]}" if said and said[0] else "")


def _named(made: T) -> T:
    """A file or batch that the server says it has made.

    Raises:
        ValueError: It has no id, by which it could be asked for later.
    """
    found = getattr(made, "id", None)
    if not isinstance(found, str) or not found:
        raise ValueError("an answer without an id")
    return made


def _key(variable: str) -> str:
    """The key for the connection; a local server asks for none, but the openai package wants one.

    Raises:
        LLMError: It cannot be a key.
    """
    key = os.environ.get(variable, "").strip() or "none"
    if not key.isascii() or not key.isprintable():
        raise LLMError(f"the environment variable {variable} holds characters that no key has (llm.api_key_env)")
    return key
