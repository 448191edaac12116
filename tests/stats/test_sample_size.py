"""Sample sizes against closed forms, the intervals they plan for, and simulated votes."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda.errors import DataError
from cda.stats.estimators import Z, paired_change, wilson
from cda.stats.sample_size import (
    majority_error,
    prompts_for_effect,
    triples_for_change,
    triples_for_share,
    votes_for_majority,
)

half_widths = st.floats(0.005, 0.45)
shares = st.floats(0, 1)


def wilson_half(share: float, n: float) -> float:
    low, high = wilson(share * n, n)
    return (high - low) / 2


def test_a_skew_near_0_or_1_needs_fewer_and_clusters_need_more() -> None:
    # p = 0: half of z²/(n + z²) is at most h from n = z²·(1/(2h) − 1) on.
    assert triples_for_share(0.01, share=0.0) == np.ceil(Z**2 * 49)
    assert triples_for_share(0.05, 0.9) == triples_for_share(0.05, 0.1) < triples_for_share(0.05, 0.5)
    assert triples_for_share(0.1, design_effect=2.5) == np.ceil(2.5 * (Z**2 / 0.04 - Z**2))


@settings(deadline=None, derandomize=True)
@given(half_widths, shares, st.floats(1, 20))
def test_the_number_for_a_share_is_enough_and_the_smallest(half_width: float, share: float, effect: float) -> None:
    n = triples_for_share(half_width, share, effect)
    assert wilson_half(share, n / effect) <= half_width
    assert n == 1 or wilson_half(share, (n - 1) / effect) > half_width


def test_change_and_effect_closed_forms() -> None:
    assert triples_for_change(0.1, discordant_share=1.0) == 385  # z²/h² = 384.15
    assert triples_for_change(0.05, discordant_share=0.2) == 308  # 0.2·1536.58
    assert triples_for_change(0.05, 0.2, design_effect=2) == 615  # 0.4·1536.58
    assert triples_for_change(0.9, 0.001) == prompts_for_effect(10, 0.1) == 2
    assert prompts_for_effect(0.1, sd=1.0) == 385
    assert prompts_for_effect(0.1, sd=2.0) == 1537  # 4·384.15


def test_the_planned_change_has_the_planned_width() -> None:
    n = triples_for_change(0.04, discordant_share=0.2)
    up = down = round(0.1 * n)
    before = [1] * down + [0] * up + [1] * ((n - up - down) // 2) + [0] * ((n - up - down + 1) // 2)
    after = [0] * down + [1] * up + before[up + down :]
    found = paired_change(before, after, [f"p{row}" for row in range(n)])
    assert (found.high - found.low) / 2 == pytest.approx(0.04, rel=0.03)


@pytest.mark.parametrize("half", range(1, 8))
def test_majorities_of_uniform_shares(half: int) -> None:
    # ρ = 1/3 around ½ is Beta(1, 1): with k = 2h − 1 votes the error is C(2h, h) / 2^(2h + 1): 1/4, 3/16, 5/32, …
    assert majority_error(2 * half - 1, 1 / 3) == pytest.approx(comb(2 * half, half) / 2 ** (2 * half + 1))


@settings(deadline=None, derandomize=True)
@given(st.floats(0.05, 0.4), st.floats(0.1, 0.9))
def test_the_number_of_votes_is_enough_and_the_smallest(wanted: float, correlation: float) -> None:
    k = votes_for_majority(wanted, correlation)
    assert k % 2 == 1 and majority_error(k, correlation) <= wanted
    assert k == 1 or majority_error(k - 2, correlation) > wanted


def test_votes_by_hand() -> None:
    assert [votes_for_majority(wanted, 1 / 3) for wanted in (0.26, 0.19, 0.16)] == [1, 3, 5]
    assert votes_for_majority(0.05, 0.9) == 1  # people nearly unanimous
    with pytest.raises(DataError, match="even 9999 votes"):
        votes_for_majority(0.001, 0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: triples_for_share(0.5), "half-width of a share"),
        (lambda: triples_for_share(0.1, 1.2), "expected share"),
        (lambda: triples_for_share(0.1, 0.5, 0), "design effect"),
        (lambda: triples_for_change(1.0, 0.2), "half-width of a change"),
        (lambda: triples_for_change(0.1, 0.0), "discordant share"),
        (lambda: prompts_for_effect(0.1, 0.0), "standard deviation"),
        (
            lambda: prompts_for_effect(1e-308, 1e308),
            "half-width of 1e-308 at a standard deviation of 1e.308: more rows than",
        ),
        (lambda: triples_for_change(1e-300, 0.2), "more rows than there can be"),
        (lambda: majority_error(4, 0.3), "an odd number"),
        (lambda: majority_error(-1, 0.3), "an odd number"),
        (lambda: majority_error(3, 1.0), "vote correlation"),
        (lambda: votes_for_majority(0.0, 0.3), "wanted error"),
    ],
)
def test_wishes_that_make_no_sense(call, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()
