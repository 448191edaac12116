"""Questions to an LLM: asked again while unreadable, JSON read wherever it stands, every loss counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from cda.llm.protocol import LLM, Request, without_thoughts
from cda.records import Exclusions, count_reasons

T = TypeVar("T")
_FENCE = re.compile(r"```\w*[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_UNREADABLE = "no answer in the asked form"


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The content of an answer, or the reason why there is none."""

    value: T | None
    reason: str | None


def ask(
    llm: LLM,
    n: int,
    request: Callable[[int, int], Request],
    read: Callable[[int, str], T | None],
    label: str,
    n_repeats: int = 2,
) -> list[Answer[T]]:
    """Ask n questions, and again those whose answer could not be read; one outcome for each question, in order.

    Args:
        llm: Answers.
        n: Number of questions.
        request: Question number and how often it was asked before, to the request.
        read: Question number and answer to its content; None if it cannot be read.
        label: Text next to the progress bar.
        n_repeats: How often a question is asked again.

    Raises:
        LLMError: Nothing can be answered.
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
            answers[left[position]] = Answer(value, None if value is not None else reason)
        left = [row for row in left if answers[row].value is None]
    return answers


def unanswered(answers: Sequence[Answer[T]]) -> Exclusions:
    """The questions, and those without a readable answer, by the last reason."""
    return Exclusions(len(answers), count_reasons([answer.reason for answer in answers if answer.reason is not None]))


def formed(
    system: str, user: str, schema: Mapping[str, object], plain: str, repeat: int = 0, sample: int = 0
) -> Request:
    """A request for an answer of a schema; when asked again, in plain words alone, since a server may ignore schemas."""
    if repeat == 0:
        return Request(system, user, schema, plain, sample=sample)
    return Request(f"{system}\n\n{plain}", user, sample=sample + repeat)


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
