"""Which of a prompt's responses a reward picks among n of them: probabilities and expectations in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def kl_at_most(n: int) -> float:
    """KL divergence of best-of-n from the policy that is sampled, in nats: log n − (n − 1)/n.

    Exact where no two responses can have the same reward (Stiennon et al., 2020, appendix G.3; Hilton and Gao, 2022),
    and an upper bound else (Beirami et al., 2024). It says how far the reward was optimised, on one scale with RL.
    """
    return math.log(n) - (n - 1) / n


def pick_probabilities(rewards: ArrayLike, sizes: Sequence[int]) -> FloatArray:
    """How likely each of N responses is the one of highest reward among n, drawn without replacement.

    The response of rank r from the top is picked with probability C(N − r, n − 1) / C(N, n); equal rewards share alike.

    Args:
        rewards: Shape (N,), any unit; only their order matters.
        sizes: Each between 1 and N.

    Returns:
        Shape (len(sizes), N); rows sum to 1.
    """
    values = np.asarray(rewards, dtype=np.float64)
    ascending = np.sort(values)
    above = len(values) - np.searchsorted(ascending, values, side="right")
    reached = len(values) - np.searchsorted(ascending, values, side="left")  # above, and its equals
    none = np.array([_none_drawn(len(values), n) for n in sizes])
    return np.asarray((none[:, above] - none[:, reached]) / (reached - above), dtype=np.float64)


def usual_sizes(n_responses: Sequence[int]) -> tuple[int, ...]:
    """1, 2, 4, 8, … as far as half of the prompts, and two at least, have so many responses.

    Args:
        n_responses: N of each prompt.
    """
    needed = max(2, math.ceil(len(n_responses) / 2))
    powers = [2**exponent for exponent in range(max(n_responses).bit_length())]
    return tuple(n for n in powers if n == 1 or sum(own >= n for own in n_responses) >= needed)


def expected_picks(
    values: FloatArray,
    weights: Mapping[str, Sequence[FloatArray]],
    prompts: Sequence[NDArray[np.intp]],
    sizes: Sequence[int],
) -> dict[str, FloatArray]:
    """Expected value of the pick, shape (n_prompts, n_sizes) a scoring; NaN where n is not reached or a value unknown."""
    found = {label: np.full((len(prompts), len(sizes)), np.nan) for label in weights}
    for row, rows in enumerate(prompts):
        for label, probabilities in weights.items():
            found[label][row, : len(probabilities[row])] = probabilities[row] @ values[rows]
    unknown = [bool(np.isnan(values[rows]).any()) for rows in prompts]
    for one in found.values():
        one[unknown] = np.nan  # also where a matrix product takes 0 · NaN for 0
    return found


def _none_drawn(n_responses: int, n: int) -> FloatArray:
    """C(N − k, n) / C(N, n) for k = 0 … N: the chance that none of k responses is among n."""
    k = np.arange(n_responses)
    ratios = np.maximum(n_responses - k - n, 0) / (n_responses - k)
    return np.concatenate([[1.0], np.cumprod(ratios)])
