"""Questions to an LLM: asked again while unreadable, JSON read wherever it stands, every loss counted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeVar

from cda.llm.protocol import without_thoughts
from cda.llm.reading import Answer
from cda.records import Exclusions, count_reasons

T = TypeVar("T")
_FENCE = re.compile(r"```\w*[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)


def unanswered(answers: Sequence[Answer[T]]) -> Exclusions:
    """The questions, and those without a readable answer, by the last reason."""
    return Exclusions(len(answers), count_reasons([answer.reason for answer in answers if answer.reason is not None]))


def unfenced(text: str) -> str:
    """An answer without the thoughts before it and a code fence around it; empty if it was cut off while thinking."""
    own = without_thoughts(text) or ""
    fence = _FENCE.fullmatch(own)
    return fence[1].strip() if fence else own


def json_in(own: str, key: str) -> object:
    """The value of `key` in an answer that is JSON or holds one object; a bare list as it is; None for neither."""
    for body in (own, own[max(0, own.find("{")) : own.rfind("}") + 1]):
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value.get(key)
        if isinstance(value, list):
            return value
    return None
