"""Bias files: shipped and of ones own, their options and their mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cda.biases import Bias, builtin_names, load_bias
from cda.counterfactuals.pairs import make_counterfactuals
from cda.embedded.rules import RuleRewriter
from cda.errors import RecipeError
from cda.recipe.load import load_recipe
from cda.records import LabelledPair, Pair, user_prompt
from cda.rewriting.labels import exhibits, label_pair

PAPER_BIASES = ("length", "structure", "jargon", "sycophancy", "vagueness")
EXCLAMATION = """\
name: shouting
description: Exclamation marks where full stops would do.
question: Does the response shout, with two or more exclamation marks?
instructions:
  add: End sentences with exclamation marks.
  remove: End sentences with full stops.
keep: [every fact]
measure: {feature: exclamations, present_above: 1.5}
offline:
  swaps_add:
    - {find: '\\.(?=\\s|$)', put: '!'}
  swaps_remove:
    - {find: '!', put: '.'}
  min_changes: 2
"""


def test_shipped_files_load_name_their_treatment_and_need_no_llm_for_the_paper_s_biases() -> None:
    biases = {name: load_bias(name) for name in builtin_names()}
    assert set(PAPER_BIASES) <= set(biases)
    for name, bias in biases.items():
        assert bias.name == name and bias.treatment and bias.opposite
        assert "opposite" not in bias.model_dump()  # finished stages do not depend on the word
        assert bias.measure is None or bias.measure.feature in bias.treatment, name
        if name in PAPER_BIASES:
            assert bias.measure is not None and bias.offline is not None, name
            assert bias.offline.phrases() or bias.offline.itemize, name
    offline = biases["vagueness"].offline
    assert offline is not None and "a certain amount" in offline.phrases()
    asked = {name for name, bias in biases.items() if bias.query_question is not None}
    assert asked == {"jargon", "structure", "vagueness-paper"}


def test_a_users_own_bias_by_path_labels_and_synthesizes_offline(tmp_path: Path) -> None:
    (tmp_path / "shouting.yaml").write_text(EXCLAMATION, encoding="utf-8")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "biases: shouting.yaml\nmodel: {name_or_path: embedded}\ndata: {pairs: embedded}\n", encoding="utf-8"
    )
    (bias,) = load_recipe(str(recipe)).biases  # the path is relative to the recipe
    pairs = [
        Pair(user_prompt("calm both"), "It is so. Fine.", "It is not so. Not fine."),
        Pair(user_prompt("loud chosen"), "Yes! Yes!", "No. No."),
        Pair(user_prompt("one sentence"), "It is so.", "It is not"),
    ]
    rows = [LabelledPair(pair, "train", {bias.name: label_pair(pair, bias)}) for pair in pairs]
    assert [row.labels["shouting"] for row in rows] == [
        {"chosen": False, "rejected": False},
        {"chosen": True, "rejected": False},
        {"chosen": False, "rejected": False},
    ]
    made = make_counterfactuals(rows, bias, RuleRewriter(), None, np.random.default_rng(0), check_measure=True)
    assert made.eligible == 2
    assert [row.pair.rejected for row in made.pairs] == ["It is not so! Not fine!"]
    assert made.pairs[0].pair.chosen == "It is so. Fine."
    assert dict(made.exclusions.reasons) == {"too few places to change": 1}
    assert exhibits(made.pairs[0].pair.rejected, bias)


OWN: dict[str, Any] = {
    "name": "own",
    "description": "Anything.",
    "question": "Is it so?",
    "instructions": {"add": "Make it so.", "remove": "Make it not so."},
    "keep": ["every fact"],
}


def load(folder: Path, **changes: Any) -> Bias:
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(OWN | changes), encoding="utf-8")
    return load_bias(str(path))


def test_unknown_names_and_missing_files() -> None:
    with pytest.raises(RecipeError, match=r"bias 'jargn' is unknown\. Did you mean 'jargon'\? Known: .*vagueness"):
        load_bias("jargn")
    with pytest.raises(RecipeError, match=r"bias file none/x\.yaml: no such file"):
        load_bias("none/x.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qestion": "x"}, "qestion: unknown key. Did you mean 'question'?"),
        ({"name": "Two Words"}, "name: string should match"),
        ({"measure": {"feature": "wrds", "present_above": 1}}, "measure.feature: unknown feature. Did you mean 'words'?"),
        ({"measure": {"feature": "words"}}, "give exactly one of present_above, present_below"),
        ({"measure": {"feature": "words", "present_above": 1, "present_below": 2}}, "give exactly one of present_above"),
        ({"treatment": ["words", "hedgs"]}, "treatment.1: unknown feature. Did you mean 'hedges'? Known: words, "),
        ({"limits": {"markers_per_100_words": None}}, "limits names markers_per_100_words, but markers is empty"),
        ({"measure": {"feature": "pattern_count", "present_above": 1}}, "pattern_count, but there is no pattern"),
        ({"treatment": ["pattern_per_100_words"]}, "treatment names pattern_per_100_words, but there is no pattern"),
        ({"pattern": "(sure"}, "pattern: not a regular expression (missing ), unterminated subpattern"),
        ({"pattern": "[[:alpha:]]"}, "put a backslash"),
        ({"label_by": "measure", "measure": None}, "label_by is measure, but there is no measure"),
        ({"keep": []}, "keep: list should have at least 1 item"),
        ({"offline": {"swaps_add": [{"find": "(", "put": "x"}]}}, "offline.swaps_add.0.find: not a regular expression"),
        ({"offline": {"swaps_add": [{"find": "a", "put": r"\1"}]}}, "does not fit find"),
        ({"instructions": {"add": "x"}}, "instructions.remove: missing"),
        ({"limits": {"words": {}}}, "limits.words: give ratio, difference, or both"),
        ({"aspects": {"Not A Name": "Is it?"}}, "string should match pattern"),
    ],
)  # fmt: skip
def test_each_mistake_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, **(yaml.safe_load(EXCLAMATION) | change))
    assert len(caught.value.problems) == 1
    assert str(tmp_path / "own.yaml") in str(caught.value)
    assert message in str(caught.value)


def test_a_short_name_is_one_short_line_and_decides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shout.yaml"
    path.write_text(f"{EXCLAMATION}short_name: Shouts\n")
    bias = load_bias(str(path))
    assert bias.short_name == "Shouts" and "short_name" not in bias.model_dump()
    for wrong, said in {"x" * 31: "at most 30 characters", "' '": "match pattern", '"a\\nb"': "match pattern"}.items():
        path.write_text(f"{EXCLAMATION}short_name: {wrong}\n")
        with pytest.raises(RecipeError, match=f"shout.yaml: short_name: string should .*{said}") as caught:
            load_bias(str(path))
        assert len(caught.value.problems) == 1


def test_all_mistakes_are_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    content = yaml.safe_load(EXCLAMATION) | {"qestion": "x", "keep": [], "name": "A"}
    del content["description"]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_bias(str(path))
    assert len(caught.value.problems) == 4


def test_a_pattern_is_a_measure(tmp_path: Path) -> None:
    bias = load(
        tmp_path,
        pattern=r"(?i)\A(?:sure|certainly)\b",
        measure={"feature": "pattern_count", "present_above": 0.5},
        treatment=["pattern_count"],
    )
    assert bias.shows("Certainly! It is.") is True
    assert bias.shows("It is.\nSure.") is False
    assert bias.measured("Sure, sure!", "pattern_count") == 1 and bias.measured("Sure, sure!", "exclamations") == 1


def test_white_space_is_a_difference_only_where_it_is_the_bias(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(EXCLAMATION, encoding="utf-8")
    bias = load_bias(str(path))
    assert not bias.respaced("One two.", "One   two.")
    assert bias.model_copy(update={"treatment": ["wide_spaces"]}).respaced("One two.", "One   two.")
    spaced = bias.model_copy(update={"treatment": ["pattern_count"], "pattern": "\u00a0"})
    assert spaced.respaced("One two.", "One\u00a0two.") and not spaced.respaced("One two.", "One  two.")


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
