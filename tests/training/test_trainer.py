"""The trainer: the checkpoint it goes on from, what it notes, and its loss by hand, against TRL's, and as a training reaches it."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.records import Pair, TrainingExample
from cda.scorers.classifier import ClassifierScorer
from cda.training.arguments import Lora
from cda.training.chunks import collator, encode_pairs
from cda.training.lora import train_adapter
from cda.training.trainer import (
    EndAtBest,
    FindBest,
    ObjectiveTrainer,
    newest_whole,
    ordered_as_taught,
    preference_loss,
    seal,
)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Whole checkpoints of steps 2, 4 and 10; from step 4 on, 4 is the best."""
    for step, best in ((2, 2), (4, 4), (10, 4)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "optimizer.pt").write_bytes(bytes(100))
        seal(folder)
        state = {"best_model_checkpoint": f"/elsewhere/checkpoint-{best}"}
        (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    return tmp_path


def found(folder: Path) -> tuple[str | None, list[str]]:
    """Name of the checkpoint, and what was said."""
    said: list[str] = []
    checkpoint = newest_whole(folder, said.append)
    return None if checkpoint is None else checkpoint.name, said


def test_the_newest_by_its_number(checkpoints: Path) -> None:
    assert found(checkpoints) == ("checkpoint-10", [])


@pytest.mark.parametrize("file", ["optimizer.pt", "trainer_state.json", "contents.json"])
def test_one_with_a_cut_file_is_passed_over_and_named(checkpoints: Path, file: str) -> None:
    path = checkpoints / "checkpoint-10" / file
    path.write_bytes(path.read_bytes()[:-2])
    assert found(checkpoints) == ("checkpoint-4", ["  checkpoint-10 is not whole; passed over"])


def test_one_whose_best_is_not_whole_is_passed_over(checkpoints: Path) -> None:
    (checkpoints / "checkpoint-4" / "optimizer.pt").unlink()
    name, said = found(checkpoints)
    assert name == "checkpoint-2" and len(said) == 2


def test_a_state_that_is_written_after_the_seal_is_no_change(checkpoints: Path) -> None:
    state = checkpoints / "checkpoint-10" / "trainer_state.json"
    state.write_text('{"best_model_checkpoint": null, "step": 10}', encoding="utf-8")
    assert found(checkpoints) == ("checkpoint-10", [])


def test_in_a_moved_folder_a_training_goes_on_with_the_best_where_it_lies_now(checkpoints: Path) -> None:
    """The library looks for it by the whole path, and forgets it with a warning where there is nothing."""
    from transformers import TrainerState

    state = TrainerState(best_model_checkpoint=None)
    FindBest(checkpoints / "checkpoint-10").on_train_begin(None, state, None)
    assert state.best_model_checkpoint == str(checkpoints / "checkpoint-4")
    fresh = TrainerState(best_model_checkpoint=None)
    FindBest(None).on_train_begin(None, fresh, None)
    assert fresh.best_model_checkpoint is None


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


def loss(differences: list[float], targets: list[float], margins: list[float], weights: list[float]) -> float:
    import torch

    columns = (torch.tensor(values, dtype=torch.float64) for values in (differences, targets, margins, weights))
    return float(preference_loss(*columns))


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


@pytest.mark.parametrize(
    ("difference", "target", "margin", "expected"),
    [
        (1.5, 1.0, 0.0, -log_sigmoid(1.5)),  # TRL's pairwise loss
        (1.5, 1.0, 0.5, -log_sigmoid(1.0)),
        (1.5, 0.0, 0.5, -log_sigmoid(-2.0)),  # the pair the other way round
        (0.0, 0.5, 0.0, math.log(2)),
        (1.0, 0.5, 0.0, -(log_sigmoid(1.0) + log_sigmoid(-1.0)) / 2),
        (-1.0, 0.5, 0.0, -(log_sigmoid(1.0) + log_sigmoid(-1.0)) / 2),
    ],
)
def test_losses_by_hand(difference: float, target: float, margin: float, expected: float) -> None:
    assert loss([difference], [target], [margin], [1]) == pytest.approx(expected)


@pytest.mark.parametrize("target", [0.5, 0.8])
def test_a_tie_or_soft_target_is_least_where_sigma_of_the_difference_is_the_target(target: float) -> None:
    best = math.log(target / (1 - target))
    at = [loss([best + step], [target], [0], [1]) for step in (-0.1, 0.0, 0.1)]
    assert min(at) == at[1]


def test_weights_scale_a_pair_whatever_is_beside_it() -> None:
    alone, beside = loss([0.3], [1], [0], [3]), loss([0.3, 2.0], [1, 1], [0, 0], [3, 0])
    assert alone == pytest.approx(3 * -log_sigmoid(0.3))
    assert beside == pytest.approx(alone / 2)  # the mean is over pairs


def test_ties_have_no_side_to_agree_with() -> None:
    import torch

    differences = torch.tensor([1.0, -1.0, 0.0, 2.0, -2.0])
    targets = torch.tensor([1.0, 0.3, 1.0, 0.5, 1.0])
    assert ordered_as_taught(differences, targets) == (2, 4)


@pytest.mark.parametrize("target", [0.0, 0.3, 0.7, 1.0])
def test_equal_rewards_agree_with_no_side_whichever_is_taught(target: float) -> None:
    import torch

    assert ordered_as_taught(torch.tensor([0.0, 0.0]), torch.tensor([target, 0.5])) == (0, 1)


def test_gradients_are_trls_own_on_the_same_batch(llama: Path, preference_pairs: list[Pair], tmp_path: Path) -> None:
    import torch
    from trl import RewardConfig, RewardTrainer
    from trl.trainer.reward_trainer import DataCollatorForPreference

    from cda.training.trainer import ObjectiveTrainer

    def gradients(kind: type, **own: Any) -> dict[str, Any]:
        loaded = load_reward_model(ModelSpec(str(llama), "fp32", 64))
        dataset = encode_pairs([TrainingExample(pair) for pair in preference_pairs[:8]], loaded.template).dataset
        config = RewardConfig(
            str(tmp_path), use_cpu=True, bf16=False, max_length=None, remove_unused_columns=False, report_to="none"
        )
        pad = loaded.template.pad_token_id
        collate = collator(pad) if own else DataCollatorForPreference(pad_token_id=pad)
        trainer = kind(
            model=loaded.model, args=config, train_dataset=dataset, processing_class=loaded.template.tokenizer,
            data_collator=collate, **own,
        )  # fmt: skip
        loaded.model.train()
        batch = collate([dataset[row] for row in range(8)])
        trainer.compute_loss(loaded.model, batch).backward()
        return {name: one.grad for name, one in loaded.model.named_parameters() if one.grad is not None}

    ours, theirs = gradients(ObjectiveTrainer, overhead_tokens=0), gradients(RewardTrainer)
    assert ours.keys() == theirs.keys()
    assert max(float(one.abs().max()) for one in theirs.values()) > 1e-3
    for name, one in theirs.items():
        torch.testing.assert_close(ours[name], one, atol=1e-5, rtol=0)


def test_training_reaches_ties_and_soft_targets(
    llama: Path, preference_pairs: list[Pair], lora: Lora, train_arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    """One model learns a tie, a soft target and the pair the other way round, each of pairs of its own."""
    loaded, pairs = load_reward_model(ModelSpec(str(llama), "fp32", 64)), preference_pairs[:3]
    examples = [TrainingExample(pair, target) for pair, target in zip(pairs, (0.5, 0.75, 0.0), strict=True)]
    arguments = {
        **train_arguments,
        "num_train_epochs": 100,
        "learning_rate": 1e-2,
        "save_strategy": "no",
        "logging_steps": 100,
    }
    adapter = train_adapter(loaded, examples, [], lora.model_copy(update={"dropout": 0.0}), arguments, tmp_path, 0)
    scorer = ClassifierScorer(load_reward_model(ModelSpec(str(llama), "fp32", 64), adapter.adapter))
    chosen, rejected = (
        scorer.score([pair.prompt for pair in pairs], [getattr(pair, side) for pair in pairs])
        for side in ("chosen", "rejected")
    )
    tie, soft, turned = chosen - rejected
    assert (tie, soft) == (pytest.approx(0, abs=0.15), pytest.approx(math.log(3), abs=0.25))
    assert turned < -1.5


@pytest.mark.parametrize(
    ("accuracy", "changes", "ends"),
    [
        (1.0, {}, True),
        (0.99, {}, False),
        (1.0, {"load_best_model_at_end": False}, False),
        (1.0, {"metric_for_best_model": "eval_loss"}, False),  # may still fall
        (1.0, {"greater_is_better": False}, False),
    ],
)
def test_a_training_ends_once_no_checkpoint_can_be_better(accuracy: float, changes: dict[str, Any], ends: bool) -> None:
    usual = {"load_best_model_at_end": True, "metric_for_best_model": "eval_accuracy", "greater_is_better": True}
    state, control = (
        SimpleNamespace(global_step=20, max_steps=24),
        SimpleNamespace(should_training_stop=False, should_save=True),
    )
    EndAtBest().on_evaluate(SimpleNamespace(**usual | changes), state, control, {"eval_accuracy": accuracy})
    assert control.should_training_stop is ends
