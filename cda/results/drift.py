"""Drift: all that differs between the two sides of pairs besides the bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from cda.arrays import BoolArray, FloatArray
from cda.results.base import Estimate, Missing, Result


@dataclass(frozen=True, slots=True)
class Limit:
    """Largest difference of two sides in a feature that still counts as alike: within `ratio` or within `difference`.

    Attributes:
        ratio: Largest value over smallest, 1 or more; the same whichever side is larger. None: not looked at.
        difference: Absolute difference in the feature's own unit. None: not looked at.
    """

    ratio: float | None = None
    difference: float | None = None

    def __post_init__(self) -> None:
        if self.ratio is None and self.difference is None:
            raise ValueError("a limit needs a ratio, a difference, or both")
        if not (self.ratio is None or self.ratio >= 1) or not (self.difference is None or self.difference >= 0):
            raise ValueError(f"a limit's ratio is 1 or more and its difference 0 or more, found {self}")

    def holds(self, perturbed: FloatArray, base: FloatArray) -> BoolArray:
        """Pairs within the limit, and those with a side on which the feature does not hold (NaN). Shapes (n,)."""
        inside = np.isnan(perturbed) | np.isnan(base)
        if self.difference is not None:
            inside |= np.abs(perturbed - base) <= self.difference + 1e-9
        if self.ratio is not None:
            large, small = np.maximum(perturbed, base), np.minimum(perturbed, base)
            inside |= (large == small) | ((small > 0) & (large <= self.ratio * small * (1 + 1e-12)))
        return inside


class FeatureDrift(Result):
    """Difference of one feature between the sides of the same pairs."""

    feature: str
    """Its name."""
    is_treatment: bool
    """True if it is the bias itself, so that its difference is not drift."""
    perturbed_mean: float | None
    """Mean of the perturbed sides, in the feature's unit; None if the feature holds for the texts of too few pairs."""
    base_mean: float | None
    """Mean of the base sides; likewise."""
    difference: Estimate | Missing
    """Mean of perturbed − base among the pairs for whose texts the feature holds."""
    standardised: Estimate | None
    """`difference` over √((s²_perturbed + s²_base) / 2), the standardised mean difference (Austin, 2009, Stat. Med. 28,
    3083–3107; above 0.1 in size is usually called imbalance). None if both sides are constant."""
    median_ratio: float | None
    """Median of perturbed / base over the pairs with both above 0; None without such a pair."""
    beyond: Estimate | None
    """Share of pairs beyond the limit; None for a feature without one."""
    limit: Limit | None
    """That limit."""
    n_unheld: Annotated[int, Field(exclude_if=lambda value: value == 0)] = 0
    """Pairs with a text for which the feature does not hold, such as syllables of a Chinese one; left out of the numbers."""

    @property
    def name(self) -> str:
        """The feature in words, with the pairs left out."""
        return self.feature.replace("_", " ") + (f" ({self.n_unheld} pairs left out)" if self.n_unheld else "")


class BiasDrift(Result):
    """All that differs between the two sides of one bias's contrasts: features, other biases' labels, meaning."""

    n: int
    """Contrasts."""
    features: tuple[FeatureDrift, ...] | Missing
    labels: dict[str, Estimate | Missing]
    """Other bias to the mean of label(perturbed) − label(base); positive: it came along."""
    similarity: Estimate | Missing
    """Mean cosine similarity of the two sides' embeddings."""
