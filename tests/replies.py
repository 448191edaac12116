"""Replies of a chat server, for tests that serve one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
"""Body of a request to status and body of the reply."""


def reply(text: str, model: str = "j") -> tuple[int, dict[str, Any]]:
    """One assistant message."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return 200, {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": usage,
    }
