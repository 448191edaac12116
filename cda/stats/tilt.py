"""A policy tilted to a reward, estimated from samples of it: weights within each prompt, and the bias of few samples removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from cda.arrays import BoolArray, FloatArray
from cda.results.base import Estimate
from cda.stats.estimators import FREE, ROUNDING, Mean, mean_of, share_of
from cda.stats.means import without_traces

LEAST_NEEDED, SHARE_NEEDED = 10.0, 0.75
"""Effective responses that a tilt needs: this number, or this share of the responses if a prompt has few."""
_MOST_GROUPS = 64
"""Samples that are left out one or two at a time; of more samples, groups of them."""
_DOUBLINGS = 12.0
"""β is looked for from this many halvings of the spread of rewards within prompts to as many doublings of it."""
_LEAST_LOGIT = -600.0
"""Weights below exp of this, next to a prompt's largest, are raised to it: sums of what is left out stay above 0 in floats."""


def fewest_effective(n_responses: FloatArray) -> float:
    """Smallest mean of effective responses that supports a tilt; `n_responses` is per prompt, shape (n_prompts,).

    Of n responses: 10, or 2√n of more than 25, or ¾ n of fewer than 14. With fewer, the shift is estimated too small: many samples
    allow a strong tilt, which a few of them carry. `evals/method/policy_tilt.py` measures what is left of the bias.
    """
    enough = np.maximum(LEAST_NEEDED, 2 * np.sqrt(n_responses))
    return float(np.minimum(enough, SHARE_NEEDED * n_responses).mean())


@dataclass(frozen=True, slots=True, eq=False)
class Padded:
    """Samples of several prompts, as a matrix: rows of `values` from the same prompt in one line.

    `at` (n_prompts, most) holds the row of each sample, 0 where `real` (same shape) is False: that prompt has fewer.
    """

    at: NDArray[np.intp]
    real: BoolArray

    @classmethod
    def by_prompt(cls, prompt_ids: Sequence[str], fewest: int = 2) -> Padded:
        """From the prompt of each row; prompts with fewer rows are left out. ValueError: none is left."""
        codes, n_each = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True, return_counts=True)[1:]
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(n_each)[:-1])
        return cls.of([own for own in rows if len(own) >= fewest])

    @classmethod
    def of(cls, prompts: Sequence[NDArray[np.intp]]) -> Padded:
        """From the rows of each prompt."""
        most = max(map(len, prompts))
        real = np.arange(most) < np.array([len(rows) for rows in prompts])[:, None]
        at = np.zeros(real.shape, dtype=np.intp)
        at[real] = np.concatenate(prompts)
        return cls(at, real)

    @property
    def n(self) -> FloatArray:
        """Responses of each prompt, shape (n_prompts,)."""
        return np.asarray(self.real.sum(axis=1), dtype=np.float64)

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of values (n_responses,) of each prompt, shape (n_prompts,); NaN if one of a prompt's is NaN."""
        return np.asarray(np.where(self.real, values[self.at], 0.0).sum(axis=1) / self.n)

    def spread(self, values: FloatArray) -> float:
        """Pooled standard deviation within prompts, of values of shape (n_responses,)."""
        own = np.where(self.real, values[self.at], 0.0)
        squares = np.where(self.real, (own - self.means(values)[:, None]) ** 2, 0.0).sum()
        size = float(np.abs(own).max())
        deviation = float(np.sqrt(squares / (self.n - 1).sum()))
        return 0.0 if deviation <= ROUNDING * size else deviation


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """The generalised jackknife of n samples as one weighted sum over subsets of them.

    With θ̄ₖ the mean estimate without k of g groups: (g² θ − 2 (g − 1)² θ̄₁ + (g − 2)² θ̄₂) / 2, which removes the parts of a bias
    that fall as 1/n and 1/n² (Schucany, Gray and Owen 1971, J. Am. Stat. Assoc. 66, 524–533). Two samples allow the first alone.

    `member` (n, groups) is 1 for a sample's group, `kept` (subsets, groups) for the groups of a subset, else 0; `coefficients`
    (subsets,) are of its estimates.
    """

    member: FloatArray
    kept: FloatArray
    coefficients: FloatArray


@lru_cache(maxsize=32)
def leave_out_weights(n: int) -> LeftOut:
    """All samples, then all without each, then all without every two; groups of samples, drawn, if there are many."""
    groups = min(n, _MOST_GROUPS)
    group_of = np.random.default_rng(n).permutation(n) % groups if groups < n else np.arange(n)
    without = [(), *((one,) for one in range(groups)), *(combinations(range(groups), 2) if groups > 2 else ())]
    kept = np.ones((len(without), groups))
    for row, gone in enumerate(without):
        kept[row, list(gone)] = 0.0
    sizes = np.array([len(gone) for gone in without])
    weights = np.array([groups**2, -2 * (groups - 1) ** 2, (groups - 2) ** 2]) / 2
    if groups == 2:
        weights = np.array([2.0, -1.0, 0.0])
    return LeftOut(np.eye(groups)[group_of], kept, (weights / np.bincount(sizes, minlength=3).clip(1))[sizes])


class Tilted:
    """Weights of each prompt's samples under the policy tilted to a reward, π(y | x) · exp(reward / β).

    Self-normalised importance weights: w = exp(reward / β) over their sum within the prompt. A weighted mean of N samples
    falls short of the shift by a share of about 1/N or more, so estimates are jackknifed within prompts (`LeftOut`).
    """

    def __init__(self, rewards: FloatArray, beta: float, samples: Padded) -> None:
        """`rewards` (n_responses,) and β in the same unit; every prompt has two samples at least."""
        logits = np.where(samples.real, rewards[samples.at] / beta, -np.inf)
        logits -= logits.max(axis=1, keepdims=True)
        raised = np.where(samples.real, np.exp(np.maximum(logits, _LEAST_LOGIT)), 0.0)
        self.samples, self.weights = samples, raised / raised.sum(axis=1, keepdims=True)

    @property
    def effective(self) -> FloatArray:
        """Effective number of samples of each prompt, 1 / Σ w² (Kong 1992), shape (n_prompts,)."""
        return np.asarray(1 / (self.weights**2).sum(axis=1))

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of values (n_responses,) in each prompt's tilted policy, shape (n_prompts,); NaN if one of a prompt's is NaN."""
        own = np.where(self.samples.real, values[self.samples.at], 0.0)
        return self._jackknifed(self.weights * own, lambda weight, sum_, _: sum_ / weight)

    def gains(self, values: FloatArray) -> FloatArray:
        """Mean in the tilted policy minus the mean of the samples, by prompt."""
        own = np.where(self.samples.real, values[self.samples.at], 0.0)
        return without_traces(self.means(values) - self.samples.means(values), _MOST_GROUPS * own)

    def kl_nats(self) -> FloatArray:
        """KL divergence of each prompt's tilted policy from the sampled one, Σ w log(N w), shape (n_prompts,)."""
        logs = np.log(np.where(self.weights > 0, self.weights, 1.0))
        kl = self._jackknifed(self.weights * logs, lambda weight, sum_, n: sum_ / weight - np.log(weight) + np.log(n))
        return without_traces(kl, _MOST_GROUPS * np.log(self.samples.n))

    def _jackknifed(
        self, terms: FloatArray, statistic: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """Estimates by prompt; the statistic takes the subsets' sums of weights and of `terms`, and their sizes."""
        found = np.empty(len(terms))
        for n in np.unique(self.samples.n.astype(int)).tolist():
            rows, subsets = self.samples.n == n, leave_out_weights(n)
            weight, sum_ = (subsets.kept @ (each[rows, :n] @ subsets.member).T for each in (self.weights, terms))
            sizes = subsets.kept @ subsets.member.sum(axis=0)
            found[rows] = subsets.coefficients @ statistic(weight, sum_, sizes[:, None])
        return found


@dataclass(frozen=True, slots=True)
class Reach:
    """How far samples support the policy tilted to a reward: the smallest β, in the reward's unit, and the KL there."""

    beta: float
    kl_nats: float
    effective: float
    """Mean over prompts of the effective number of responses there."""
    needed: float
    """Fewest that support a tilt."""


def reach(rewards: FloatArray, samples: Padded) -> Reach | None:
    """The strongest tilt to rewards (n_responses,) that the samples support; None if they are the same within every prompt."""
    spread, needed = samples.spread(rewards), fewest_effective(samples.n)
    if not spread:
        return None

    def beyond(doublings: float) -> float:
        return float(Tilted(rewards, spread * 2**doublings, samples).effective.mean()) - needed

    # Effective responses fall with β; rewards that tie at the top may leave enough of them whatever the β.
    weakest, strongest = _DOUBLINGS, -_DOUBLINGS
    at = strongest if beyond(strongest) >= 0 else float(brentq(beyond, strongest, weakest, xtol=1e-9))
    tilt = Tilted(rewards, spread * 2**at, samples)
    return Reach(spread * 2**at, float(tilt.kl_nats().mean()), float(tilt.effective.mean()), needed)


def tilted_to(rewards: FloatArray, samples: Padded, kl_nats: float, furthest: Reach) -> Tilted:
    """The policy tilted to rewards (n_responses,) whose KL, as a mean over prompts, is so many nats, at most those of `furthest`."""

    def missing(doublings: float) -> float:
        return float(Tilted(rewards, furthest.beta * 2**doublings, samples).kl_nats().mean()) - kl_nats

    at = float(brentq(missing, 0.0, 2 * _DOUBLINGS, xtol=1e-9)) if missing(0.0) > 0 else 0.0
    return Tilted(rewards, furthest.beta * 2**at, samples)


def mean_over_prompts(values: FloatArray, unit: str) -> Mean:
    """Mean of values by prompt, shape (n_prompts,)."""
    within = (-1.0, 1.0) if unit == "share difference" else FREE
    return mean_of(values, [str(prompt) for prompt in range(len(values))], unit, within)


def share_over_prompts(values: FloatArray, unit: str, n: int) -> Estimate:
    """Mean of shares of n responses by prompt, shape (n_prompts,); a jackknifed one may lie a little outside of 0 to 1."""
    names = [str(prompt) for prompt in range(len(values))]
    return share_of(values.clip(0, 1), names, n / len(values)).model_copy(update={"n": n, "unit": unit})
