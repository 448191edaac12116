"""Which of two answers a cell prefers, in every spelling and type; anything else is refused."""

from __future__ import annotations

import pytest

from cda.data.shapes import Names, UnreadableError, agreed, number_in, truth, verdict
from cda.data.tables import structured

AB = Names.of("response_a", "response_b", "gpt-4", "claude-2")
ONE_TWO = Names.of("output_1", "output_2")
CHOSEN = Names.of("chosen", "rejected")


@pytest.mark.parametrize(
    "cell", ["a", "A", "model_a", "Model A", "assistant_a", "response_a", "A is better", "left", "First", "GPT-4"]
)
def test_names_of_the_first_answer(cell: str) -> None:
    assert verdict("winner", cell, AB) == "first"


@pytest.mark.parametrize("cell", ["b", "model_b", "[[B]]", "right", "second", "claude-2", "B wins", "RESPONSE B"])
def test_names_of_the_second_answer(cell: str) -> None:
    assert verdict("winner", cell, AB) == "second"


@pytest.mark.parametrize(("cell", "expected"), [(1, "first"), (1.0, "first"), ("1", "first"), ("1.0", "first"), ("output_1", "first"),
                                                (2, "second"), ("2.0", "second"), ("Output 2", "second")])  # fmt: skip
def test_numbers_name_the_last_part_of_a_column(cell: object, expected: str) -> None:
    assert verdict("label", cell, ONE_TWO) == expected


@pytest.mark.parametrize(
    "cell", ["tie", "TIE", "Tie", " ties ", "draw", "equal", "same", "about the same", "both good"]
)
def test_ties(cell: str) -> None:
    assert verdict("winner", cell, AB) == "tie"


@pytest.mark.parametrize("cell", ["tie (bothbad)", "both_bad", "Both bad", "bothbad", "neither"])
def test_both_bad(cell: str) -> None:
    assert verdict("winner", cell, AB) == "both bad"


@pytest.mark.parametrize("cell", [None, "", " ", "NaN", "nan", float("nan"), "null", "N/A"])
def test_cells_that_say_nothing(cell: object) -> None:
    assert verdict("winner", cell, AB) is None


@pytest.mark.parametrize(
    "cell",
    [
        "c",
        "model_c",
        "a and b",
        0,
        3,
        True,
        "True",
        "better",
        {"a": 1},
        "chosen",
        "-1",
        "a > b",
        "=",
        "None",
        "not a",
        "A=B",
    ],
)
def test_anything_else_is_refused(cell: object) -> None:
    with pytest.raises(UnreadableError) as refused:
        verdict("winner", cell, AB)
    assert refused.value.column == "winner"


@pytest.mark.parametrize("cell", [-1, "-1", "-2.0", 1.5, "0", 12, "1 or 2"])
def test_numbers_that_are_no_column_s_are_refused(cell: object) -> None:
    with pytest.raises(UnreadableError):
        verdict("label", cell, ONE_TWO)


def test_columns_without_a_last_part_name_themselves_alone() -> None:
    assert [verdict("winner", word, CHOSEN) for word in ("chosen", "Rejected", "tie")] == ["first", "second", "tie"]
    for cell in ("model_a", 1, 0):
        with pytest.raises(UnreadableError):
            verdict("winner", cell, CHOSEN)


def test_models_of_the_same_name_name_neither_side() -> None:
    with pytest.raises(UnreadableError):
        verdict("winner", "gpt-4", Names.of("response_a", "response_b", "gpt-4", "gpt-4"))


def test_truth_and_numbers_in_every_type() -> None:
    assert [truth("tie", cell) for cell in (True, 1, 1.0, "1", "1.0", "True", "TRUE", "yes", "t")] == [True] * 9
    assert [truth("tie", cell) for cell in (False, 0, 0.0, "0", "0.0", "False", "no")] == [False] * 7
    assert [truth("tie", cell) for cell in (None, "", "NaN", " ")] == [None] * 4
    with pytest.raises(UnreadableError):
        truth("tie", "perhaps")
    assert [number_in(cell) for cell in (3, "3", " 3.0 ", True, "x", "nan", "inf", None, "1" * 400)] == [3, 3, 3] + [
        None
    ] * 6


def test_lists_that_a_table_holds_as_text() -> None:
    assert structured('[{"a": null}]') == structured("[{'a': None}]") == [{"a": None}]
    assert [structured(cell) for cell in ("[1, 2", "[see below]", "plain", 3)] == ["[1, 2", "[see below]", "plain", 3]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ([{"result": [{"type": "pairwise", "value": {"selected": "left"}}]}], "first"),
        ([{"result": [{"value": {"choices": ["right"]}}]}, {"result": [{"value": {"choices": ["right"]}}]},
          {"result": [{"value": {"choices": ["left"]}}]}], "second"),
        ([{"was_cancelled": True, "result": [{"value": {"selected": "left"}}]}, {"result": [{"value": {"selected": "right"}}]}], "second"),
        ([{"value": "response_a", "user_id": "u"}, {"value": "response_b", "user_id": "v"}], "tie"),
        ([{"value": "response_a", "status": "submitted"}, {"value": "response_b", "status": "discarded"}], "first"),
        ([{"value": [{"value": "response_b", "rank": 1}, {"value": "response_a", "rank": 2}]}], "second"),
        ([{"value": [{"value": "response_b", "rank": 1}, {"value": "response_a", "rank": 1}]}], "tie"),
        ('[{"value": "response_a"}]', "first"),
        ([{"result": []}], None),
        ([], None),
    ],
)  # fmt: skip
def test_people_s_choices_are_counted(cell: object, expected: str | None) -> None:
    assert agreed("votes", cell, AB) == expected
