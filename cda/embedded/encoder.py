"""Sentence embeddings by the MiniLM encoder, for how alike two texts are in meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cda.embedded.model import encoder_folder
from cda.inert import sendable
from cda.quiet import hides_bars

_BATCH_TEXTS = 32


def encode_sentences(texts: Sequence[str], max_tokens: int = 256) -> NDArray[np.float64]:
    """Mean of each text's last hidden states, not normalised. Shape (n, 384). Each distinct text is encoded once.

    Args:
        texts: object number.
        max_tokens: Longer texts are cut; the encoder was trained on 256 and holds 512.

    Raises:
        ModelError: The encoder's package is not installed.
    """
    import torch
    from tqdm import tqdm
    from transformers import AutoModel, AutoTokenizer

    folder = str(encoder_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    distinct = sorted(set(texts), key=len)  # of similar length together, so that padding is short
    found: dict[str, NDArray[np.float64]] = {}
    with torch.inference_mode(), tqdm(total=len(distinct), desc="  encoding", unit="text", disable=hides_bars()) as bar:
        for start in range(0, len(distinct), _BATCH_TEXTS):
            batch = distinct[start : start + _BATCH_TEXTS]
            encoded = tokenizer(
                list(map(sendable, batch)), padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
            )
            mask = encoded["attention_mask"].unsqueeze(-1)
            pooled = (model(**encoded).last_hidden_state * mask).sum(1) / mask.sum(1)
            found.update(zip(batch, pooled.double().numpy(), strict=True))
            bar.update(len(batch))
    return np.array([found[text] for text in texts])
