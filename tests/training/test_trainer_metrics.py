"""What the trainer notes of a batch, with the pairs that several processes fill a last batch up with counted once."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cda.training.trainer import ObjectiveTrainer


class Filled:
    """Gathers the last batch of an evaluation: of its four pairs the first three are there, the fourth is one of them again."""

    def gather(self, values: Any) -> Any:
        return values

    def gather_for_metrics(self, values: Any) -> Any:
        return values[:3]


def noted(training: bool) -> dict[str, list[float]]:
    metrics: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in ("train", "eval")}
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=training), accelerator=Filled(), state=SimpleNamespace(global_step=1), _metrics=metrics,
        _keeps_tokens=False, _total_train_tokens=0,
    )  # fmt: skip
    first, second = torch.tensor([2.0, 1.0, 1.0, 9.0]), torch.tensor([1.0, 2.0, 0.0, 1.0])
    inputs = {"attention_mask": torch.ones(8, 5), "target": torch.tensor([1.0, 1.0, 0.5, 1.0])}
    ObjectiveTrainer._note(trainer, torch.tensor(0.3), torch.cat([first, second]), first - second, inputs)
    return metrics["train" if training else "eval"]


def test_pairs_that_fill_up_an_evaluation_s_last_batch_count_once() -> None:
    found = noted(training=False)
    assert found["accuracy"] == [1.0, 0.0]
    assert found["margin"] == [pytest.approx(1 / 3)]
    assert (found["min_reward"], found["max_reward"]) == ([0.0], [2.0])


def test_in_training_every_pair_that_was_trained_on_counts() -> None:
    found = noted(training=True)
    assert found["accuracy"] == [1.0, 1.0, 0.0]
    assert (found["max_reward"], found["num_tokens"]) == ([9.0], [40])
