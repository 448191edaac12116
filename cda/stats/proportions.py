"""Intervals for a share and for a paired change of a share, and its exact test; by prompt if prompts repeat.

`hits`: 1 or True for a hit, 0 for none, 0.5 if a tie counts half, or a share of several answers. Shape (n,).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate, Test
from cda.stats.bootstrap import ROUNDING, effective_rows

Z_95 = float(stats.norm.ppf(0.975))
# One row a prompt, and several.
_WILSON = "Wilson 95%", "Wilson 95% on the effective number of rows"
_NEWCOMBE = "Newcombe paired 95%", "Newcombe paired 95% on the effective number of rows"


def wilson_share(hits: ArrayLike, prompt_ids: Sequence[str], answers_a_row: float = 1) -> Estimate:
    """Share of hits with Wilson's 95% interval on the effective number of rows (`effective_rows`).

    If each prompt occurs once it is Wilson's own. A share of 0 or 1 keeps a width: there every prompt counts as one
    row. `answers_a_row`: answers, such as several models', that each row is a mean of: rows that vary less than 0 and 1
    would are worth up to so many; 1 gives ties that count half nothing. DataError: no rows, or outside 0 to 1.
    """
    values = _checked(hits, prompt_ids)
    n, n_prompts, p = len(values), len(set(prompt_ids)), float(values.mean())
    effective = effective_rows(values, prompt_ids) * _worth(values, answers_a_row)
    low, high = wilson(p * effective, effective)
    return Estimate(value=p, low=low, high=high, n=n, n_prompts=n_prompts, unit="share", method=_WILSON[n_prompts < n])


def paired_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str], answers_a_row: float = 1) -> Estimate:
    """Change of a share of hits, after − before, on the same rows, with a 95% interval.

    Newcombe's paired score interval (1998, Statistics in Medicine 17, 2635–2650, method 10, with the
    continuity-corrected phi) of as many rows as the differences are worth (`effective_rows`): it keeps its width when
    no row changed, and is Newcombe's own if each prompt occurs once and rows are 0 or 1. `answers_a_row` is as in
    `wilson_share`. DataError: no rows, or shapes that differ.
    """
    first, second = _checked(before, prompt_ids), _checked(after, prompt_ids)
    n, n_prompts = len(first), len(set(prompt_ids))
    effective = effective_rows(second - first, prompt_ids)
    p, q = float(first.mean()), float(second.mean())
    rows_before, rows_after = (effective * _worth(side, answers_a_row) for side in (first, second))
    (low_p, high_p), (low_q, high_q) = wilson(p * rows_before, rows_before), wilson(q * rows_after, rows_after)
    # For one row: its standard deviation before times that after, and the correlation of the two.
    deviations = effective * math.sqrt(max(0.0, p * (1 - p) * q * (1 - q) / (rows_before * rows_after)))
    phi = 0.0
    if deviations > ROUNDING:
        phi = float(((first - p) * (second - q)).mean()) / deviations
        if phi > 0:
            phi = max(0.0, phi - 1 / (2 * effective * deviations))
    difference = q - p
    down_q, up_q, down_p, up_p = q - low_q, high_q - q, p - low_p, high_p - p
    low = max(-1.0, difference - math.sqrt(max(0.0, down_q**2 - 2 * phi * down_q * up_p + up_p**2)))
    high = min(1.0, difference + math.sqrt(max(0.0, up_q**2 - 2 * phi * up_q * down_p + down_p**2)))
    method, unit = _NEWCOMBE[n_prompts < n], "share difference"
    return Estimate(value=difference, low=low, high=high, n=n, n_prompts=n_prompts, unit=unit, method=method)


def wilson(hits: float, n: float) -> tuple[float, float]:
    """Wilson's 95% score interval for a share; `hits` may hold halves. DataError: no rows, or hits outside 0 to `n`."""
    # Sums of shares may miss n by rounding.
    if not (n > 0 and -1e-9 * n <= hits <= n * (1 + 1e-9)):
        raise DataError(f"{hits:g} hits of {n:g}: a share of that cannot be estimated")
    p, z2 = hits / n, Z_95**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


def unpaired_change(before: ArrayLike, after: ArrayLike) -> Estimate:
    """Change of a share, after − before, as if the two had been measured on different rows: two-proportion z 95%.

    The interval that papers print (√(p₁q₁/n₁ + p₂q₂/n₂), Wald), of hits of shapes (n,) and (m,). On the same rows it is
    wrong, most often too wide, and it treats rows of one prompt as independent: shown next to `paired_change`, never
    instead of it. DataError: no rows, or values that are not between 0 and 1.
    """
    first, second = (_shares(hits) for hits in (before, after))
    p, q = float(first.mean()), float(second.mean())
    half = Z_95 * math.sqrt(p * (1 - p) / len(first) + q * (1 - q) / len(second))
    n, method = min(len(first), len(second)), "unpaired two-proportion z 95%"
    return Estimate.symmetric(q - p, half, n=n, n_prompts=n, unit="share difference", method=method, bound=1.0)


def exact_change_test(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Test:
    """Exact two-sided test that a share of hits did not change, on the same rows; prompts are independent, rows are
    not.

    Fisher's randomisation test for pairs (1935): without a change, each prompt's sum of differences is as likely to
    have the other sign, so that Σ ± dᵍ over all choices of signs says how far chance alone gets. If each prompt occurs
    once and rows are 0 or 1, that is the exact McNemar test. p is 1 if nothing changed. DataError: no rows, shapes that
    differ, or rows that are not 0, 0.5 or 1.
    """
    first, second = _checked(before, prompt_ids), _checked(after, prompt_ids)
    clusters = np.unique(np.asarray(prompt_ids), return_inverse=True)[1]
    rows = np.concatenate([first, second])
    if not np.isin(rows, (0, 0.5, 1)).all():
        raise DataError(
            "an exact test of a change needs rows of 0, 0.5 or 1: sums of other values cannot be counted out"
        )
    halves = np.bincount(clusters, weights=2 * (second - first)).astype(np.int64)
    mcnemar = bool((rows != 0.5).all()) and clusters.max() + 1 == len(first)
    return Test(p_value=_sign_flip_p(halves), method="exact McNemar" if mcnemar else "exact sign-flip over prompts")


def _sign_flip_p(sums: NDArray[np.int64]) -> float:
    """P(|Σ ± d| ≥ |Σ d|) over fair signs of integers d, exactly and without listing them: P(|2K − T| ≥ |Σ d|). T = Σ
    |d|, and K is the part of it that gets a plus: for each size of d a binomial count times that size.
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


def _worth(values: FloatArray, most: float) -> float:
    """Independent answers of 0 or 1 that one row is worth: p(1 − p) over the rows' variance, 1 if they do not vary."""
    p, variance = float(values.mean()), float(values.var())
    return min(float(most), max(1.0, p * (1 - p) / variance)) if variance > ROUNDING else 1.0


def _checked(hits: ArrayLike, prompt_ids: Sequence[str]) -> FloatArray:
    if np.shape(hits) != (len(prompt_ids),):
        raise DataError(f"{np.shape(hits)} values for {len(prompt_ids)} prompts: one each is needed")
    return _shares(hits)


def _shares(hits: ArrayLike) -> FloatArray:
    values = np.asarray(hits, dtype=np.float64)
    if not len(values):
        raise DataError("no rows: a share of nothing cannot be estimated")
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError("a share is estimated from values between 0 and 1")
    return values
