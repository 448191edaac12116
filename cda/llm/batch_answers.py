"""Every answer of a Batch API, checked where it enters: uploaded files, batches, lists of batches, and lines of results."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from cda.inert import inert, sendable
from cda.llm.outcome import Endpoint, Problem, problem_inside

T = TypeVar("T", bound=BaseModel)
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
_Number = Annotated[int | None, Field(ge=0), WrapValidator(_or_none)]
_MaybeMapping = Annotated[dict[str, object] | None, WrapValidator(_or_none)]
Status = Literal[
    "validating", "in_progress", "finalizing", "cancelling", "completed", "failed", "expired", "cancelled"
]  # fmt: skip


class _Answer(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Made(_Answer):
    """A file or batch that the server says it has made, by the name under which it can be asked for."""

    id: Name


class Counts(_Answer):
    """Numbers of requests, as the server counts them."""

    completed: _Number = None


class Batch(_Answer):
    """A batch as the server has it now."""

    id: Name
    status: Annotated[Status, BeforeValidator(_spelt)]
    output_file_id: _MaybeName = None
    error_file_id: _MaybeName = None
    request_counts: Annotated[Counts | None, WrapValidator(_or_none)] = None
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
        return (self.request_counts and self.request_counts.completed) or 0

    @property
    def why_unanswered(self) -> str:
        """Reason why a request of this batch may have no answer."""
        if self.status == "completed":
            return LEFT_OUT
        words = self._problem and (self._problem.message or " ".join(self._problem.names))
        return f"batch {self.status}" + (f": {_short(words)}" if words else "")

    @property
    def _problem(self) -> Problem | None:
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


def read(kind: type[T], content: bytes, endpoint: Endpoint) -> T:
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
