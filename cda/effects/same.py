"""Margins that are the same in every pair: they have no spread to take an error from, and their sign has an exact test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

SIGN_TEST = "exact sign test over prompts"


@dataclass(frozen=True, slots=True)
class SameInAll:
    """One margin that all pairs share. It has no interval: low = high = value would claim that its error is 0.

    It does not change with how far the sides differ otherwise. What differs in every pair by the same sign (characters, where
    jargon has the longer words) it does not rule out for a model that looks at that sign alone.

    Attributes:
        value: The margin; 0: both sides are scored alike in every pair.
        n: Pairs.
        n_prompts: Their prompts.
        p_value: Exact two-sided sign test over prompts, which all agree; None where the value is 0 and has no sign.
    """

    value: float
    n: int
    n_prompts: int
    p_value: float | None


def same_in_all(margins: ArrayLike, prompt_ids: Sequence[str]) -> SameInAll | None:
    """The margin that all pairs share; None where they differ, or come from one prompt, which shows nothing of others.

    Args:
        margins: score(perturbed) − score(base), shape (n,).
        prompt_ids: Cluster of each pair. Length n.
    """
    values, n_prompts = np.asarray(margins, dtype=np.float64), len(set(prompt_ids))
    # A difference of rewards leaves a trace of rounding.
    if n_prompts < 2 or not np.isfinite(values).all() or np.ptp(values) > 1e-12 * np.abs(values).max():
        return None
    value = float(np.median(values))
    p_value = float(stats.binomtest(n_prompts, n_prompts).pvalue) if value else None
    return SameInAll(value, len(values), n_prompts, p_value)
