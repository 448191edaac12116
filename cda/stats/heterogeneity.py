"""Differences of one effect between groups of prompts: Welch's test and the share of variation that is not noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from cda.errors import DataError
from cda.results.topics import Heterogeneity


def heterogeneity(means: Sequence[float], standard_errors: Sequence[float], n_prompts: Sequence[int]) -> Heterogeneity:
    """Test that an effect is the same in every group, from each group's mean, its error and its prompts.

    Welch's analysis of variance (1951, Biometrika 38, 330–336), with errors clustered by prompt and prompts as observations: groups may differ in
    size and in spread. I² is max(0, 1 − (k − 1)/Q) with Cochran's Q = Σ w (m − m̄)², w = 1/error².

    Args:
        means: Effect in each group, reward units. Length k, 2 or more.
        standard_errors: Error of each mean, same unit, above 0.
        n_prompts: Prompts behind each mean, 2 or more.

    Raises:
        DataError: Fewer than two groups, or one without spread.
    """
    k = len(means)
    if k < 2:
        raise DataError(f"{k} groups: a difference needs two")
    if not all(error > 0 for error in standard_errors) or min(n_prompts) < 2:
        raise DataError("a group without spread between its prompts: nothing is known of its error")
    m, degrees = np.asarray(means, dtype=np.float64), np.asarray(n_prompts, dtype=np.float64) - 1
    weights = 1 / np.asarray(standard_errors, dtype=np.float64) ** 2
    share = weights / weights.sum()
    q = float((weights * (m - float(share @ m)) ** 2).sum())
    lost = float(((1 - share) ** 2 / degrees).sum())
    statistic = q / (k - 1) / (1 + 2 * (k - 2) / (k * k - 1) * lost)
    df_error = (k * k - 1) / (3 * lost)
    return Heterogeneity(
        statistic=statistic,
        df=k - 1,
        df_error=df_error,
        p_value=float(stats.f.sf(statistic, k - 1, df_error)),
        i_squared=max(0.0, 1 - (k - 1) / q) if q > 0 and math.isfinite(q) else 0.0,
    )
