"""Settings of a reward model behind a server, and the parts of its address."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field

from cda.errors import ModelError
from cda.scorers.dialects import ENDPOINTS, ServerName

Positive = Annotated[int, Field(ge=1)]


class ServedOptions(BaseModel):
    """Options of a reward model behind a server: vLLM, SGLang, text-embeddings-inference, OpenRLHF."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str | None = None
    """Its name on the server; null: whatever is served there."""
    dialect: Literal["auto"] | ServerName = "auto"
    """Kind of server. auto: as the server describes itself, else the only kind that has the address's endpoint, else vllm; the
    report says which."""
    tokenizer: str | None = None
    """Folder or hub id of the served model's tokenizer. With it texts are rendered here for servers that apply no chat template
    (all but vLLM), and a template that the server applies twice or not at all is found."""
    form: Literal["messages", "text"] = "messages"
    """messages: the conversation, to which vLLM applies the model's chat template. text: one text, by the chat template of
    `tokenizer`, without one the prompt, a blank line and the response; so do all servers but vLLM get it."""
    sigmoid: bool = False
    """The server can only answer with the sigmoid of the reward: ask for it, and undo it."""
    check_raw: bool = True
    """Before anything else, make sure that the server left the sigmoid off."""
    last_token: bool = False
    """The server gives a number for every token (vLLM's /pooling only); take the last."""
    truncate_tokens: Positive | None = None
    """The first so many tokens are kept: by vLLM (versions before `truncation_side` keep the last instead), here for SGLang, which
    needs `tokenizer`; text-embeddings-inference cuts at its own length alone. null: a text longer than the model reads is too
    long."""
    too_long: Literal["refuse", "count"] = "refuse"
    """Texts that the server calls too long: stop, or leave them out and count them."""
    api_key_env: str = "VLLM_API_KEY"
    """The environment variable that holds the key, if the server requires one."""
    concurrency: Positive = 32
    """Requests under way at once, at most; a 429 halves it for a while."""


def endpoint_of(url: str) -> tuple[str, str | None]:
    """Address before the endpoint's name, and that name; None if the address is that of a server, with or without /v1.

    ModelError for anything but an http address.

    >>> endpoint_of("http://localhost:8000/v1"), endpoint_of("https://host/models/7/pooling")
    (('http://localhost:8000', None), ('https://host/models/7', 'pooling'))
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ModelError(f"'{url.rpartition('@')[2]}' is no address of a server, like http://localhost:8000/classify")
    whole = parts.path.rstrip("/")
    path, _, last = whole.rpartition("/")
    if last not in ENDPOINTS:
        path, last = whole.removesuffix("/v1"), ""
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), last or None
