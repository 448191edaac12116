"""Arguments that would train nothing, or that TRL, Transformers or a tracker refuses, are refused with all of them named."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cda.errors import RecipeError
from cda.training.arguments import check_arguments, in_bf16, reward_config
from cda.training.trackers import tracker_problems

REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"report_to": "tensorbord"}, r"train\.report_to=tensorbord: .*not supported.*Did you mean 'tensorboard'\?"),
    ({"metric_for_best_model": "eval_acuracy"}, r"train\.metric_for_best_model=eval_acuracy: not measured\. Did you mean"),
    ({"optim": "lomo"}, "lomo"),
    ({"lerning_rate": 1e-4}, "lerning_rate"),
    ({"save_steps": 20, "eval_steps": 7}, "7"),
    ({"dataloader_num_workers": -1}, "num_workers"),
    ({"gradient_accumulation_steps": 1.5}, r"train\.gradient_accumulation_steps: a whole number is needed, found 1\.5"),
)  # fmt: skip


@pytest.mark.parametrize(("train", "message"), REFUSED, ids=[next(iter(train)) for train, _ in REFUSED])
def test_what_a_training_would_refuse_is_refused(train: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        check_arguments(train, has_validation=True, precision="fp32")


@pytest.mark.parametrize(
    ("train", "has_validation"),
    [
        ({"max_steps": 3, "report_to": []}, False),
        ({"dataloader_drop_last": True, "per_device_train_batch_size": 64}, True),
        ({"metric_for_best_model": "accuracy", "lr_scheduler_type": "cosine", "warmup_steps": 5}, True),
    ],
)
def test_what_a_training_takes_passes(train: dict[str, Any], has_validation: bool) -> None:
    check_arguments(train, has_validation, "fp32")


def test_ligers_kernels_leave_a_classifier_its_forward_pass(tmp_path: Path) -> None:
    given = {"use_liger_kernel": True, "liger_kernel_config": {"rope": False}}
    config = reward_config(given, tmp_path, 0, has_validation=False)
    assert config.liger_kernel_config == {"fused_linear_cross_entropy": False, "rope": False}
    assert reward_config({}, tmp_path, 0, has_validation=False).liger_kernel_config is None


def test_mistakes_of_several_kinds_are_said_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    train = {"report_to": ["nope"], "metric_for_best_model": "x", "push_to_hub": True, "optim": "adamwx"}
    with pytest.raises(RecipeError) as caught:
        check_arguments(train, True, "fp32")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "train.report_to=nope", "train.metric_for_best_model=x", "train.push_to_hub", "train",
    ]  # fmt: skip


def test_under_a_launch_of_several_processes_it_is_tried_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(RecipeError, match="min_lr"):
        check_arguments({"lr_scheduler_type": "cosine_with_min_lr"}, True, "fp32")


def test_weights_and_biases_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    found = SimpleNamespace(api=SimpleNamespace(api_key=None))
    monkeypatch.setitem(sys.modules, "wandb", found)
    monkeypatch.setattr(integration_utils, "is_wandb_available", lambda: True)
    monkeypatch.setattr(integration_utils, "WandbCallback", lambda: None)
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "wandb", lambda: None)
    (problem,) = tracker_problems({"report_to": "wandb"})
    assert "WANDB_API_KEY" in problem
    found.api.api_key = "known"
    assert tracker_problems({"report_to": "wandb"}) == []


def test_numbers_out_of_range_are_refused_together(tmp_path: Path) -> None:
    train = {"num_train_epochs": -1, "learning_rate": -1e-5, "per_device_train_batch_size": 0}
    with pytest.raises(RecipeError) as caught:
        reward_config(train, tmp_path, 0, has_validation=True)
    assert caught.value.problems == (
        "train.num_train_epochs: input should be greater than 0, found -1",
        "train.per_device_train_batch_size: input should be greater than 0, found 0",
        "train.learning_rate: input should be 0 or greater, found -1e-05",
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2.5])
def test_what_counts_pairs_is_a_whole_number(value: float, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="per_device_train_batch_size: "):
        reward_config({"per_device_train_batch_size": value}, tmp_path, 0, has_validation=True)


def test_with_a_number_of_steps_the_epochs_decide_nothing_and_a_share_of_the_steps_is_in_range(tmp_path: Path) -> None:
    train = {"max_steps": 5, "num_train_epochs": 0, "eval_steps": 0.1, "save_steps": 0.1}
    config = reward_config(train, tmp_path, 0, has_validation=True)
    assert (config.max_steps, config.eval_steps) == (5, 0.1)


def test_fp32_is_trained_in_fp32_on_a_gpu_too() -> None:
    asked = [(precision, on_gpu) for precision in ("fp32", "bf16", "8bit") for on_gpu in (True, False)]
    assert [in_bf16(*one) for one in asked] == [False, False, True, True, True, False]  # type: ignore[arg-type]


def test_the_launcher_s_precision_does_not_go_before_the_recipe_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As recipes/accelerate/*.yaml set it; `train.bf16` of the user's own is theirs to decide."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert reward_config({}, tmp_path, 0, has_validation=True, precision="fp32").mixed_precision == "no"
    config = reward_config({"bf16": True}, tmp_path, 0, has_validation=True, precision="fp32")
    assert config.bf16 and config.mixed_precision == "bf16"
