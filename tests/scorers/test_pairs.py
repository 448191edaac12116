"""Preferences of a local model from its log-odds in both orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pytest

from cda.records import user_prompt
from cda.scorers.classifier import ALIKE, TOO_LONG, LocalPairwise, in_order, preferred
from cda.scorers.compared import Rewards, Text, compare_distinct, text_id

PROMPT = user_prompt("Why?")


def judge(
    log_odds: Mapping[tuple[str, str], float],
    averages: Literal["log-odds", "probabilities"] = "log-odds",
    read: Mapping[tuple[str, str], str] | None = None,
    both_orders: bool = False,
) -> LocalPairwise:
    """A model that is asked for these log-odds of the response shown first."""

    def score(texts: Sequence[Text]) -> Rewards:
        shown = {text_id(*text): (text[0][-1].content, text[1]) for text in texts}
        assert all(text[0][:-1] == PROMPT and text[0][-1].role == "assistant" for text in texts)
        found = {name: log_odds[both] for name, both in shown.items()}
        return Rewards(found, {name: read[both] for name, both in shown.items() if both in read} if read else {})

    return LocalPairwise("tiny", score, averages, both_orders)


def margin(asked: LocalPairwise, *pairs: tuple[str, str]) -> list[float]:
    first, second = zip(*pairs, strict=True)
    return list(asked.margin([PROMPT] * len(pairs), first, second))


def test_both_orders_are_averaged_as_the_authors_average_them() -> None:
    odds = {("a", "b"): 3.0, ("b", "a"): 5.0}
    assert margin(judge(odds), ("a", "b")) == [pytest.approx(math.tanh(-1 / 2))]
    mean = (math.tanh(3 / 2) - math.tanh(5 / 2)) / 2
    assert margin(judge(odds, "probabilities"), ("a", "b")) == [pytest.approx(mean)]
    assert margin(judge(odds), ("a", "b"), ("b", "a")) == pytest.approx([math.tanh(-0.5), math.tanh(0.5)])


def test_a_preference_is_twice_the_probability_minus_one() -> None:
    """Log-odds of log 3 are a probability of 3/4."""
    odds = np.array([[math.log(3), -math.log(3)], [0.0, 0.0]])
    for averages in ("log-odds", "probabilities"):
        np.testing.assert_allclose(preferred(odds, averages)[0], [0.5, 0.0])  # type: ignore[arg-type]


def test_what_follows_the_place_is_counted() -> None:
    asked = judge({("a", "b"): 1.0, ("b", "a"): 1.0, ("c", "d"): 1.0, ("d", "c"): -2.0})
    assert margin(asked, ("a", "b"), ("c", "d"))[0] == 0
    assert (asked.orders.n_flipped, asked.orders.n_unread, asked.orders.n_half_read) == (1, 0, 0)
    bias = (2 * math.tanh(0.5) + math.tanh(0.5) + math.tanh(-1)) / 4
    assert asked.orders.position_bias == pytest.approx(bias)


def test_texts_that_are_left_out_or_cut_to_the_same_have_no_preference() -> None:
    nan = math.nan
    odds = {("a", "b"): nan, ("b", "a"): nan, ("c", "d"): 1.0, ("d", "c"): nan, ("e", "f"): 2.0, ("f", "e"): 2.0}
    odds |= {("g", "h"): 1.0, ("h", "g"): -1.0}
    read = {("e", "f"): "same", ("f", "e"): "same", ("g", "h"): "one", ("h", "g"): "other"}
    asked = judge(odds, read=read)
    found = margin(asked, ("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"))
    assert np.isnan(found).tolist() == [True, False, True, False]
    assert found[1] == pytest.approx(math.tanh(0.5)) and asked.reasons == {TOO_LONG: 1, ALIKE: 1}
    assert (asked.orders.n_unread, asked.orders.n_half_read, asked.n_cut) == (2, 1, 2)
    needed = judge(odds, read=read, both_orders=True)
    assert np.isnan(margin(needed, ("c", "d"))).all()


def test_distinct_comparisons_are_asked_once_and_named_by_their_texts() -> None:
    asked = judge({("a", "b"): 1.0, ("b", "a"): -1.0})
    found = compare_distinct(asked, [(PROMPT, "a", "b")] * 3)
    assert found.margins([(PROMPT, "a", "b")] * 2) == pytest.approx([math.tanh(0.5)] * 2)
    assert text_id(*in_order(PROMPT, "a", "b")) != text_id(*in_order(PROMPT, "b", "a"))
