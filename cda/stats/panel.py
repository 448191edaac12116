"""Several models on the same contrasts: means over them, their ranks, and two of them row by row.

`rows`: a share between 0 and 1, or a difference of two, of every model on every contrast, shape (k, n), k models and n
contrasts in the same order. `prompt_ids`: the prompt of each contrast, length n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate, or_missing
from cda.results.comparison import PairedMargins
from cda.stats.estimators import (
    FEWEST_DRAWN,
    cluster_sums,
    correlation_of,
    drawn_sums,
    of_draws,
    paired_change,
    share_of,
)
from cda.stats.means import change_over_seeds, share_over_seeds
from cda.stats.proportions import ModelTies, exact_change_test, hits_of

FEW_MODELS = 5
"""With fewer models the interval is over prompts alone: it holds for these models, and says nothing of others."""


FEWEST_RANKED = 2 * FEWEST_DRAWN
"""Prompts that ranks need: drawn anew, fewer hold the rank of all prompts less often than they say (5 prompts: in 76% of samples)."""


def mean_share(rows: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean over models of a share; its `n` counts contrasts.

    From `FEW_MODELS` models on, models and prompts are both random (`share_over_seeds`). With fewer models, or a share so near 0 or 1 that
    less than one model in all answers otherwise, which hides how far models differ, it is the share of the mean rows: of these models, over prompts.

    Raises:
        DataError: No model or no contrast, another shape, or a value outside 0 to 1.
    """
    values = _checked(rows, prompt_ids)
    otherwise = min(values.mean(axis=1).sum(), (1 - values).mean(axis=1).sum())
    if len(values) >= FEW_MODELS and len(set(prompt_ids)) > 1 and otherwise >= 1:
        return share_over_seeds(values, prompt_ids)
    return share_of(values.mean(axis=0), prompt_ids, len(values))


def mean_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Mean over models of after − before, paired by model and contrast; a `before` of shape (n,), such as people's
    preferences, is the same for every model. The interval is as in `mean_share`.
    """
    later = _checked(after, prompt_ids)
    earlier = _checked(np.broadcast_to(np.asarray(before, dtype=np.float64), later.shape), prompt_ids)
    if len(later) >= FEW_MODELS and len(set(prompt_ids)) > 1:
        return change_over_seeds(earlier, later, prompt_ids)
    return paired_change(earlier.mean(axis=0), later.mean(axis=0), prompt_ids, len(later))


def ranks(rows: ArrayLike, prompt_ids: Sequence[str], nearest_to: ArrayLike | None = None) -> list[Estimate]:
    """Rank of each model by its mean over contrasts, 1 the largest; or, with `nearest_to` of shape (n,), by the distance of
    its mean from that one's, 1 the nearest. Equal models share the mean of their places.

    The interval holds the middle 95% of the ranks among the same models over draws of whole prompts. It answers which
    places this model could have had on other prompts, one model at a time: it is no statement on all models together.

    Raises:
        DataError: Fewer than two models, fewer than `FEWEST_RANKED` prompts, or another shape.
    """
    values = np.asarray(rows, dtype=np.float64)
    n_prompts = len(set(prompt_ids))
    if values.ndim != 2 or len(values) < 2 or n_prompts < FEWEST_RANKED:
        raise DataError(f"ranks need two models and {FEWEST_RANKED} prompts at least; here are {n_prompts}")
    if nearest_to is not None:
        values = values - np.asarray(nearest_to, dtype=np.float64)
    sums = cluster_sums(np.ascontiguousarray(values.T), prompt_ids)

    def places(totals: FloatArray) -> FloatArray:
        return _places(totals if nearest_to is None else -np.abs(totals))

    drawn = places(drawn_sums(sums))
    own = places(sums.sum(axis=0, keepdims=True))[0]
    return [
        of_draws(float(rank), ranks, values.shape[1], len(sums), "rank")
        for rank, ranks in zip(own, drawn.T, strict=True)
    ]


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
        correlation=or_missing(lambda: correlation_of(a, b, prompt_ids)),
        both=int((above_a & above_b).sum()),
        only_first=int((above_a & ~above_b).sum()),
        only_other=int((~above_a & above_b).sum()),
        neither=int((~above_a & ~above_b).sum()),
        unpaired_first=unpaired[0],
        unpaired_other=unpaired[1],
    )


def _checked(rows: ArrayLike, prompt_ids: Sequence[str]) -> FloatArray:
    values = finite(rows)
    if values.ndim != 2 or not len(values) or values.shape[1] != len(prompt_ids):
        raise DataError(f"{values.shape} values for {len(prompt_ids)} contrasts: a row for each model is needed")
    return values


def _places(means: FloatArray) -> FloatArray:
    """Rank of each model in each draw, 1 the largest; shapes (draws, k). Rounding makes no two means differ."""
    rounded = np.round(means / max(float(np.abs(means).max()), math.ulp(1.0)), 10)
    return np.asarray(stats.rankdata(-rounded, axis=1), dtype=np.float64)
