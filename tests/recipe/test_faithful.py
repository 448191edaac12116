"""The paper's experiment, written out: every number of it, and that the defaults are the same training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cda.recipe.load import LoadedRecipe, load_recipe
from cda.training.arguments import reward_config

DEFAULTS = ["model=llama-8b", "data=paper", "llm.model=x", "model.precision=8bit"]
# Names of folders and of the run, which say nothing about the training.
NOT_TRAINING = {"output_dir", "logging_dir", "run_name"}


def trainer_settings(loaded: LoadedRecipe, folder: Path) -> dict[str, Any]:
    config = reward_config(loaded.recipe.train, folder, loaded.recipe.seed, has_validation=True)
    return {key: value for key, value in config.to_dict().items() if key not in NOT_TRAINING}


def test_every_number_of_the_paper() -> None:
    recipe = load_recipe("faithful").recipe
    assert (recipe.biases, recipe.seed) == (["jargon"], 42)
    assert recipe.model.name_or_path == "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"
    assert (recipe.model.precision, recipe.model.max_length_tokens) == ("8bit", 512)
    assert (recipe.lora.r, recipe.lora.alpha, recipe.lora.dropout) == (16, 32, 0.05)
    assert recipe.lora.target_modules == ["q_proj", "v_proj"]
    assert (recipe.data.pairs, recipe.data.validation_share) == ("Skywork/Skywork-Reward-Preference-80K-v0.2", 0.1)
    assert (recipe.synthesize.counterfactuals, recipe.synthesize.supplementary) == ({"jargon": 750}, {"jargon": 250})
    assert (recipe.label.by, recipe.synthesize.by) == ("llm", "llm")
    assert [objective.kind for objective in recipe.objectives] == ["pairs"]
    assert recipe.objectives[0].target is None and recipe.objectives[0].margin == 0


def test_the_trainer_gets_the_paper_s_settings(tmp_path: Path) -> None:
    got = trainer_settings(load_recipe("faithful"), tmp_path)
    # No max_length: pairs are cut before the trainer sees them; it would leave long ones out.
    expected = {
        "num_train_epochs": 3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 2e-5,
        "lr_scheduler_type": "constant", "warmup_steps": 0, "optim": "adamw_torch", "weight_decay": 0.01,
        "eval_strategy": "steps", "eval_steps": 20, "save_strategy": "steps", "save_steps": 20, "load_best_model_at_end": True,
        "metric_for_best_model": "eval_accuracy", "greater_is_better": True, "seed": 42, "disable_dropout": False, "max_length": None,
    }  # fmt: skip
    assert {key: got[key] for key in expected} == expected


def test_the_defaults_are_the_same_training(tmp_path: Path) -> None:
    faithful, defaults = load_recipe("faithful"), load_recipe("jargon", DEFAULTS)
    assert trainer_settings(faithful, tmp_path) == trainer_settings(defaults, tmp_path)
    for section in ("lora", "objectives", "seed"):
        assert getattr(faithful.recipe, section) == getattr(defaults.recipe, section)
    without_preset = {"preset": None}
    assert faithful.recipe.model == defaults.recipe.model.model_copy(update=without_preset)
    # The one difference: how many pairs are drawn to be labelled.
    drawn = {**without_preset, "max_pairs": 10000}
    assert faithful.recipe.data == defaults.recipe.data.model_copy(update=drawn)
