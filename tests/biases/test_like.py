"""A bias file that takes the rest of its fields from a built-in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.biases import load_bias
from cda.errors import RecipeError


def test_a_file_states_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text("name: long\nlike: length\nmin_words_of_chosen: 2\n", encoding="utf-8")
    found, length = load_bias(str(path)), load_bias("length")
    assert found.name == "long" and found.min_words_of_chosen == 2
    assert found == length.model_copy(update={"name": "long", "min_words_of_chosen": 2.0})
    for turn in ("length", "vagueness"):
        second = load_bias(f"{turn}-second-turn")
        same = {"name": second.name, "description": second.description}
        assert second == load_bias(turn).model_copy(update=same) and second.description != load_bias(turn).description


@pytest.mark.parametrize("named", ["lenght", "own.yaml", "[1]", "null"])
def test_only_built_in_biases_can_be_named(tmp_path: Path, named: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nlike: {named}\n", encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_bias(str(path))
    (problem,) = caught.value.problems
    assert (
        problem.startswith(f"{path}: like: '")
        and "is no built-in bias." in problem
        and "Known: complexity, " in problem
    )
    assert ("Did you mean 'length'?" in problem) == (named == "lenght")


def test_a_mistake_beside_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nlike: length\nquestoin: Is it?\n", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"questoin: unknown key\. Did you mean 'question'"):
        load_bias(str(path))
