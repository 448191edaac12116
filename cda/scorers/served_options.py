"""Options of requests to a served reward model, shared by recipe and scorer: `score.served`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]


class ServedOptions(BaseModel):
    """Options of a reward model behind a server (vLLM's /classify, /pooling or /score)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    """Its name on the server; null: whatever is served there."""
    form: Literal["messages", "text"] = "messages"
    """messages: the conversation, to which the server applies the model's chat template. text: one text, by default the
    prompt, a blank line and the response."""
    sigmoid: bool = False
    """The server can only answer with the sigmoid of the reward: ask for it, and undo it."""
    check_raw: bool = True
    """Before anything else, make sure that the server left the sigmoid off."""
    last_token: bool = False
    """The server gives a number for every token (/pooling only); take the last."""
    truncate_tokens: Positive | None = None
    """The server keeps the first so many tokens (`truncate_prompt_tokens`; versions before `truncation_side` keep the last
    instead). null: a text longer than the model reads is too long."""
    too_long: Literal["refuse", "count"] = "refuse"
    """Texts that the server calls too long: stop, or leave them out and count them."""
    api_key_env: str = "VLLM_API_KEY"
    """The environment variable that holds the key, if the server requires one."""
    concurrency: Positive = 32
    """Requests under way at once, at most; a 429 halves it for a while."""
