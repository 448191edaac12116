"""Two scorings of the same rows by different models or settings: what they share and where they differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate, or_missing
from cda.results.comparison import PairedMargins
from cda.stats.draws import ROUNDING, cluster_sums
from cda.stats.proportions import Z_95, ModelTies, exact_change_test, hits_of, paired_change, wilson_share


def compare_margins(
    first: ArrayLike,
    other: ArrayLike,
    prompt_ids: Sequence[str],
    ties: tuple[ModelTies, ModelTies] = ("no-hit", "no-hit"),
    unpaired: tuple[int, int] = (0, 0),
) -> PairedMargins:
    """Difference of the shares of positive margins, agreement and correlation of two scorings of the same rows.

    Args:
        first: Margins of the first scoring, each in its own unit. Shape (n,).
        other: Those of the other. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        ties: How a margin of 0 counts in each scoring's share.
        unpaired: Rows of each that the other lacks, to be stated.

    Returns:
        The difference is other − first. Agreement takes margins of 0 for a third answer: two of them agree.

    Raises:
        DataError: No rows, margins that are not finite, or shapes that differ.
    """
    a, b = finite(first, "margins"), finite(other, "margins")
    hits_a, hits_b = hits_of(a, ties[0]), hits_of(b, ties[1])
    above_a, above_b = a > 0, b > 0
    return PairedMargins(
        first=wilson_share(hits_a, prompt_ids),
        other=wilson_share(hits_b, prompt_ids),
        difference=paired_change(hits_a, hits_b, prompt_ids),
        test=exact_change_test(hits_a, hits_b, prompt_ids),
        agreement=wilson_share(np.sign(a) == np.sign(b), prompt_ids),
        correlation=or_missing(lambda: margin_correlation(a, b, prompt_ids)),
        both=int((above_a & above_b).sum()),
        only_first=int((above_a & ~above_b).sum()),
        only_other=int((~above_a & above_b).sum()),
        neither=int((~above_a & ~above_b).sum()),
        unpaired_first=unpaired[0],
        unpaired_other=unpaired[1],
    )


def margin_correlation(first: ArrayLike, other: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Pearson's r of two scorings' margins, shapes (n,); the units do not matter.

    The interval is Student's t on Fisher's z = artanh r, with the jackknife's error over whole prompts: a bootstrap holds the truth too
    seldom with few prompts or heavy tails (evals/method/paired_audits.py). If r is 1 or −1, half a prompt against it keeps a width.

    DataError: fewer than three prompts, or margins without a spread: a correlation is undefined.
    """
    a, b = finite(first, "margins"), finite(other, "margins")
    n_prompts = len(set(prompt_ids))
    if n_prompts < 3:
        raise DataError(f"{len(a)} rows of {n_prompts} prompts: a correlation needs three prompts")
    if not (np.ptp(a) and np.ptp(b)):
        raise DataError(f"all {len(a)} margins of one side are alike: a correlation is undefined")
    # Centred and scaled, so that the sums of squares lose no digits.
    x, y = (a - a.mean()) / a.std(), (b - b.mean()) / b.std()
    sums = cluster_sums(np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y]), prompt_ids)
    total = sums.sum(axis=0)
    value, *left_out = np.clip(_pearson(np.vstack([total, total - sums])), -1, 1)
    if not np.isfinite(left_out).all():
        raise DataError(
            f"without one of {n_prompts} prompts all margins of one side are alike: the spread between prompts is unknown"
        )
    most = 1 - 0.5 / n_prompts
    if 1 - abs(value) <= ROUNDING:
        centre, half = np.arctanh(np.clip(value, -most, most)), Z_95 / np.sqrt(max(n_prompts - 3, 1))
    else:
        z = np.arctanh(np.clip(left_out, -1 + ROUNDING, 1 - ROUNDING))
        error = np.sqrt((n_prompts - 1) / n_prompts * ((z - z.mean()) ** 2).sum())
        centre, half = np.arctanh(value), stats.t.ppf(0.975, n_prompts - 1) * error
    low, high = min(np.tanh(centre - half), value), max(np.tanh(centre + half), value)
    method = "Fisher z 95%, jackknife over prompts"
    return Estimate(
        value=float(value),
        low=float(low),
        high=float(high),
        n=len(a),
        n_prompts=n_prompts,
        unit="correlation",
        method=method,
    )


def _pearson(sums: FloatArray) -> FloatArray:
    n, x, y, xx, yy, xy = sums.T
    spread = (xx - x * x / n) * (yy - y * y / n)
    known = spread > 1e-12 * xx * yy
    return np.asarray(np.divide(xy - x * y / n, np.sqrt(np.abs(spread)), out=np.full(len(sums), np.nan), where=known))
