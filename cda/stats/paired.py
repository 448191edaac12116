"""Two scorings of the same rows by different models or settings: what they share and where they differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate, or_missing
from cda.results.comparison import PairedMargins
from cda.stats.draws import bootstrap_sums
from cda.stats.proportions import ModelTies, exact_change_test, hits_of, paired_change, wilson_share


def compare_margins(
    first: ArrayLike,
    other: ArrayLike,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    ties: tuple[ModelTies, ModelTies] = ("no-hit", "no-hit"),
    unpaired: tuple[int, int] = (0, 0),
) -> PairedMargins:
    """Difference of the shares of positive margins, agreement and correlation of two scorings of the same rows.

    Args:
        first: Margins of the first scoring, each in its own unit. Shape (n,).
        other: Those of the other. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        rng: Draws the bootstrap of the correlation.
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
        correlation=or_missing(lambda: margin_correlation(a, b, prompt_ids, rng)),
        both=int((above_a & above_b).sum()),
        only_first=int((above_a & ~above_b).sum()),
        only_other=int((~above_a & above_b).sum()),
        neither=int((~above_a & ~above_b).sum()),
        unpaired_first=unpaired[0],
        unpaired_other=unpaired[1],
    )


def margin_correlation(
    first: ArrayLike, other: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator
) -> Estimate:
    """Pearson's r of two scorings' margins, shapes (n,), with a prompt-clustered BCa interval; the units do not matter.

    DataError: fewer than three prompts, or margins without a spread: a correlation is undefined.
    """
    a, b = finite(first, "margins"), finite(other, "margins")
    if len(set(prompt_ids)) < 3:
        raise DataError(f"{len(a)} rows of {len(set(prompt_ids))} prompts: a correlation needs three prompts")
    if not (np.ptp(a) and np.ptp(b)):
        raise DataError(f"all {len(a)} margins of one side are alike: a correlation is undefined")
    # Centred and scaled, so that the sums of squares lose no digits.
    x, y = (a - a.mean()) / a.std(), (b - b.mean()) / b.std()
    columns = np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
    drawn = bootstrap_sums(columns, prompt_ids, _pearson, rng, "correlation", method="bca")
    value, low, high = (float(np.clip(end, -1, 1)) for end in (drawn.value, drawn.low, drawn.high))
    return drawn.model_copy(update={"value": value, "low": min(low, value), "high": max(high, value)})


def _pearson(sums: FloatArray) -> FloatArray:
    n, x, y, xx, yy, xy = sums.T
    spread = (xx - x * x / n) * (yy - y * y / n)
    known = spread > 1e-12 * xx * yy
    return np.asarray(np.divide(xy - x * y / n, np.sqrt(np.abs(spread)), out=np.full(len(sums), np.nan), where=known))
