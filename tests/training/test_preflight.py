"""What TRL, Transformers or a tracker would refuse is refused before anything is spent, and what they take passes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cda.errors import RecipeError
from cda.training.arguments import check_arguments, tracker_problems

REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"report_to": "tensorbord"}, r"train\.report_to=tensorbord: .*not supported.*Did you mean 'tensorboard'\?"),
    (
        {"metric_for_best_model": "eval_acuracy"},
        r"train\.metric_for_best_model=eval_acuracy: not measured\. Did you mean",
    ),
    ({"optim": "lomo"}, "lomo"),
    ({"lr_scheduler_type": "cosine_with_min_lr"}, "min_lr"),
    ({"dataloader_num_workers": -1}, "num_workers"),
    ({"optim_args": "x"}, "unpack"),
    ({"gradient_accumulation_steps": 1.5}, r"train\.gradient_accumulation_steps: a whole number is needed, found 1\.5"),
)


@pytest.mark.parametrize(("train", "message"), REFUSED, ids=[next(iter(train)) for train, _ in REFUSED])
def test_what_a_training_would_refuse_is_refused(train: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        check_arguments(train, has_validation=True, precision="fp32")


@pytest.mark.parametrize(
    "train",
    [
        {},
        {"max_steps": 3, "report_to": []},
        {"dataloader_drop_last": True, "per_device_train_batch_size": 64},
        {"metric_for_best_model": "accuracy", "lr_scheduler_type": "cosine", "warmup_steps": 5},
    ],
)
@pytest.mark.parametrize("has_validation", [True, False])
def test_what_a_training_takes_passes(train: dict[str, Any], has_validation: bool) -> None:
    check_arguments(train, has_validation, "fp32")


def test_mistakes_of_several_kinds_are_said_together() -> None:
    with pytest.raises(RecipeError) as caught:
        check_arguments({"report_to": ["nope"], "metric_for_best_model": "x", "optim": "adamwx"}, True, "fp32")
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "train.report_to=nope", "train.metric_for_best_model=x", "train",
    ]  # fmt: skip


def test_under_a_launch_of_several_processes_it_is_tried_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(RecipeError, match="min_lr"):
        check_arguments({"lr_scheduler_type": "cosine_with_min_lr"}, True, "fp32")


def test_an_integration_without_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    monkeypatch.setattr(integration_utils, "is_wandb_available", lambda: False)
    (problem,) = tracker_problems({"report_to": "wandb"})
    assert problem.startswith("train.report_to=wandb: ") and "pip install wandb" in problem


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


def test_without_a_token_nothing_can_be_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(RecipeError, match=r"train\.push_to_hub: no token"):
        check_arguments({"push_to_hub": True}, True, "fp32")
