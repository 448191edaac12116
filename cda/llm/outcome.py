"""The outcome of one attempt, read from the server's answer or the error: an answer, try again, slow down, or stop."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cda.errors import LLMError
from cda.inert import inert, sendable
from cda.llm.limiter import retry_after_s
from cda.llm.protocol import CUT_OFF, EMPTY, FILTERED, REFUSED, TOO_LONG, Completion, unfinished

_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size|limit)|maximum context|too many (input )?tokens|prompt is too long|"
    r"input is too long|reduce the length of the messages",
    re.IGNORECASE,
)
_SHORT_CHARACTERS = 160
_SECRET_CHARACTERS = 12
_LARGEST = sys.float_info.max
_MOST_TOKENS = 10**9
_SHORT_FINISH = 40
_LONGEST_NAME = 200
# OpenAI's words, and those of other servers with its API.
_WHOLE = ("stop", "stop_sequence", "end_turn", "eos", "eos_token")
_CUT = ("length", "max_tokens", "max_output_tokens", "model_length")


@dataclass(frozen=True, slots=True)
class Again:
    """Worth another try, which counts. `lost`: there was no connection at all. Tokens as the server counted them."""

    reason: str
    wait_s: float | None = None
    lost: bool = False
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too fast: all calls wait, and this one is repeated without counting as an attempt."""

    wait_s: float | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request is not accepted as it is; `completion` is the failure to report if nothing in it can be changed."""

    param: str | None
    message: str
    completion: Completion

    @property
    def names_logprobs(self) -> bool:
        """The server gives no token probabilities."""
        # Servers may repeat the whole request further on, prompt and all.
        return "logprobs" in (self.param or self.message[:300])


Outcome = Completion | Again | Throttled | Rejected


def without_key(text: str, key: str) -> str:
    """A text of the server's, to be shown: it may repeat the key that it was sent."""
    return text.replace(key, "***") if key else text


def without_secret(text: str, key: str) -> str:
    """The same of a text to be worked with, in which a short key stays: it is no secret, but a word (`none`, `EMPTY`)."""
    return without_key(text, key) if len(key) >= _SECRET_CHARACTERS else text


def keyless(completion: Completion, key: str) -> Completion:
    """An answer to be kept, without the key that the server may have repeated in it."""
    return replace(
        completion,
        text=completion.text and without_secret(completion.text, key),
        logprobs=completion.logprobs
        and tuple((without_secret(word, key), value) for word, value in completion.logprobs),
        model=completion.model and without_secret(completion.model, key),
    )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, as messages may name it, and its key."""

    server: str
    """Address without any credentials."""
    model: str
    key_env: str
    """Environment variable that holds the key."""
    setting: str = ""
    """The setting that names that variable, such as ` (llm.api_key_env)`, for messages."""

    @property
    def key(self) -> str:
        return os.environ.get(self.key_env, "").strip()

    def connection_key(self) -> str:
        """The key for a connection; a server without a key asks for none, but the openai package wants one."""
        key = self.key or "none"
        if not key.isascii() or not key.isprintable():
            raise LLMError(f"the environment variable {self.key_env} holds characters that no key has{self.setting}")
        return key

    def hide(self, text: str) -> str:
        """Take the key out of a text that is shown."""
        return without_key(text, self.key)


def of_content(content: str | bytes, one_token: bool = False) -> Outcome:
    """Outcome of an answer with status 200; `one_token` as in answer_in."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return Again("status 200 with invalid JSON")
    if not isinstance(data, dict) or not isinstance(data.get("choices"), list):
        return Again("status 200 without choices")
    return answer_in(data, one_token)


def answer_in(data: Mapping[str, object], one_token: bool = False) -> Completion | Again:
    """The answer in a chat completion object, the reason why there is none, or Again if the server broke off. A text is
    whole only if the model ended it, by the finish reason, if any; the early end of `one_token` is no fault.
    """
    choices = data.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message = _mapping(choice.get("message"))
    content = message.get("content")
    finish = choice.get("finish_reason", "stop")
    word = finish.casefold() if isinstance(finish, str) else ""
    usage = _mapping(data.get("usage"))
    used = tokens_counted(usage.get("prompt_tokens")), tokens_counted(usage.get("completion_tokens"))
    answer = Completion(None, None, *used, model=_model(data))
    if message.get("refusal"):
        return replace(answer, reason=REFUSED)
    if word.startswith("content_filter"):
        return replace(answer, reason=FILTERED)
    if (broken := _broken_off(data, choice, finish)) is not None:
        return Again(unfinished(broken), None, False, *used)
    text, logprobs = _text(content).strip(), _first_logprobs(choice) if one_token else None
    if logprobs is not None:
        return replace(answer, text=text, logprobs=logprobs)
    if word in _CUT and not one_token:
        return replace(answer, reason=CUT_OFF)
    if not isinstance(content, str | list):
        return Again(unfinished("no content"), None, False, *used)
    return replace(answer, text=text) if text else replace(answer, reason=EMPTY)


def _broken_off(data: Mapping[str, object], choice: Mapping[str, object], finish: object) -> str | None:
    """Reason why an answer is not whole; None if nothing says so."""
    if data.get("error") or choice.get("error"):
        return "an error inside the answer"
    if not choice:
        return "no choice"
    if finish is None:
        return "no finish reason"
    if isinstance(finish, str) and finish.casefold() in (*_WHOLE, *_CUT):
        return None
    return f"finish reason '{inert(sendable(str(finish)))[:_SHORT_FINISH]}'"


def tokens_counted(value: object) -> int:
    """A number of tokens as a server gives it; 0, not counted, for anything else."""
    counted = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS
    return value if counted else 0  # type: ignore[return-value]


def of_status(status: int, headers: Mapping[str, str], content: bytes, endpoint: Endpoint) -> Outcome:
    """Outcome of an answer with any other status; raises LLMError if no call can succeed: key, model, quota."""
    problem = _problem(content)
    if status in (401, 403):
        raise LLMError(f"{endpoint.server}: the key in {endpoint.key_env} is refused ({status})")
    if status == 404:
        raise LLMError(f"{endpoint.server}: no model '{endpoint.model}' (404); check llm.model and llm.base_url")
    if status == 402 or "insufficient_quota" in (problem.code, problem.kind) or "insufficient_quota" in problem.message:
        raise LLMError(
            f"{endpoint.server}: the quota is spent ({status}); everything answered so far is kept. "
            f"Add credit to the account of the key in {endpoint.key_env} and start again"
        )
    wait = retry_after_s(headers, time.time())
    if status == 429:
        return Throttled(wait)
    if status in (408, 409) or status >= 500:
        return Again(f"status {status}", wait)
    if problem.code == "context_length_exceeded" or _CONTEXT.search(problem.message[:1000]):
        return Completion(None, TOO_LONG)
    if problem.code == "content_filter":
        return Completion(None, FILTERED)
    short = " ".join(sendable(endpoint.hide(problem.message)).split())[:_SHORT_CHARACTERS]
    failed = Completion(None, f"status {status}: {short}" if short else f"status {status}")
    return Rejected(problem.param, problem.message, failed) if status in (400, 422) else failed


@dataclass(frozen=True, slots=True)
class _Problem:
    message: str
    code: str | None = None
    kind: str | None = None
    param: str | None = None


def _problem(content: bytes) -> _Problem:
    """The problem in an error answer, in the form of OpenAI, vLLM or FastAPI, or as plain text."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return _Problem(content[:2000].decode("utf-8", "replace"))
    data = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(data, dict):
        return _Problem(str(data))
    detail = data.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        location = detail[0].get("loc")
        param = location[-1] if isinstance(location, list) and location else None
        return _Problem(str(detail[0].get("msg", "")), param=_string(param))
    message = data.get("message") or detail or ""
    return _Problem(str(message), *(_string(data.get(name)) for name in ("code", "type", "param")))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_logprobs(choice: Mapping[str, object]) -> tuple[tuple[str, float], ...] | None:
    """Candidates for the first token; None if the server gave none."""
    content = _mapping(choice.get("logprobs")).get("content")
    first = _mapping(content[0]) if isinstance(content, list) and content else {}
    listed = first.get("top_logprobs")
    candidates = []
    for candidate in map(_mapping, listed if isinstance(listed, list) else ()):
        token, logprob = candidate.get("token"), candidate.get("logprob")
        if isinstance(token, str) and isinstance(logprob, int | float) and abs(logprob) <= _LARGEST:
            candidates.append((sendable(token), float(logprob)))
    return tuple(candidates) or None


def _model(data: Mapping[str, object]) -> str | None:
    name = data.get("model")
    return sendable(name.strip())[:_LONGEST_NAME] if isinstance(name, str) and name.strip() else None


def _text(content: object) -> str:
    """The text of a message; some servers send it in parts."""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return sendable(content) if isinstance(content, str) else ""
