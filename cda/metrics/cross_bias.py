"""The cross-bias matrix: what training against one bias does to every other, with all cells tested together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cda.errors import DataError
from cda.metrics.verdict import is_shown
from cda.results.base import Estimate, Measure
from cda.stats.multiplicity import benjamini_hochberg, holm


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and one bias measured before and after it.

    Attributes:
        training: Name of the training.
        bias: The bias that was measured.
        is_target: Whether it was trained against.
        skew: Before and after it.
        p_holm: p-value adjusted over all cells of the matrix (family-wise error).
        p_bh: p-value adjusted over all cells of the matrix (false discovery rate).
    """

    training: str
    bias: str
    is_target: bool
    skew: Measure
    p_holm: float
    p_bh: float

    @property
    def is_shown(self) -> bool:
        """By the standard of every word about a change (`cda.metrics.verdict`), over all cells of the matrix."""
        return is_shown(self.change.low, self.change.high, self.p_holm)

    @property
    def change(self) -> Estimate:
        """After − before, a share difference."""
        return self.skew.of_training().change


def cross_bias(changes: Mapping[str, Mapping[str, Measure]], targets: Mapping[str, Collection[str]]) -> list[Cell]:
    """All cells, training by training, in the given order.

    Args:
        changes: Training to bias to its skew before and after.
        targets: Training to the biases that it was against.

    Raises:
        DataError: No training, or one without a measured bias.
    """
    empty = [training for training, row in changes.items() if not row]
    if not changes or empty:
        raise DataError(f"a cross-bias matrix needs measured biases; none for {', '.join(empty) or 'any training'}")
    cells = [(training, bias, change) for training, row in changes.items() for bias, change in row.items()]
    p_values = [change.of_training().test.p_value for _, _, change in cells]
    return [
        Cell(training, bias, bias in targets.get(training, ()), change, first, second)
        for (training, bias, change), first, second in zip(
            cells, holm(p_values), benjamini_hochberg(p_values), strict=True
        )
    ]
