"""Scores each distinct (prompt, response) once, however often it is asked for."""

from __future__ import annotations

from collections.abc import Iterable

from cda.records import Prompt, content_id

Text = tuple[Prompt, str]
"""A prompt with its response."""


def text_id(prompt: Prompt, response: str) -> str:
    """Name of a prompt with its response."""
    return content_id("text", prompt, response)


def distinct_texts(texts: Iterable[Text]) -> dict[str, Text]:
    """Every distinct text by its `text_id`, in the order of their first appearance."""
    return {text_id(prompt, response): (prompt, response) for prompt, response in texts}
