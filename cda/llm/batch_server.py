"""The server's side of the OpenAI Batch API: files, batches, and retries of calls if they may help."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cda.errors import LLMError, out_of_files
from cda.files.jsonl import open_new
from cda.llm.ledger import on_disk
from cda.llm.limiter import retry_after_s
from cda.llm.openai_client import OpenAIClient

if TYPE_CHECKING:
    import openai
    from openai.types import Batch, BatchError

T = TypeVar("T")
ENDED = ("completed", "failed", "expired", "cancelled")
_QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch that came while too many others wait; it may come again once they are through."""
_LISTED = 1000
"""Batches looked through, newest first, for one that was submitted but not recorded."""
_LONGEST_WAIT_S = 600.0
"""Between two attempts of a call, whatever the server asks for."""


class NotOfferedError(LLMError):
    """Status 404, 405 or 501: there is no such thing on this server."""


class AwayError(LLMError):
    """No usable answer after all attempts; another time there may be one."""


class BatchServer:
    """A connection. Every method raises LLMError if trying again would not help, NotOfferedError if the server has no such
    thing, and AwayError if all attempts failed. `max_bytes`: largest input file, for a message.
    """

    def __init__(self, client: OpenAIClient, sleep: Callable[[float], None], attempts: int, max_bytes: int) -> None:
        from cda.llm.connection import Bounds, opened

        self._client, self._sleep, self._attempts, self._max_bytes = client, sleep, attempts, max_bytes
        self._where = client.endpoint.server
        # The package's own retries are off: a batch that is submitted twice is paid twice.
        base_url = client.settings["base_url"]
        self._bounds = Bounds(base_url, f"{client.section}.base_url")
        self._openai = opened(client.endpoint.connection_key(), base_url, client.timeout_s, self._bounds)

    def close(self) -> None:
        self._openai.close()

    def uploaded(self, path: Path, n_requests: int) -> str:
        """Id of the file that the server made of this one."""

        def upload() -> str:
            # A handle, not a path: openai would read a path's 200 MB into memory.
            with path.open("rb") as file:
                made = self._openai.files.create(file=(path.name, file, "application/jsonl"), purpose="batch")
            return _with_id(made).id

        return self._call(upload, f"the upload of {n_requests} requests")

    def created(self, part_id: str, file_id: str) -> Batch:
        """A batch of an uploaded file; `part_id` is noted in it."""

        def create() -> Batch:
            made = self._openai.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"cda_part": part_id},
            )
            return _with_id(made)

        # The answer may be lost and the batch run all the same.
        return self._call(create, "a batch", look=lambda: self.listed(part_id, file_id))

    def listed(self, part_id: str, file_id: str) -> Batch | None:
        """The batch of this part, if the server lists batches and has one."""

        def find() -> Batch | None:
            for batch in itertools.islice(self._openai.batches.list(limit=100), _LISTED):
                ours = (batch.metadata or {}).get("cda_part") == part_id or batch.input_file_id == file_id
                if ours and batch.status != "failed":
                    return batch
            return None

        try:
            return self._call(find, "the list of batches")
        except NotOfferedError:
            return None

    def polled(self, batch_id: str) -> Batch | None:
        """The batch as it is now, asked once; None if the server knows it no longer."""
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
        """Act, again after 429, 5xx and lost connections. `look` may find that a lost attempt did its work."""
        import httpx2
        import openai

        wanted = attempts or self._attempts
        pause_s = 1.0
        for attempt in range(1, wanted + 1):
            wait_s = pause_s
            try:
                return action()
            except openai.APIStatusError as error:
                if final := self._final(error, what):
                    raise final from None
                problem = f"status {error.status_code}"
                wait_s = max(wait_s, min(retry_after_s(error.response.headers, time.time()) or 0.0, _LONGEST_WAIT_S))
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
            if look is not None and (done := look()) is not None:
                return done
        raise AwayError(f"{self._where}: {what} failed {wanted} times, at last with: {problem}")

    def _final(self, error: openai.APIStatusError, what: str) -> LLMError | None:
        """The error to raise if the same call would fail again."""
        status, kind, key = error.status_code, LLMError, self._client.api_key_env
        if status in (401, 403):
            problem = f"the key in {key} is refused ({status})"
        elif status in (404, 405, 501):
            kind = NotOfferedError
            problem = f"{what} is not possible ({status}); the server may offer no batches: ask without them"
        elif status == 413:
            problem = f"{what} is too large for this server (413); it takes less than {self._max_bytes} bytes"
        elif status == 402 or error.code == "insufficient_quota":
            problem = f"no money left on the account of the key in {key}"
        elif status < 500 and status not in (408, 409, 429):
            problem = f"{what} is refused ({status}): {self._client.endpoint.hide(error.message)}"
        else:
            return None
        return kind(f"{self._where}: {problem}")


def is_queue_full(batch: Batch) -> bool:
    """True if it failed because the account has too many requests waiting."""
    return batch.status == "failed" and _QUEUE_FULL in [problem.code for problem in _problems(batch)]


def why_unanswered(batch: Batch | None) -> str:
    """Reason why a request of this batch may have no answer."""
    if batch is None:
        return "the server does not know the batch any more"
    if batch.status == "completed":
        return "left out of the batch's results"
    words = [problem.message or problem.code or "" for problem in _problems(batch)]
    return f"batch {batch.status}" + (f": {words[0]}" if words and words[0] else "")


def _problems(batch: Batch) -> list[BatchError]:
    return (batch.errors.data if batch.errors else None) or []


def _with_id(made: T) -> T:
    """A file or batch that the server says it has made; ValueError if it has no id, by which it could be asked for later."""
    name = getattr(made, "id", None)
    if not isinstance(name, str) or not name:
        raise ValueError("an answer without an id")
    return made
