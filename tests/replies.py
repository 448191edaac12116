"""Replies of a chat server, for tests that serve one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
"""Body of a request to status and body of the reply."""


def reply(
    text: str | None, model: str = "j", tokens: tuple[int, int] = (9, 9), **choice: Any
) -> tuple[int, dict[str, Any]]:
    """One assistant message, which read and wrote so many tokens; without text, a refusal."""
    message = {"role": "assistant", "content": text, "refusal": "I will not do that." if text is None else None}
    read, wrote = tokens
    return 200, {
        "id": "x", "object": "chat.completion", "created": 0, "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message, **choice}],
        "usage": {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote},
    }  # fmt: skip
