"""Fields of TRL's RewardConfig that are known without importing it, and recipes that load without it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

from cda.config.train_keys import USUAL_TRAIN_KEYS, unknown_train_keys

RECIPE = Path("mine.yaml")


def test_the_usual_keys_are_trl_s_and_numbers_where_these_are() -> None:
    from trl import RewardConfig

    types = {field.name: str(field.type) for field in dataclasses.fields(RewardConfig) if field.init}
    assert set(USUAL_TRAIN_KEYS) <= set(types)
    numbers = {
        key for key in USUAL_TRAIN_KEYS if ("int" in types[key] or "float" in types[key]) and "str" not in types[key]
    }
    assert numbers == {key for key, is_number in USUAL_TRAIN_KEYS.items() if is_number}


def test_mistakes_are_found_beside_usual_keys() -> None:
    assert unknown_train_keys({"learning_rate": 2e-5, "optim": "adamw_torch"}, RECIPE) == []
    assert unknown_train_keys({"learning_rate": "fast"}, RECIPE) == [
        "mine.yaml: train.learning_rate: expected a number, found 'fast'"
    ]
    (unknown,) = unknown_train_keys({"learning_rate": 2e-5, "learning_rat": 1}, RECIPE)
    assert "train.learning_rat: not a field of trl.RewardConfig. Did you mean 'learning_rate'?" in unknown
    (owned,) = unknown_train_keys({"save_steps": 20, "seed": 1}, RECIPE)
    assert "train.seed: set it by seed" in owned


def test_shipped_recipes_load_without_the_training_libraries() -> None:
    code = (
        "import sys; from cda.config.load import load_recipe; "
        "[load_recipe(name) for name in ('jargon', 'joint', 'faithful')]; "
        "print(sorted({'torch', 'trl', 'transformers', 'peft'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
