"""Means over trainings: computed once more by hand, at the edges, and covered as often as the interval says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from cda.stats.means import change_over_seeds, over_seeds, share_over_seeds
from cda.stats.proportions import paired_change, share, wilson

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


def test_more_trainings_narrow_it_and_other_trainings_widen_it() -> None:
    ids = [str(row) for row in range(60)]
    one = (np.arange(60) % 2).astype(float)
    moved = np.where(np.arange(60) < 20, 1.0, one)
    alike, apart = np.array([one, one, one]), np.array([one, one, moved])
    assert over_seeds(alike, ids).half < over_seeds(apart, ids).half
    assert over_seeds(np.tile(apart, (3, 1)), ids).half < over_seeds(apart, ids).half
    # One training's interval lies within that of three that differ.
    single, every = share(moved, ids), share_over_seeds(apart, ids)
    assert every.high - every.low > single.high - single.low


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


@pytest.mark.parametrize(
    ("values", "ids", "said"),
    [
        (HITS[:1], IDS, "1 seeds and 4 prompts"),
        (HITS, ["a"] * 6, "3 seeds and 1 prompts"),
        (HITS[0], IDS, "a row for each seed"),
        (HITS, IDS[:5], "a row for each seed"),
        (np.where(HITS == 1, np.nan, HITS), IDS, "7 of 18 values are NaN or infinite"),
    ],
)
def test_what_cannot_be_estimated_is_said(values: np.ndarray, ids: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        over_seeds(values, ids)


def test_it_covers_where_one_training_s_interval_does_not() -> None:
    """Three trainings that differ by 0.6 SD of a margin's noise; evals/training_seeds.py has 48 worlds."""
    draw, ids, runs = np.random.default_rng(7), [str(row) for row in range(80)], 300
    true = float(stats.norm.cdf(0.5 / math.sqrt(2 + 0.36)))
    held = np.zeros(2)
    for _ in range(runs):
        margins = 0.5 + draw.normal(0, 0.6, (3, 1)) + draw.normal(0, 1, 80) + draw.normal(0, 1, (3, 80))
        hits = (margins > 0).astype(float)
        found = share_over_seeds(hits, ids), share(hits[0], ids)
        held += [one.low <= true <= one.high for one in found]
    assert held[0] / runs >= 0.93 and held[1] / runs < 0.6
