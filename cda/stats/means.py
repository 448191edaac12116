"""Means over prompts with intervals, and a distribution in few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate
from cda.results.benchmarks import Measured, NoSpread
from cda.results.effects import Distribution
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.proportions import Z_95, wilson

_ROUNDING = 1e-12  # relative to the attribute's largest value: a trace of the sums, not a difference


def mean_over_prompts(values: FloatArray, unit: str, n: int) -> Measured:
    """Mean over prompts with Student's t interval, shape (n_prompts,); a share's change stays within −1 to 1."""
    mean, count = float(values.mean()), len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count)
    if error <= _ROUNDING * float(np.abs(values).max()):
        return NoSpread(
            value=mean,
            reason=f"the same in each of {count} prompts, so that nothing is known of how far others differ",
        )
    half = float(stats.t.ppf(0.975, count - 1)) * error
    bound = 1.0 if unit == "share difference" else math.inf
    return Estimate(
        value=mean,
        low=max(-bound, mean - half),
        high=min(bound, mean + half),
        n=n,
        n_prompts=count,
        unit=unit,
        method="t over prompts 95%",
    )


def share_over_prompts(values: FloatArray, unit: str, n: int) -> Measured:
    """Mean of shares over prompts with Wilson's interval for the n that independent responses would need for that spread.

    The effective n is p(1 − p) over the variance of the mean between prompts, cut for few prompts as by Korn and Graubard
    (1998, Survey Methodology 24, 193–201); Wilson's interval of it as in Franco et al. (2019, J. Survey Stat. Methodol. 7,
    334–364). Where all prompts have 0 or all have 1, it is the number of prompts.
    """
    count, p = len(values), min(max(float(values.mean()), 0.0), 1.0)
    variance = float(values.var(ddof=1)) / count
    if p * (1 - p) <= _ROUNDING:
        effective = float(count)
    else:
        independent = n if variance * n <= p * (1 - p) else p * (1 - p) / variance
        effective = independent * (Z_95 / float(stats.t.ppf(0.975, count - 1))) ** 2
    low, high = wilson(p * effective, effective)
    return Estimate(
        value=p, low=low, high=high, n=n, n_prompts=count, unit=unit, method="Wilson 95%, effective n over prompts"
    )


def no_change_test(differences: FloatArray) -> tuple[float, str]:
    """Two-sided p of no change over prompts; where all change alike, of that many coins on one side."""
    if not differences.any():
        return 1.0, "no pick changed"
    if float(np.ptp(differences)) <= _ROUNDING * float(np.abs(differences).max()):
        return 2.0 ** (1 - len(differences)), "exact sign-flip over prompts"
    return float(stats.ttest_1samp(differences, 0.0).pvalue), "paired t over prompts"


def without_traces(values: FloatArray, size: FloatArray) -> FloatArray:
    """Values with the traces that rounding leaves of sums of this size set to 0."""
    return np.where(np.abs(values) <= _ROUNDING * float(np.nanmax(np.abs(size))), 0.0, values)


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
N_BINS = 20


def common_edges(values: Sequence[ArrayLike], n_bins: int = N_BINS) -> tuple[float, ...]:
    """Edges of equally wide bins from the smallest to the largest of all values. Length n_bins + 1.

    Raises:
        DataError: No value at all.
    """
    arrays = [np.asarray(one, dtype=np.float64).ravel() for one in values]
    together: NDArray[np.float64] = np.concatenate(arrays) if arrays else np.empty(0)
    if not together.size:
        raise DataError("no values: there is no distribution to show")
    low, high = float(together.min()), float(together.max())
    if high <= low:  # all the same: one bin of some width
        low, high = low - 0.5, high + 0.5
    return tuple(float(edge) for edge in np.linspace(low, high, n_bins + 1))


def distribution(
    values: ArrayLike, prompt_ids: Sequence[str], edges: Sequence[float], rng: np.random.Generator, unit: str = "reward"
) -> Distribution:
    """Mean, quantiles and histogram of values.

    Args:
        values: Shape (n,), in `unit`.
        prompt_ids: Cluster of each. Length n.
        edges: Of the bins, from `common_edges`; every value lies within them.
        rng: For the interval of the mean.
        unit: Of the values.

    Raises:
        DataError: No values, one prompt only, or values outside the bins.
    """
    found = np.asarray(values, dtype=np.float64)
    mean = bootstrap_mean(found, prompt_ids, rng).estimate(unit)
    counts = np.histogram(found, np.asarray(edges))[0]
    if counts.sum() != len(found):
        raise DataError(f"{len(found) - int(counts.sum())} of {len(found)} values lie outside the bins")
    return Distribution(
        mean=mean,
        quantiles=tuple(float(one) for one in np.quantile(found, LEVELS)),
        counts=tuple(int(one) for one in counts),
    )
