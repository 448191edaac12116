"""Means over prompts and trainings, against scipy, by hand and on data without an effect; trimmed means and distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rows import rng
from scipy import stats

from cda.stats.estimators import paired_change, wilson
from cda.stats.means import (
    change_over_seeds,
    change_test_over_seeds,
    inside_fences,
    iqr_trimmed_mean,
    over_seeds,
    share_over_seeds,
    smallest_detectable,
)


def test_smallest_detectable_is_found_with_its_power() -> None:
    distance = smallest_detectable([0.25], [25], 0.01, 0.8)
    random = np.random.default_rng(5)
    values = random.normal(distance, 0.25 * 5, (4000, 25))
    found = stats.ttest_1samp(values, 0, axis=1, alternative="greater").pvalue < 0.01
    assert 0.775 <= found.mean() <= 0.825


def test_smallest_detectable_of_several_tests() -> None:
    """With many prompts: (z + z) errors for one test; for two of two each has to succeed with √0.8."""
    large = 100_000
    assert smallest_detectable([2.0], [large], 0.05) == pytest.approx(2 * (1.64485 + 0.84162), rel=1e-3)
    both = smallest_detectable([2.0, 2.0], [large] * 2, 0.05, r=2)
    assert both == pytest.approx(2 * (1.64485 + stats.norm.ppf(0.8**0.5)), rel=1e-3)
    assert smallest_detectable([2.0] * 3, [large] * 3, 0.05, r=2) < both
    assert smallest_detectable([1.0] * 20, [large] * 20, 0.2, r=1) == 0  # 99% by chance alone


IDS = ["a", "a", "b", "c", "c", "d"]
HITS = np.array([[1, 0, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0]], dtype=float)


def test_the_margin_of_error_by_hand() -> None:
    """Variance between seeds and mean covariance of two seeds over prompts, summed up one pair at a time."""
    means = [sum(row) / 6 for row in HITS.tolist()]
    between = sum((mean - sum(means) / 3) ** 2 for mean in means) / 2
    pairs = []
    for one, other in ((0, 1), (0, 2), (1, 2)):
        products = 0.0
        for prompt in "abcd":
            rows = [row for row, name in enumerate(IDS) if name == prompt]
            first = sum(HITS[one, row] - means[one] for row in rows) / 6
            products += first * sum(HITS[other, row] - means[other] for row in rows) / 6
        pairs.append(products * 4 / 3)
    shared = sum(pairs) / 3
    assert shared > 0
    half = math.sqrt(stats.t.ppf(0.975, 2) ** 2 * between / 3 + stats.t.ppf(0.975, 3) ** 2 * shared)
    found = over_seeds(HITS, IDS)
    assert found.half == pytest.approx(half) and found.value == pytest.approx(sum(means) / 3)
    assert found.sd == pytest.approx(math.sqrt(between)) and found.by_seed == pytest.approx(tuple(means))
    assert (found.n, found.n_prompts) == (6, 4)


def test_seeds_that_agree_leave_the_error_of_the_prompts() -> None:
    alike = np.repeat(HITS[:1], 3, axis=0)
    found = over_seeds(alike, IDS)
    sums = np.array([(HITS[0, [name == prompt for name in IDS]] - 0.5).sum() for prompt in "abcd"])
    clustered = math.sqrt(4 / 3 * (sums**2).sum()) / 6
    assert found.sd == 0 and found.half == pytest.approx(stats.t.ppf(0.975, 3) * clustered)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_none_or_all_keeps_a_width(value: float) -> None:
    found = share_over_seeds(np.full((3, 6), value), IDS)
    assert (found.low, found.high) == wilson(4 * value, 4) and found.value == value


def test_shares_and_changes_stay_within_their_bounds() -> None:
    far = np.array([[1.0] * 6, [0.0] * 6])
    shared, change = share_over_seeds(far, IDS), change_over_seeds(np.zeros(6), far, IDS)
    assert 0 <= shared.low < 0.5 < shared.high <= 1
    assert (change.low, change.high) == (-1, 1)  # two seeds, so far apart, say nothing


def test_a_change_is_after_minus_before() -> None:
    before = np.array([1.0, 1, 1, 1, 1, 0])
    found = change_over_seeds(before, HITS, IDS)
    assert found.value == pytest.approx(7 / 18 - 5 / 6)
    assert found.high - found.value == pytest.approx(over_seeds(HITS - before, IDS).half)


def test_no_change_anywhere_has_the_interval_over_prompts() -> None:
    before = np.array([1.0, 0, 1, 0, 1, 0])
    ids = list("abcdef")
    assert change_over_seeds(before, np.tile(before, (3, 1)), ids) == paired_change(before, before, ids)


def test_known_fences() -> None:
    """Quartiles 2 and 4, fences −1 and 7: both belong to the inside."""
    assert inside_fences([1, 2, 3, 4, 7]).tolist() == [True] * 5
    assert inside_fences([1, 2, 3, 4, 7.01]).tolist() == [True] * 4 + [False]
    assert inside_fences([-1.01, 2, 3, 4, 5]).tolist() == [False] + [True] * 4


def test_no_range_keeps_what_is_equal_but_for_rounding() -> None:
    assert inside_fences([0.3, 0.1 + 0.2, 0.3, 0.3, 0.3, 9]).tolist() == [True] * 5 + [False]
    assert inside_fences([5.0]).tolist() == [True]


def test_a_few_rows_turn_the_mean() -> None:
    values, ids = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, -90.0], [str(row) for row in range(7)]
    found = iqr_trimmed_mean(values, ids)
    assert found.raw == pytest.approx(-12)
    assert found.estimate.value == pytest.approx(1)
    assert (found.n_trimmed, found.estimate.n) == (1, 6)
    assert found.sign_changes
    assert not iqr_trimmed_mean(values[:-1], ids[:-1]).sign_changes


@pytest.mark.parametrize("moved", [0.0, 0.1, 0.3, 0.9])
def test_the_p_of_a_mean_over_seeds_is_the_level_of_the_interval_that_ends_at_0(moved: float) -> None:
    draws = rng(5).random((3, 40))
    before, after = (draws[0] < 0.95) * 1.0, (draws < 0.95 - moved) * 1.0
    names = [f"p{row}" for row in range(40)]
    mean, test = over_seeds(after - before, names), change_test_over_seeds(before, after, names)
    assert test.p_value == mean.p_value and (test.p_value < 0.05) == (mean.half < abs(mean.value))
    assert mean.half_beyond(test.p_value / 2) == pytest.approx(abs(mean.value), rel=1e-4)


def test_trainings_that_all_do_the_same_have_an_exact_test() -> None:
    names, before = [f"p{row}" for row in range(10)], np.ones(10)
    assert change_test_over_seeds(before, np.zeros((3, 10)), names).p_value == pytest.approx(2 / 2**10)
    assert change_test_over_seeds(before, np.ones((3, 10)), names).p_value == 1
