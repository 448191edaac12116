"""The best of n responses: the chance that each of a prompt's samples is picked, and the policy of these picks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.stats.tilt import Padded


def kl_at_most(n: int) -> float:
    """KL divergence of best-of-n from the policy that is sampled, in nats: log n − (n − 1)/n.

    Exact if no two responses can have the same reward (Stiennon et al., 2020, appendix G.3; Hilton and Gao, 2022),
    and an upper bound else (Beirami et al., 2024). It says how far the reward was optimised, on one scale with RL.
    """
    return math.log(n) - (n - 1) / n


def pick_probabilities(rewards: ArrayLike, sizes: Sequence[int]) -> FloatArray:
    """Probability that each of N responses is the one of highest reward among n, drawn without replacement.

    The response of rank r from the top is picked with probability C(N − r, n − 1) / C(N, n); equal rewards share alike.
    Rewards have shape (N,), sizes lie between 1 and N; the result has shape (len(sizes), N), and its rows sum to 1.
    """
    values = np.asarray(rewards, dtype=np.float64)
    ascending = np.sort(values)
    above = len(values) - np.searchsorted(ascending, values, side="right")
    reached = len(values) - np.searchsorted(ascending, values, side="left")  # above, and its equals
    none = np.array([_none_drawn(len(values), n) for n in sizes])
    return np.asarray((none[:, above] - none[:, reached]) / (reached - above), dtype=np.float64)


def _none_drawn(n_responses: int, n: int) -> FloatArray:
    """C(N − k, n) / C(N, n) for k = 0 … N: the chance that none of k responses is among n."""
    k = np.arange(n_responses)
    ratios = np.maximum(n_responses - k - n, 0) / (n_responses - k)
    return np.concatenate([[1.0], np.cumprod(ratios)])


class BestOf:
    """The policy that answers with the response of highest reward among n of its samples; of prompts with fewer samples nothing is known."""

    def __init__(self, rewards: FloatArray, n: int, samples: Padded) -> None:
        """`rewards` (n_responses,); ties are shared alike."""
        self.samples, self.weights = samples, np.full(samples.real.shape, np.nan)
        for own, at, real in zip(self.weights, samples.at, samples.real, strict=True):
            if real.sum() >= n:
                own[:] = 0.0
                own[real] = pick_probabilities(rewards[at[real]], [n])[0]

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of values (n_responses,) of each prompt's picks, unbiased, shape (n_prompts,); NaN if one of a prompt's is NaN."""
        own = np.where(self.samples.real, values[self.samples.at], 0.0)
        return np.asarray((self.weights * own).sum(axis=1))
