"""A reward model of one line: processes that prove something else than a model need not load transformers first."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

from cda.models.config import ModelSpec
from cda.models.load import RewardModel
from cda.models.template import Encoded
from cda.records import Prompt

N_IDS = 100
LONGEST = 24


class Words:
    """A template: one id a word, cut at 24."""

    pad_token_id = 0
    max_length_tokens = LONGEST

    def encode(self, prompt: Prompt, response: str) -> Encoded:
        words = f"{prompt[-1].content} {response}".split()
        ids = [1 + zlib.crc32(word.encode()) % (N_IDS - 1) for word in words]
        return Encoded(ids[:LONGEST], len(ids) > LONGEST)


class Summed:
    """The reward of a text is the sum of a number for each of its ids; an unknown id is torch's own error."""

    config = SimpleNamespace(get_text_config=SimpleNamespace)  # does not say how many tokens the model knows

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cpu")

    def __call__(self, input_ids: Any, attention_mask: Any) -> Any:
        import torch

        numbers = self.factor * torch.sin(torch.arange(N_IDS, dtype=torch.float32))[:, None]
        each = torch.nn.functional.embedding(input_ids, numbers)[:, :, 0]
        return SimpleNamespace(logits=(each * attention_mask).sum(1, keepdim=True))


def summed_model(factor: float = 1.0) -> RewardModel:
    """Picklable by name, for workers."""
    return RewardModel(Summed(factor), Words(), ModelSpec("summed", "fp32", LONGEST), ())  # type: ignore[arg-type]
