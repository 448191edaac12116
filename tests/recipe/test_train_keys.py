"""Fields of TRL's RewardConfig that are known without importing it, and recipes that load without it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from cda.errors import RecipeError
from cda.recipe.checks import USUAL_TRAIN_KEYS, unknown_train_keys
from cda.recipe.load import load_recipe

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
        "import sys; from cda.recipe.load import load_recipe; "
        "[load_recipe(name) for name in ('jargon', 'joint', 'faithful')]; "
        "print(sorted({'torch', 'trl', 'transformers', 'peft'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        ([], (42,)),
        (["train.seeds=3"], (42, 43, 44)),
        (["train.seeds=2", "seed=7"], (7, 8)),
        (["train.seeds=[9, 3, 0]"], (9, 3, 0)),
        (["train.seeds=2", "seed=4294967294"], (4294967294, 4294967295)),
    ],
)
def test_seeds_are_counted_from_the_recipe_s_or_listed(words: list[str], seeds: tuple[int, ...]) -> None:
    recipe = load_recipe("jargon", words).recipe
    assert recipe.seeds == seeds and "seeds" not in recipe.trainer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *[([f"train.seeds={seeds}"], "give the number of trainings, from 1 to 100 (train.seeds=3), or a list of as many different seeds")
          for seeds in ("0", "1000000000000", "true", "42,1,2", "[1, a]", "[5, 1, 5]", "[5, 4294967296]", "[]", "[true, 1]", list(range(101)))],
        (["train.seeds=3", "seed=4294967295"], "3 seeds counted from seed=4294967295 pass 4294967295"),
        (["train.seeds=2", "train.data_seed=1"], "train.data_seed: not with several seeds"),
        (["train.seeds=[1, 2]", "train.hub_model_id=a/b"], "train.hub_model_id: not with several seeds"),
        (["train.seeds=2", "train.report_to=[tensorboard, comet_ml]"], "train.report_to: comet_ml would take several"),
    ],
)  # fmt: skip
def test_seeds_that_cannot_be(words: list[str], said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("jargon", words)
    assert said in str(caught.value) and "train." in str(caught.value)
