"""A model and its tokenizer that are in memory already, as a scorer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cda.errors import ModelError
from cda.models.load import ModelSpec, RewardModel
from cda.models.segments import add_segments, wants_segments
from cda.models.template import Template
from cda.score.classifier import ClassifierScorer


@dataclass
class InMemoryModel(ClassifierScorer):
    """A scorer over a model that somebody else has loaded, at the precision that it has."""

    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Nothing tells its weights from those of another object, so no two take each other's scores."""

    @property
    def name(self) -> str:
        """For artifacts."""
        return self.reward_model.spec.name_or_path

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides its answers."""
        return {"scorer": self.name, "in memory": self.mark}

    @property
    def how(self) -> str:
        """How it scores, for reports."""
        template, dtype = self.reward_model.template, self.reward_model.model.dtype
        return (
            f"Scored by {self.name} as it was in memory, in {str(dtype).removeprefix('torch.')}; {template.form}, at most "
            f"{template.max_length_tokens} tokens"
        )


@contextmanager
def model_in_memory(model: Any, tokenizer: Any, name: str, max_length_tokens: int) -> Iterator[InMemoryModel]:
    """Have a model score as one that is loaded from its folder does, and leave it as it was.

    Args:
        model: Sequence classifier with one label, on any device.
        tokenizer: Its tokenizer.
        name: For messages and reports.
        max_length_tokens: Prompt and response together; longer texts are cut and counted.

    Raises:
        ModelError: It has several labels, or the tokenizer cannot be used.
    """
    config = getattr(model, "config", None)
    labels = getattr(config, "num_labels", None)
    if config is None or labels != 1:
        raise ModelError(
            f"{name}: has {'no config' if config is None else f'{labels} labels'}; a reward model is a sequence classifier of "
            "Transformers with num_labels=1. Anything else can be given as a function (prompts, responses) -> rewards"
        )
    text_config = config.get_text_config()
    limits = [max_length_tokens, int(getattr(text_config, "max_position_embeddings", None) or max_length_tokens)]
    limits.append(int(min(tokenizer.model_max_length, max_length_tokens)))
    template = Template(tokenizer, min(limits), text_config.pad_token_id, wants_segments(tokenizer, text_config))
    was_training, before = model.training, [(one, one.pad_token_id) for one in (config, text_config)]
    use_cache = getattr(text_config, "use_cache", None)
    hooks = add_segments(model, tokenizer.sep_token_id) if template.segments else []
    for one, _ in before:
        one.pad_token_id = template.pad_token_id  # sequence classifiers find the last real token by this id
    if use_cache is not None:
        text_config.use_cache = False
    model.eval()
    try:
        spec = ModelSpec(name, "fp32", template.max_length_tokens)
        yield InMemoryModel(RewardModel(model, template, spec, ()), label="  scoring")
    finally:
        for hook in hooks:
            hook.remove()
        for one, pad in before:
            one.pad_token_id = pad
        if use_cache is not None:
            text_config.use_cache = use_cache
        model.train(was_training)
