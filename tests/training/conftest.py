"""Watching a training from inside, and interrupting it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Step:
    """What was true of the model while it learned from one batch."""

    training: bool
    trainable_dtypes: frozenset[str]
    trainable_names: tuple[str, ...]
    lora_dropouts: frozenset[float]
    lora_dropouts_active: bool
    twice_the_same: bool
    """True if two passes over the batch gave the same scores."""


class InterruptedTrainingError(Exception):
    """Stands for a killed process."""


Watch = Callable[..., Any]


@contextmanager
def _watched(inspect: bool = False, interrupt_at: int | None = None) -> Iterator[list[Step | None]]:
    """Every training step taken inside, in order.

    Args:
        inspect: Look at the model in each step, before its loss; costs two passes, and moves the random state.
        interrupt_at: Raise InterruptedTrainingError in place of this step, counted from 1.
    """
    from cda.training.trainer import ObjectiveTrainer

    steps: list[Step | None] = []
    step, loss = ObjectiveTrainer.training_step, ObjectiveTrainer.compute_loss
    inside = False

    def training_step(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal inside
        steps.append(None)
        if len(steps) == interrupt_at:
            raise InterruptedTrainingError
        inside = True
        try:
            return step(self, *arguments, **named)
        finally:
            inside = False

    def compute_loss(self: Any, model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        if inspect and inside:
            steps[-1] = _look(model, inputs)
        return loss(self, model, inputs, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectiveTrainer, "training_step", training_step)
        patch.setattr(ObjectiveTrainer, "compute_loss", compute_loss)
        yield steps


def _look(model: Any, inputs: Any) -> Step:
    import torch

    trainable = {name: weights for name, weights in model.named_parameters() if weights.requires_grad}
    dropouts = [
        part
        for name, part in model.named_modules()
        if ".lora_dropout." in name and isinstance(part, torch.nn.Dropout | torch.nn.Identity)
    ]
    with torch.no_grad():
        first, second = (
            model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits for _ in range(2)
        )
    return Step(
        training=model.training,
        trainable_dtypes=frozenset(str(weights.dtype) for weights in trainable.values()),
        trainable_names=tuple(trainable),
        lora_dropouts=frozenset(getattr(part, "p", 0.0) for part in dropouts),
        lora_dropouts_active=bool(dropouts) and all(part.training for part in dropouts),
        twice_the_same=torch.equal(first, second),
    )


@pytest.fixture(scope="session")
def watched_training() -> Watch:
    """A context that records every training step, and can interrupt at one."""
    return _watched


@pytest.fixture(scope="session")
def interruption() -> type[Exception]:
    """What `watched_training(interrupt_at=…)` raises."""
    return InterruptedTrainingError
