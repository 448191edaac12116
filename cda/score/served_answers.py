"""What a reward server's address and its answers say: which endpoint, and the one reward in an answer."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from cda.errors import ModelError

Kind = Literal["classify", "pooling", "score"]

_LARGEST = sys.float_info.max
_FIELDS: Mapping[Kind, str] = {"classify": "probs", "pooling": "data", "score": "score"}


def endpoint_of(url: str) -> tuple[str, Kind]:
    """Address before the endpoint's name, and that name; a server's own address, with or without /v1, means /classify.

    Raises:
        ModelError: No http address.

    >>> endpoint_of("http://localhost:8000/v1"), endpoint_of("https://host/models/7/pooling")
    (('http://localhost:8000', 'classify'), ('https://host/models/7', 'pooling'))
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ModelError(f"'{url.rpartition('@')[2]}' is no address of a server, like http://localhost:8000/classify")
    path, _, last = parts.path.rstrip("/").rpartition("/")
    for kind in _FIELDS:
        if last == kind:
            return urlunsplit((parts.scheme, parts.netloc, path, "", "")), kind
    whole = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, whole, "", "")), "classify"


def reward_in(items: Sequence[object], kind: Kind, last_token: bool = False) -> float:
    """The one reward in an answer's `data`.

    Args:
        items: One object for each text that was sent, which is one.
        kind: Where it holds its numbers: `probs` of `/classify`, `data` of `/pooling`, `score` of `/score`.
        last_token: Take the last of one number a token.

    Raises:
        ModelError: Not one text, not one number, or a number that is NaN or infinite.
    """
    if len(items) != 1:
        raise ModelError(f"{len(items)} results came for one text")
    found = items[0].get(_FIELDS[kind]) if isinstance(items[0], dict) else None
    values = found if isinstance(found, list) else [found]
    if values and isinstance(values[-1], list):
        if not last_token:
            raise ModelError(
                f"one result a token came ({len(values)} of them), not one for the text. For a model that is trained to "
                "reward at its last token set last_token=true; use /classify for one with a classification head"
            )
        values = values[-1]
    if len(values) > 1:
        raise ModelError(
            f"{len(values)} numbers came for the text, so the model has {len(values)} labels (or is an embedding model), and "
            "which of them is the reward is not ours to guess. Serve a model with one output, or say what to make of the "
            "numbers in a function of your own (module:function)"
        )
    reward = values[0] if values else None
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise ModelError(f"'{_FIELDS[kind]}' holds no number; is this vLLM's /{kind}?")
    if abs(reward) > _LARGEST or reward != reward:  # not isfinite, which whole numbers can be too large for
        raise ModelError(f"the reward is {reward!s:.40}. Serve the model with --dtype bfloat16 or float32")
    return float(reward)


def undone(probability: float) -> float:
    """The reward whose sigmoid this is, log-odds."""
    if 0 < probability < 1:
        return math.log(probability) - math.log1p(-probability)
    raise ModelError(
        f"the answer {probability:g} is not the sigmoid of a reward, or of one too large to be told from others. "
        "Set sigmoid=false, and start the server with --pooler-config '{\"use_activation\": false}'"
    )
