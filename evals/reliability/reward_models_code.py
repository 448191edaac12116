"""Custom code of three tiny reward models, copied into their folders: what a published model's own file looks like."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.utils import ModelOutput


@dataclass
class Scored(ModelOutput):
    """`score` is the reward, shape (B,); `logits` are three attributes, shape (B, 3), none of which is the reward."""

    logits: Tensor | None = None
    score: Tensor | None = None
    rewards: Tensor | None = None


def _at_end(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    if attention_mask is None:
        return hidden[:, -1]
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    return hidden[torch.arange(len(hidden), device=hidden.device), (positions * attention_mask).argmax(-1)]


class TinyAttributesModel(LlamaPreTrainedModel):
    """Three attributes and fixed weights in a buffer."""

    def __init__(self, config):  # type: ignore[no-untyped-def]
        super().__init__(config)
        self.model = LlamaModel(config)
        self.attributes = nn.Linear(config.hidden_size, 3)
        self.register_buffer("weights", torch.ones(3))
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **_kwargs):  # type: ignore[no-untyped-def]
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        attributes = self.attributes(_at_end(hidden, attention_mask))
        return Scored(logits=attributes, score=(attributes * self.weights).sum(-1))


class TinyUncertainModel(LlamaPreTrainedModel):
    """Five attributes, each a mean and a spread, and a gate of the same hidden state: `logits` is the reward, shape (B, 1)."""

    def __init__(self, config):  # type: ignore[no-untyped-def]
        super().__init__(config)
        self.model = LlamaModel(config)
        self.value_head = nn.Linear(config.hidden_size, 10)
        self.gate = nn.Linear(config.hidden_size, 5)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **_kwargs):  # type: ignore[no-untyped-def]
        hidden = _at_end(self.model(input_ids, attention_mask=attention_mask).last_hidden_state, attention_mask)
        means = self.value_head(hidden)[:, :5]
        return Scored(logits=(self.gate(hidden).softmax(-1) * means).sum(-1, keepdim=True))


class TinyRewardsModel(LlamaPreTrainedModel):
    """A model that only AutoModel can load; `rewards` has shape (B, 1, 1)."""

    def __init__(self, config):  # type: ignore[no-untyped-def]
        super().__init__(config)
        self.model = LlamaModel(config)
        self.reward_head = nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **_kwargs):  # type: ignore[no-untyped-def]
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        return Scored(rewards=self.reward_head(_at_end(hidden, attention_mask))[:, None])
