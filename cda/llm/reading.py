"""Questions with answers to be read: asked again while unreadable, JSON at the end of a text, every loss with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cda.llm.protocol import LLM, Request

T = TypeVar("T")
_UNREADABLE = "no answer in the asked form"


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
    """Ask n questions, and again those whose answer could not be read; one outcome for each question, in order.

    Args:
        llm: Answers. One text is held at a time.
        n: Number of questions.
        request: Maps question number and number of earlier attempts to the request.
        read: Maps question number and answer to the content; None if it cannot be read.
        label: Text next to the progress bar.
        n_repeats: Times that a question is asked again.

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
        raise ValueError("a key stands twice")
    return dict(items)
