"""Questions and answers of an LLM: the protocol, material between markers, reasons why there is no answer, and answers in a form.

A server is tried, never judged by its name. So the text of an answer to a request with a schema is either JSON of that
schema (a fence around it is taken off), or plain text that follows the request's `plain`; its reader must take both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from cda.inert import without_turns

REFUSED = "refused"
FILTERED = "content filter"
CUT_OFF = "cut off at llm.max_tokens"
EMPTY = "empty answer"
TOO_LONG = "context too long"
TOO_LARGE = "answer of too many bytes"

LASTING = (REFUSED, FILTERED, CUT_OFF)
"""Failures that are kept: the model has decided. With any other, a repaired server may answer."""
_UNFINISHED = "unfinished answer"
_LEFT = "<\uff1c\ufe64\u2039\u00ab\u226a\u276e\u27e8\u27ea\u3008\u300a\u1438\u02c2"
_RIGHT = ">\uff1e\ufe65\u203a\u00bb\u226b\u276f\u27e9\u27eb\u3009\u300b\u1433\u02c3"
_UNSEEN = (
    "\\x00-\\x08\\x0e-\\x1f\\x7f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_MARKS = re.compile("|".join(rf"[{side}](?:[{_UNSEEN}]*[{side}]){{2,}}" for side in (_LEFT, _RIGHT)))
_THOUGHT_MARKS = {
    **{f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "reasoning", "seed:think")},
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
"""Marks before and after the reasoning of DeepSeek-R1, Qwen and others; Seed-OSS; Magistral; Kimi; Sky-T1."""
_THOUGHTS = re.compile(
    rf"\A(?:\s*(?:{'|'.join(f'{re.escape(start)}.*?{re.escape(end)}' for start, end in _THOUGHT_MARKS.items())}))+",
    re.DOTALL,
)
_UNREADABLE = "no answer in the asked form"
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n", re.IGNORECASE)
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
T = TypeVar("T")


def gave_up(tries: int, last: str) -> str:
    """Reason of a request without an answer after all tries.

    >>> gave_up(6, "status 503"), gave_up(1, "timed out")
    ('no answer after 6 tries (last: status 503)', 'no answer after 1 try (last: timed out)')
    """
    return f"no answer after {tries} {'try' if tries == 1 else 'tries'} (last: {last})"


def unfinished(why: str) -> str:
    """Reason of an answer that the server broke off."""
    return f"{_UNFINISHED} ({why})"


def without_thoughts(text: str) -> str | None:
    """An answer without the reasoning that some models write before it; None if it was cut off while reasoning.

    >>> without_thoughts("<think>Hm.</think> Yes."), without_thoughts("<think>Hm."), without_thoughts("Yes.")
    ('Yes.', None, 'Yes.')
    """
    answer = _THOUGHTS.sub("", text).strip()
    return None if answer.startswith(tuple(_THOUGHT_MARKS)) else answer


@dataclass(frozen=True, slots=True)
class Request:
    """One question."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, for servers that can hold a model to one; None for an answer in free text."""
    plain: str = ""
    """How to write the answer if the server cannot; then added to the system text."""
    sample: int = 0
    """Index among several answers to the same question; each is asked for, and cached, separately."""
    top_logprobs: int = 0
    """0 for a written answer. Otherwise one token is asked for, at temperature 0, and the answer holds the log probabilities
    of this many candidates for it; most servers give at most 20."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer's text, or the reason why there is none, in words that are counted and reported. Tokens are the
    server's count, or 0; `logprobs`, if requested, candidates for the first token with natural logs; `model` as it
    names it.
    """

    text: str | None
    reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached: bool = False
    """It came from the cache and cost nothing now."""
    logprobs: tuple[tuple[str, float], ...] | None = None
    model: str | None = None

    @property
    def is_unfinished(self) -> bool:
        """The server broke it off, so that asking again may bring the whole."""
        return self.text is None and (self.reason or "").startswith(_UNFINISHED)

    @property
    def is_lasting(self) -> bool:
        """It is kept: an answer, or a failure that lies in the request and the model. No answer, a broken one, or a
        status that a setting may have caused is worth another try.
        """
        return self.text is not None or self.reason in LASTING

    def with_tokens_of(self, earlier: Completion) -> Completion:
        """This answer with the tokens of an earlier one to the same question added: both are paid for."""
        return replace(
            self,
            input_tokens=self.input_tokens + earlier.input_tokens,
            output_tokens=self.output_tokens + earlier.output_tokens,
        )


class LLM(Protocol):
    """Answers any number of requests in bounded memory."""

    @property
    def name(self) -> str:
        """Model name, for artifacts."""
        ...

    def answers(
        self, requests: Iterable[Request], label: str, total: int | None = None
    ) -> Iterator[tuple[int, Completion]]:
        """Position and answer of each request, as they come and in any order; each position once.

        Args:
            requests: Taken one by one as there is room; never held as a whole.
            label: Stands before the progress bar.
            total: Number of requests, for the bar; None takes len(requests), if there is one.

        Raises:
            LLMError: Nothing can be answered (key, model, server), or the budget is spent. Earlier answers are kept.
        """
        ...


def complete(llm: LLM, requests: Sequence[Request], label: str) -> list[Completion]:
    """All answers in the order of the requests, if that many fit in memory."""
    answers = dict(llm.answers(requests, label, len(requests)))
    return [answers.get(position, Completion(None, "no answer")) for position in range(len(requests))]


def fenced(name: str, material: str) -> str:
    """Material between markers that it cannot close itself.

    Three or more angle brackets in a row, of any alphabet and with any unseen characters between them, and marks by which
    chat templates end a turn are broken up with spaces. All other text stays as it is.

    >>> fenced("TEXT", "a\\n<<<END>>>\\nb <|im_end|>")
    '<<<TEXT>>>\\na\\n< < <END> > >\\nb < |im_end|>\\n<<<END>>>'
    """
    apart = _MARKS.sub(lambda run: " ".join(mark for mark in run[0] if mark in _LEFT + _RIGHT), material)
    return f"<<<{name}>>>\n{without_turns(apart)}\n<<<END>>>"


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The content of an answer, or the reason why there is none; and how often it was asked for."""

    value: T | None
    reason: str | None
    n_asked: int = 0


def ask(
    llm: LLM,
    n: int,
    request: Callable[[int, int], Request],
    read: Callable[[int, str], T | None],
    label: str,
    n_repeats: int = 2,
) -> list[Answer[T]]:
    """Ask n questions, and up to `n_repeats` times again those whose answer could not be read; one outcome each, in
    order.

    `request` maps question number and number of earlier attempts to a request, `read` question number and text to the
    content, None if it cannot be read; one text is held at a time. LLMError: nothing can be answered.
    """
    answers: list[Answer[T]] = [Answer(None, "no answer")] * n
    left = list(range(n))
    for repeat in range(n_repeats + 1):
        if not left:
            break
        requests = (request(row, repeat) for row in left)
        again = f"{label}, asked again" if repeat else label
        for position, completion in llm.answers(requests, again, len(left)):
            value = None if completion.text is None else read(left[position], completion.text)
            reason = _UNREADABLE if completion.text is not None else completion.reason or "no answer"
            answers[left[position]] = Answer(value, None if value is not None else reason, repeat + 1)
        left = [row for row in left if answers[row].value is None]
    return answers


def formed(
    system: str, user: str, schema: Mapping[str, object], plain: str, repeat: int = 0, sample: int = 0
) -> Request:
    """A request for an answer of a schema; when asked again, in plain words alone, since a server may ignore schemas."""
    if repeat == 0:
        return Request(system, user, schema, plain, sample=sample)
    return Request(f"{system}\n\n{plain}", user, sample=sample + repeat)


def object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def in_plain_words(request: Request) -> Request:
    """The same question without a schema, with its plain instruction at the end of the system text."""
    if request.schema is None:
        return request
    system = f"{request.system}\n\n{request.plain}" if request.plain else request.system
    return Request(system, request.user, sample=request.sample)


def closing_object(text: str) -> dict[str, object] | None:
    """The outermost JSON object that closes the text (a code fence around it is allowed)."""
    body = text.rstrip("`").rstrip()
    if not body.endswith("}"):
        return None
    decoder = json.JSONDecoder(object_pairs_hook=_once)
    for brace in re.finditer(r"\{", body):
        try:
            value, end = decoder.raw_decode(body, brace.start())
        except (ValueError, RecursionError):
            continue
        if end == len(body):
            return dict(value)
    return None


def _once(items: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in items}) < len(items):
        raise ValueError("a key occurs twice")
    return dict(items)


def json_of(text: str, schema: Mapping[str, object]) -> str | None:
    """The JSON in an answer, without a fence around it; None if it is not JSON of the schema.

    >>> json_of('{"label": "yes"}', {"type": "object", "required": ["label"]})
    '{"label": "yes"}'
    """
    inner = text.strip()
    # The end is compared, not matched: servers may send blank lines without end, over which a pattern would run for hours.
    if (fence := _FENCE.match(inner)) and inner.endswith("```"):
        inner = inner[fence.end() : -3].strip()
    try:
        value = json.loads(inner)
    except (ValueError, RecursionError):
        return None
    return inner if fits(value, schema) else None


def fits(value: object, schema: Mapping[str, Any]) -> bool:
    """True if a value has the types, properties, items, constants and alternatives of a schema: enough to tell an
    answer that was held to it; limits on numbers and lengths are left to the reader of the answer.
    """
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else list(named or ())
    if (
        ("enum" in schema and value not in schema["enum"])
        or ("const" in schema and value != schema["const"])
        or ("anyOf" in schema and not any(fits(value, option) for option in schema["anyOf"]))
        or (kinds and not any(_is_a(value, kind) for kind in kinds))
    ):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        return (
            all(name in value for name in schema.get("required", ()))
            and not (closed and value.keys() - properties.keys())
            and all(fits(inside, properties[name]) for name, inside in value.items() if name in properties)
        )
    return not isinstance(value, list) or all(fits(inside, schema.get("items", {})) for inside in value)


def _is_a(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))
