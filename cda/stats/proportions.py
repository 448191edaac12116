"""Intervals for a share and for a paired change of a share, and its exact test; by prompt where prompts repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.errors import DataError
from cda.stats.bootstrap import N_DRAWS, bootstrap_mean
from cda.stats.estimate import Estimate

Z_95 = float(stats.norm.ppf(0.975))
_DRAWS = N_DRAWS


@dataclass(frozen=True, slots=True)
class ExactTest:
    """An exact two-sided test of no change.

    Attributes:
        p_value: Chance, were there no change, of a sum of differences at least as far from 0; 1.0 where none changed.
        method: `exact McNemar` or `exact sign-flip over prompts`.
    """

    p_value: float
    method: str


def share(hits: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator) -> Estimate:
    """Share of hits with a 95% interval: Wilson's where each prompt occurs once, else a prompt-clustered bootstrap.

    Args:
        hits: 1 or True for a hit, 0 for none, 0.5 where a tie counts half. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        rng: For the bootstrap.

    Raises:
        DataError: No rows, or rows that are not between 0 and 1.
    """
    values, clusters = _checked(hits, prompt_ids)
    n, n_prompts = len(values), len(np.unique(clusters))
    if n_prompts == n:
        low, high = wilson(float(values.sum()), n)
        return Estimate(float(values.mean()), low, high, n, n_prompts, "share", "Wilson 95%")
    low, high = _cluster_interval(values, clusters, rng)
    method = "prompt-clustered bootstrap 95%"
    # Resampling a share of exactly 0 or 1 has no spread; Wilson's interval over the prompts is the honest one.
    if low == high:
        low, high = wilson(float(values.mean()) * n_prompts, n_prompts)
        method = "Wilson 95% over prompts"
    return Estimate(float(values.mean()), low, high, n, n_prompts, "share", method)


def paired_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator) -> Estimate:
    """Change of a share, after − before, on the same rows, with a 95% interval.

    Newcombe's paired score interval (1998, method 10) where each prompt occurs once and rows are 0 or 1: it keeps
    its width when no row changed. Otherwise a bootstrap of whole prompts.

    Args:
        before: Hits before, shape (n,).
        after: Hits after on the same rows, shape (n,).
        prompt_ids: Cluster of each row. Length n.
        rng: For the bootstrap.

    Raises:
        DataError: No rows, or shapes that differ.
    """
    first, clusters = _checked(before, prompt_ids)
    second, _ = _checked(after, prompt_ids)
    difference = second - first
    n, n_prompts = len(first), len(np.unique(clusters))
    binary = bool(np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all())
    if binary and n_prompts == n:
        low, high = _newcombe_paired(first, second)
        method = "Newcombe paired 95%"
    else:
        low, high = _cluster_interval(difference, clusters, rng)
        method = "prompt-clustered bootstrap 95%"
        if low == high:
            # No spread between prompts: Newcombe's interval over the prompts, each with its mean 2×2 table.
            low, high = _newcombe_table(*(_prompt_mean_sum(cell, clusters) for cell in _cells(first, second)))
            method = "Newcombe paired 95% over prompts"
    return Estimate(float(difference.mean()), low, high, n, n_prompts, "share difference", method)


def wilson(hits: float, n: float) -> tuple[float, float]:
    """Wilson's 95% score interval for a share; `hits` may hold halves for ties.

    Raises:
        DataError: No rows, or hits that are not between 0 and `n`.
    """
    # Sums of shares may miss n by rounding.
    if not (n > 0 and -1e-9 * n <= hits <= n * (1 + 1e-9)):
        raise DataError(f"{hits:g} hits of {n:g}: a share of that cannot be estimated")
    p, z2 = hits / n, Z_95**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


def unpaired_change(before: ArrayLike, after: ArrayLike) -> Estimate:
    """Change of a share, after − before, as if the two had been measured on different rows: two-proportion z 95%.

    This is the interval that papers print (√(p₁q₁/n₁ + p₂q₂/n₂), Wald). On the same rows it is wrong, most often too
    wide, and it treats rows of one prompt as independent; kept to stand beside `paired_change`, never instead of it.

    Args:
        before: Hits before, shape (n,).
        after: Hits after, shape (m,).

    Raises:
        DataError: No rows, or values that are not between 0 and 1.
    """
    first, second = (_shares(hits) for hits in (before, after))
    p, q = float(first.mean()), float(second.mean())
    half = Z_95 * math.sqrt(p * (1 - p) / len(first) + q * (1 - q) / len(second))
    n = min(len(first), len(second))
    low, high = max(-1.0, q - p - half), min(1.0, q - p + half)
    return Estimate(q - p, low, high, n, n, "share difference", "unpaired two-proportion z 95%")


def exact_change_test(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> ExactTest:
    """Exact test that a share did not change, on the same rows; prompts, not rows, are taken for independent.

    Fisher's randomisation test for pairs (1935): without a change, each prompt's sum of differences is as likely to
    have the other sign, so that Σ ± dᵍ over all choices of signs says how far chance alone gets. Where each prompt
    occurs once and rows are 0 or 1, that is the exact McNemar test. McNemar's test of rows that move together within
    their prompts would reject far too often.

    Args:
        before: Hits before, shape (n,): 1 or True for a hit, 0 for none, 0.5 where a tie counts half.
        after: Hits after on the same rows, shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: No rows, shapes that differ, or rows that are not 0, 0.5 or 1.
    """
    first, clusters = _checked(before, prompt_ids)
    second, _ = _checked(after, prompt_ids)
    rows = np.concatenate([first, second])
    if not np.isin(rows, (0, 0.5, 1)).all():
        raise DataError(
            "an exact test of a change needs rows of 0, 0.5 or 1: sums of other values cannot be counted out"
        )
    halves = np.bincount(clusters, weights=2 * (second - first)).astype(np.int64)
    mcnemar = bool((rows != 0.5).all()) and clusters.max() + 1 == len(first)
    return ExactTest(_sign_flip_p(halves), "exact McNemar" if mcnemar else "exact sign-flip over prompts")


def _sign_flip_p(sums: NDArray[np.int64]) -> float:
    """P(|Σ ± d| ≥ |Σ d|) over fair signs of integers d, exactly and without listing them: P(|2K − T| ≥ |Σ d|).

    T = Σ |d|, and K is the part of it that gets a plus: for each size of d a binomial count times that size.
    """
    sums = sums[sums != 0] // max(1, int(np.gcd.reduce(sums)))
    observed = abs(int(sums.sum()))
    if observed == 0:
        return 1.0
    chances = np.ones(1)
    for size, count in zip(*np.unique(np.abs(sums), return_counts=True), strict=True):
        plus = np.zeros(size * count + 1)
        plus[::size] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        chances = np.convolve(chances, plus)
    # T and the observed sum are both odd or both even.
    return min(1.0, 2 * float(chances[: (len(chances) - 1 - observed) // 2 + 1].sum()))


def _newcombe_paired(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float]:
    return _newcombe_table(*(float(cell.sum()) for cell in _cells(before, after)))


def _cells(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Each row's weight in the paired 2×2 table: hit in both, only after, only before, in neither."""
    return before * after, (1 - before) * after, before * (1 - after), (1 - before) * (1 - after)


def _prompt_mean_sum(cell: NDArray[np.float64], clusters: NDArray[np.int64]) -> float:
    """Sum over prompts of the mean over their rows."""
    return float((np.bincount(clusters, weights=cell) / np.bincount(clusters)).sum())


def _newcombe_table(both: float, only_after: float, only_before: float, neither: float) -> tuple[float, float]:
    """Newcombe, R. G. (1998), Statistics in Medicine 17, 2635–2650, method 10 (with continuity-corrected phi)."""
    n = both + only_after + only_before + neither
    p_after, p_before = (both + only_after) / n, (both + only_before) / n
    low_a, high_a = wilson(both + only_after, n)
    low_b, high_b = wilson(both + only_before, n)
    product = (both + only_after) * (only_before + neither) * (both + only_before) * (only_after + neither)
    cross = both * neither - only_after * only_before
    if cross > 0:
        cross = max(cross - n / 2, 0.0)
    phi = cross / math.sqrt(product) if product > 0 else 0.0
    difference = p_after - p_before
    down_a, up_a, down_b, up_b = p_after - low_a, high_a - p_after, p_before - low_b, high_b - p_before
    low = difference - math.sqrt(max(0.0, down_a**2 - 2 * phi * down_a * up_b + up_b**2))
    high = difference + math.sqrt(max(0.0, up_a**2 - 2 * phi * up_a * down_b + down_b**2))
    return max(-1.0, low), min(1.0, high)


def _cluster_interval(
    values: NDArray[np.float64], clusters: NDArray[np.int64], rng: np.random.Generator
) -> tuple[float, float]:
    """Percentile interval of the mean when whole clusters are drawn; without width where it is one cluster."""
    if clusters.max() == clusters.min():
        return float(values.mean()), float(values.mean())
    found = bootstrap_mean(values, [str(code) for code in clusters], rng, n_draws=_DRAWS)
    return found.low, found.high


def _checked(hits: ArrayLike, prompt_ids: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    shape = np.shape(hits)
    if len(shape) != 1 or shape[0] != len(prompt_ids):
        raise DataError(f"{shape} values for {len(prompt_ids)} prompts: one each is needed")
    values = _shares(hits)
    clusters = np.unique(np.asarray(prompt_ids), return_inverse=True)[1].astype(np.int64)
    return values, clusters


def _shares(hits: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(hits, dtype=np.float64)
    if not len(values):
        raise DataError("no rows: a share of nothing cannot be estimated")
    if not np.isfinite(values).all() or (values < 0).any() or (values > 1).any():
        raise DataError("a share is estimated from values between 0 and 1")
    return values
