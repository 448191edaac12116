"""Two scorings of the same rows by different models or settings: what they share and where they differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import finite
from cda.results.base import Estimate, or_missing
from cda.results.comparison import PairedMargins
from cda.stats.estimators import correlation_of, paired_change, share_of
from cda.stats.proportions import ModelTies, exact_change_test, hits_of


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
        first=share_of(hits_a, prompt_ids),
        other=share_of(hits_b, prompt_ids),
        difference=paired_change(hits_a, hits_b, prompt_ids),
        test=exact_change_test(hits_a, hits_b, prompt_ids),
        agreement=share_of(np.sign(a) == np.sign(b), prompt_ids),
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

    DataError: too few prompts, or margins without a spread: a correlation is undefined.
    """
    a, b = finite(first, "margins"), finite(other, "margins")
    return correlation_of(a, b, prompt_ids)
