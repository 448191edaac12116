"""Answers that follow a JSON schema if the server supports it, and are asked for in plain words otherwise.

A server is tried, never judged by its name. So the text of an answer to a request with a schema is either JSON of that
schema (a fence around it is taken off), or plain text that follows the request's `plain`; its reader must take both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cda.llm.protocol import Completion, Request

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


class SchemaRejectedError(Exception):
    """The server answered 400 to a request with response_format; carries the failure in case the schema was not why."""


@dataclass
class SchemaSupport:
    """Knowledge of one client about its server.

    Attributes:
        lacking: The server rejects or ignores schemas: they are not sent any more.
        n_followed: Answers that were JSON of their schema.
    """

    lacking: bool = False
    n_followed: int = 0


async def ask_structured(
    request: Request,
    ask: Callable[[Request], Awaitable[Completion]],
    support: SchemaSupport,
    say: Callable[[str], None],
) -> Completion:
    """One answer, held to the request's schema if it has one and the server can.

    A server that followed a schema once is not written off for a single lapse: then this request alone is asked again.

    Args:
        request: With or without a schema.
        ask: Sends the schema as response_format, if there is one; raises SchemaRejectedError if that is rejected.
        support: Updated.
        say: Called once when schemas are given up.

    Returns:
        The answer; its tokens are those of both questions if two were needed.
    """
    if request.schema is None:
        return await ask(request)
    if support.lacking:
        return await ask(in_plain_words(request))
    spent = Completion(None)
    rejected = False
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
    return replace(
        plain,
        input_tokens=plain.input_tokens + spent.input_tokens,
        output_tokens=plain.output_tokens + spent.output_tokens,
    )


def response_format(schema: Mapping[str, object]) -> dict[str, object]:
    """The API's parameter for a strict schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}


def in_plain_words(request: Request) -> Request:
    """The same question without a schema, with its plain instruction at the end of the system text."""
    if request.schema is None:
        return request
    system = f"{request.system}\n\n{request.plain}" if request.plain else request.system
    return Request(system, request.user, sample=request.sample)


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
    """True if a value has the types, properties, items, constants and alternatives of a schema.

    Enough to tell an answer that was held to the schema from one that was not; limits on numbers and lengths are left to
    the reader of the answer.
    """
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "anyOf" in schema and not any(fits(value, option) for option in schema["anyOf"]):
        return False
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else list(named or ())
    if kinds and not any(_is_a(value, kind) for kind in kinds):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if any(name not in value for name in schema.get("required", ())):
            return False
        if schema.get("additionalProperties") is False and any(name not in properties for name in value):
            return False
        return all(fits(inside, properties[name]) for name, inside in value.items() if name in properties)
    if isinstance(value, list) and "items" in schema:
        return all(fits(inside, schema["items"]) for inside in value)
    return True


def _is_a(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))
