"""The trainings of a run, one for each seed of `train.seeds`, and the names of their stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Training:
    """One training among those of a run.

    Attributes:
        seed: Of its LoRA weights, data order and dropout.
        is_first: It is the run's result (`adapter/`), whatever the audit finds of the others: the best one on the audit's
            own contrasts would look better there than it is.
    """

    seed: int
    is_first: bool = True

    @property
    def label(self) -> str:
        """Of its scoring in the audit, where it is not the result."""
        return f"seed-{self.seed}"

    def stage(self, name: str) -> str:
        """Name of its stage `train`, `dose` or `adapter`: a folder of its own for every training."""
        return name if self.is_first else f"{name}-{self.label}"


def trainings(seeds: Sequence[int]) -> list[Training]:
    """The trainings with these seeds, the run's result first."""
    return [Training(seed, at == 0) for at, seed in enumerate(seeds)]
