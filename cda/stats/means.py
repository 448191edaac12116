"""Means over prompts and over trainings with their intervals and tests, and trimmed means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from cda.arrays import BoolArray, FloatArray, finite
from cda.errors import DataError
from cda.records import PERCENT
from cda.results.base import Estimate, Test
from cda.results.evidence import TrimmedMean
from cda.stats.estimators import ROUNDING, TAIL, Z, cluster_sums, mean_of, paired_change, wilson
from cda.stats.proportions import exact_change_test

CROSSED = f"t over trainings or models, and prompts {PERCENT}"
_FENCE = 1.5


def without_traces(values: FloatArray, size: FloatArray) -> FloatArray:
    """Values with the traces that rounding leaves of sums of this size set to 0."""
    return np.where(np.abs(values) <= ROUNDING * float(np.nanmax(np.abs(size))), 0.0, values)


def smallest_detectable(
    standard_errors: Sequence[float], n_prompts: Sequence[int], alpha: float, power: float = 0.8, r: int = 1
) -> float:
    """Smallest distance from the null that at least r of k tests, each at `alpha`, would all find with this power.

    The same distance d, in the unit of the standard errors, is taken to hold in every test, the errors as known, and
    the tests as independent: d solves P(at least r reject) = power, with each test's chance from the noncentral t at d / error.
    DataError: fewer than r tests, an error not above 0, fewer than two prompts, a level or power outside (0, 1).
    """
    if len(standard_errors) != len(n_prompts) or not 1 <= r <= len(standard_errors):
        raise DataError(
            f"{r} of {len(standard_errors)} tests with {len(n_prompts)} numbers of prompts: r lies between 1 and k"
        )
    if not all(0 < error < np.inf for error in standard_errors):
        raise DataError("a standard error that is not positive: there is no spread to plan with")
    if min(n_prompts) < 2:
        raise DataError("fewer than two prompts behind a test: there is no spread to plan with")
    if not (0 < alpha < 1 and 0 < power < 1):
        raise DataError(f"a level of {alpha} and a power of {power}: both lie between 0 and 1, both excluded")

    def shortfall(distance: float) -> float:
        n_rejecting = np.ones(1)  # chance of each number of tests that reject
        for error, n in zip(standard_errors, n_prompts, strict=True):
            chance = 1 - special.nctdtr(n - 1, distance / error, stats.t.ppf(1 - alpha, n - 1))
            n_rejecting = np.convolve(n_rejecting, [1 - chance, chance])
        return float(n_rejecting[r:].sum()) - power

    # By chance alone the tests may already reject as often as wanted: at a lax level, or if one of many is enough.
    if shortfall(0.0) >= 0:
        return 0.0
    high = max(standard_errors)
    while shortfall(high) < 0:
        high *= 2
    return float(optimize.brentq(shortfall, 0.0, high))


def iqr_trimmed_mean(values: ArrayLike, prompt_ids: Sequence[str], unit: str = "reward") -> TrimmedMean:
    """Mean of the rows within [Q1 − 1.5·IQR, Q3 + 1.5·IQR], clustered by prompt."""
    rows = np.asarray(values, dtype=np.float64)
    kept = inside_fences(rows)
    mean = mean_of(rows[kept], list(compress(prompt_ids, kept)), unit)
    return TrimmedMean(estimate=mean.estimate, raw=float(rows.mean()), n_trimmed=int((~kept).sum()))


def inside_fences(values: ArrayLike) -> BoolArray:
    """Rows within 1.5 interquartile ranges of the quartiles (Tukey 1977; linear quartiles), shape (n,)."""
    rows = np.asarray(values, dtype=np.float64)
    if not len(rows) or not np.isfinite(rows).all():
        raise DataError(f"fences need finite values, at least one; found {int(np.isfinite(rows).sum())} of {len(rows)}")
    first, third = np.quantile(rows, [0.25, 0.75])
    reach = _FENCE * (third - first)
    # If most rows are equal the range is 0, and rounding must not push those rows out.
    slack = ROUNDING * float(np.abs(rows).max())
    return np.asarray((rows >= first - reach - slack) & (rows <= third + reach + slack))


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A mean over seeds (trainings, or models) and rows ± `half`, its margin of error, which `of_seeds` and `shared` make up as squared
    standard errors; `sd` is that of the means `by_seed`."""

    value: float
    by_seed: tuple[float, ...]
    sd: float
    of_seeds: float
    shared: float
    n: int
    n_prompts: int

    def half_beyond(self, tail: float) -> float:
        """The margin of error with this part of either tail beyond it."""
        seeds, prompts = (special.stdtrit(df, 1 - tail) for df in (len(self.by_seed) - 1, self.n_prompts - 1))
        return math.sqrt(seeds**2 * self.of_seeds + prompts**2 * self.shared)

    @property
    def half(self) -> float:
        return self.half_beyond(TAIL)

    @property
    def p_value(self) -> float:
        """Two-sided p of a mean of 0: the level of the interval that ends there."""
        value, least = abs(self.value), 1e-15
        if value >= self.half_beyond(least):
            return 2 * least
        return 2 * float(optimize.brentq(lambda tail: self.half_beyond(tail) - value, least, 0.5))

    def estimate(self, unit: str, bound: float = math.inf) -> Estimate:
        """The mean ± its margin of error, within ±`bound`."""
        n, n_prompts, method = self.n, self.n_prompts, CROSSED
        return Estimate.symmetric(
            self.value, self.half, n=n, n_prompts=n_prompts, unit=unit, method=method, bound=bound
        )


def over_seeds(values: ArrayLike, prompt_ids: Sequence[str]) -> SeedMean:
    """Mean over k seeds and n rows, shape (k, n), with seeds and G prompts as crossed random factors.

    The variance is split as for readers and cases (Obuchowski and Rockette 1995, Commun. Stat. Simul. Comput. 24,
    285–308): S²/k, with S² the variance between the seeds' means, holds the seeds and the chance in each single row; C,
    the mean covariance of two seeds' means over prompts (G/(G − 1) times the sum over prompts of the product of both
    influences), holds what all seeds share by being measured on the same prompts. Their margins of error are added as
    squares (Howe 1974, J. Am. Stat. Assoc. 69, 789–794): half = √(t²(k − 1) · S²/k + t²(G − 1) · max(C, 0)), with t(df)
    the 97.5% quantile of Student's t. One t with Satterthwaite's degrees of freedom covers 91% with 3 seeds that differ
    much: a small S² is a small variance with many degrees of freedom (evals/method/training_seeds.py). DataError: fewer
    than two seeds or two prompts, other shapes, or a value that is not finite.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(prompt_ids):
        raise DataError(
            f"{rows.shape} values for {len(prompt_ids)} prompts: a row for each seed is needed, of one each"
        )
    finite(rows)
    k, n, n_prompts = *rows.shape, len(set(prompt_ids))
    if k < 2 or n_prompts < 2:
        raise DataError(f"{k} seeds and {n_prompts} prompts: two of each are needed to see how far they differ")
    means = rows.mean(axis=1)
    influence = cluster_sums((rows - means[:, None]).T, prompt_ids) / n
    covariance = influence.T @ influence * n_prompts / (n_prompts - 1)
    shared = float(covariance.sum() - np.trace(covariance)) / (k * (k - 1))
    of_seeds, sd = float(means.var(ddof=1)) / k, float(means.std(ddof=1))
    return SeedMean(float(means.mean()), tuple(means.tolist()), sd, of_seeds, max(shared, 0.0), n, n_prompts)


def share_over_seeds(hits: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean share over seeds, hits of shape (k, n), with Wilson's interval on as many rows as `over_seeds`' error is
    worth: p(1 − p) · (z / half)², at most n. At a share of 0 or 1 every prompt counts as one row.
    """
    mean = over_seeds(hits, prompt_ids)
    p, effective = min(max(mean.value, 0.0), 1.0), float(mean.n_prompts)
    if (spread := p * (1 - p)) > ROUNDING:
        effective = min(float(mean.n), spread * (Z / mean.half) ** 2) if mean.half > 0 else float(mean.n)
    low, high = wilson(p * effective, effective)
    return Estimate(value=p, low=low, high=high, n=mean.n, n_prompts=mean.n_prompts, unit="share", method=CROSSED)


def change_over_seeds(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean change of a share over seeds, after (k, n) − before (n,) or (k, n), ± the margin of error of `over_seeds`, within −1
    and 1. If nothing varies from which an error could be taken, it has the interval over prompts of `paired_change`.
    """
    hits = np.asarray(after, dtype=np.float64)
    first = np.broadcast_to(np.asarray(before, dtype=np.float64), hits.shape)
    mean = over_seeds(hits - first, prompt_ids)
    if mean.half <= ROUNDING:
        return paired_change(first.mean(axis=0), hits.mean(axis=0), prompt_ids)
    return mean.estimate("share difference", 1.0)


def change_test_over_seeds(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Test:
    """Test that the mean change over seeds is 0, by the interval of `change_over_seeds`; rows of `before` (n,), of `after` (k, n)."""
    hits, first = np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64)
    mean = over_seeds(hits - first, prompt_ids)
    if mean.half <= ROUNDING:
        return exact_change_test(first, hits[0], prompt_ids)
    return Test(p_value=mean.p_value, method=CROSSED)
