"""Skew, miscalibration and human skew, on votes and margins that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cda.errors import DataError
from cda.stats.people import people_change
from cda.stats.preference import positive_share, positive_share_change
from cda.stats.votes import Majority, count_votes, majority

PREFERRED = [["perturbed"], ["base"], ["base"], ["tie"], [], ["base"]]
BEFORE = [1.0, 2.0, -1.0, 5.0, -5.0, 0.0]
AFTER = [1.0, -2.0, -1.0, -5.0, 5.0, 3.0]
margins = arrays(float, st.integers(2, 25), elements=st.floats(-5, 5).map(lambda value: round(value, 1)))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_skew_is_the_share_above_zero_and_a_tie_is_no_hit() -> None:
    found = positive_share([1e-9, -1, 0, 2], ids(4))
    assert (found.value, found.n, found.unit) == (0.5, 4, "share")


def test_change_by_hand() -> None:
    found = positive_share_change(BEFORE, AFTER, ids(6))
    assert (found.before.value, found.after.value) == (3 / 6, 3 / 6)
    assert found.change.value == 0.0
    assert found.n_ties == (1, 0)
    assert found.p_value == 1.0  # two rows up, two down


def people(votes: list[list[str]]) -> Majority:
    return majority(count_votes(votes), "drop")


def test_beside_people_by_hand() -> None:
    found = people_change(BEFORE, AFTER, people(PREFERRED), ids(6), rng())
    # Voted rows 0, 1, 2, 5, of which people prefer the first perturbed. Before, the model prefers 0 and 1 (5 is a margin of
    # 0, which counts as base); after, 0 and 5.
    assert (found.before.human_skew.value, found.before.human_skew.n) == (1 / 4, 4)
    assert (found.before.miscalibration.value, found.after.miscalibration.value) == (1 / 4, 1 / 4)
    assert (found.skew.before.value, found.skew.after.value) == (2 / 4, 2 / 4)
    assert (found.before.gap.value, found.gap.value) == (1 / 4, 0.0)
    assert found.miscalibration.n_ties == (1, 0)
    assert found.gap.low <= 0.0 <= found.gap.high


def test_a_model_that_votes_like_people_is_calibrated() -> None:
    like = np.array([1.0, -1.0] * 5)
    found = people_change(-like, like, people([["perturbed"], ["base"]] * 5), ids(10), rng())
    miscalibration = found.miscalibration
    assert (miscalibration.before.value, miscalibration.after.value, miscalibration.change.value) == (1.0, 0.0, -1.0)
    assert miscalibration.p_value == pytest.approx(2 / 2**10)
    assert found.auc is not None
    assert (found.before.auc.value, found.after.auc.value, found.auc.value) == (0.0, 1.0, 1.0)  # type: ignore[union-attr]


def test_a_shift_of_all_margins_moves_everything_but_the_auc() -> None:
    sides = np.random.default_rng(1).random(80) < 0.4
    before = np.where(sides, 0.5, -0.5) + np.random.default_rng(2).normal(size=80)
    found = people_change(
        before + 2, before, people([["perturbed"] if one else ["base"] for one in sides]), ids(80), rng()
    )
    assert found.gap.high < 0
    assert found.miscalibration.change.high < 0
    assert found.auc is not None
    assert (found.auc.value, found.auc.low, found.auc.high) == (0.0, 0.0, 0.0)


def test_nothing_moved_keeps_a_width() -> None:
    values = np.array([1.0, -1.0] * 10)
    found = people_change(values, values, people([["perturbed"], ["base"]] * 10), ids(20), rng())
    assert found.gap.value == 0.0
    assert found.gap.low < 0 < found.gap.high


@settings(deadline=None, derandomize=True, max_examples=50)
@given(margins)
def test_swapping_the_sides_mirrors_the_skew_up_to_ties(values: np.ndarray) -> None:
    one, other = (positive_share(signed, ids(len(values))).value for signed in (values, -values))
    assert one + other == pytest.approx(1 - np.mean(values == 0))


@settings(deadline=None, derandomize=True, max_examples=50)
@given(margins)
def test_swapping_before_and_after_flips_the_change(values: np.ndarray) -> None:
    after = np.roll(values, 1)
    there = positive_share_change(values, after, ids(len(values)))
    back = positive_share_change(after, values, ids(len(values)))
    assert back.change.value == -there.change.value
    assert back.p_value == there.p_value
    assert back.n_ties == there.n_ties[::-1]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(margins, st.floats(0.01, 100))
def test_the_scale_of_the_reward_does_not_matter(values: np.ndarray, scale: float) -> None:
    assert positive_share(values * scale, ids(len(values))) == positive_share(values, ids(len(values)))


def test_broken_margins_raise() -> None:
    with pytest.raises(DataError, match="2 of 3 margins are NaN or infinite"):
        positive_share([1, float("nan"), float("inf")], ids(3))
