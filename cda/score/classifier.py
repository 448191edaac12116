"""Scores with a sequence classifier: batches of similar length, padded on the right, within a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cda.errors import ModelError
from cda.models.load import RewardModel
from cda.models.template import Encoded
from cda.records import Prompt, content_id
from cda.score.protocols import FloatArray


@dataclass
class ClassifierScorer:
    """A PointwiseScorer over a loaded reward model.

    Args:
        reward_model: Loaded model, with its template.
        batch_tokens: Padded tokens in a batch at most.
        label: Shown beside the progress bar; None for no bar.
    """

    reward_model: RewardModel
    batch_tokens: int = 8192
    label: str | None = None
    n_truncated: int = field(default=0, init=False)
    """How many of the texts scored last were cut at max_length_tokens."""
    read: list[str | None] = field(default_factory=list, init=False)
    """Of each text scored last: a name of the tokens that were left of it, where it was cut."""

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards, shape (n,). Padding is always on the right, whatever side the tokenizer pads on.

        Raises:
            ModelError: A reward is NaN or infinite.
        """
        import torch
        from tqdm import tqdm

        template = self.reward_model.template
        encoded = template.encode_all(prompts, responses)
        self.n_truncated = sum(one.truncated for one in encoded)
        self.read = [content_id("read", one.ids) if one.truncated else None for one in encoded]
        rewards = np.full(len(encoded), np.nan)
        with (
            tqdm(total=len(encoded), desc=self.label, unit="text", disable=self.label is None) as bar,
            torch.inference_mode(),
        ):
            for rows in batches(encoded, self.batch_tokens):
                rewards[rows] = self._forward([encoded[row].ids for row in rows])
                bar.update(len(rows))
        broken = np.flatnonzero(~np.isfinite(rewards))
        if broken.size:
            raise ModelError(
                f"{self.reward_model.spec.name_or_path}: {broken.size} of {len(encoded)} rewards are NaN or infinite "
                f"(first: text {broken[0]}). Try model.precision=fp32"
            )
        return rewards

    def _forward(self, ids: list[list[int]]) -> FloatArray:
        import torch

        model, pad = self.reward_model.model, self.reward_model.template.pad_token_id
        width = max(map(len, ids))
        input_ids = torch.tensor([row + [pad] * (width - len(row)) for row in ids])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
        # token_type_ids are left out: the trainer's collator has none, and scores must match training.
        output = model(input_ids=input_ids.to(model.device), attention_mask=mask.to(model.device))
        return output.logits[:, 0].float().cpu().numpy().astype(np.float64)  # type: ignore[no-any-return]


def batches(encoded: Sequence[Encoded], batch_tokens: int) -> Iterator[list[int]]:
    """Rows in batches of similar length, longest first, so that a batch too large for memory fails at once.

    Args:
        encoded: Texts.
        batch_tokens: Budget of padded tokens (rows times longest row); a single longer text is a batch by itself.
    """
    order = sorted(range(len(encoded)), key=lambda row: (-len(encoded[row].ids), row))
    batch: list[int] = []
    for row in order:
        width = len(encoded[batch[0]].ids) if batch else len(encoded[row].ids)
        if batch and width * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
