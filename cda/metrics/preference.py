"""Skew and quality accuracy of one scorer, and the change of a share after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats.proportions import exact_change_test, paired_change, share, unpaired_change


@dataclass(frozen=True, slots=True)
class Change:
    """A share before and after training, on the same rows.

    Attributes:
        before: Share before.
        after: Share after.
        change: after − before, paired.
        unpaired: The same difference with the interval that papers print, as if rows were not paired.
        p_value: Exact test of no change, over prompts.
        p_method: How it was made: McNemar where each prompt occurs once, else signs of whole prompts flipped.
        n_ties: Rows with margin exactly 0 (before, after); they count as no hit.
    """

    before: Estimate
    after: Estimate
    change: Estimate
    unpaired: Estimate
    p_value: float
    p_method: str
    n_ties: tuple[int, int]


def margins_finite(margins: ArrayLike) -> NDArray[np.float64]:
    """Margins as an array.

    Raises:
        DataError: A margin is NaN or infinite.
    """
    values = np.asarray(margins, dtype=np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"{int((~np.isfinite(values)).sum())} of {values.size} margins are NaN or infinite")
    return values


ModelTies = Literal["no-hit", "half"]
"""A margin of exactly 0: no preference for the first side (rewards, where it is chance), or half of one (judges)."""


def positive_share(margins: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Estimate:
    """Share of margins above 0: the skew of contrasts, the accuracy of quality pairs.

    Args:
        margins: score(perturbed) − score(base), or score(chosen) − score(rejected). Shape (n,), reward units.
        prompt_ids: Cluster of each row. Length n.
        ties: What a margin of exactly 0 counts.
    """
    values = margins_finite(margins)
    hits = np.where(values == 0, 0.5, values > 0) if ties == "half" else values > 0
    return share(hits, prompt_ids)


def positive_share_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Change:
    """Change of the share of positive margins between two scorings of the same rows."""
    first, second = margins_finite(before), margins_finite(after)
    hits = first > 0, second > 0
    ties = int((first == 0).sum()), int((second == 0).sum())
    return share_change(hits[0], hits[1], prompt_ids, ties)


def share_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str], n_ties: tuple[int, int]) -> Change:
    """Change of a share of hits between two scorings of the same rows, with its test.

    Args:
        before: Hits before, 0 to 1 (halves where a tie counts half). Shape (n,).
        after: Hits after, on the same rows. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        n_ties: Rows with margin exactly 0, before and after.
    """
    test = exact_change_test(before, after, prompt_ids)
    return Change(
        before=share(before, prompt_ids),
        after=share(after, prompt_ids),
        change=paired_change(before, after, prompt_ids),
        unpaired=unpaired_change(before, after),
        p_value=test.p_value,
        p_method=test.method,
        n_ties=n_ties,
    )
