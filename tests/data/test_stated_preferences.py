"""Which of two answers a cell prefers, in every spelling and type; anything else is refused."""

from __future__ import annotations

import pytest

from cda.data.shapes import Names, UnreadableError, agreed, number_in, truth, verdict
from cda.data.tables import structured

AB = Names.of("response_a", "response_b", "gpt-4", "claude-2")
ONE_TWO = Names.of("output_1", "output_2")
CHOSEN = Names.of("chosen", "rejected")


KNOWN: dict[tuple[Names, str | None], tuple[object, ...]] = {
    (AB, "first"): (
        "a",
        "A",
        "model_a",
        "Model A",
        "assistant_a",
        "response_a",
        "A is better",
        "left",
        "First",
        "GPT-4",
    ),
    (AB, "second"): ("b", "model_b", "[[B]]", "right", "second", "claude-2", "B wins", "RESPONSE B"),
    (ONE_TWO, "first"): (1, 1.0, "1", "1.0", "output_1"),  # numbers name the last part of a column
    (ONE_TWO, "second"): (2, "2.0", "Output 2"),
    (AB, "tie"): ("tie", "TIE", "Tie", " ties ", "draw", "equal", "same", "about the same", "both good"),
    (AB, "both bad"): ("tie (bothbad)", "both_bad", "Both bad", "bothbad", "neither"),
    (AB, None): (None, "", " ", "NaN", "nan", float("nan"), "null", "N/A"),
}
NO_PREFERENCE = (
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
)


@pytest.mark.parametrize(("names", "expected"), KNOWN)
def test_what_a_cell_prefers(names: Names, expected: str | None) -> None:
    cells = KNOWN[names, expected]
    assert [verdict("winner", cell, names) for cell in cells] == [expected] * len(cells)


@pytest.mark.parametrize("cell", NO_PREFERENCE)
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
