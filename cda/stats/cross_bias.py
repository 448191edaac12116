"""The cross-bias matrix: what training against one bias does to every other, with all cells tested together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats.multiplicity import benjamini_hochberg, holm
from cda.stats.verdict import is_shown


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and one bias measured before and after it.

    Attributes:
        training: Name of the training.
        bias: The bias that was measured.
        is_target: Whether it was trained against.
        change: After − before, paired, a share difference.
        p_holm: p-value adjusted over all cells of the matrix (family-wise error).
        p_bh: p-value adjusted over all cells of the matrix (false discovery rate).
    """

    training: str
    bias: str
    is_target: bool
    change: Estimate
    p_holm: float
    p_bh: float

    @property
    def is_shown(self) -> bool:
        """By the standard of every word about a change (`cda.stats.verdict`), over all cells of the matrix."""
        return is_shown(self.change.low, self.change.high, self.p_holm)


def cross_bias(
    changes: Mapping[str, Mapping[str, tuple[Estimate, float]]], targets: Mapping[str, Collection[str]]
) -> list[Cell]:
    """All cells, training by training, in the given order.

    Args:
        changes: Training to bias to its paired change, and the p-value of that by itself.
        targets: Training to the biases that it was against.

    Raises:
        DataError: No training, or one without a measured bias.
    """
    empty = [training for training, row in changes.items() if not row]
    if not changes or empty:
        raise DataError(f"a cross-bias matrix needs measured biases; none for {', '.join(empty) or 'any training'}")
    cells = [(training, bias, change) for training, row in changes.items() for bias, change in row.items()]
    p_values = [p_value for _, _, (_, p_value) in cells]
    return [
        Cell(training, bias, bias in targets.get(training, ()), change, first, second)
        for (training, bias, (change, _)), first, second in zip(
            cells, holm(p_values), benjamini_hochberg(p_values), strict=True
        )
    ]
