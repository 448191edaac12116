"""AUC and its clustered interval, against scipy, DeLong's formula and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cda.errors import DataError
from cda.stats.people import auc, auc_change
from cda.stats.proportions import Z_95

rows = st.lists(st.tuples(st.integers(-4, 4), st.booleans(), st.integers(0, 9)), min_size=2, max_size=30).filter(
    lambda table: len({up for _, up, _ in table}) == 2
)


def ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_it_is_mann_whitney_s() -> None:
    random = np.random.default_rng(0)
    margins, target = random.integers(-3, 4, 60), random.random(60) < 0.4
    u = stats.mannwhitneyu(margins[target], margins[~target]).statistic
    found = auc(margins, target, ids(60))
    assert found.value == pytest.approx(u / (target.sum() * (~target).sum()))
    assert (found.n, found.n_prompts, found.unit) == (60, 60, "AUC")


def test_the_error_is_delong_s_where_prompts_occur_once() -> None:
    random = np.random.default_rng(1)
    up, down = random.normal(0.7, 1, 40), random.normal(0, 1, 50)
    beats = (np.sign(up[:, None] - down) + 1) / 2
    variance = beats.mean(axis=1).var(ddof=1) / 40 + beats.mean(axis=0).var(ddof=1) / 50
    area = beats.mean()
    half = Z_95 * np.sqrt(variance) / (area * (1 - area))
    found = auc(np.concatenate([up, down]), [1] * 40 + [0] * 50, ids(90))
    logit = np.log(area / (1 - area))
    assert (found.low, found.high) == pytest.approx(
        (stats.logistic.cdf(logit - half), stats.logistic.cdf(logit + half))
    )


@settings(deadline=None, derandomize=True)
@given(rows)
def test_invariants(table: list[tuple[int, bool, int]]) -> None:
    margins = np.array([margin for margin, _, _ in table], float)
    target = np.array([up for _, up, _ in table], float)
    clusters = [f"p{prompt}" for _, _, prompt in table]
    one = auc(margins, target, clusters)
    assert 0 <= one.low <= one.value <= one.high <= 1
    # A threshold shift and a scale do not matter; the order neither.
    assert auc(3 * margins + 7, target, clusters) == one
    back = auc(margins[::-1], target[::-1], clusters[::-1])
    assert (back.value, back.low, back.high) == pytest.approx((one.value, one.low, one.high), abs=1e-9)
    for other in (auc(-margins, target, clusters), auc(margins, 1 - target, clusters)):
        assert (other.value, other.low, other.high) == pytest.approx(
            (1 - one.value, 1 - one.high, 1 - one.low), abs=1e-6
        )
    twice = auc(np.tile(margins, 2), np.tile(target, 2), clusters * 2)
    assert (twice.value, twice.low, twice.high) == pytest.approx((one.value, one.low, one.high), abs=1e-9)


def test_perfect_separation_keeps_an_honest_width() -> None:
    found = auc([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1], ids(6))
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.3 < found.low < 0.9
    assert found.method == "Newcombe AUC score 95%"


def test_rows_for_neither_side_are_left_out() -> None:
    assert auc([1, 2, 9], [0, 1, 0.5], ids(3)).n == 2


@pytest.mark.parametrize("rows_a_prompt", [1, 3])
def test_coverage(rows_a_prompt: int) -> None:
    random, inside = np.random.default_rng(4), 0
    truth = float(stats.norm.cdf(1.0 / np.sqrt(2 * 2)))  # both sides N(·, 1 + 1), 1 apart
    for _ in range(400):
        n = 60 * rows_a_prompt
        clusters = [f"p{row // rows_a_prompt}" for row in range(n)]
        target = random.random(n) < 0.4
        shared = np.repeat(random.normal(size=60), rows_a_prompt)
        found = auc(target + shared + random.normal(size=n), target, clusters)
        inside += found.low <= truth <= found.high
    assert 0.92 <= inside / 400 <= 0.985


def test_what_cannot_be_estimated_raises() -> None:
    with pytest.raises(DataError, match="2 majorities for the perturbed side and 0 for the base"):
        auc([1, 2], [1, 1], ids(2))
    with pytest.raises(DataError, match="one finite margin"):
        auc([1, float("nan")], [1, 0], ids(2))


def test_change_of_auc_is_paired() -> None:
    rng = np.random.default_rng(3)
    target = (rng.random(120) < 0.5).astype(float)
    before = target + rng.normal(size=120)
    ids = [str(row) for row in range(120)]
    same = auc_change(before, 3 * before + 1, target, ids)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)  # the same ranking, whatever the sample
    worse = auc_change(before, before + rng.normal(size=120), target, ids)
    assert worse.low < worse.value < 0 < worse.high or worse.high < 0
    perfect = auc_change(target, 2 * target, target, ids)
    assert perfect.value == 0.0
    assert perfect.low < 0 < perfect.high


def test_change_of_auc_covers_the_difference() -> None:
    rng, hits = np.random.default_rng(4), 0
    for _ in range(400):
        target = (rng.random(150) < 0.5).astype(float)
        shared = rng.normal(size=150)
        before, after = 1.0 * target + shared, 0.5 * target + shared + 0.3 * rng.normal(size=150)
        found = auc_change(before, after, target, [str(row) for row in range(150)])
        # P(N(d, 2) > 0) for a shift d: 1/√2 and 0.5/√(2·1.09).
        truth = stats.norm.cdf(0.5 / np.sqrt(2 * 1.09)) - stats.norm.cdf(1 / np.sqrt(2))
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / 400 <= 0.975


def test_sides_must_be_sides() -> None:
    with pytest.raises(DataError, match="people's side of each row"):
        auc([1.0, 2.0], [1.0, np.nan], ["a", "b"])
