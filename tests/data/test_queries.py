"""Queries out of conversation logs: clean questions stay, each kind of other text is dropped under its reason."""

from __future__ import annotations

import re

import pytest

from cda.data.queries import clean_queries, why_not
from cda.errors import DataError

GOOD = "How do vaccines train the immune system?"


@pytest.mark.parametrize(
    "query",
    [
        GOOD,
        "what is the best way to sharpen a kitchen knife?",
        "Why did the U.S. Congress pass the Clean Air Act?",
        "3 or 4 eggs in a sponge cake, which is better?",
        "Can analysts predict which cocktail skills a heroine needs?",
        "As a beginner, how often should I water tomatoes that grow in pots on a balcony?",
    ],
)
def test_clean_questions_stay(query: str) -> None:
    assert clean_queries([{"prompt": query}], "here")[0] == (query,)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("Tell me how vaccines train the immune system.", "no question mark at the end"),
        ("How do vaccines work? And how do they fail?", "more than one sentence"),
        ("First line here\nWhat do you make of it?", "more than one sentence"),
        ("Who are you?", "fewer than 5 words"),
        (f"Why is {'very ' * 45}long text hard to read?", "more than 40 words"),
        ("Why does print(x) fail when x == None in my loop?", "code or address"),
        ("What do you think of https://example.org and its news?", "code or address"),
        ("What is wrong with `for i in x` in this case?", "code or address"),
        ("What do you know about NAME_1 and his early work?", "placeholder"),
        ("Wie lange ist ein Seil nicht mehr sicher für den Aufstieg?", "not English"),
        ("Почему небо голубое, а закат красный и оранжевый?", "not English"),
        ("How do I murder a character in my novel?", "offensive word"),
        ("tell me, how long does a cold last?", "not well formed"),
        ("WHY IS THE SKY SO BLUE IN THE SUMMER?", "not well formed"),
        ("Why is the sky (the upper part so blue in the summer?", "not well formed"),
    ],
)
def test_every_other_text_has_its_reason(query: str, reason: str) -> None:
    assert why_not(query) == reason
    found, left_out = clean_queries([{"prompt": query}, {"prompt": GOOD}], "here")
    assert (found, dict(left_out.reasons), left_out.seen) == ((GOOD,), {reason: 1}, 2)


def test_every_dropped_row_is_counted() -> None:
    texts = ["how do vaccines train the immune system?", None, [{"role": "assistant", "content": GOOD}], 7]
    rows = [
        {"prompt": GOOD, "language": "English"},
        {"prompt": GOOD, "language": "German"},
        *({"prompt": text} for text in texts),
    ]
    found, left_out = clean_queries(rows, "here")
    assert found == (GOOD,) and left_out.seen == 6
    assert dict(left_out.reasons) == {"duplicate": 1, "no user message": 3, "not English": 1}


def test_missing_columns_and_nothing_usable_are_errors() -> None:
    with pytest.raises(DataError, match=r"here: no column of queries .*Found: text"):
        clean_queries([{"text": GOOD}], "here")
    with pytest.raises(DataError, match=r"here: no column 'query'\. Found: prompt"):
        clean_queries([{"prompt": GOOD}], "here", "query")
    with pytest.raises(DataError, match=re.escape("here: no usable query; 1 of 1 dropped (1 fewer than 5 words)")):
        clean_queries([{"prompt": "Why?"}], "here")
    assert clean_queries([{"text": GOOD}], "here", "text")[0] == (GOOD,)
