"""Placeholders: filled in one pass, never out of a value; wrong ones are named all at once."""

from __future__ import annotations

import pytest

from cda.prompts.load import check_places, filled, places, with_sentences


def test_a_value_that_holds_a_placeholder_is_put_in_as_it_is() -> None:
    values = {"response": "Say {questions} and {{response}}.\n\n{keep}", "questions": "Q?"}
    assert filled("{response}\n\n{questions}", values) == "Say {questions} and {{response}}.\n\n{keep}\n\nQ?"


def test_doubled_braces_stand_for_single_ones_and_other_braces_stay() -> None:
    assert filled('{{response}} {"a": 1} { x } {}', {}) == '{response} {"a": 1} { x } {}'
    assert places("{a} {{b}} {c} { d }") == ["a", "c"]


def test_a_paragraph_is_left_out_where_all_its_placeholders_are_empty() -> None:
    text = "{message}\n\n{response}\n\nMessage: {message} {response}\n\n{length}"
    assert filled(text, {"message": "", "response": "r", "length": ""}) == "r\n\nMessage:  r"


def test_sentences_without_a_place_of_their_own_come_last() -> None:
    values = {"markers": "M.", "form": "F."}
    assert with_sentences("Judge.", values, ["markers", "form"]) == "Judge. M. F."
    assert with_sentences("{form} Judge.", values, ["markers", "form"]) == "F. Judge. M."


def test_text_with_its_placeholders_is_stripped() -> None:
    assert check_places(" {a}\n", ["a"], ["a"]) == "{a}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" \n", "holds no text; needs {response}, {questions}"),
        ("{response}", "needs {questions}"),
        ("{response} {question}", "needs {questions}; unknown placeholder {question}. Did you mean 'questions'?"),
        ("{response} {questions} {x} {x}", "(write {{x}} for the braces themselves)"),
    ],
)
def test_every_mistake_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_places(text, ("response", "questions"), ("response", "questions", "user_message"))
    assert told in str(caught.value)
    assert str(caught.value).count("unknown placeholder") <= 1
