"""A policy tilted to a reward, estimated from samples of it: weights within each prompt, and the bias of few samples removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.arrays import BoolArray, FloatArray
from cda.stats.draws import ROUNDING
from cda.stats.means import without_traces

MOST_NEEDED, SHARE_NEEDED = 10.0, 0.7
"""Effective responses that a tilt needs: this number, or this share of the responses if a prompt has few."""


def fewest_effective(n_responses: FloatArray) -> float:
    """Smallest mean of effective responses that supports a tilt; `n_responses` is per prompt, shape (n_prompts,).

    With fewer, the shift is estimated too small. Without the jackknife, the relative bias of a shift is about 1 over the
    effective responses; with it, `evals/method/policy_tilt.py` measures what is left.
    """
    return float(min(MOST_NEEDED, SHARE_NEEDED * n_responses.mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Padded:
    """Samples of several prompts, as a matrix: rows of `values` from the same prompt in one line.

    `at` (n_prompts, most) holds the row of each sample, 0 where `real` (same shape) is False: that prompt has fewer.
    """

    at: NDArray[np.intp]
    real: BoolArray

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

    def spread(self, values: FloatArray) -> float:
        """Pooled standard deviation within prompts, of values of shape (n_responses,)."""
        own = np.where(self.real, values[self.at], 0.0)
        means = own.sum(axis=1) / self.n
        squares = np.where(self.real, (own - means[:, None]) ** 2, 0.0).sum()
        size = float(np.abs(own).max())
        deviation = float(np.sqrt(squares / (self.n - 1).sum()))
        return 0.0 if deviation <= ROUNDING * size else deviation


class Tilted:
    """Weights of each prompt's samples under the policy tilted to a reward, π(y | x) · exp(reward / β).

    Self-normalised importance weights: w = exp(reward / β) over their sum within the prompt. A weighted mean of N samples
    falls short of the shift by a share of about 1/N or more, so estimates are jackknifed within prompts: N · estimate −
    (N − 1) · mean estimate without one of the samples (Quenouille 1956), which removes the part of the bias that falls as 1/N.
    """

    def __init__(self, rewards: FloatArray, beta: float, samples: Padded) -> None:
        """`rewards` (n_responses,) and β in the same unit; every prompt has two samples at least."""
        logits = np.where(samples.real, rewards[samples.at] / beta, -np.inf)
        self.samples, self.weights = samples, _softmax(logits)
        self._top = np.zeros_like(samples.real)
        self._top[np.arange(len(logits)), logits.argmax(axis=1)] = True
        # Without the heaviest sample, the weights of the others are found anew: 1 − w may be 0 in floats.
        self._rest = _softmax(np.where(self._top, -np.inf, logits))
        self._others = samples.real & ~self._top

    @property
    def effective(self) -> FloatArray:
        """Effective number of samples of each prompt, 1 / Σ w² (Kong 1992), shape (n_prompts,)."""
        return np.asarray(1 / (self.weights**2).sum(axis=1))

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of values (n_responses,) in each prompt's tilted policy, shape (n_prompts,); NaN if one of a prompt's is NaN."""
        own = np.where(self.samples.real, values[self.samples.at], 0.0)
        terms = self.weights * own
        whole = terms.sum(axis=1)
        without_one = (whole[:, None] - terms) / self._left
        return self._jackknifed(whole, without_one, (self._rest * own).sum(axis=1))

    def gains(self, values: FloatArray) -> FloatArray:
        """Mean in the tilted policy minus the mean of the samples, by prompt."""
        own = np.where(self.samples.real, values[self.samples.at], 0.0)
        sampled = own.sum(axis=1) / self.samples.n
        return without_traces(self.means(values) - sampled, own)

    def kl_nats(self) -> FloatArray:
        """KL divergence of each prompt's tilted policy from the sampled one, Σ w log(N w), shape (n_prompts,)."""
        terms, n = _times_log(self.weights), self.samples.n
        negative_entropy = terms.sum(axis=1)
        without_one = (negative_entropy[:, None] - terms) / self._left - np.log(self._left) + np.log(n - 1)[:, None]
        without_top = _times_log(self._rest).sum(axis=1) + np.log(n - 1)
        return without_traces(self._jackknifed(negative_entropy + np.log(n), without_one, without_top), np.log(n))

    @property
    def _left(self) -> FloatArray:
        """Weight that is left without each sample; the heaviest one's is not used."""
        return np.where(self._others, 1 - self.weights, 1.0)

    def _jackknifed(self, whole: FloatArray, without_one: FloatArray, without_top: FloatArray) -> FloatArray:
        n = self.samples.n
        left_out = np.where(self._others, without_one, 0.0).sum(axis=1) + without_top
        return np.asarray(n * whole - (n - 1) * left_out / n, dtype=np.float64)


def _softmax(logits: FloatArray) -> FloatArray:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float64)


def _times_log(weights: FloatArray) -> FloatArray:
    """w log w, with 0 log 0 = 0."""
    return np.asarray(weights * np.log(np.where(weights > 0, weights, 1.0)), dtype=np.float64)
