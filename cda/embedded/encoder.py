"""Sentence embeddings by the MiniLM encoder, for how alike two texts are in meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cda.embedded.model import encoder_folder

_BATCH_TEXTS = 32
_MAX_TOKENS = 256


def encode_sentences(texts: Sequence[str]) -> NDArray[np.float64]:
    """Mean of each text's last hidden states, as the encoder was trained (cut at 256 tokens). Shape (n, 384).

    Raises:
        ModelError: The encoder's package is not installed.
    """
    import torch
    from tqdm import tqdm
    from transformers import AutoModel, AutoTokenizer

    folder = str(encoder_folder())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    vectors = np.empty((len(texts), model.config.hidden_size))
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    with torch.inference_mode(), tqdm(total=len(texts), desc="  encoding", unit="text") as bar:
        for start in range(0, len(order), _BATCH_TEXTS):
            rows = order[start : start + _BATCH_TEXTS]
            batch = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt"
            )
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            vectors[rows] = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
            bar.update(len(rows))
    return vectors
