"""Labels by a measurable feature."""

from __future__ import annotations

import pytest

from cda.biases import Bias, load_bias
from cda.errors import RecipeError
from cda.records import Pair, user_prompt
from cda.rewriting.labels import exhibits, label_pair


def bias_with(**changes: object) -> Bias:
    return Bias.model_validate(load_bias("structure").model_dump() | {"offline": None} | changes)


def test_above_is_strict() -> None:
    bias = bias_with(measure={"feature": "exclamations", "present_above": 2})
    assert [exhibits("!" * count, bias) for count in range(4)] == [False, False, False, True]


def test_below_is_strict_and_zero_is_a_threshold() -> None:
    bias = bias_with(measure={"feature": "exclamations", "present_below": 2})
    assert [exhibits("!" * count, bias) for count in range(4)] == [True, True, False, False]
    assert not exhibits("", bias_with(measure={"feature": "exclamations", "present_below": 0.0}))
    assert exhibits("!", bias_with(measure={"feature": "exclamations", "present_above": 0.0}))


def test_a_relative_measure_compares_the_two_sides() -> None:
    bias = bias_with(measure={"feature": "words", "present_above": 1.5, "relative": True})
    long, short = "one two three four", "one two"
    assert label_pair(Pair(user_prompt("q"), long, short), bias) == {"chosen": True, "rejected": False}
    assert label_pair(Pair(user_prompt("q"), short, long), bias) == {"chosen": False, "rejected": True}
    assert label_pair(Pair(user_prompt("q"), "one two three", short), bias) == {"chosen": False, "rejected": False}
    assert exhibits("one", bias, None)


def test_markers_are_the_bias_file_s_own() -> None:
    bias = bias_with(measure={"feature": "markers_per_100_words", "present_above": 10.0}, markers=["great question"])
    assert exhibits("Great question! " + "word " * 7, bias)  # 1 in 9 words
    assert not exhibits("Great question! " + "word " * 8, bias)  # 1 in 10
    assert not exhibits("Great, a question! " + "word " * 5, bias)


def test_swapping_the_sides_swaps_the_labels() -> None:
    for name in ("length", "structure", "jargon", "sycophancy", "vagueness"):
        bias = load_bias(name)
        one, other = "- a plain list\n- of two lines", "It depends on various factors. " * 12
        label = label_pair(Pair(user_prompt("q"), one, other), bias)
        assert label_pair(Pair(user_prompt("q"), other, one), bias) == {
            "chosen": label["rejected"],
            "rejected": label["chosen"],
        }


def test_what_cannot_be_measured_needs_an_llm() -> None:
    with pytest.raises(RecipeError, match=r"bias 'structure' cannot be measured.*set llm\.model"):
        exhibits("text", bias_with(measure=None))
