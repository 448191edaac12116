"""The outcome of one attempt, read from the server's answer or the error: an answer, try again, slow down, or stop."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cda.errors import LLMError
from cda.inert import inert, sendable
from cda.keys import without_keys
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
_DEEPEST = 6
_SPENT = re.compile(
    r"insufficient[_ ](quota|balance|credit|funds)|budget_?(has been )?[_ ]?exceeded|(guardrail|workspace)_budget|key_limit|"
    r"billing_error|payment_required",
    re.IGNORECASE,
)
"""No money, whatever the status: LiteLLM and OpenRouter say it with 400, 403 or 429 too."""
_KEY = re.compile(r"api_key_invalid|invalid_api_key", re.IGNORECASE)
"""Gemini says it with 400."""
_FILTER = re.compile(r"content_filter|content_policy_violation|ResponsibleAIPolicyViolation|data_inspection_failed")
_OF_A_DAY = re.compile(r"per[-_ ]?day|daily|\b[RT]PD\b", re.IGNORECASE)
_OF_A_MINUTE = re.compile(r"per[-_ ]?min|\b[RT]PM\b", re.IGNORECASE)
_IN_WORDS = tuple(
    (status, re.compile(words, re.IGNORECASE))
    for status, words in (
        (402, _SPENT.pattern),
        (
            429,
            r"rate[-_ ]?limit|too[_ ]?many[_ ]?requests|throttl|resource[_ ](has been )?exhausted|capacity[_ ]exceeded",
        ),
        (
            401,
            r"(invalid|incorrect|missing)[_ ]?(api|subscription)?[-_ ]?key|authentication|unauthori[sz]ed|unauthenticated|not authenticated",
        ),
        (403, r"permission[_ ]?(denied|error)|forbidden"),
        (
            404,
            r"(model|deployment|endpoints?)[_ ]?not[_ ]?(found|exist)|no endpoints found|model .{0,80}not (found|exist)",
        ),
        (503, r"overloaded|unavailable|internal[_ ]?(server)?[_ ]?error|server[_ ]error|timed? ?out|upstream"),
        (400, r"invalid[_ ](request|argument)|bad[_ ]?request"),
    )
)
"""Statuses by words for errors that give no number."""
_WORDS = ("message", "detail", "msg", "error_msg", "status_msg")
_NAMES = ("code", "type", "status", "reason", "quotaId", "error_type", "limit_source")
_FLAGS = ("flagged_input", "reasons", "patterns")
"""OpenRouter's fields for a text that a moderation or a guardrail has stopped."""
_WAIT = re.compile(r"\Aretry[-_]?(after|delay)|\Ax-ratelimit", re.IGNORECASE)
_WAITS = dict.fromkeys(("retry_after", "retrydelay", "retry_after_seconds"), "retry-after")
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
    """Too fast: all calls wait, and this one is repeated without counting as an attempt. Tokens as the server counted them."""

    wait_s: float | None
    input_tokens: int = 0
    output_tokens: int = 0


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


def _keyless(value: Any, key: str) -> Any:
    """JSON of a server's answer, which is kept and shown in parts, without the key that it may repeat anywhere."""
    if isinstance(value, str):
        return without_secret(value, key)
    if isinstance(value, list):
        return [_keyless(part, key) for part in value]
    return {name: _keyless(part, key) for name, part in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, as messages may name it, and its key."""

    server: str
    """Address without any credentials."""
    model: str
    key_env: str
    """Environment variable that holds the key."""
    section: str = ""
    """The section of settings that names server and variable, such as `llm`, for messages."""

    @property
    def key(self) -> str:
        return os.environ.get(self.key_env, "").strip()

    @property
    def refused_key(self) -> str:
        """Beginning of a message that a server takes no call with this key."""
        if not self.key_env:
            return f"a key is asked for, and {self.section}.api_key_env names none"
        return f"the key in {self.key_env} is refused"

    @property
    def to_check(self) -> str:
        """End of a message about a model that is not there."""
        return f"check {'the name' if '.' in self.section else 'llm.model'} and {self.section or 'llm'}.base_url"

    def connection_key(self) -> str:
        """The key for a connection; a server without a key asks for none, but the openai package wants one."""
        key = self.key or "none"
        if not key.isascii() or not key.isprintable():
            where = f" ({self.section}.api_key_env)" if self.section else ""
            raise LLMError(f"the environment variable {self.key_env} holds characters that no key has{where}")
        return key

    def hide(self, text: str) -> str:
        """Take keys, ours and others, out of a text that is shown."""
        return without_keys(without_key(text, self.key))


def of_content(content: str | bytes, endpoint: Endpoint, one_token: bool = False) -> Outcome:
    """Outcome of an answer with status 200; `one_token` as in answer_in, errors as in of_status."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        start = content[:1000].lstrip()[:5]
        start = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
        if start.startswith("<"):
            return Again("status 200 with a web page; is the address that of the API, which mostly ends in /v1?")
        return Again(f"status 200 with {'a stream of events' if start == 'data:' else 'invalid JSON'}")
    return of_data(data, endpoint, one_token)


def of_data(data: object, endpoint: Endpoint, one_token: bool = False) -> Outcome:
    """The same of the JSON in it: an error inside is read as an answer with the error's own status."""
    try:
        data = _keyless(data, endpoint.key)
    except RecursionError:
        return Again("status 200 with invalid JSON")
    if (problem := problem_inside(data)) is not None:
        return of_problem(problem, endpoint, *_used(_mapping(data)))
    if not isinstance(data, dict) or not isinstance(data.get("choices"), list):
        return Again("status 200 without choices")
    return answer_in(data, one_token)


def answer_in(data: Mapping[str, object], one_token: bool = False) -> Completion | Again:
    """The answer in a chat completion object, the reason why there is none, or Again if the server broke off. A text is
    whole only if the model ended it, by the finish reason, if any; the early end of `one_token` is no fault.
    """
    choice = _first_choice(data)
    message = _mapping(choice.get("message"))
    content = message.get("content")
    finish = choice.get("finish_reason", "stop")
    word = finish.casefold() if isinstance(finish, str) else ""
    used = _used(data)
    answer = Completion(None, None, *used, model=_model(data))
    if message.get("refusal"):
        return replace(answer, reason=REFUSED)
    if word.startswith("content_filter"):
        return replace(answer, reason=FILTERED)
    if (broken := _broken_off(choice, finish)) is not None:
        return Again(unfinished(broken), None, False, *used)
    text, logprobs = _text(content).strip(), _first_logprobs(choice) if one_token else None
    if logprobs is not None:
        return replace(answer, text=text, logprobs=logprobs)
    if word in _CUT and not one_token:
        return replace(answer, reason=CUT_OFF)
    if not isinstance(content, str | list):
        return Again(unfinished("no content"), None, False, *used)
    return replace(answer, text=text) if text else replace(answer, reason=EMPTY)


def _broken_off(choice: Mapping[str, object], finish: object) -> str | None:
    """Reason why an answer is not whole; None if nothing says so."""
    if not choice:
        return "no choice"
    if finish is None:
        return "no finish reason"
    if isinstance(finish, str) and finish.casefold() in (*_WHOLE, *_CUT):
        return None
    return f"finish reason '{without_keys(inert(sendable(str(finish))))[:_SHORT_FINISH]}'"


def _used(data: Mapping[str, object]) -> tuple[int, int]:
    """Tokens of input and output, as the server counted them."""
    usage = _mapping(data.get("usage"))
    return tokens_counted(usage.get("prompt_tokens")), tokens_counted(usage.get("completion_tokens"))


def tokens_counted(value: object) -> int:
    """A number of tokens as a server gives it; 0, not counted, for anything else."""
    counted = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS
    return value if counted else 0  # type: ignore[return-value]


def of_status(status: int, headers: Mapping[str, str], content: bytes, endpoint: Endpoint) -> Outcome:
    """Outcome of an answer with any other status; raises LLMError if no call can succeed: key, model, quota, the day's limit."""
    problem = _read(content)
    return _acted(status, problem, {**problem.waits, **headers}, f"status {status}", endpoint)


def of_problem(problem: ErrorBody, endpoint: Endpoint, input_tokens: int = 0, output_tokens: int = 0) -> Outcome:
    """The same of an error inside an answer that was paid for with these tokens. Without a status, asking again may help."""
    status, words = problem.told_status, _shown(problem, endpoint)
    reason = unfinished(": ".join(filter(None, (f"error {status}" if status else "error", words))))
    outcome = _acted(status, problem, problem.waits, reason, endpoint)
    if isinstance(outcome, Rejected):
        paid = replace(outcome.completion, input_tokens=input_tokens, output_tokens=output_tokens)
        return replace(outcome, completion=paid)
    return replace(outcome, input_tokens=input_tokens, output_tokens=output_tokens)


def tokens_used(outcome: Outcome) -> tuple[int, int]:
    """Tokens of input and output, as the server counted them; 0 for what it does not say."""
    paid = outcome.completion if isinstance(outcome, Rejected) else outcome
    return paid.input_tokens, paid.output_tokens


def _acted(
    status: int | None, problem: ErrorBody, headers: Mapping[str, str], reason: str, endpoint: Endpoint
) -> Outcome:
    words = _shown(problem, endpoint)
    said = f": {words}" if words else ""
    named, text = " ".join(problem.names), problem.message[:1000]
    status = 401 if _KEY.search(named) else status
    spent = _SPENT.search(f"{named} {text}" if status in (None, 402, 403, 429) else named)
    if _FILTER.search(named) or (status == 403 and problem.flagged):
        return Completion(None, FILTERED)
    if status in (401, 403) and not spent:
        raise LLMError(f"{endpoint.server}: {endpoint.refused_key} ({status}){said}")
    if status == 404:
        raise LLMError(f"{endpoint.server}: no model '{endpoint.model}' (404){said}; {endpoint.to_check}")
    wait = retry_after_s(headers, time.time())
    if spent or (status == 402 and wait is None):
        raise LLMError(
            f"{endpoint.server}: the quota is spent ({status or 'an error in the answer'}){said}; everything answered so far "
            f"is kept. Add credit to the account{f' of the key in {endpoint.key_env}' * bool(endpoint.key_env)} and start again"
        )
    if status in (402, 429):
        if _OF_A_DAY.search(f"{named} {text}") and not _OF_A_MINUTE.search(f"{named} {text}"):
            raise LLMError(
                f"{endpoint.server}: the limit of a day is used up ({status}){said}; everything answered so far is kept. Start "
                f"again {'on the next day' if wait is None else f'in {wait / 3600:,.1f} hours'}, or raise the account's limit"
            )
        return Throttled(wait)
    if status is not None and (status in (408, 409) or status >= 500):
        return Again(reason, wait)
    if problem.code == "context_length_exceeded" or _CONTEXT.search(text):
        return Completion(None, TOO_LONG)
    if status is None:
        return Again(reason, wait)
    failed = Completion(None, f"status {status}{said}")
    return Rejected(problem.param, problem.message, failed) if status in (400, 422) else failed


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The problem in an error answer."""

    message: str
    """The server's words, and after them those of the provider behind it."""
    code: str | None = None
    param: str | None = None
    status: int | None = None
    """The number that it gives as its status."""
    names: tuple[str, ...] = ()
    """Words by which servers name a kind of problem, such as `insufficient_quota`."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """What it says of waiting, as in headers."""
    flagged: bool = False
    """It is about one text, which was found to be against rules."""

    @property
    def told_status(self) -> int | None:
        """The status that its number or its words stand for, if any."""
        if self.status is not None:
            return self.status
        text = " ".join((*self.names, self.message[:300]))
        return next((status for status, words in _IN_WORDS if words.search(text)), None)


def problem_inside(data: object) -> ErrorBody | None:
    """The problem in an answer of status 200, next to its choices, in the first one, or in place of them."""
    first = _mapping(data[0] if isinstance(data, list) and data else data)  # Gemini puts its error into a list
    for place in (first, _first_choice(first)):
        if place.get("error"):
            return _problem(place)
    if not first.get("choices") and (first.get("errors") or _words_in(first)):
        return _problem(first)
    return None


def _read(content: bytes) -> ErrorBody:
    """The problem in an error answer, as JSON or as plain text."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return ErrorBody(content[:2000].decode("utf-8", "replace"))
    return _problem(data)


def _problem(error: object, depth: int = 0) -> ErrorBody:
    """A problem in the form of OpenAI, vLLM, FastAPI, Google, OpenRouter or Cloudflare, or in words. Some hold another server's
    as a text of JSON."""
    if isinstance(error, str) and error.lstrip()[:1] in ("{", "[") and depth < _DEEPEST:
        try:
            error = json.loads(error)
        except (ValueError, RecursionError):
            return ErrorBody(str(error))
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict) or depth >= _DEEPEST:
        return ErrorBody(str(error))
    inner = error.get("error") or error.get("errors")
    if inner and inner is not True:  # some only say that there is one, and the words stand beside it
        found = _problem(inner, depth + 1)
        return found if found.status is not None else replace(found, status=_number(error))
    detail = error.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        location = detail[0].get("loc")
        param = location[-1] if isinstance(location, list) and location else None
        return ErrorBody(str(detail[0].get("msg", "")), param=_string(param))
    raw = _mapping(error.get("metadata")).get("raw")
    parts = [_problem(part, depth + 1) for part in (error.get("message") or _words_in(error) or detail, raw) if part]
    inside = list(_inside(error))
    names = [value for key, value in inside if key in _NAMES and isinstance(value, str)]
    status = next((found for found in (_number(error), *(part.status for part in parts)) if found is not None), None)
    return ErrorBody(
        ": ".join(dict.fromkeys(part.message for part in parts)),
        _string(error.get("code")),
        _string(error.get("param")),
        status,
        tuple(dict.fromkeys([*names, *(name for part in parts for name in part.names)])),
        {_WAITS.get(key.casefold(), key.casefold()): str(value) for key, value in inside if _WAIT.search(key)},
        any(key in _FLAGS for key, _ in inside),
    )


def _words_in(error: Mapping[str, object]) -> str | None:
    """What an error says, under the names of OpenAI, FastAPI, and Baidu, Zhipu and MiniMax."""
    for place in (error, _mapping(error.get("base_resp"))):
        for name in _WORDS:
            if isinstance(words := place.get(name), str) and words:
                return words
    return None


def _inside(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Every plain value in an error, with its key."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else [(key, item) for item in value]
        for name, item in items if depth < _DEEPEST else ():
            yield from _inside(item, name, depth + 1)
    elif value is not None:
        yield key, value


def _number(error: Mapping[str, object]) -> int | None:
    """An HTTP status in an error, if one of its fields is one."""
    for name in ("code", "status", "status_code", "statusCode", "raw_status_code"):
        value = error.get(name)
        if isinstance(value, int | str) and re.fullmatch("[45][0-9][0-9]", str(value)):
            return int(value)
    return None


def _shown(problem: ErrorBody, endpoint: Endpoint) -> str:
    """The server's words in one short line without keys."""
    return " ".join(sendable(endpoint.hide(problem.message)).split())[:_SHORT_CHARACTERS].rstrip(" .")


def _first_choice(data: Mapping[str, object]) -> Mapping[str, object]:
    choices = data.get("choices")
    return _mapping(choices[0]) if isinstance(choices, list) and choices else {}


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
    return without_keys(sendable(name.strip()))[:_LONGEST_NAME] if isinstance(name, str) and name.strip() else None


def _text(content: object) -> str:
    """The text of a message; some servers send it in parts."""
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    return sendable(content) if isinstance(content, str) else ""
