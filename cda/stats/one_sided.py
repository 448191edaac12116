"""One-sided t-test of a mean over rows that share prompts, and the smallest mean that such tests would find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats.bootstrap import cluster_sums

Alternative = Literal["greater", "less"]
_ROUNDING = 1e-12
"""Share of the largest value below which a spread is rounding."""
_QUANTILES = (np.arange(2000) + 0.5) / 2000


@dataclass(frozen=True, slots=True)
class MeanTest:
    """A mean with its clustered error, tested against one side.

    Attributes:
        estimate: The mean with a two-sided 95% interval.
        standard_error: Clustered by prompt, in the unit of the mean.
        p_value: One-sided.
        null: The mean under the hypothesis that is tested.
        alternative: `greater` or `less` than the null.
    """

    estimate: Estimate
    standard_error: float
    p_value: float
    null: float
    alternative: Alternative


def clustered_t_test(
    values: ArrayLike,
    prompt_ids: Sequence[str],
    alternative: Alternative = "greater",
    null: float = 0.0,
    unit: str = "reward",
) -> MeanTest:
    """Test that the mean over rows lies above (or below) `null`; prompts, not rows, are taken for independent.

    With eᵍ the sum over the rows of prompt g of (value − mean), n rows and G prompts, the squared error is
    G/(G−1) · Σ eᵍ² / n² (the sandwich of Liang and Zeger 1986, with CR1's factor), and the mean over its error is held
    against Student's t with G − 1 degrees of freedom. Where each prompt occurs once this is the ordinary one-sample test.
    With few prompts of very unequal size it rejects somewhat too often.

    Where prompts have no spread at all t is undefined. On the right side of the null, p is then 2⁻ᴳ, what the exact
    test by flipped signs gives for G prompts that all point one way: never 0 on a handful of them. On the null itself
    p is 0.5, on the wrong side 1. The interval has no width there.

    Args:
        values: Shape (n,), in `unit`.
        prompt_ids: Cluster of each row. Length n.
        alternative: The side on which the mean is expected.
        null: Mean under the hypothesis, in `unit`.
        unit: Of the values, for the estimate.

    Raises:
        DataError: Values that are not finite, lengths that differ, or fewer than two prompts.
    """
    rows = _checked(values, prompt_ids)
    sums = cluster_sums(np.column_stack([rows, np.ones(len(rows))]), prompt_ids)
    n, n_prompts = len(rows), len(sums)
    if n_prompts < 2:
        raise DataError(f"{n} rows of {n_prompts} prompt: the spread between prompts needs two of them at least")
    mean = float(sums[:, 0].sum()) / n
    residuals = sums[:, 0] - mean * sums[:, 1]
    error = float(np.sqrt(n_prompts / (n_prompts - 1) * (residuals**2).sum())) / n
    rounding = _ROUNDING * max(float(np.abs(rows).max()), abs(null))
    if error <= rounding:
        error = 0.0
    beyond = mean - null if alternative == "greater" else null - mean
    degrees = n_prompts - 1
    p_value = float(stats.t.sf(beyond / error, degrees)) if error else _without_spread(beyond, rounding, n_prompts)
    half = float(stats.t.ppf(0.975, degrees)) * error
    estimate = Estimate(
        value=mean,
        low=mean - half,
        high=mean + half,
        n=n,
        n_prompts=n_prompts,
        unit=unit,
        method="prompt-clustered t 95%",
    )
    return MeanTest(estimate, error, p_value, null, alternative)


def t_power(shift: float, n_prompts: int, alpha: float) -> float:
    """Chance that a one-sided t-test at `alpha` rejects where the mean lies `shift` standard errors beyond the null.

    P(T > t(1−α)) for T noncentral t with n_prompts − 1 degrees of freedom, as the mean over quantiles of χ² of
    Φ(shift − t(1−α)·√(χ²/df)): it stays exact where the series for the noncentral t fails.
    """
    return float(special.ndtr(shift - _thresholds(n_prompts, alpha)).mean())


def smallest_detectable(
    standard_errors: Sequence[float], n_prompts: Sequence[int], alpha: float, power: float = 0.8, r: int = 1
) -> float:
    """Smallest distance from the null that at least r of k tests, each at `alpha`, would all find with this power.

    The same distance d is taken to hold in every test, the standard errors are taken as known in advance, and the tests
    as independent: d solves P(at least r reject) = power, with each test's chance from `t_power(d / error)`.

    Args:
        standard_errors: Of each test's mean, any one unit. Length k.
        n_prompts: Behind each test. Length k.
        alpha: Level of each single test.
        power: Wanted chance, between 0 and 1.
        r: How many tests have to reject.

    Returns:
        The distance, in the unit of the errors.

    Raises:
        DataError: Fewer than r tests, an error that is not positive, fewer than two prompts, or a level or power
            outside (0, 1).
    """
    _check_plan(standard_errors, n_prompts, alpha, power, r)

    def shortfall(distance: float) -> float:
        chances = [t_power(distance / error, n, alpha) for error, n in zip(standard_errors, n_prompts, strict=True)]
        return _at_least(r, chances) - power

    # By chance alone the tests may already reject as often as wanted: at a lax level, or where one of many is enough.
    if shortfall(0.0) >= 0:
        return 0.0
    high = max(standard_errors)
    while shortfall(high) < 0:
        high *= 2
    return float(optimize.brentq(shortfall, 0.0, high))


@lru_cache(maxsize=256)
def _thresholds(n_prompts: int, alpha: float) -> FloatArray:
    """t(1−α)·√(χ²/df) at evenly spaced quantiles of χ², shape (2000,); kept, as a search for a power asks many times."""
    degrees = n_prompts - 1
    return np.asarray(stats.t.ppf(1 - alpha, degrees) * np.sqrt(stats.chi2.ppf(_QUANTILES, degrees) / degrees))


def _at_least(r: int, chances: Sequence[float]) -> float:
    """Chance that at least r of independent events happen."""
    counts = np.ones(1)
    for chance in chances:
        counts = np.convolve(counts, [1 - chance, chance])
    return float(counts[r:].sum())


def _without_spread(beyond: float, rounding: float, n_prompts: int) -> float:
    if abs(beyond) <= rounding:
        return 0.5
    return 0.5**n_prompts if beyond > 0 else 1.0


def _checked(values: ArrayLike, prompt_ids: Sequence[str]) -> FloatArray:
    rows = np.asarray(values, dtype=np.float64)
    if rows.shape != (len(prompt_ids),):
        raise DataError(f"{rows.shape} values for {len(prompt_ids)} prompts: one each is needed")
    if not len(rows):
        raise DataError("no rows: a mean of nothing cannot be tested")
    if bad := int((~np.isfinite(rows)).sum()):
        raise DataError(f"{bad} of {len(rows)} values are NaN or infinite")
    return rows


def _check_plan(errors: Sequence[float], n_prompts: Sequence[int], alpha: float, power: float, r: int) -> None:
    if len(errors) != len(n_prompts) or not 1 <= r <= len(errors):
        raise DataError(f"{r} of {len(errors)} tests with {len(n_prompts)} numbers of prompts: r lies between 1 and k")
    if not all(0 < error < np.inf for error in errors):
        raise DataError("a standard error that is not positive: there is no spread to plan with")
    if min(n_prompts) < 2:
        raise DataError("fewer than two prompts behind a test: there is no spread to plan with")
    if not (0 < alpha < 1 and 0 < power < 1):
        raise DataError(f"a level of {alpha} and a power of {power}: both lie between 0 and 1, both excluded")
