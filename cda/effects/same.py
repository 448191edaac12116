"""Margins that are the same in every pair: they have no spread to take an error from, and their sign has an exact test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.results.effects import SameMargin


def same_in_all(
    margins: ArrayLike, prompt_ids: Sequence[str], reason: str = "the margin is the same in every pair"
) -> SameMargin | None:
    """The margin that all pairs share; None where they differ, or come from one prompt, which shows nothing of others.

    Args:
        margins: score(perturbed) − score(base), shape (n,).
        prompt_ids: Cluster of each pair. Length n.
        reason: Why there is no estimate.
    """
    values, n_prompts = np.asarray(margins, dtype=np.float64), len(set(prompt_ids))
    # A difference of rewards leaves a trace of rounding.
    if n_prompts < 2 or not np.isfinite(values).all() or np.ptp(values) > 1e-12 * np.abs(values).max():
        return None
    value = float(np.median(values))
    p_value = float(stats.binomtest(n_prompts, n_prompts).pvalue) if value else None
    return SameMargin(reason=reason, value=value, n=len(values), n_prompts=n_prompts, p_value=p_value)
