"""Reading of a reward server's answer: the one reward of a text, and the number of tokens that were read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cda.arrays import LARGEST
from cda.errors import ModelError


def reward_in(items: Sequence[object], field: str, last_token: bool = False) -> float:
    """The one reward in a field of an answer's results; with `last_token`, the last of one number a token. ModelError if there is
    not one text, or not one finite number.
    """
    if len(items) != 1:
        raise ModelError(f"{len(items)} results came for one text")
    content = items[0].get(field) if isinstance(items[0], dict) else None
    values = content if isinstance(content, list) else [content]
    if values and isinstance(values[-1], list):
        if not last_token and len(values) > 1:
            raise ModelError(
                f"one result a token came ({len(values)} of them), not one for the text. For a model that is trained to "
                "reward at its last token ask vLLM's /pooling with last_token=true; use /classify for one with a classification head"
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
        raise ModelError(
            f"'{field}' holds no number. If the server is of another kind, name it in score.served.dialect"
        )
    if not abs(reward) <= LARGEST:  # NaN too
        raise ModelError(f"the reward is {reward!s:.40}. Serve the model with --dtype bfloat16 or float32")
    return float(reward)


def undone(probability: float) -> float:
    """The reward whose sigmoid this is, log-odds."""
    if 0 < probability < 1:
        return math.log(probability) - math.log1p(-probability)
    raise ModelError(
        f"the answer {probability:g} is not the sigmoid of a reward, or of one too large to be told from others. "
        "Set sigmoid=false, and have the server leave the sigmoid off (vLLM: --pooler-config '{\"use_activation\": false}')"
    )


def counted_in(answer: Mapping[str, Any], headers: Mapping[str, str]) -> object:
    """Number of tokens that the server read: vLLM's and SGLang's `usage`, SGLang's `meta_info`, the header of
    text-embeddings-inference; None without any.
    """
    for part in ("usage", "meta_info"):
        if isinstance(answer.get(part), dict):
            return answer[part].get("prompt_tokens")
    told = headers.get("x-compute-tokens", "")
    return int(told) if told.isdecimal() and len(told) < 10 else None
