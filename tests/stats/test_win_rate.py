"""Win rates under a judge: known shares, tests counted by hand, and rows without a verdict."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from cda.benchmarks.win_rate import win_rate
from cda.errors import DataError
from cda.stats.proportions import wilson


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_shares_of_one_row_a_prompt() -> None:
    preferences = [1.0, 0.5, 0.1, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0, -0.2]
    found = win_rate(preferences, ids(10))
    assert (found.wins.value, found.ties.value, found.losses.value) == (0.6, 0.2, 0.2)
    assert found.win_rate.value == pytest.approx(0.7)
    assert (found.win_rate.low, found.win_rate.high) == pytest.approx(wilson(7.0, 10))
    assert (found.win_rate.n, found.win_rate.n_prompts, found.n_unread) == (10, 10, 0)
    # Six wins and two losses by fair coins: 2 · P(at most 2 of 8).
    assert found.test.p_value == pytest.approx(2 * sum(comb(8, lost) for lost in range(3)) / 2**8)
    assert found.test.method == "exact sign test"


def test_the_other_set_wins_what_this_one_loses() -> None:
    preferences = np.array([1.0, 0.3, 0.0, -1.0, 1.0, 0.0, np.nan])
    one, other = win_rate(preferences, ids(7)), win_rate(-preferences, ids(7))
    assert other.win_rate.value == pytest.approx(1 - one.win_rate.value)
    assert (other.win_rate.low, other.win_rate.high) == pytest.approx((1 - one.win_rate.high, 1 - one.win_rate.low))
    assert other.test == one.test


def test_rows_of_one_prompt_are_no_further_evidence() -> None:
    once = win_rate([1.0] * 7 + [-1.0], ids(8))
    repeated = win_rate(np.repeat([1.0] * 7 + [-1.0], 25), list(np.repeat(ids(8), 25)))
    assert repeated.win_rate.value == once.win_rate.value == 0.875
    assert (repeated.win_rate.n, repeated.win_rate.n_prompts) == (200, 8)
    assert repeated.test.p_value == pytest.approx(once.test.p_value) == pytest.approx(2 * 9 / 2**8)
    assert repeated.test.method == "exact sign-flip over prompts"
    low, high = wilson(175.0, 200)
    assert repeated.win_rate.low < low
    assert repeated.win_rate.high > high
    assert repeated.win_rate.method == "Wilson 95% on the effective number of rows"


def test_unread_rows_are_counted_and_left_out() -> None:
    found = win_rate([np.nan, 1.0, -1.0, 1.0, np.nan], ids(5))
    assert (found.n_unread, found.win_rate.n) == (2, 3)
    assert found.win_rate.value == pytest.approx(2 / 3)


def test_ties_alone_say_nothing() -> None:
    found = win_rate([0.0] * 6, ids(6))
    assert (found.win_rate.value, found.ties.value, found.test.p_value) == (0.5, 1.0, 1.0)
    assert found.win_rate.low < 0.5 < found.win_rate.high


def test_the_interval_covers_a_known_rate() -> None:
    draws, hits = np.random.default_rng(1), 0
    for _ in range(200):
        values = draws.choice([1.0, 0.0, -1.0], size=120, p=[0.5, 0.2, 0.3])
        found = win_rate(values, ids(120))
        hits += found.win_rate.low <= 0.6 <= found.win_rate.high
    assert hits >= 186  # 95% of 200 is 190; the chance of fewer than 186 is below 1% at exactly 95%


@pytest.mark.parametrize(
    ("preferences", "prompt_ids", "said"),
    [
        ([np.nan, np.nan], ["a", "b"], "none of 2 comparisons has a readable verdict"),
        ([], [], "none of 0 comparisons"),
        ([1.0, 3.2], ["a", "b"], "reach 3.2: are they rewards"),
        ([1.0], ["a", "b"], "one each is needed"),
        ([[1.0], [0.0]], ["a", "b"], "one each is needed"),
    ],
)
def test_what_cannot_be_used(preferences: list[float], prompt_ids: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        win_rate(preferences, prompt_ids)
