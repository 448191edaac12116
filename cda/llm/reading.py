"""Answers in a form: held to a JSON schema or asked for in plain words, and asked for again while they cannot be read.

A server is tried, never judged by its name. So the text of an answer to a request with a schema is either JSON of that
schema (a fence around it is taken off), or plain text that follows the request's `plain`; its reader must take both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from cda.llm.protocol import LLM, Completion, Request

T = TypeVar("T")
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


class SchemaRejectedError(Exception):
    """The server answered 400 to a request with response_format."""


@dataclass
class SchemaSupport:
    """Knowledge of one client about its server."""

    lacking: bool = False
    """The server rejects or ignores schemas: they are not sent any more."""
    n_followed: int = 0
    """Answers that were JSON of their schema."""


async def ask_structured(
    request: Request,
    ask: Callable[[Request], Awaitable[Completion]],
    support: SchemaSupport,
    say: Callable[[str], None],
) -> Completion:
    """One answer, held to the request's schema if it has one and the server can; its tokens are those of both questions
    if two were needed. A server that followed a schema once is not written off for a lapse: then this request is asked
    again. `ask` sends the schema as response_format, and raises SchemaRejectedError if that is rejected; `support` is
    updated, and `say` called once, when schemas are given up.
    """
    if request.schema is None or support.lacking:
        return await ask(in_plain_words(request))
    spent, rejected = Completion(None), False
    try:
        spent = await ask(request)
    except SchemaRejectedError:
        rejected = True
    else:
        if spent.text is None:
            return spent
        held = json_of(spent.text, request.schema)
        if held is not None:
            support.n_followed += 1
            return replace(spent, text=held)
    plain = await ask(in_plain_words(request))
    # A 400 may have had another cause: then plain words fail too, and nothing is learnt of schemas.
    if support.n_followed == 0 and not support.lacking and (plain.text is not None or not rejected):
        support.lacking = True
        say(f"the server {'rejects' if rejected else 'ignores'} JSON schemas: asked in plain words instead")
    return plain.with_tokens_of(spent)


def response_format(schema: Mapping[str, object]) -> dict[str, object]:
    """The API's parameter for a strict schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}


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
