"""The estimators against scipy, full matrices, formulas and simulations."""

from __future__ import annotations

import tracemalloc
from typing import Literal

import numpy as np
import pytest
from rows import ids, rng
from scipy import linalg, stats

from cda.errors import DataError
from cda.stats import estimators
from cda.stats.estimators import FREE, Regression, correlation_of, mean_of, of_draws, resampled, wilson


@pytest.mark.parametrize("side", ["both", "greater", "less"])
@pytest.mark.parametrize("null", [0.0, 0.5])
def test_one_row_a_prompt_is_the_textbook_test(side: Literal["both", "greater", "less"], null: float) -> None:
    values = rng(1).normal(0.3, 1, 23)
    found = mean_of(values, ids(23))
    known = stats.ttest_1samp(values, null, alternative="two-sided" if side == "both" else side)
    low, high = known.confidence_interval() if side == "both" else stats.ttest_1samp(values, null).confidence_interval()
    assert found.p_value(null, side) == pytest.approx(known.pvalue, rel=1e-12)
    assert (found.error, found.df) == (pytest.approx(stats.sem(values), rel=1e-12), pytest.approx(22))
    assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high), rel=1e-12)
    assert (found.estimate.n, found.estimate.n_prompts) == (23, 23)


def by_full_matrices(
    y: np.ndarray, x: np.ndarray, names: list[str], contrast: np.ndarray
) -> tuple[float, float, float]:
    """Coefficient, CR2 error and degrees of freedom with every matrix written out (Pustejovsky and Tipton 2018)."""
    n, inverse = len(y), np.linalg.inv(x.T @ x)
    hat, b = x @ inverse @ x.T, inverse @ x.T @ y
    left, variance, columns = np.eye(n) - hat, 0.0, []
    for name in sorted(set(names)):
        rows = np.flatnonzero(np.array(names) == name)
        adjusted = np.real(linalg.inv(linalg.sqrtm(left[np.ix_(rows, rows)]))) @ x[rows] @ inverse @ contrast
        variance += float(adjusted @ (y - x @ b)[rows]) ** 2
        columns.append(left[:, rows] @ adjusted)
    between = np.array(columns) @ np.array(columns).T
    return float(contrast @ b), variance**0.5, float(np.trace(between) ** 2 / (between**2).sum())


@pytest.mark.parametrize("contrast", [(1, 0, 0), (0, 1, 0), (0, 1, -2)])
def test_a_regression_is_cr2_s(contrast: tuple[int, ...]) -> None:
    names = [f"p{prompt}" for prompt in rng(1).integers(0, 8, 30)]
    x, y = np.column_stack([np.ones(30), rng(2).normal(size=(30, 2))]), rng(3).normal(size=30)
    found = Regression(y, x, names).of(np.array(contrast, float), "reward")
    known = by_full_matrices(y, x, names, np.array(contrast, float))
    assert (found.estimate.value, found.error, found.df) == pytest.approx(known)
    constant = mean_of(y, names)
    known = by_full_matrices(y, np.ones((30, 1)), names, np.ones(1))
    assert (constant.estimate.value, constant.error, constant.df) == pytest.approx(known)


def test_two_groups_are_welch_s_error_and_units_do_not_matter() -> None:
    y, treated = rng(4).normal(size=30), np.arange(30) < 10
    sides = np.column_stack([treated, ~treated]).astype(float)
    found = Regression(y, sides * [1e9, 1e-9], ids(30)).of(np.array([1e9, -1e-9]), "reward")
    known = stats.ttest_ind(y[treated], y[~treated], equal_var=False)
    assert found.estimate.value / found.error == pytest.approx(known.statistic)
    assert found.p_value() == pytest.approx(known.pvalue, rel=0.05)


def test_a_coefficient_that_one_prompt_alone_shows_has_no_error_and_a_mix_is_not_identified() -> None:
    y, alone = rng(5).normal(size=12), np.arange(12) == 0
    alone_fit = Regression(y, np.column_stack([np.ones(12), alone]), ids(12))
    assert alone_fit.of(np.array([1.0, 0.0]), "reward").error > 0
    twice = Regression(y, np.column_stack([np.ones(12), y, 2 * y]), ids(12))
    assert twice.identified.tolist() == [True, False, False] and twice.rank == 2


def test_a_ridge_takes_part_of_the_coefficients() -> None:
    x, y = rng(6).normal(size=(40, 2)), rng(7).normal(size=40)
    scale = np.sqrt((x**2).mean(axis=0))
    known = np.linalg.solve((x / scale).T @ (x / scale) + 40 * 0.5 * np.eye(2), (x / scale).T @ y) / scale
    found = Regression(y, x, ids(40), 0.5)
    assert found.coefficients == pytest.approx(known) and found.residuals == pytest.approx(y - x @ known)


@pytest.mark.parametrize(
    ("value", "side", "p_value"),
    [(0.1, "greater", 2**-5), (-0.1, "greater", 1.0), (0.0, "greater", 0.5), (0.1, "less", 1.0), (0.1, "both", 2**-4), (0.0, "both", 1.0)],
)  # fmt: skip
def test_without_spread(value: float, side: Literal["both", "greater", "less"], p_value: float) -> None:
    """0.1 is no binary fraction: the spread is rounding, which must not pass for a spread."""
    names = ["a", "a", "a", "b", "b", "c", "d", "e"]
    found = mean_of([value] * 8, names)
    assert (found.p_value(side=side), found.error) == (p_value, 0)
    assert found.estimate.low == found.estimate.high == found.estimate.value
    assert mean_of([0.7] * 3, ["a", "b", "c"]).p_value(0.7, "greater") == 0.5
    place = mean_of([value] * 8, names, within=(-1.0, 1.0)).estimate
    assert (place.low, place.high) == pytest.approx(tuple(2 * end - 1 for end in wilson(5 * (value + 1) / 2, 5)))


def ratio(sums: np.ndarray) -> np.ndarray:
    return np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)


def test_draws_of_many_prompts_are_scipy_s_percentiles() -> None:
    values = rng(3).exponential(2.0, 400)
    found = resampled(np.column_stack([values, np.ones(400)]), ids(400), ratio, "reward")
    low, high = stats.bootstrap((values,), np.mean, method="percentile", rng=rng(1), batch=500).confidence_interval
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.04 * (high - low))


def test_a_clustered_ratio_of_sums_is_the_delta_method_s() -> None:
    top, bottom = (np.repeat(rng(seed).gamma(4, 1, 400), 2) for seed in (1, 2))
    found = resampled(np.column_stack([top, bottom]), ids(800, 2), ratio, "ratio")
    error = 2 * np.sqrt(((top[::2] - found.value * bottom[::2]) ** 2).sum()) / bottom.sum()
    assert found.value == pytest.approx(top.sum() / bottom.sum()) and (found.n, found.n_prompts) == (800, 400)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(error, rel=0.05)


def test_the_tails_of_few_prompts_are_hesterberg_s() -> None:
    draws = rng(8).normal(size=200_000)
    found = of_draws(0.0, draws, 10, 10, "reward")
    assert found.high == pytest.approx(np.sqrt(10 / 9) * stats.t.ppf(0.975, 9), abs=0.04)
    assert of_draws(0.0, draws, 10**6, 10**6, "reward").high == pytest.approx(1.96, abs=0.02)


def test_draws_are_the_same_in_every_run_and_in_any_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = np.column_stack([rng(1).normal(size=60), np.ones(60)])
    whole = resampled(columns, ids(60), ratio, "reward")
    order = rng(2).permutation(60)
    assert resampled(columns[order], [ids(60)[row] for row in order], ratio, "reward") == whole
    monkeypatch.setattr(estimators, "_MAX_NUMBERS", 60_000)
    assert resampled(columns, ids(60), ratio, "reward").model_dump() == pytest.approx(whole.model_dump())


def test_memory_does_not_grow_with_the_draws() -> None:
    columns = np.column_stack([rng(1).normal(size=5_000), np.ones(5_000)])
    tracemalloc.start()
    resampled(columns, ids(5_000), ratio, "reward")  # 400 MB if all were drawn at once
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6


def test_undefined_draws_are_left_out_or_refused() -> None:
    bottom = np.array([1.0] * 6 + [0.0] * 6)  # undefined in 2⁻¹² of the draws
    found = resampled(np.column_stack([np.arange(12) * bottom, bottom]), ids(12), ratio, "ratio")
    assert found.low <= found.value <= found.high
    with pytest.raises(DataError, match=r"undefined in \d+ of 10000 bootstrap draws"):
        resampled([[1, 1], *[[0, 0]] * 9], ids(10), ratio, "ratio")
    with pytest.raises(DataError, match="undefined on these 10 rows"):
        resampled([[0, 0]] * 10, ids(10), ratio, "ratio")
    with pytest.raises(DataError, match="9 prompts are too few to resample"):
        resampled([[1, 1]] * 9, ids(9), ratio, "ratio")


@pytest.mark.parametrize(("within", "ends"), [(FREE, (1.0, 1.0)), ((0.0, 1.0), wilson(20, 20))])
def test_no_draw_that_differs_is_no_width_or_wilson_s_between_bounds(
    within: tuple[float, float], ends: tuple[float, float]
) -> None:
    found = resampled([[1.0, 1.0]] * 20, ids(20), ratio, "share", within)
    assert (found.low, found.high) == ends


def test_the_correlation_is_pearsons_whatever_the_units() -> None:
    first = rng(3).normal(size=300)
    other = 1e6 + 250 * (0.6 * first + 0.8 * rng(4).normal(size=300))
    found = correlation_of(first, other, ids(300))
    assert found.value == pytest.approx(np.corrcoef(first, other)[0, 1], abs=1e-9)
    centre, half = np.arctanh(found.value), 1.96 / np.sqrt(297)
    assert (found.low, found.high) == pytest.approx((np.tanh(centre - half), np.tanh(centre + half)), abs=0.03)
    assert correlation_of(3 * first - 5, other, ids(300)).value == pytest.approx(found.value)
    exact = correlation_of(first, 2 * first, ids(300))
    assert exact.value == pytest.approx(1.0) and exact.low < 0.99


@pytest.mark.parametrize(("kinds", "method"), [(3, estimators.DRAWN), (4000, estimators.LEFT_OUT)])
def test_many_prompts_have_the_interval_of_their_draws(
    kinds: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.round(rng(3).uniform(0, kinds, 4000))
    columns, own = np.column_stack([x, np.ones(4000), x * x]), np.arange(4000)

    def ratio(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[:, 0] / np.sqrt(sums[:, 1] * sums[:, 2]))

    drawn = resampled(columns, own, ratio, "correlation")
    monkeypatch.setattr(estimators, "MOST_DRAWN", 1000)
    many = resampled(columns, own, ratio, "correlation")
    assert (many.value, many.method, drawn.method) == (drawn.value, method, estimators.DRAWN)
    width = drawn.high - drawn.low
    assert (many.low, many.high) == (
        pytest.approx(drawn.low, abs=0.05 * width),
        pytest.approx(drawn.high, abs=0.05 * width),
    )
