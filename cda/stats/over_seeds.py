"""Means over trainings with intervals for prompts and seeds, and trimmed means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.errors import DataError
from cda.results.base import Estimate
from cda.results.evidence import TrimmedMean
from cda.stats.bootstrap import cluster_sums
from cda.stats.one_sided import clustered_t_test
from cda.stats.proportions import Z_95, paired_change, wilson

_ROUNDING = 1e-12  # a trace of the sums, not a difference


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """A mean over seeds and rows, and how far it may be off.

    Attributes:
        value: The mean.
        by_seed: Mean of each seed's rows, in the order given.
        sd: Standard deviation of these, all on the same rows: the spread between trainings.
        half: Half of the width of its 95% interval.
        n: Rows.
        n_prompts: Prompts.
    """

    value: float
    by_seed: tuple[float, ...]
    sd: float
    half: float
    n: int
    n_prompts: int


def over_seeds(values: ArrayLike, prompt_ids: Sequence[str]) -> OverSeeds:
    """Mean over k seeds and n rows, where seeds and G prompts are crossed random factors.

    The variance is split as for readers and cases in studies of several readers (Obuchowski and Rockette 1995, Commun. Stat.
    Simul. Comput. 24, 285–308): S²/k, with S² the variance between the seeds' means, holds the seeds and the chance in each
    single row; C, the mean covariance of two seeds' means over prompts (G/(G − 1) times the sum over prompts of the product
    of both influences), holds what all seeds share because they are measured on the same prompts. Their margins of error
    are added as squares (Howe 1974, J. Am. Stat. Assoc. 69, 789–794):

        half = √(t²(k − 1) · S²/k + t²(G − 1) · max(C, 0)),   t(df): the 97.5% quantile of Student's t.

    One t with Satterthwaite's degrees of freedom in place of the two covers 91% with 3 seeds that differ much: a small S² is
    a small variance with many degrees of freedom (evals/training_seeds.py).

    Args:
        values: One row a seed, one column a contrast. Shape (k, n), any unit.
        prompt_ids: Cluster of each column. Length n.

    Raises:
        DataError: Fewer than two seeds or two prompts, other shapes, or a value that is not finite.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(prompt_ids):
        raise DataError(
            f"{rows.shape} values for {len(prompt_ids)} prompts: a row for each seed is needed, of one each"
        )
    if not np.isfinite(rows).all():
        raise DataError(f"{int((~np.isfinite(rows)).sum())} of {rows.size} values are NaN or infinite")
    k, n, n_prompts = *rows.shape, len(set(prompt_ids))
    if k < 2 or n_prompts < 2:
        raise DataError(f"{k} seeds and {n_prompts} prompts: two of each are needed to see how far they differ")
    means = rows.mean(axis=1)
    influence = cluster_sums((rows - means[:, None]).T, prompt_ids) / n
    covariance = influence.T @ influence * n_prompts / (n_prompts - 1)
    shared = float(covariance.sum() - np.trace(covariance)) / (k * (k - 1))
    of_seeds = float(stats.t.ppf(0.975, k - 1)) ** 2 * float(means.var(ddof=1)) / k
    of_prompts = float(stats.t.ppf(0.975, n_prompts - 1)) ** 2 * max(shared, 0.0)
    by_seed = tuple(float(mean) for mean in means)
    half = math.sqrt(of_seeds + of_prompts)
    return OverSeeds(float(means.mean()), by_seed, float(means.std(ddof=1)), half, n, n_prompts)


def share_over_seeds(hits: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean share over seeds, with Wilson's 95% interval on as many rows as would give this margin of error.

    That is p(1 − p) · (1.96 / half)², at most n, so that the interval stays within 0 and 1. At a share of 0 or 1 every prompt
    counts as one row.

    Args:
        hits: 0 to 1. Shape (k, n).
        prompt_ids: Cluster of each column. Length n.

    Raises:
        DataError: As `over_seeds`.
    """
    found = over_seeds(hits, prompt_ids)
    p, effective = min(max(found.value, 0.0), 1.0), float(found.n_prompts)
    if (spread := p * (1 - p)) > _ROUNDING:
        effective = min(float(found.n), spread * (Z_95 / found.half) ** 2) if found.half > 0 else float(found.n)
    low, high = wilson(p * effective, effective)
    return Estimate(
        value=p,
        low=low,
        high=high,
        n=found.n,
        n_prompts=found.n_prompts,
        unit="share",
        method="Wilson 95%, effective n over seeds and prompts",
    )


def change_over_seeds(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean change of a share over seeds, after − before, ± the margin of error of `over_seeds`, within −1 and 1; where
    nothing varies from which an error could be taken, the interval over prompts of `paired_change`.

    Args:
        before: Hits of the one model before, 0 to 1. Shape (n,).
        after: Hits after each training, on the same rows. Shape (k, n).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: As `over_seeds`.
    """
    first, hits = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    found = over_seeds(hits - first, prompt_ids)
    if found.half <= _ROUNDING:
        return paired_change(first, hits.mean(axis=0), prompt_ids)
    return mean_over_seeds(found, "share difference", 1.0)


def mean_over_seeds(found: OverSeeds, unit: str, bound: float = math.inf) -> Estimate:
    """The mean ± its margin of error, within ±`bound`."""
    low, high = max(-bound, found.value - found.half), min(bound, found.value + found.half)
    return Estimate(
        value=found.value,
        low=low,
        high=high,
        n=found.n,
        n_prompts=found.n_prompts,
        unit=unit,
        method="t over seeds and prompts 95%",
    )


BoolArray = NDArray[np.bool_]
FENCE = 1.5


def iqr_trimmed_mean(values: ArrayLike, prompt_ids: Sequence[str], unit: str = "reward") -> TrimmedMean:
    """Mean of the rows within [Q1 − 1.5·IQR, Q3 + 1.5·IQR], clustered by prompt.

    Args:
        values: Shape (n,), in `unit`.
        prompt_ids: Cluster of each row. Length n.
        unit: Of the values.

    Raises:
        DataError: As `clustered_t_test`, for the rows inside the fences.
    """
    rows = np.asarray(values, dtype=np.float64)
    kept = inside_fences(rows)
    test = clustered_t_test(rows[kept], [one for one, keep in zip(prompt_ids, kept, strict=True) if keep], unit=unit)
    return TrimmedMean(estimate=test.estimate, raw=float(rows.mean()), n_trimmed=int((~kept).sum()))


def inside_fences(values: ArrayLike) -> BoolArray:
    """Which rows lie within 1.5 interquartile ranges of the quartiles (Tukey 1977; linear quartiles), shape (n,).

    Raises:
        DataError: No rows, or values that are not finite.
    """
    rows = np.asarray(values, dtype=np.float64)
    if not len(rows) or not np.isfinite(rows).all():
        raise DataError(f"fences need finite values, at least one; found {int(np.isfinite(rows).sum())} of {len(rows)}")
    first, third = np.quantile(rows, [0.25, 0.75])
    reach = FENCE * (third - first)
    # Where most rows are equal the range is 0, and rounding must not push those rows out.
    slack = 1e-12 * float(np.abs(rows).max())
    return np.asarray((rows >= first - reach - slack) & (rows <= third + reach + slack))
