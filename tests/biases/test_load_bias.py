"""Bias files: shipped and of ones own, their options and their mistakes."""

from __future__ import annotations

import re
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


def test_shipped_bias_files_load_and_are_named_like_their_file() -> None:
    names = builtin_names()
    assert set(PAPER_BIASES) <= set(names)
    for name in names:
        assert load_bias(name).name == name


def test_the_paper_s_biases_work_without_an_llm() -> None:
    for name in PAPER_BIASES:
        bias = load_bias(name)
        assert bias.measure is not None, name
        assert bias.offline is not None, name
        assert bias.offline.phrases() or bias.offline.itemize, name


def test_every_shipped_bias_names_its_treatment_and_its_measure_is_part_of_it() -> None:
    for name in builtin_names():
        bias = load_bias(name)
        assert bias.treatment, name
        assert bias.measure is None or bias.measure.feature in bias.treatment, name


def test_treatment_is_empty_unless_given(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(EXCLAMATION, encoding="utf-8")
    assert load_bias("own.yaml", tmp_path).treatment == []
    (tmp_path / "own.yaml").write_text(f"{EXCLAMATION}treatment: [exclamations]\n", encoding="utf-8")
    assert load_bias("own.yaml", tmp_path).treatment == ["exclamations"]


def test_length_alone_is_measured_and_made_only_where_chosen_is_longer() -> None:
    biases = {name: load_bias(name) for name in PAPER_BIASES}
    assert [name for name in PAPER_BIASES if biases[name].label_by == "measure"] == ["length"]
    assert [name for name in PAPER_BIASES if biases[name].eligible == "chosen_longer"] == ["length"]
    assert biases["length"].min_words_of_chosen is not None


def test_replacements_fit_their_patterns() -> None:
    n_swaps = 0
    for name in builtin_names():
        offline = load_bias(name).offline
        for swap in [*offline.swaps_add, *offline.swaps_remove] if offline else []:
            n_groups = re.compile(swap.find).groups
            for put in [swap.put] if isinstance(swap.put, str) else swap.put:
                assert all(int(group) <= n_groups for group in re.findall(r"\\(?:g<)?(\d)", put)), (name, swap)
                n_swaps += 1
    assert n_swaps > 50


def test_phrases_are_every_wording_that_the_rules_can_write() -> None:
    offline = load_bias("vagueness").offline
    assert offline is not None
    puts = {put for swap in offline.swaps_add for put in ([swap.put] if isinstance(swap.put, str) else swap.put)}
    assert "a certain amount" in puts
    assert "a certain amount" in offline.phrases()


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


def test_relative_paths_are_found_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(EXCLAMATION, encoding="utf-8")
    assert load_bias("own.yaml", tmp_path).name == "shouting"
    assert load_bias(str(tmp_path / "own.yaml")).name == "shouting"


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
        (
            {"measure": {"feature": "wrds", "present_above": 1}},
            "measure.feature: unknown feature. Did you mean 'words'?",
        ),
        ({"measure": {"feature": "words"}}, "give exactly one of present_above, present_below"),
        (
            {"measure": {"feature": "words", "present_above": 1, "present_below": 2}},
            "give exactly one of present_above, present_below",
        ),
        ({"measure": {"feature": "markers_per_100_words", "present_above": 1}}, "but markers is empty"),
        ({"treatment": ["words", "hedgs"]}, "treatment.1: unknown feature. Did you mean 'hedges'? Known: words, "),
        ({"treatment": ["markers_per_100_words"]}, "treatment names markers_per_100_words, but markers is empty"),
        ({"limits": {"markers_per_100_words": None}}, "limits names markers_per_100_words, but markers is empty"),
        ({"measure": {"feature": "pattern_count", "present_above": 1}}, "pattern_count, but there is no pattern"),
        ({"treatment": ["pattern_per_100_words"]}, "treatment names pattern_per_100_words, but there is no pattern"),
        ({"pattern": "(sure"}, "pattern: not a regular expression (missing ), unterminated subpattern"),
        ({"label_by": "measure", "measure": None}, "label_by is measure, but there is no measure"),
        ({"keep": []}, "keep: list should have at least 1 item"),
        ({"description": ""}, "description: string should have at least 1 character"),
        ({"offline": {"swaps_add": [{"find": "(", "put": "x"}]}}, "offline.swaps_add.0.find: not a regular expression"),
        ({"offline": {"weave_every": 0}}, "offline.weave_every: input should be greater than or equal to 1"),
        ({"offline": {"wods": {}}}, "offline.wods: unknown key. Did you mean 'words'?"),
        ({"min_words_of_chosen": 0}, "min_words_of_chosen: input should be greater than 0"),
        ({"instructions": {"add": "x"}}, "instructions.remove: missing"),
        ({"limits": {"wrds": {"ratio": 2}}}, "unknown feature. Did you mean 'words'?"),
        ({"limits": {"words": {"ratio": 0.5}}}, "limits.words.ratio: input should be greater than or equal to 1"),
        ({"limits": {"words": {}}}, "limits.words: give ratio, difference, or both"),
        ({"limits": {"words": {"share": 2}}}, "limits.words.share: unknown key"),
        ({"aspects": {"Not A Name": "Is it?"}}, "string should match pattern"),
        ({"aspects": {"specific": ""}}, "aspects.specific: string should have at least 1 character"),
        ({"query_question": ""}, "query_question: string should have at least 1 character"),
        ({"query_qestion": "x"}, "query_qestion: unknown key. Did you mean 'query_question'?"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, **(yaml.safe_load(EXCLAMATION) | change))
    assert len(caught.value.problems) == 1
    assert str(tmp_path / "own.yaml") in str(caught.value)
    assert message in str(caught.value)


def test_all_mistakes_are_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    content = yaml.safe_load(EXCLAMATION) | {"qestion": "x", "keep": [], "name": "A"}
    del content["description"]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_bias(str(path))
    assert len(caught.value.problems) == 4


def test_a_replacement_that_names_a_missing_group_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="does not fit find"):
        load(tmp_path, offline={"swaps_add": [{"find": "a", "put": r"\1"}]})


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


def test_a_file_without_options_works(tmp_path: Path) -> None:
    bias = load(tmp_path)
    assert (bias.query_question, bias.aspects, bias.limits) == (None, {}, {})
    assert bias.shows("text") is None


def test_options_are_read(tmp_path: Path) -> None:
    bias = load(
        tmp_path,
        query_question="Does the user ask for it?",
        aspects={"specific": "Is it specific?"},
        limits={"words": {"ratio": 1.5, "difference": 10}, "headers": None},
    )
    assert bias.query_question == "Does the user ask for it?" and list(bias.aspects) == ["specific"]
    words = bias.limits["words"]
    assert words is not None and (words.ratio, words.difference) == (1.5, 10)
    assert bias.limits["headers"] is None


def test_the_shipped_files_ask_what_they_need() -> None:
    asked = {name for name in builtin_names() if load_bias(name).query_question is not None}
    assert asked == {"jargon", "structure", "vagueness-paper"}
    assert {name: list(load_bias(name).aspects) for name in builtin_names() if load_bias(name).aspects} == {
        "vagueness": ["specific"],
        "vagueness-paper": ["specific"],
    }
