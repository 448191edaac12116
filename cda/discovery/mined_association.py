"""How the presence of something in responses goes with their reward, within prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
_PRIOR_DEGREES = 20.0


@dataclass(frozen=True, slots=True)
class Association:
    """Reward of responses with something minus that of responses to the same prompt without it.

    Attributes:
        difference: Mean over prompts, reward units; a prompt weighs n1 · n0 / (n1 + n0), by how well it tells.
        t: Difference over its standard error, whose variance is shrunken towards that of all rewards within prompts, so
            that a few prompts that happen to agree do not stand out. For ranking only.
        n_prompts: Prompts that have responses of both kinds.
    """

    difference: float
    t: float
    n_prompts: int


class Ratings:
    """Rewards of responses and the prompts they answer.

    Args:
        prompts: Number of the prompt of each response, from 0. Shape (n,).
        rewards: Finite. Shape (n,), reward units.
    """

    def __init__(self, prompts: Sequence[int], rewards: Sequence[float]) -> None:
        self.prompts = np.asarray(prompts, dtype=np.int64)
        self.rewards = np.asarray(rewards, dtype=np.float64)
        self.n_prompts = int(self.prompts.max()) + 1 if len(self.prompts) else 0
        self._counts = np.bincount(self.prompts, minlength=self.n_prompts)
        self._sums = np.bincount(self.prompts, weights=self.rewards, minlength=self.n_prompts)
        means = self._sums / np.maximum(self._counts, 1)
        degrees = len(self.rewards) - int((self._counts > 0).sum())
        within = float(((self.rewards - means[self.prompts]) ** 2).sum())
        self.variance = within / degrees if degrees > 0 else 0.0

    def association(self, present: NDArray[np.int64], min_prompts: int) -> Association | None:
        """Association of presence with reward; None below the least number of prompts, and where rewards never differ.

        Args:
            present: Places of the responses that have it.
            min_prompts: Prompts with and without it that are needed.
        """
        with_it = np.bincount(self.prompts[present], minlength=self.n_prompts)
        without = self._counts - with_it
        both = (with_it > 0) & (without > 0)
        n = int(both.sum())
        if n < max(min_prompts, 1) or self.variance <= 0:
            return None
        sums = np.bincount(self.prompts[present], weights=self.rewards[present], minlength=self.n_prompts)[both]
        n1, n0 = with_it[both], without[both]
        differences = sums / n1 - (self._sums[both] - sums) / n0
        weights = n1 * n0 / (n1 + n0)
        difference = float((weights * differences).sum() / weights.sum())
        spread = float((weights * (differences - difference) ** 2).sum())
        variance = (spread + _PRIOR_DEGREES * self.variance) / (n - 1 + _PRIOR_DEGREES)
        return Association(difference, difference / float(np.sqrt(variance / weights.sum())), n)

    def telling_prompt(self, present: NDArray[np.int64]) -> int:
        """Number of the first prompt with responses of both kinds, 0 where there is none."""
        with_it = np.bincount(self.prompts[present], minlength=self.n_prompts)
        both = np.flatnonzero((with_it > 0) & (with_it < self._counts))
        return int(both[0]) if len(both) else 0
