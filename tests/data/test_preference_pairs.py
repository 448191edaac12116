"""TRL's preference formats in, clean pairs out, every drop counted, no prompt in both parts; labels of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_release import write_rows

from cda.data.pairs import clean_pairs, load_labels, split_by_prompt, training_labels
from cda.errors import DataError
from cda.records import LabelledPair, Message, Pair, prompt_id, user_prompt


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def bot(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "be kind"}
SIMPLE = Pair(user_prompt("why?"), "a", "b")
MULTI = (Message("user", "q1"), Message("assistant", "a1"), Message("user", "q2"))
MULTI_TURNS = [user("q1"), bot("a1"), user("q2")]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "why?", "chosen": "a", "rejected": "b"}, SIMPLE),
        ({"prompt": [user("why?")], "chosen": [bot("a")], "rejected": [bot("b")]}, SIMPLE),
        ({"prompt": (user("why?") | {"name": "x"},), "chosen": "a", "rejected": "b"}, SIMPLE),
        ({"prompt": "why?", "chosen": [bot("a")], "rejected": [bot("b")]}, SIMPLE),
        ({"chosen": [user("why?"), bot("a")], "rejected": [user("why?"), bot("b")]}, SIMPLE),
        ({"prompt": "why?", "chosen": [user("why?"), bot("a")], "rejected": [user("why?"), bot("b")]}, SIMPLE),
        ({"prompt": MULTI_TURNS, "chosen": [bot("a")], "rejected": [bot("b")]}, Pair(MULTI, "a", "b")),
        ({"chosen": [*MULTI_TURNS, bot("a")], "rejected": [*MULTI_TURNS, bot("b")]}, Pair(MULTI, "a", "b")),
        (
            {"chosen": [SYSTEM, user("q"), bot("a")], "rejected": [SYSTEM, user("q"), bot("b")]},
            Pair((Message("system", "be kind"), Message("user", "q")), "a", "b"),
        ),
        (
            {
                "chosen": "\n\nHuman: q1\n\nAssistant: a1\n\nHuman: q2\n\nAssistant: a",
                "rejected": "\n\nHuman: q1\n\nAssistant: a1\n\nHuman: q2\n\nAssistant: ab",
            },
            Pair(MULTI, "a", "ab"),
        ),
        (
            {"chosen": "The sky is blue.", "rejected": "The sky is black."},
            Pair(user_prompt("The sky is"), "blue.", "black."),
        ),
    ],
)
def test_formats(row: Mapping[str, Any], expected: Pair) -> None:
    cleaned = clean_pairs([row])
    assert cleaned.pairs == (expected,)
    assert cleaned.exclusions.dropped == 0


GOOD = {"prompt": "q", "chosen": "a", "rejected": "b"}
DROPPED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": " "}, "empty prompt"),
    ({"prompt": []}, "empty prompt"),
    ({"prompt": [bot("a")]}, "empty prompt"),
    ({"prompt": user("q")}, "prompt is neither text nor messages"),
    ({"prompt": ["why?"]}, "a turn without role and text content"),
    ({"prompt": [{"role": "moderator", "content": "q"}]}, "a role that is not known (moderator)"),
    (
        {"prompt": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
        "content in parts that are not text (image_url)",
    ),
    (
        {"chosen": [{"role": "assistant", "content": None, "tool_calls": [{}]}], "rejected": [bot("b")]},
        "a turn that calls a tool and says nothing",
    ),
    ({"prompt": [{"role": "user", "content": None}]}, "a turn without role and text content"),
    ({"prompt": [{"role": ["user"], "content": "q"}]}, "a turn without role and text content"),
    ({"prompt": 5}, "prompt is neither text nor messages"),
    ({"prompt": 5, "chosen": [bot("a")], "rejected": [bot("b")]}, "prompt is neither text nor messages"),
    ({"rejected": " \n"}, "empty side"),
    ({"rejected": None}, "empty side"),
    ({"chosen": []}, "empty side"),
    ({"chosen": [bot(" ")], "rejected": [bot("b")]}, "empty side"),
    ({"rejected": "a"}, "identical sides"),
    ({"chosen": [bot("a")], "rejected": [bot("a")]}, "identical sides"),
    ({"tie": True}, "tie"),
    ({"tie": "True"}, "tie"),
    ({"winner": "Tie (bothbad)"}, "tie (both bad)"),
    ({"preference": "both_bad"}, "tie (both bad)"),
    ({"label": "TIE"}, "tie"),
    ({"score_chosen": 3, "score_rejected": 3.0}, "tie"),
    ({"chosen-rating": "3.0", "rejected-rating": "3"}, "tie"),
    ({"rating_chosen": 3, "rating_rejected": "4.5"}, "the rejected side is stated to be preferred"),
    ({"winner": "rejected"}, "the rejected side is stated to be preferred"),
    ({"chosen": 5}, "chosen is neither text nor messages"),
    ({"rejected": {"a": 1}}, "rejected is neither text nor messages"),
    ({"chosen": [bot("a")]}, "chosen and rejected of different types"),
    ({"prompt": None}, "empty prompt"),
    ({"chosen": [bot("a"), user("x"), bot("y")], "rejected": [bot("b")]}, "more than one turn after the shared prompt"),
    ({"chosen": [user("a")], "rejected": [user("b")]}, "last turn is not the assistant's"),
    ({"chosen": [{"role": "bot", "content": "a"}], "rejected": [bot("b")]}, "a role that is not known (bot)"),
]


@pytest.mark.parametrize(("change", "reason"), DROPPED)
def test_every_drop_is_counted_by_its_reason(change: dict[str, Any], reason: str) -> None:
    cleaned = clean_pairs([GOOD | {"prompt": "other"}, GOOD | change])
    assert len(cleaned.pairs) == 1
    assert dict(cleaned.exclusions.reasons) == {reason: 1}
    assert cleaned.exclusions.seen == 2


def test_each_row_is_a_vote_on_its_two_responses() -> None:
    rows = [GOOD, GOOD, GOOD | {"id": 7}, GOOD | {"chosen": "b", "rejected": "a"}, GOOD | {"prompt": "q2"}]
    cleaned = clean_pairs(rows)
    assert dict(cleaned.exclusions.reasons) == {"duplicate": 2, "preferred the other way by more rows": 1}
    assert len(cleaned.pairs) == 2
    even = clean_pairs([GOOD, GOOD | {"chosen": "b\r\n", "rejected": "a "}, GOOD | {"prompt": "q2"}])
    assert [pair.prompt for pair in even.pairs] == [user_prompt("q2")]
    assert dict(even.exclusions.reasons) == {"preferred both ways by as many rows": 2}


_values = st.one_of(
    st.none(), st.text(max_size=4), st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "x"]), "content": st.text(max_size=3)}), max_size=3)
)  # fmt: skip


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.fixed_dictionaries({"prompt": _values, "chosen": _values, "rejected": _values}), min_size=1, max_size=6)
)
def test_every_row_is_kept_or_counted(rows: list[dict[str, Any]]) -> None:
    cleaned = clean_pairs(rows)
    assert len(cleaned.pairs) + cleaned.exclusions.dropped == cleaned.exclusions.seen == len(rows)
    for pair in cleaned.pairs:
        assert pair.chosen.strip() and pair.rejected.strip() and pair.chosen != pair.rejected
        assert any(message.content.strip() for message in pair.prompt)


@settings(deadline=None, derandomize=True)
@given(prompts=st.lists(st.integers(0, 12), max_size=40), share=st.floats(0, 0.49), seed=st.integers(0, 3))
def test_a_prompt_is_never_in_both_parts(prompts: list[int], share: float, seed: int) -> None:
    pairs = [Pair(user_prompt(f"q{number}"), f"a{row}", "b") for row, number in enumerate(prompts)]
    flags = split_by_prompt(pairs, share, np.random.default_rng(seed))
    parts = [
        {prompt_id(pair.prompt) for pair, own in zip(pairs, flags, strict=True) if own is flag}
        for flag in (False, True)
    ]
    assert not parts[0] & parts[1] and len(parts[1]) == round(share * len(set(prompts)))


def test_the_split_does_not_depend_on_the_order_of_the_rows() -> None:
    pairs = [Pair(user_prompt(f"q{row % 20}"), f"a{row}", "b") for row in range(50)]
    flags = split_by_prompt(pairs, 0.3, np.random.default_rng(1))
    assert split_by_prompt(pairs[::-1], 0.3, np.random.default_rng(1)) == flags[::-1]
    assert split_by_prompt(pairs, 0.3, np.random.default_rng(2)) != flags
    assert sum(split_by_prompt(pairs, 0.0, np.random.default_rng(1))) == 0


def test_what_the_label_stage_writes(tmp_path: Path) -> None:
    row: dict[str, Any] = {"prompt": [user("why")], "chosen": [bot("a b c")], "rejected": [bot("a")]}
    row["labels"] = {"length": {"chosen": True, "rejected": False}}
    found = load_labels(str(write_rows(tmp_path / "pairs.jsonl", [row, row])), ["length"])["length"]
    assert found.sides == (("a b c", "a"),) * 2 and set(found.prompt_ids) == {prompt_id(user_prompt("why"))}
    labelled = LabelledPair(Pair(user_prompt("why"), "a b c", "a"), "train", row["labels"])
    assert training_labels([labelled, labelled], "length") == found and training_labels([labelled], "jargon") is None


def test_a_file_without_labels_says_what_it_needs(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "labels.jsonl", [{"chosen_tone": "yes", "rejected_tone": "no"}])
    with pytest.raises(DataError, match=r"no labels of jargon\. Found: chosen_tone, rejected_tone\. Needed"):
        load_labels(str(path), ["jargon"])
