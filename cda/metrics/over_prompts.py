"""Means over prompts with intervals, where shares stay shares and what is the same in every prompt is said to be."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from cda.results.base import Estimate
from cda.results.benchmarks import Measured, NoSpread
from cda.stats.proportions import Z_95, wilson

FloatArray = NDArray[np.float64]
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
