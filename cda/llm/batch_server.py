"""The Batch API of a server: its answers, each checked where it enters, and the calls that give them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from cda.errors import LLMError, out_of_files
from cda.files.jsonl import open_new
from cda.inert import inert, sendable
from cda.llm.ledger import on_disk
from cda.llm.limiter import retry_after_s
from cda.llm.openai_client import OpenAIClient
from cda.llm.outcome import Endpoint, ErrorBody, problem_inside

if TYPE_CHECKING:
    import openai


Kind = TypeVar("Kind", bound=BaseModel)
_SHOWN_CHARACTERS = 160
_SPELLINGS = {"canceled": "cancelled", "canceling": "cancelling"}
LEFT_OUT = "left out of the batch's results"
_QUEUE_FULL = "token_limit_exceeded"
"""Error code of a batch that came while too many others wait; it may come again once they are through."""


class OddAnswerError(ValueError):
    """An answer that is not what was asked for; its words say what came instead."""


def _or_none(value: object, check: ValidatorFunctionWrapHandler) -> Any:
    """A field that the work can do without: one of another form counts as absent."""
    try:
        return check(value)
    except ValidationError:
        return None


def _spelt(value: object) -> object:
    """A status in small letters and British spelling."""
    word = value.strip().casefold() if isinstance(value, str) else value
    return _SPELLINGS.get(word, word) if isinstance(word, str) else word


Name = Annotated[str, Field(min_length=1, max_length=500)]
_MaybeName = Annotated[Name | None, WrapValidator(_or_none)]
_MaybeMapping = Annotated[dict[str, object] | None, WrapValidator(_or_none)]
Status = Literal[
    "validating", "in_progress", "finalizing", "cancelling", "completed", "failed", "expired", "cancelled"
]  # fmt: skip


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class MadeOnServer(_Answer):
    """A file or batch that the server says it has made, by the name under which it can be asked for."""

    id: Name


class Batch(_Answer):
    """A batch as the server has it now."""

    id: Name
    status: Annotated[Status, BeforeValidator(_spelt)]
    output_file_id: _MaybeName = None
    error_file_id: _MaybeName = None
    request_counts: _MaybeMapping = None
    errors: object = None

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed", "expired", "cancelled")

    @property
    def is_queue_full(self) -> bool:
        """It failed because the account has too many requests waiting."""
        return self.status == "failed" and (problem := self._problem) is not None and _QUEUE_FULL in problem.names

    @property
    def n_completed(self) -> int:
        """Requests that the server says it has answered; 0 if it does not say."""
        completed = (self.request_counts or {}).get("completed")
        return completed if isinstance(completed, int) and not isinstance(completed, bool) and completed > 0 else 0

    @property
    def why_unanswered(self) -> str:
        """Reason why a request of this batch may have no answer."""
        if self.status == "completed":
            return LEFT_OUT
        words = self._problem and (self._problem.message or " ".join(self._problem.names))
        return f"batch {self.status}" + (f": {_short(words)}" if words else "")

    @property
    def _problem(self) -> ErrorBody | None:
        listed = self.errors.get("data", self.errors) if isinstance(self.errors, dict) else self.errors
        return problem_inside({"errors": listed})


class Listed(_Answer):
    """A batch in a list: what tells whose it is."""

    id: Name
    status: object = None
    input_file_id: _MaybeName = None
    metadata: _MaybeMapping = None

    def is_of(self, part_id: str, file_id: str) -> bool:
        """True if it was made of this part, and did not fail at once."""
        ours = (self.metadata or {}).get("cda_part") == part_id or self.input_file_id == file_id
        return ours and self.status != "failed"

    @property
    def is_nameless(self) -> bool:
        """Nothing tells of which file it was made, so that it may be anybody's."""
        return self.input_file_id is None and "cda_part" not in (self.metadata or {})


class Page(_Answer):
    """One page of a list of batches."""

    data: list[Listed]
    has_more: object = None


class Response(_Answer):
    """The answer to one request; of an odd number as its status, the body tells what it is."""

    status_code: Annotated[int | None, Field(ge=100, le=599), WrapValidator(_or_none)] = None
    body: object = None


class Line(_Answer):
    """One line of an output or error file."""

    custom_id: Name
    response: Annotated[Response | None, WrapValidator(_or_none)] = None
    error: object = None

    @property
    def is_answer(self) -> bool:
        """It holds an answer or an error, and not only a name."""
        if self.response is None:
            return bool(self.error)
        body = self.response.body
        inside = isinstance(body, dict) and (body.get("choices") or problem_inside(body))
        return bool(inside) or self.response.status_code not in (None, 200)


def read(kind: type[Kind], content: bytes, endpoint: Endpoint) -> Kind:
    """The answer in these bytes. OddAnswerError: they are something else, of which the server's own words are repeated."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        start = content[:1000].lstrip()[:1]
        what = "an empty answer" if not start else "a web page" if start == b"<" else "an answer that is not JSON"
        raise OddAnswerError(what) from None
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        problem = problem_inside(data) if isinstance(data, dict) else None
        if problem is not None:
            raise OddAnswerError(f"an error instead: {_short(endpoint.hide(problem.message))}") from None
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        found = _short(endpoint.hide(json.dumps(first["input"] if place and first["type"] != "missing" else data)))
        raise OddAnswerError(f"an answer without a usable '{place}': {found}" if place else f"{found} alone") from None


def _short(words: str) -> str:
    return inert(" ".join(sendable(words).split()))[:_SHOWN_CHARACTERS].rstrip(" .")


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
            return read(MadeOnServer, made.content, self._endpoint).id

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
            return read(MadeOnServer, made.content, self._endpoint).id

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
