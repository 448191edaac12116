"""Means over prompts and over trainings with their intervals and tests, trimmed means, and distributions in few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from cda.arrays import BoolArray, FloatArray, finite
from cda.errors import DataError
from cda.results.base import Distribution, Estimate
from cda.results.benchmarks import Measured, NoSpread
from cda.results.evidence import TrimmedMean
from cda.stats.draws import ROUNDING, bootstrap_mean, cluster_sums
from cda.stats.proportions import Z_95, paired_change, wilson

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
N_BINS = 20
_QUANTILES = (np.arange(2000) + 0.5) / 2000
_FENCE = 1.5


def mean_over_prompts(values: FloatArray, unit: str, n: int) -> Measured:
    """Mean over prompts with Student's t interval, shape (n_prompts,); a share's change stays within −1 to 1."""
    mean, count = float(values.mean()), len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count)
    if error <= ROUNDING * float(np.abs(values).max()):
        return NoSpread(
            value=mean, reason=f"the same in each of {count} prompts, so that nothing is known of how far others differ"
        )
    bound = 1.0 if unit == "share difference" else math.inf
    half, method = _t(count) * error, "t over prompts 95%"
    return Estimate.symmetric(mean, half, n=n, n_prompts=count, unit=unit, method=method, bound=bound)


def skewed_mean_over_prompts(values: FloatArray, unit: str, n: int) -> Measured:
    """Mean over prompts with an interval that allows for skewed values, shape (n_prompts,).

    Student's t of Hall's transformation, which removes the skewness g of t = (mean − true mean) / SD of m values: with
    y = t + g t²/3 + g² t³/27 + g / 6m, t = 3 (∛(1 + g (y − g / 6m)) − 1) / g (Hall 1992, J. R. Stat. Soc. B 54, 221–228).
    """
    plain, count = mean_over_prompts(values, unit, n), len(values)
    if isinstance(plain, NoSpread) or count < 3 or abs(skew := float(stats.skew(values, bias=False))) <= ROUNDING:
        return plain
    y = _t(count) / math.sqrt(count) * np.array([1.0, -1.0])
    t = 3 * (np.cbrt(1 + skew * (y - skew / (6 * count))) - 1) / skew
    low, high = (plain.value - float(values.std(ddof=1)) * t).tolist()
    return plain.model_copy(update={"low": low, "high": high, "method": "t over prompts 95%, skewness removed (Hall)"})


def share_over_prompts(values: FloatArray, unit: str, n: int) -> Measured:
    """Mean of shares over prompts with Wilson's interval for the n that independent responses would need for that spread.

    The effective n is p(1 − p) over the variance of the mean between prompts, cut for few prompts as by Korn and Graubard
    (1998, Survey Methodology 24, 193–201); Wilson's interval of it as in Franco et al. (2019, J. Survey Stat. Methodol. 7,
    334–364). If all prompts have 0 or all have 1, it is the number of prompts.
    """
    count, p = len(values), min(max(float(values.mean()), 0.0), 1.0)
    variance, effective = float(values.var(ddof=1)) / count, float(count)
    if p * (1 - p) > ROUNDING:
        independent = n if variance * n <= p * (1 - p) else p * (1 - p) / variance
        effective = independent * (Z_95 / _t(count)) ** 2
    low, high = wilson(p * effective, effective)
    method = "Wilson 95%, effective n over prompts"
    return Estimate(value=p, low=low, high=high, n=n, n_prompts=count, unit=unit, method=method)


def no_change_test(differences: FloatArray) -> tuple[float, str]:
    """Two-sided p of no change over prompts; if all change alike, of that many coins on one side."""
    if not differences.any():
        return 1.0, "no pick changed"
    if float(np.ptp(differences)) <= ROUNDING * float(np.abs(differences).max()):
        return 2.0 ** (1 - len(differences)), "exact sign-flip over prompts"
    return float(stats.ttest_1samp(differences, 0.0).pvalue), "paired t over prompts"


def without_traces(values: FloatArray, size: FloatArray) -> FloatArray:
    """Values with the traces that rounding leaves of sums of this size set to 0."""
    return np.where(np.abs(values) <= ROUNDING * float(np.nanmax(np.abs(size))), 0.0, values)


@dataclass(frozen=True, slots=True)
class MeanTest:
    """A mean with a two-sided 95% interval, its clustered error in the same unit, and its one-sided p-value."""

    estimate: Estimate
    standard_error: float
    p_value: float


def clustered_t_test(
    values: ArrayLike,
    prompt_ids: Sequence[str],
    alternative: Literal["greater", "less"] = "greater",
    null: float = 0.0,
    unit: str = "reward",
) -> MeanTest:
    """Test that the mean over rows lies above (or below) `null`; prompts, not rows, are taken for independent.

    With eᵍ the sum over the rows of prompt g of (value − mean), n rows and G prompts, the squared error is G/(G−1) · Σ
    eᵍ² / n² (the sandwich of Liang and Zeger 1986, with CR1's factor), and the mean over its error is held against
    Student's t with G − 1 degrees of freedom: the one-sample test if each prompt occurs once. With few prompts of very
    unequal size it rejects somewhat too often. DataError: not finite, lengths that differ, or fewer than two prompts.

    If prompts have no spread at all, t is undefined and the interval has no width. On the right side of the null, p is
    then 2⁻ᴳ, as the exact test by flipped signs has it for G prompts that all point one way; on the null 0.5, on the
    wrong side 1.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.shape != (len(prompt_ids),):
        raise DataError(f"{rows.shape} values for {len(prompt_ids)} prompts: one each is needed")
    if not len(rows):
        raise DataError("no rows: a mean of nothing cannot be tested")
    finite(rows)
    sums = cluster_sums(np.column_stack([rows, np.ones(len(rows))]), prompt_ids)
    n, n_prompts = len(rows), len(sums)
    if n_prompts < 2:
        raise DataError(f"{n} rows of {n_prompts} prompt: the spread between prompts needs two of them at least")
    mean = float(sums[:, 0].sum()) / n
    residuals = sums[:, 0] - mean * sums[:, 1]
    error = float(np.sqrt(n_prompts / (n_prompts - 1) * (residuals**2).sum())) / n
    rounding = ROUNDING * max(float(np.abs(rows).max()), abs(null))
    beyond = mean - null if alternative == "greater" else null - mean
    if error > rounding:
        p_value = float(stats.t.sf(beyond / error, n_prompts - 1))
    else:
        error, p_value = 0.0, 0.5 if abs(beyond) <= rounding else 0.5**n_prompts if beyond > 0 else 1.0
    half, method = _t(n_prompts) * error, "prompt-clustered t 95%"
    estimate = Estimate.symmetric(mean, half, n=n, n_prompts=n_prompts, unit=unit, method=method)
    return MeanTest(estimate, error, p_value)


def t_power(shift: float, n_prompts: int, alpha: float) -> float:
    """Chance that a one-sided t-test at `alpha` rejects if the mean lies `shift` standard errors beyond the null.

    P(T > t(1−α)) for T noncentral t with n_prompts − 1 degrees of freedom, as the mean over quantiles of χ² of
    Φ(shift − t(1−α)·√(χ²/df)): it stays exact if the series for the noncentral t fails.
    """
    return float(special.ndtr(shift - _thresholds(n_prompts, alpha)).mean())


def smallest_detectable(
    standard_errors: Sequence[float], n_prompts: Sequence[int], alpha: float, power: float = 0.8, r: int = 1
) -> float:
    """Smallest distance from the null that at least r of k tests, each at `alpha`, would all find with this power.

    The same distance d, in the unit of the standard errors, is taken to hold in every test, the errors as known, and
    the tests as independent: d solves P(at least r reject) = power, with each test's chance from `t_power(d / error)`.
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
            chance = t_power(distance / error, n, alpha)
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
    """Mean of the rows within [Q1 − 1.5·IQR, Q3 + 1.5·IQR], clustered by prompt as in `clustered_t_test`."""
    rows = np.asarray(values, dtype=np.float64)
    kept = inside_fences(rows)
    test = clustered_t_test(rows[kept], list(compress(prompt_ids, kept)), unit=unit)
    return TrimmedMean(estimate=test.estimate, raw=float(rows.mean()), n_trimmed=int((~kept).sum()))


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
    """A mean over seeds and rows ± `half`, its 95% margin of error; `sd` is that of the means `by_seed`."""

    value: float
    by_seed: tuple[float, ...]
    sd: float
    half: float
    n: int
    n_prompts: int

    def estimate(self, unit: str, bound: float = math.inf) -> Estimate:
        """The mean ± its margin of error, within ±`bound`."""
        n, n_prompts, method = self.n, self.n_prompts, "t over seeds and prompts 95%"
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
    of_seeds = _t(k) ** 2 * float(means.var(ddof=1)) / k
    half = math.sqrt(of_seeds + _t(n_prompts) ** 2 * max(shared, 0.0))
    return SeedMean(float(means.mean()), tuple(means.tolist()), float(means.std(ddof=1)), half, n, n_prompts)


def share_over_seeds(hits: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean share over seeds, hits of shape (k, n), with Wilson's 95% interval on as many rows as `over_seeds`' error is
    worth: p(1 − p) · (1.96 / half)², at most n. At a share of 0 or 1 every prompt counts as one row.
    """
    mean = over_seeds(hits, prompt_ids)
    p, effective = min(max(mean.value, 0.0), 1.0), float(mean.n_prompts)
    if (spread := p * (1 - p)) > ROUNDING:
        effective = min(float(mean.n), spread * (Z_95 / mean.half) ** 2) if mean.half > 0 else float(mean.n)
    low, high = wilson(p * effective, effective)
    method = "Wilson 95%, effective n over seeds and prompts"
    return Estimate(value=p, low=low, high=high, n=mean.n, n_prompts=mean.n_prompts, unit="share", method=method)


def change_over_seeds(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean change of a share over seeds, after (k, n) − before (n,), ± the margin of error of `over_seeds`, within −1
    and 1. If nothing varies from which an error could be taken, it has the interval over prompts of `paired_change`.
    """
    first, hits = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    mean = over_seeds(hits - first, prompt_ids)
    if mean.half <= ROUNDING:
        return paired_change(first, hits.mean(axis=0), prompt_ids)
    return mean.estimate("share difference", 1.0)


def common_edges(values: Sequence[ArrayLike], n_bins: int = N_BINS) -> tuple[float, ...]:
    """Edges of equally wide bins from smallest to largest of all values, length n_bins + 1. DataError: no value at all."""
    together = np.concatenate([np.empty(0), *(np.asarray(column, dtype=np.float64).ravel() for column in values)])
    if not together.size:
        raise DataError("no values: there is no distribution to show")
    low, high = float(together.min()), float(together.max())
    if high <= low:  # all the same: one bin of some width
        low, high = low - 0.5, high + 0.5
    return tuple(float(edge) for edge in np.linspace(low, high, n_bins + 1))


def distribution(
    values: ArrayLike, prompt_ids: Sequence[str], edges: Sequence[float], rng: np.random.Generator, unit: str = "reward"
) -> Distribution:
    """Mean, quantiles and histogram of values, shape (n,); `edges` of the bins, from `common_edges`, hold them all.
    DataError: no values, one prompt only, or values outside the bins.
    """
    rows = np.asarray(values, dtype=np.float64)
    mean = bootstrap_mean(rows, prompt_ids, rng, unit)
    counts = np.histogram(rows, np.asarray(edges))[0]
    if counts.sum() != len(rows):
        raise DataError(f"{len(rows) - int(counts.sum())} of {len(rows)} values lie outside the bins")
    return Distribution(mean=mean, quantiles=tuple(np.quantile(rows, LEVELS).tolist()), counts=tuple(counts.tolist()))


def _t(n: int) -> float:
    """97.5% quantile of Student's t with n − 1 degrees of freedom."""
    return float(stats.t.ppf(0.975, n - 1))


@lru_cache(maxsize=256)
def _thresholds(n_prompts: int, alpha: float) -> FloatArray:
    """t(1−α)·√(χ²/df) at evenly spaced quantiles of χ², shape (2000,); kept, as a search for a power asks many times."""
    degrees = n_prompts - 1
    return np.asarray(stats.t.ppf(1 - alpha, degrees) * np.sqrt(stats.chi2.ppf(_QUANTILES, degrees) / degrees))
