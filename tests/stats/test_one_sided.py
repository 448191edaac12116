"""The clustered one-sided t-test against scipy's, by hand, and on data without an effect; the smallest detectable mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from cda.stats.means import Alternative, clustered_t_test, smallest_detectable, t_power


@pytest.mark.parametrize("alternative", ["greater", "less"])
@pytest.mark.parametrize("null", [0.0, 0.5])
def test_one_row_a_prompt_is_the_textbook_test(alternative: Alternative, null: float) -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 23)
    found = clustered_t_test(values, [str(row) for row in range(23)], alternative, null)
    known = stats.ttest_1samp(values, null, alternative=alternative)
    low, high = stats.ttest_1samp(values, null).confidence_interval()
    assert found.p_value == pytest.approx(known.pvalue, rel=1e-12)
    assert found.standard_error == pytest.approx(stats.sem(values), rel=1e-12)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high), rel=1e-12)
    assert (found.estimate.n, found.estimate.n_prompts) == (23, 23)


def test_clusters_by_hand() -> None:
    """Rows 1, 3 of one prompt, 2 of another, 6 of a third: mean 3, residual sums −2, −1, 3."""
    found = clustered_t_test([1, 3, 2, 6], ["a", "a", "b", "c"])
    assert found.estimate.value == 3
    assert found.standard_error == pytest.approx(np.sqrt(3 / 2 * (4 + 1 + 9)) / 4)
    assert found.p_value == pytest.approx(stats.t.sf(3 / found.standard_error, 2))


def test_copies_within_their_prompt_change_nothing() -> None:
    values = np.random.default_rng(2).normal(0.2, 1, 12)
    ids = [f"p{row}" for row in range(12)]
    once, thrice = clustered_t_test(values, ids), clustered_t_test(np.repeat(values, 3), list(np.repeat(ids, 3)))
    assert thrice.p_value == pytest.approx(once.p_value, rel=1e-12)
    assert (thrice.estimate.low, thrice.estimate.high) == pytest.approx((once.estimate.low, once.estimate.high))
    assert (thrice.estimate.n, thrice.estimate.n_prompts) == (36, 12)


def test_the_order_of_rows_changes_nothing_at_all() -> None:
    random = np.random.default_rng(3)
    values, ids = random.normal(0, 1e3, 50), random.integers(0, 9, 50).astype(str)
    order = random.permutation(50)
    assert clustered_t_test(values, list(ids)) == clustered_t_test(values[order], list(ids[order]))


def test_without_an_effect_it_rejects_as_often_as_it_says() -> None:
    """Rows of a prompt move together; the test that ignores it rejects about three times as often."""
    random, wrong, naive = np.random.default_rng(4), 0, 0
    ids = [str(row) for row in np.repeat(np.arange(30), 4)]
    for _ in range(2000):
        values = np.repeat(random.normal(0, 1, 30), 4) + random.normal(0, 0.5, 120)
        wrong += clustered_t_test(values, ids).p_value < 0.05
        naive += stats.ttest_1samp(values, 0, alternative="greater").pvalue < 0.05
    assert 0.036 <= wrong / 2000 <= 0.064
    assert naive / 2000 > 0.12


@pytest.mark.parametrize(
    ("value", "alternative", "p_value"),
    [(0.1, "greater", 2**-5), (-0.1, "greater", 1.0), (0.0, "greater", 0.5), (-0.1, "less", 2**-5), (0.1, "less", 1.0)],
)
def test_without_spread(value: float, alternative: Alternative, p_value: float) -> None:
    """0.1 is no binary fraction: the spread is rounding, which must not pass for a spread."""
    ids = ["a", "a", "a", "b", "b", "c", "d", "e"]
    found = clustered_t_test([value] * 8, ids, alternative)
    assert found.p_value == p_value
    assert found.standard_error == 0
    assert found.estimate.low == found.estimate.high == found.estimate.value


def test_without_spread_on_a_null_that_is_not_zero() -> None:
    assert clustered_t_test([0.7] * 3, ["a", "b", "c"], "greater", 0.7).p_value == 0.5
    assert clustered_t_test([0.0] * 64, [str(row) for row in range(64)], "less", 0.5).p_value == 2.0**-64


@pytest.mark.parametrize(
    ("values", "ids", "says"),
    [([1.0, 2.0], ["a", "a"], "1 prompt"), ([], [], "no rows"), ([1.0, np.nan], ["a", "b"], "NaN"), ([1.0], ["a", "b"], "one each")],
)  # fmt: skip
def test_too_little_is_said(values: list[float], ids: list[str], says: str) -> None:
    with pytest.raises(DataError, match=says):
        clustered_t_test(values, ids)


@pytest.mark.parametrize(("n_prompts", "alpha", "shift"), [(2, 0.05, 3), (10, 0.005, 3), (64, 0.005, 3), (64, 0.01, 0)])
def test_power_is_the_noncentral_t_s(n_prompts: int, alpha: float, shift: float) -> None:
    known = stats.nct.sf(stats.t.ppf(1 - alpha, n_prompts - 1), n_prompts - 1, shift)
    assert t_power(shift, n_prompts, alpha) == pytest.approx(known, abs=1e-5)


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


@pytest.mark.parametrize(
    ("errors", "prompts", "alpha", "r"),
    [([0.0], [9], 0.05, 1), ([1.0], [1], 0.05, 1), ([1.0], [9], 0.0, 1), ([1.0], [9], 0.05, 2), ([1.0], [9, 9], 0.05, 1)],
)  # fmt: skip
def test_an_impossible_plan_is_said(errors: list[float], prompts: list[int], alpha: float, r: int) -> None:
    with pytest.raises(DataError):
        smallest_detectable(errors, prompts, alpha, r=r)
