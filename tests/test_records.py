"""Records and the names of contents."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cda.records import (
    Contrast,
    Exclusions,
    Message,
    Pair,
    content_id,
    count_reasons,
    equal_texts,
    normal_text,
    prompt_id,
    text_key,
    user_prompt,
)


def test_ids_are_fixed_across_runs_and_machines() -> None:
    # Artifacts refer to each other by these ids, so that a change here orphans every earlier run.
    assert content_id("a", 1) == "2657442bb4a48d62"
    code = "from cda.records import *; print(prompt_id(user_prompt('why?')))"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert fresh == prompt_id(user_prompt("why?"))
    assert len(fresh) == 16


def test_ids_tell_contents_apart() -> None:
    question = user_prompt("q")
    assert Pair(question, "a", "b").id != Pair(question, "b", "a").id
    assert content_id("ab", "c") != content_id("a", "bc")
    assert prompt_id(question) != prompt_id((Message("system", "q"),))
    assert Contrast("x", question, "a", "b").id != Contrast("y", question, "a", "b").id
    assert Contrast("x", question, "a", "b").id == Contrast("x", question, "a", "b", "tie", {"k": 1}).id

    assert len(prompt_id(user_prompt("\ud800"))) == 16  # a lone surrogate can be named
    with pytest.raises(TypeError, match="set"):
        content_id({1})


def test_exclusions_say_what_was_dropped() -> None:
    assert str(Exclusions(5, {})) == "none of 5 dropped"
    some = Exclusions(5, {"tie": 1, "duplicate": 2})
    assert some.dropped == 3 and str(some) == "3 of 5 dropped (2 duplicate, 1 tie)"
    assert list(count_reasons(["b", "c", "a", "b"]).items()) == [("a", 1), ("b", 2), ("c", 1)]


SPELLED = (
    "Où est le café ?\nIci.",
    "Où est le café ?\r\nIci.",
    " Où est le café ?\rIci. \n",
    "Ou\u0300 est le cafe\u0301 ?\nIci.",
)


def test_a_text_is_one_text_however_it_is_stored() -> None:
    assert {normal_text(text) for text in SPELLED} == {SPELLED[0]}
    assert {prompt_id(user_prompt(text)) for text in SPELLED} == {content_id("prompt", user_prompt(SPELLED[0]))}
    assert len({text_key(user_prompt("q"), text, "other") for text in SPELLED}) == 1
    assert equal_texts(SPELLED[0], SPELLED[3]) and not equal_texts("a  b", "a b") and not equal_texts("A", "a")
    assert len({Contrast("x", user_prompt(text), text, "b").id for text in SPELLED}) == 1
    assert len({Pair(user_prompt("q"), text, "b").id for text in SPELLED}) == 4  # the text that is scored
