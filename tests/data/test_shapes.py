"""Published shapes of preference data with their known pairs and counts; which of two answers a cell prefers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cda.data.pairs import clean_pairs
from cda.data.quality_sets import quality_set
from cda.data.shapes import SideNames, UnreadableError, agreed, number_in, stated_preference, truth
from cda.data.tables import structured
from cda.errors import DataError
from cda.records import Message, Pair, user_prompt

Rows = list[dict[str, Any]]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def bot(text: object) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def ask(text: str, first: str, second: str) -> dict[str, Any]:
    return {"conversation_a": [user(text), bot(first)], "conversation_b": [user(text), bot(second)]}


def helpsteer(prompt: str, response: str, helpfulness: int) -> dict[str, Any]:
    return {"prompt": prompt, "response": response, "helpfulness": helpfulness, "correctness": 4, "coherence": 4}


GOOD, OTHER = ("q", "good", "bad"), ("p", "good", "bad")
"""Prompt, chosen and rejected of the pairs that every shape below holds; the rest of its rows is left out."""
KNOWN: dict[str, tuple[Rows, dict[str, int]]] = {
    "Chatbot Arena": (
        [ask("q", "good", "bad") | {"winner": "model_a"}, ask("p", "bad", "good") | {"winner": "model_b"},
         ask("r", "x", "y") | {"winner": "tie"}, ask("s", "x", "y") | {"winner": "tie (bothbad)"}, ask("t", "x", "y") | {"winner": None}],
        {"tie": 1, "tie (both bad)": 1, "no preference stated": 1},
    ),
    "HelpSteer3": (
        [{"context": [user("q")], "response1": "good", "response2": "bad", "overall_preference": -1},
         {"context": [user("p")], "response1": "bad", "response2": "good", "overall_preference": "3"},
         {"context": [user("r")], "response1": "x", "response2": "y", "overall_preference": 0.0}],
        {"tie": 1},
    ),
    "HelpSteer2 preferences": (
        [{"prompt": "q", "response_1": "good", "response_2": "bad", "preference_strength": -3},
         {"prompt": "p", "response_1": "bad", "response_2": "good", "preference_strength": 1}],
        {},
    ),
    "HelpSteer2": (
        [helpsteer("q", "bad", 1), helpsteer("q", "good", 3), helpsteer("p", "good", 4), helpsteer("p", "bad", 0), helpsteer("r", "x", 2),
         helpsteer("r", "y", 2), helpsteer("s", "x", 2)],
        {"tie": 1, "fewer than two answers with helpfulness": 1},
    ),
    "UltraFeedback": (
        [{"instruction": "q", "completions": [{"response": "bad", "overall_score": 3.0}, {"response": "good", "overall_score": 8.5}]},
         {"instruction": "p", "completions": [{"response": "good", "overall_score": "9"}, {"response": "bad", "overall_score": "2"},
                                              {"response": "unrated", "overall_score": None}]},
         {"instruction": "r", "completions": [{"response": "x", "overall_score": 5}, {"response": "y", "overall_score": 5.0}]}],
        {"tie": 1},
    ),
    "Nectar": (
        [{"prompt": "\n\nHuman: q\n\nAssistant: ", "answers": [{"answer": "bad", "rank": 2.0}, {"answer": "good", "rank": 1.0}]},
         {"prompt": "\n\nHuman: p\n\nAssistant: ", "answers": [{"answer": "good", "rank": 1}, {"answer": "bad", "rank": 7}]}],
        {},
    ),
    "SHP": (
        [{"history": "q", "human_ref_A": "good", "human_ref_B": "bad", "labels": 1, "score_A": 2},
         {"history": "p", "human_ref_A": "bad", "human_ref_B": "good", "labels": "0", "score_A": 2}],
        {},
    ),
    "PKU-SafeRLHF": (
        [{"prompt": "q", "response_0": "good", "response_1": "bad", "better_response_id": 0, "safer_response_id": 1},
         {"prompt": "p", "response_0": "bad", "response_1": "good", "better_response_id": 1, "safer_response_id": 1}],
        {},
    ),
    "AlpacaEval": (
        [{"instruction": "q", "output_1": "good", "output_2": "bad", "preference": 1},
         {"instruction": "p", "output_1": "bad", "output_2": "good", "preference": 1.99},
         {"instruction": "r", "output_1": "x", "output_2": "y", "preference": "1.5"},
         {"instruction": "s", "output_1": "x", "output_2": "y", "preference": 0},
         {"instruction": "t", "output_1": "x", "output_2": "y", "preference": float("nan")}],
        {"tie": 2, "no preference stated": 1},
    ),
    "LLMBar": (
        [{"input": "q", "output_1": "good", "output_2": "bad", "label": 1}, {"input": "p", "output_1": "bad", "output_2": "good", "label": 2}],
        {},
    ),
    "OpenAI preferences": (
        [{"input": {"messages": [user(prompt)], "tools": []}, "preferred_output": [bot("good")], "non_preferred_output": [bot("bad")]}
         for prompt in "qp"],
        {},
    ),
    "Label Studio": (
        [{"data": {"prompt": "q", "answer1": "good", "answer2": "bad"}, "annotations": [{"result": [{"value": {"selected": "left"}}]}]},
         {"data": {"prompt": "p", "answer1": "bad", "answer2": "good"}, "annotations": [{"result": [{"value": {"selected": "right"}}]}]},
         {"data": {"prompt": "r", "answer1": "x", "answer2": "y"}, "annotations": []}],
        {"no preference stated": 1},
    ),
    "Argilla records": (
        [{"fields": {"prompt": "q", "response-1": "good", "response-2": "bad"}, "responses": {"preference": [{"value": "response-1"}]}},
         {"fields": {"prompt": "p", "response-1": "bad", "response-2": "good"}, "responses": {"preference": [{"value": 2}]}},
         {"fields": {"prompt": "r", "response-1": "x", "response-2": "y"}, "responses": {"one": [{"value": 1}], "two": [{"value": 2}]}}],
        {"several questions were asked": 1},
    ),
    "two answers and a preference: Argilla's tables": (
        [{"prompt": "q", "response-1": "good", "response-2": "bad", "preference.responses": ["response-1"], "preference.responses.status": ["submitted"]},
         {"prompt": "p", "response-1": "bad", "response-2": "good", "preference.responses": ["response-1", "response-2"],
          "preference.responses.status": ["discarded", "submitted"]},
         {"prompt": "r", "response-1": "x", "response-2": "y", "preference.responses": None, "preference.responses.status": None}],
        {"no preference stated": 1},
    ),
    "RewardBench results": (
        [{"text_chosen": [user(prompt), bot("good")], "text_rejected": [user(prompt), bot("bad")], "results": 0, "scores_chosen": 1.0,
          "scores_rejected": 2.0} for prompt in "qp"]
        + [{"text_chosen": "<s>[INST] r [/INST] x", "text_rejected": "<s>[INST] r [/INST] y", "results": 1}],
        {"a text in a model's chat template, whose prompt and answer cannot be told apart": 1},
    ),
    "two answers and a preference": (
        [{"question": "q", "answer_a": "good", "answer_b": "bad", "winner": "A"}, {"question": "p", "answer_a": "bad", "answer_b": "good", "winner": "B"}],
        {},
    ),
    "preference pairs: ShareGPT": (
        [{"conversations": [{"from": "human", "value": prompt}], "chosen": {"from": "gpt", "value": "good"},
          "rejected": {"from": "gpt", "value": "bad"}} for prompt in "qp"],
        {},
    ),
    "preference pairs: Argilla binarized": (
        [{"instruction": prompt, "chosen": "good", "rejected": "bad", "chosen-rating": 5, "rejected-rating": 4} for prompt in "qp"]
        + [{"instruction": "r", "chosen": "x", "rejected": "y", "chosen-rating": 4, "rejected-rating": "4.0"}],
        {"tie": 1},
    ),
    "preference pairs: UltraFeedback binarized": (
        [{"prompt": prompt, "chosen": [user(prompt), bot("good")], "rejected": [user(prompt), bot("bad")], "score_chosen": 8.0,
          "score_rejected": 7.5} for prompt in "qp"],
        {},
    ),
    "Chatbot Arena (55k)": (
        [{"prompt": json.dumps(asked), "response_a": json.dumps(first), "response_b": json.dumps(second), "winner_model_a": a, "winner_model_b": b,
          "winner_tie": tie}
         for asked, first, second, a, b, tie in (
             (["q"], ["good"], ["bad"], 1, 0, 0), (["p"], ["bad"], ["good"], "0", "1.0", "0"), (["r"], ["x"], ["y"], 0, 0, 1),
             (["r", "s"], ["x", "y"], ["v", "w"], 1, 0, 0), (["r"], ["x"], ["y"], 1, 1, 0), (["r"], ["x"], ["y"], None, None, None))],
        {"tie": 1, "more than one turn after the shared prompt": 1, "columns state different preferences": 1, "no preference stated": 1},
    ),
    "preference pairs: other names": (
        [{"question": prompt, "chosen_response": "good", "rejected_response": "bad", "chosen_avg_rating": rating, "rejected_avg_rating": 3.0}
         for prompt, rating in (("q", 4.0), ("p", "3.5"), ("r", 3))],
        {"tie": 1},
    ),
    "preference pairs: accepted": ([{"input": prompt, "accepted": "good", "rejected": "bad"} for prompt in "qp"], {}),
    "preference pairs: Argilla's revision of Orca's": (
        [{"input": prompt, "chosen": "good", "rejected": "bad", "status": status}
         for prompt, status in (("q", "unchanged"), ("p", "swapped"), ("r", "tie"))],
        {"tie": 1},
    ),
    "preference pairs: the prompt's last turn alone": (
        [{"prompt": prompt, "chosen": [user(prompt), bot("good")], "rejected": [user(prompt), bot("bad")]} for prompt in "qp"]
        + [{"prompt": "r", "chosen": [user("s"), bot("good")], "rejected": [user("s"), bot("bad")]}],
        {"more than one turn after the shared prompt": 1},
    ),
    "preference pairs: hh-rlhf": (
        [{"chosen": f"\n\nHuman: {prompt}\n\nAssistant: good", "rejected": f"\n\nHuman: {prompt}\n\nAssistant: bad"} for prompt in "qp"]
        + [{"chosen": "\n\nHuman: r\n\nAssistant: x\n\nHuman: s\n\nAssistant: good", "rejected": "\n\nHuman: r\n\nAssistant: y\n\nHuman: s\n\nAssistant: z"},
           {"chosen": "\n\nHuman: r\n\nAssistant: x\n\nHuman: s\n\nAssistant: good", "rejected": "\n\nHuman: r\n\nAssistant: x"},
           {"chosen": "\n\nHuman: r\n\nAssistant:", "rejected": "\n\nHuman: r\n\nAssistant: x"},
           {"chosen": "\n\nHuman: r\n\nAssistant: x", "rejected": "y"}],
        {"more than one turn after the shared prompt": 2, "empty side": 1, "one side is a transcript and the other is not": 1},
    ),
    "preference pairs: hh-rlhf with its prompt": (
        [{"prompt": f"\n\nHuman: {prompt}\n\nAssistant:", "chosen": " good", "rejected": " bad"} for prompt in "qp"],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_each_shape_gives_the_known_pairs(name: str) -> None:
    rows, reasons = KNOWN[name]
    cleaned = clean_pairs(rows)
    pairs = [
        (*(turn.content for turn in pair.prompt), pair.chosen.strip(), pair.rejected.strip()) for pair in cleaned.pairs
    ]
    assert pairs == [GOOD, OTHER]
    assert dict(cleaned.exclusions.reasons) == reasons
    assert cleaned.exclusions.seen == 2 + cleaned.exclusions.dropped
    plain = rows[0].keys() == {"prompt", "chosen", "rejected"}  # of which nothing need be said
    assert cleaned.taken.startswith("" if plain else f"read as {name.partition(':')[0]}: ")


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "LLMBar"])
def test_a_set_of_quality_pairs_reads_the_same(name: str) -> None:
    rows, _ = KNOWN[name]
    wanted = clean_pairs(rows)
    own = [row for number, row in enumerate(rows, 1) if number in wanted.numbers or name == "HelpSteer2"]
    if name != "HelpSteer2":
        quality = quality_set(own, "a.jsonl")
        assert quality.format == "pairs" and quality.pairs == wanted.pairs and quality.taken == wanted.taken
    else:
        assert quality_set(own[:4], "a.jsonl").pairs == wanted.pairs


def test_a_verdict_on_the_first_turn_saw_the_first_exchange() -> None:
    row = {
        "conversation_a": [user("q"), bot("good"), user("more"), bot("x")],
        "conversation_b": [user("q"), bot("bad"), user("more"), bot("y")],
    }
    assert clean_pairs([row | {"winner": "model_a", "turn": 1}]).pairs == (Pair(user_prompt("q"), "good", "bad"),)
    system = {"role": "system", "content": "s"}
    told = {name: [system, *turns] for name, turns in row.items()}
    (pair,) = clean_pairs([told | {"winner": "model_b", "turn": "1"}]).pairs
    assert (pair.prompt, pair.chosen) == ((Message("system", "s"), Message("user", "q")), "bad")
    assert dict(
        clean_pairs([row | {"winner": "model_a", "turn": 2}, KNOWN["Chatbot Arena"][0][0]]).exclusions.reasons
    ) == {"more than one turn after the shared prompt": 1}


SYSTEM, EARLIER = Message("system", "s"), (Message("user", "h"), Message("assistant", "a"))
ASKED = Message("user", "q")


@pytest.mark.parametrize(
    ("row", "prompt", "told"),
    [
        ({"system": "s", "question": "q"}, (SYSTEM, ASKED), "system turns from system"),
        ({"system_prompt": "s", "prompt": "q"}, (SYSTEM, ASKED), "system turns from system_prompt"),
        ({"system": "", "prompt": "q", "history": []}, (ASKED,), ""),
        (
            {"system": "other", "prompt": [{"role": "system", "content": "s"}, user("q")]},
            (SYSTEM, ASKED),
            "system turns from system",
        ),
        (
            {"instruction": "q", "input": "", "system": "s", "history": '[["h", "a"]]'},
            (SYSTEM, *EARLIER, ASKED),
            "earlier turns from history",
        ),
        (
            {"conversations": [{"from": "human", "value": "q"}], "history": [user("h"), bot("a")]},
            (*EARLIER, ASKED),
            "history",
        ),
        ({"trajectory": [user("h"), bot("a"), user("q")]}, (*EARLIER, ASKED), "prompt from trajectory"),
    ],
)
def test_turns_in_columns_of_their_own_stand_before_the_prompt(
    row: dict[str, Any], prompt: tuple[Message, ...], told: str
) -> None:
    for answers in ({"chosen": "good", "rejected": "bad"}, {"response_a": "bad", "response_b": "good", "winner": "b"}):
        cleaned = clean_pairs([row | answers])
        assert cleaned.pairs == (Pair(prompt, "good", "bad"),)
        assert told in cleaned.taken


def test_the_input_of_an_instruction_belongs_to_it() -> None:
    row = {"instruction": "q", "input": "text", "output_1": "good", "output_2": "bad", "preference": 1}
    assert clean_pairs([row]).pairs == (Pair(user_prompt("q\ntext"), "good", "bad"),)


def test_roles_and_parts_are_read() -> None:
    parts = [{"type": "text", "text": "go"}, {"type": "text", "text": "od"}]
    prompt = [
        {"role": "developer", "content": "Be brief."},
        user("q"),
        {"role": "assistant", "content": "calling"},
        {"role": "tool", "content": "3"},
    ]
    (pair,) = clean_pairs([{"prompt": prompt, "chosen": [bot(parts)], "rejected": [bot("bad")]}]).pairs
    assert pair.chosen == "good"
    assert pair.prompt[0] == Message("system", "Be brief.") and [turn.role for turn in pair.prompt] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]


def test_a_preference_that_is_not_known_is_refused_with_its_rows_and_the_remedy_works() -> None:
    rows = [
        {"prompt": f"q{n}", "chosen": "a", "rejected": "b", "winner": "tie" if n < 2 else "model_b"} for n in range(5)
    ]
    with pytest.raises(DataError) as refused:
        clean_pairs(rows, {}, "f.jsonl", "data.columns.")
    message = str(refused.value)
    assert "\n" not in message and message.startswith(
        "f.jsonl: column 'winner' states a preference that is not known in 3 of 5 rows (the first is row 3: 'model_b'). Known are chosen"
    )
    assert "data.columns.preference=none" in message
    assert len(clean_pairs(rows, {"preference": "none"}).pairs) == 5
    assert len(clean_pairs([row | {"winner": "chosen"} for row in rows]).pairs) == 5


def test_columns_that_contradict_each_other_leave_the_row_out() -> None:
    row = {"prompt": "q", "chosen": "a", "rejected": "b", "winner": "chosen", "score_chosen": 1, "score_rejected": 2}
    cleaned = clean_pairs([row, row | {"prompt": "p", "score_rejected": 0}])
    assert dict(cleaned.exclusions.reasons) == {"columns state different preferences": 1} and len(cleaned.pairs) == 1


@pytest.mark.parametrize("cell", [0, 1, "1", True, "safety"])
def test_labels_that_may_be_preferences_are_not_passed_over(cell: object) -> None:
    row = {"prompt": "q", "chosen": "a", "rejected": "b", "label": cell}
    with pytest.raises(DataError, match="column 'label' states a preference that is not known in 1 of 1 rows"):
        clean_pairs([row])
    assert len(clean_pairs([row], {"preference": "none"}).pairs) == 1


AB = SideNames.of("response_a", "response_b", "gpt-4", "claude-2")
ONE_TWO = SideNames.of("output_1", "output_2")
CHOSEN = SideNames.of("chosen", "rejected")


KNOWN_PREFERENCES: dict[tuple[SideNames, str | None], tuple[object, ...]] = {
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


@pytest.mark.parametrize(("names", "expected"), KNOWN_PREFERENCES)
def test_what_a_cell_prefers(names: SideNames, expected: str | None) -> None:
    cells = KNOWN_PREFERENCES[names, expected]
    assert [stated_preference("winner", cell, names) for cell in cells] == [expected] * len(cells)


@pytest.mark.parametrize("cell", NO_PREFERENCE)
def test_anything_else_is_refused(cell: object) -> None:
    with pytest.raises(UnreadableError) as refused:
        stated_preference("winner", cell, AB)
    assert refused.value.column == "winner"


@pytest.mark.parametrize("cell", [-1, "-1", "-2.0", 1.5, "0", 12, "1 or 2"])
def test_numbers_that_are_no_column_s_are_refused(cell: object) -> None:
    with pytest.raises(UnreadableError):
        stated_preference("label", cell, ONE_TWO)


def test_columns_without_a_last_part_name_themselves_alone() -> None:
    assert [stated_preference("winner", word, CHOSEN) for word in ("chosen", "Rejected", "tie")] == [
        "first",
        "second",
        "tie",
    ]
    for cell in ("model_a", 1, 0):
        with pytest.raises(UnreadableError):
            stated_preference("winner", cell, CHOSEN)


def test_models_of_the_same_name_name_neither_side() -> None:
    with pytest.raises(UnreadableError):
        stated_preference("winner", "gpt-4", SideNames.of("response_a", "response_b", "gpt-4", "gpt-4"))


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
