"""Messages and prompts out of a row's values, or the reason why the row is unusable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from cda.errors import refuse
from cda.records import Message, Prompt, user_prompt

T = TypeVar("T")
ROLES = ("system", "user", "assistant", "tool")


class RowError(Exception):
    """A row cannot be used; the message is the reason that is counted."""


def readable(
    rows: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], T]
) -> tuple[list[tuple[int, T]], list[tuple[int, str]]]:
    """The rows that can be read, with their numbers from 1; and the others' numbers with the reason that `read` raised."""
    items: list[tuple[int, T]] = []
    unusable: list[tuple[int, str]] = []
    for number, row in enumerate(rows, 1):
        try:
            items.append((number, read(row)))
        except RowError as problem:
            unusable.append((number, str(problem)))
    return items, unusable


def check_agree(contradictions: Iterable[tuple[Sequence[int], str]], where: str) -> None:
    """Refuse rows that contradict each other (their numbers, and why) with a DataError: neither is right for coming first."""
    lines = [
        f"{where}: rows {', '.join(map(str, sorted(numbers)[:5]))}{', …' if len(numbers) > 5 else ''}: {why}. "
        "Keep those that are right"
        for numbers, why in contradictions
    ]
    refuse(lines, "more")


def message_text(value: Any) -> Any:
    """A side that stands as one assistant message, as its text; anything else as it is."""
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], Mapping):
        return value[0].get("content")
    return value


def as_messages(value: Any) -> list[Message]:
    """A conversation as messages; RowError for a turn without a known role or text content."""
    messages = []
    for turn in value:
        if not isinstance(turn, Mapping) or not isinstance(turn.get("content"), str) or turn.get("role") not in ROLES:
            raise RowError("a turn without role and text content")
        messages.append(Message(turn["role"], turn["content"]))
    return messages


def as_prompt(messages: Sequence[Message]) -> Prompt:
    """Messages that ask something; RowError without a user turn with words in it."""
    if not any(message.role == "user" and message.content.strip() for message in messages):
        raise RowError("empty prompt")
    return tuple(messages)


def prompt_of(value: object) -> Prompt:
    """A prompt column's value, plain text or messages; RowError if it is neither, or empty."""
    if isinstance(value, str):
        return as_prompt(user_prompt(value))
    if isinstance(value, list | tuple):
        return as_prompt(as_messages(value))
    raise RowError("empty prompt" if value is None else "prompt is neither text nor messages")


def side_text(value: Any) -> str:
    """A side's text; RowError if there is none, or if it is something else than text."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RowError("a side is missing")
    if not isinstance(value, str):
        raise RowError("a side is no text")
    return value
