"""Random draws: a run's streams, each for one step, the bootstrap over whole prompts, and what rows of a prompt are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, unique
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate

T = TypeVar("T")


@unique
class Stream(IntEnum):
    """Draws of a run. The numbers seed the generators: another number gives other draws from the same seed."""

    PAIRS = 0
    """Pairs that are trained on, if there are more than `data.max_pairs`."""
    VALIDATION_SPLIT = 1
    """Prompts held out of training."""
    REWRITTEN = 2
    """Pairs that are rewritten; with the number of the bias."""
    AUDIT_INTERVALS = 3
    """Bootstraps of an audit, and of `cda quality`."""
    AUDITED = 4
    """Contrasts, quality pairs and answers that are audited."""
    TAUGHT_SPLIT = 5
    """Prompts of taught contrasts held out of training."""
    INTERVALS = 6
    """Bootstraps and halves of choosing a dose, and of `cda inspect`."""
    INSPECTED = 7
    """Rewrites that are shown."""
    SECOND_TURN_SPLIT = 8
    """Conversations held out of training; with the number of the bias."""
    SUPPLEMENT = 9
    """Order in which supplementary pairs are labelled, until there are enough."""
    VALIDATION_RESPONSES = 10**6
    """Responses on which candidates of a discovery are validated. Its generations draw from 0, 1, 2, …"""
    TEST_RESPONSES = 10**6 + 1
    """Responses on which they are tested."""
    PAIR_QUALITY = 10**6 + 2
    """Bootstraps of the quality of a discovery's pairs."""


def generator(seed: int, stream: Stream, *within: int) -> np.random.Generator:
    """A fresh generator of one stream of a run's seed; `within`: the number of a bias, if several biases draw from it."""
    return np.random.default_rng([seed, stream, *within])


def drawn(items: Sequence[T], most: int | None, seed: int, stream: Stream = Stream.AUDITED) -> list[T]:
    """At most so many of the items, drawn without replacement and left in their order; all of them if `most` is None."""
    if most is None or len(items) <= most:
        return list(items)
    kept = generator(seed, stream).choice(len(items), size=most, replace=False)
    return [items[index] for index in sorted(kept)]


Method = Literal["percentile", "bca"]
Statistic = Callable[[FloatArray], FloatArray]
"""Column sums of many draws, shape (draws, k), to one value each, shape (draws,); NaN if it is undefined."""

ROUNDING = 1e-12
"""Relative size below which a spread, or the width of an interval, is a trace of rounding."""
N_DRAWS = 10_000
_MAX_BYTES = 4 << 20  # one chunk of draws; small enough to stay in the processor's cache
_UNDEFINED_LIMIT = 0.01
_PRIOR_PROMPTS = 4
"""Prompts in which all rows are alike, added to those seen: few prompts do not show how alike the rows of a prompt are."""


def bootstrap_mean(
    values: ArrayLike,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    unit: str = "reward",
    *,
    n_draws: int = N_DRAWS,
    method: Method = "percentile",
) -> Estimate:
    """Mean over rows, values of shape (n,), when whole prompts are drawn with replacement; see `bootstrap_sums`."""
    column = finite(values)
    columns = np.column_stack([column, np.ones(len(column))])
    return bootstrap_sums(columns, prompt_ids, mean_of_sums, rng, unit, n_draws=n_draws, method=method)


def bootstrap_sums(
    columns: ArrayLike,
    prompt_ids: Sequence[str],
    statistic: Statistic,
    rng: np.random.Generator,
    unit: str,
    *,
    n_draws: int = N_DRAWS,
    method: Method = "percentile",
) -> Estimate:
    """Any function of column sums (a ratio, a correlation, …) when whole prompts are drawn with replacement.

    `low` equals `high` if no draw differs: then there is no spread to resample, and the caller should use an interval
    that keeps its width (Wilson's, Newcombe's). Draws in which the statistic is undefined are left out.

    BCa follows Efron (1987), J. Am. Stat. Assoc. 82, 171–185, with the acceleration from leaving out one prompt at a
    time; draws equal to the estimate count half towards the bias, as in scipy. The statistic sees sums of `columns`,
    shape (n, k), alone; it should not change when all are scaled alike. DataError: no rows, not finite, one prompt, or
    a statistic undefined for all rows or for over 1% of the draws.
    """
    rows = finite(columns)
    if not rows.size:
        raise DataError("no rows: values are empty, so nothing can be estimated")
    if rows.ndim != 2 or len(rows) != len(prompt_ids):
        raise DataError(f"{rows.shape} values for {len(prompt_ids)} clusters: one cluster for each row is needed")
    sums = cluster_sums(rows, prompt_ids)
    if len(sums) < 2:
        raise DataError(f"{len(rows)} rows of one prompt: the spread between prompts cannot be estimated from one")
    total = sums.sum(axis=0)
    value = float(statistic(total[None])[0])
    if not np.isfinite(value):
        raise DataError(f"the statistic is undefined on these {len(rows)} rows")
    draws = statistic(_drawn_sums(sums, n_draws, rng))
    defined = draws[np.isfinite(draws)]
    n_undefined = n_draws - len(defined)
    if n_undefined > _UNDEFINED_LIMIT * n_draws:
        raise DataError(
            f"the statistic is undefined in {n_undefined} of {n_draws} bootstrap draws: too few of the "
            f"{len(sums)} prompts carry it for an interval"
        )
    tails = _bca_tails(value, defined, statistic(total - sums)) if method == "bca" else (0.025, 0.975)
    low, high = np.quantile(defined, tails)
    name = f"prompt-clustered {'BCa ' if method == 'bca' else ''}bootstrap 95%"
    return Estimate(
        value=value, low=float(low), high=float(high), n=len(rows), n_prompts=len(sums), unit=unit, method=name
    )


def mean_of_sums(sums: FloatArray) -> FloatArray:
    """First column's sum over the second's; the `Statistic` of a mean."""
    return np.asarray(sums[:, 0] / sums[:, 1])


def cluster_sums(rows: FloatArray, clusters: Sequence[str]) -> FloatArray:
    """Sums of the rows of each cluster, in the order of the clusters' names: shape (n_clusters, k). Rows are sorted
    before they are added, so that not even rounding depends on the order in which they came.
    """
    names = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)[1]
    order = np.lexsort((*rows.T[::-1], names))
    starts = np.flatnonzero(np.diff(names[order], prepend=-1))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0), dtype=np.float64)


def clustered_error(influences: FloatArray, prompt_ids: Sequence[str]) -> float:
    """Standard error of a sum of influences, shape (n,), whose prompts are independent. The sandwich of Liang and Zeger
    (1986): influences summed within prompts, squared, with the factor G/(G − 1) for G prompts.
    """
    sums = cluster_sums(influences[:, None], prompt_ids)
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()))


def effective_rows(values: ArrayLike, prompt_ids: Sequence[str]) -> float:
    """Number of independent rows, each of its own prompt, that would be as informative about the mean.

    n over the design effect, which is the variance of the mean clustered by prompt over that of independent rows (Kish 1965;
    Dean and Pagano 2015, J. Surv. Stat. Methodol. 3, 484–503). Between few prompts that variance is by chance often much too
    small. So the design effect is averaged with that of rows which are all alike within their prompt, n / K, for K = n² / Σ mᵍ²
    prompts of mᵍ rows; the former counts K, the latter `_PRIOR_PROMPTS`. If no row differs from another, every prompt
    counts as one row; if each prompt occurs once, it is n; copies of all rows within their prompts change nothing.
    """
    rows = np.asarray(values, dtype=np.float64)
    n, deviations = len(rows), rows - rows.mean()
    sums, sizes = cluster_sums(np.column_stack([deviations, np.ones(n)]), prompt_ids).T
    prompts = n**2 / float((sizes**2).sum())
    spread = float((deviations**2).sum())
    if len(sizes) in (1, n) or spread <= ROUNDING * n * max(1.0, float(np.abs(rows).max()) ** 2):
        return prompts
    seen = float((sums**2).sum()) / (spread * n)  # one over the rows that these prompts show
    return (prompts + _PRIOR_PROMPTS) / (prompts * seen + _PRIOR_PROMPTS / prompts)


def _drawn_sums(sums: FloatArray, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Column sums of `n_draws` samples of whole clusters, shape (n_draws, k)."""
    n_clusters, n_columns = sums.shape
    # Rounded for the comparison only: 0.1 + 0.2 and 0.3 are one kind of cluster.
    scale = np.maximum(np.abs(sums).max(axis=0), np.finfo(float).tiny)
    _, first, kinds = np.unique(np.round(sums / scale, 12), axis=0, return_index=True, return_counts=True)
    constant = np.ptp(sums, axis=0) == 0
    # A multinomial count takes about 16 times as long as taking one number.
    if 16 * len(kinds) <= n_clusters * (1 + int((~constant).sum())):
        # Counts of each kind are multinomial: the same distribution, at a fraction of the work.
        step = max(1, _MAX_BYTES // (8 * len(kinds)))
        parts = [
            rng.multinomial(n_clusters, kinds / n_clusters, size=min(step, n_draws - start)) @ sums[first]
            for start in range(0, n_draws, step)
        ]
        return np.concatenate(parts)
    totals = np.empty((n_draws, n_columns))
    varying = [np.ascontiguousarray(column) for column in sums[:, ~constant].T]
    totals[:, constant] = sums[0, constant] * n_clusters
    step = max(1, min(n_draws, _MAX_BYTES // (16 * n_clusters)))
    taken = np.empty((step, n_clusters))
    for start in range(0, n_draws, step):
        chunk = min(step, n_draws - start)
        picked = rng.integers(0, n_clusters, size=(chunk, n_clusters))
        for at, column in zip(np.flatnonzero(~constant), varying, strict=True):
            # `clip` spares the bounds check's buffer; the picks are in range anyway.
            np.take(column, picked, out=taken[:chunk], mode="clip")
            totals[start : start + chunk, at] = taken[:chunk].sum(axis=1)
    return totals


def _bca_tails(value: float, draws: FloatArray, left_out: FloatArray) -> tuple[float, float]:
    """Quantiles of the draws that bound the BCa interval; the percentile ones if the jackknife has no spread."""
    left_out = left_out[np.isfinite(left_out)]
    # A draw of the very same clusters may differ from the estimate by rounding: it is a tie, not a step to one side.
    # An estimate of 0 is met no closer than the terms that cancel in it allow, hence the spread.
    rounding = 1e-12 * abs(value) + 1e-9 * float(draws.std())
    close = np.abs(draws - value) <= rounding
    below = (((draws < value) & ~close).sum() + 0.5 * close.sum()) / len(draws)
    below = min(max(below, 1 / (len(draws) + 1)), len(draws) / (len(draws) + 1))
    deviations = left_out.mean() - left_out
    spread = float((deviations**2).sum())
    if spread <= len(left_out) * rounding**2:
        return 0.025, 0.975
    bias = float(stats.norm.ppf(below))
    acceleration = float((deviations**3).sum()) / (6 * spread**1.5)
    z = bias + stats.norm.ppf([0.025, 0.975])
    low, high = stats.norm.cdf(bias + z / (1 - acceleration * z))
    return float(low), float(high)
