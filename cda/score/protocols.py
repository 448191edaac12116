"""What a scorer is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cda.records import Prompt

FloatArray = NDArray[np.float64]


class PointwiseScorer(Protocol):
    """Gives each response a reward of its own."""

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards, shape (n,), in the model's own units; higher is better."""
        ...


class PairwiseScorer(Protocol):
    """Says which of two responses to a prompt it prefers."""

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first, −1 to 1, shape (n,); 0 is a tie, NaN where there is no readable verdict."""
        ...
