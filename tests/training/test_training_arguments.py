"""Training arguments that the trainer would take without a word, to train nothing, are refused with all of them named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.errors import RecipeError
from cda.training.arguments import in_bf16, reward_config


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


def test_with_a_number_of_steps_the_epochs_decide_nothing(tmp_path: Path) -> None:
    config = reward_config({"max_steps": 5, "num_train_epochs": 0}, tmp_path, 0, has_validation=True)
    assert config.max_steps == 5


def test_a_share_of_the_steps_is_in_range(tmp_path: Path) -> None:
    assert reward_config({"eval_steps": 0.1, "save_steps": 0.1}, tmp_path, 0, has_validation=True).eval_steps == 0.1


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
