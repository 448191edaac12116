"""log π(response | prompt) of a causal language model, batch by batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cda.errors import ModelError
from cda.models.causal import CausalModel, ResponseSpan
from cda.score.classifier import batch_budget, batches
from cda.score.protocols import FloatArray

if TYPE_CHECKING:
    import torch

_ELSEWHERE_TOKENS = 4096  # of 128,000 words, 1 GiB of logits in bf16
_SLICE_LOGITS = 2**25  # logits that are held in fp32 at once: 128 MiB


def log_probabilities(
    causal: CausalModel,
    spans: Sequence[ResponseSpan],
    batch_tokens: int | None = None,
    told: Callable[[Sequence[int]], object] = lambda _: None,
) -> FloatArray:
    """log π(response | prompt) of each text, summed over the response's tokens.

    Padding is always on the right, where no token of a causal model can see it. Logits come in the model's precision,
    their log-sum-exp in fp32 and the sums in fp64.

    Args:
        causal: Model, in the state in which it is asked.
        spans: Texts, as `response_spans` gives them.
        batch_tokens: Padded tokens in a batch at most; None for 1,024 on a CPU, else 4,096.
        told: Called with the rows of each batch that is done.

    Returns:
        Natural logarithms, shape (n,), at most 0; NaN and infinity are handed on as they are.

    Raises:
        ModelError: The model has no embedding of a token.
    """
    import torch

    _check_token_ids(causal, spans)
    found = np.full(len(spans), np.nan)
    budget = batch_budget(batch_tokens, causal.model.device.type, _ELSEWHERE_TOKENS)
    with torch.inference_mode():
        for rows in batches([span.encoded for span in spans], budget):
            found[rows] = _summed(causal.model, [spans[row] for row in rows])
            told(rows)
    return found


def _summed(model: Any, spans: Sequence[ResponseSpan]) -> FloatArray:
    """One batch: log-probabilities summed over each response, shape (rows,)."""
    import torch

    width = max(len(span.encoded.ids) for span in spans)
    input_ids = torch.zeros((len(spans), width), dtype=torch.long)
    mask = torch.zeros_like(input_ids)
    # The position before each response token tells that token's probability.
    before = torch.zeros_like(input_ids, dtype=torch.bool)
    for row, span in enumerate(spans):
        length = len(span.encoded.ids)
        input_ids[row, :length] = torch.tensor(span.encoded.ids)
        mask[row, :length] = 1
        before[row, span.start - 1 : length - 1] = True
    targets = torch.cat([torch.tensor(span.encoded.ids[span.start :]) for span in spans]).to(model.device)
    logits = _logits_at(model, input_ids.to(model.device), mask.to(model.device), before.to(model.device))
    by_token = _log_softmax_at(logits, targets).cpu().numpy()
    starts = np.cumsum([0, *(span.n_tokens for span in spans[:-1])])
    return np.add.reduceat(by_token, starts)


def _logits_at(model: Any, input_ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Logits at the marked positions alone, row by row, shape (marked, vocabulary)."""
    bare = model.get_base_model() if hasattr(model, "peft_config") else model
    if type(bare).__module__.startswith("transformers.models."):
        # The output layer then runs at these positions only; a mask of them is understood by all of the library's own models.
        chosen = model(input_ids=input_ids, attention_mask=mask, logits_to_keep=positions).logits
        if chosen.shape[0] == int(positions.sum()) and chosen.ndim == 2:
            return chosen  # type: ignore[no-any-return]
    return model(input_ids=input_ids, attention_mask=mask).logits[positions]  # type: ignore[no-any-return]


def _log_softmax_at(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """log p(target) of each row, fp64, shape (rows,); only a slice of the logits is ever held in fp32."""
    import torch

    step = max(1, _SLICE_LOGITS // logits.shape[-1])
    parts = []
    for part, aim in zip(torch.split(logits, step), torch.split(targets, step), strict=True):
        exact = part.float()
        parts.append(exact.gather(1, aim[:, None])[:, 0].double() - exact.logsumexp(-1).double())
    return torch.cat(parts)


def _check_token_ids(causal: CausalModel, spans: Sequence[ResponseSpan]) -> None:
    rows = int(causal.model.get_input_embeddings().weight.shape[0])
    highest = max((max(span.encoded.ids) for span in spans), default=0)
    if highest >= rows:
        token = causal.template.tokenizer.convert_ids_to_tokens(highest)
        raise ModelError(
            f"{causal.name}: the texts hold token {highest} ({token!r}), but the model knows {rows} tokens. "
            "Its tokenizer belongs to another model"
        )
