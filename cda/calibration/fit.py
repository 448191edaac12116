"""Corrections of margins, fitted by logistic regression on people's majorities; how much of them to apply, by
cross-validation.

A corrected margin is margin − strength · Σ termⱼ · correctionⱼ. Draws are fitted together: every array with the axis
`draws` holds one weighting of the prompts, or one split of them, in each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from cda.arrays import FloatArray
from cda.dosing.choice import DECIMALS, Codes, PromptNumbers, Rows, prompts_of
from cda.stats.estimators import Mean, mean_of
from cda.stats.proportions import ModelTies, hits_of
from cda.stats.votes import Majority

STRENGTHS = (0.0, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0)
"""Shares of the fitted correction that are tried; 0 is the scorer as it is. The small ones are for scorers that hardly follow
people, whose full corrections are many times their margins."""
PRIOR_SD = 2.5
"""Standard deviation of the normal prior on each coefficient, of terms of size 1 (Gelman et al., 2008, use this scale): it
keeps a correction finite if all votes are for one side."""
LEAST_FOLLOWING = 0.1
"""Least coefficient of the margin itself: a scorer that follows people less is taken for one that follows them so much, since
corrections are counted in its margins."""
FOLDS = 5
ALPHA = 0.05
"""One-sided level at which a strength above 0 has to show its gain."""
_STEPS, _MOST, _ENOUGH = 50, 4.0, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Margins of n pairs, shape (n,), and their k terms, first side minus second, shape (n, k); prompts are clusters."""

    margins: FloatArray
    terms: FloatArray
    prompt_ids: Sequence[str]

    def shifts(self, corrections: FloatArray) -> FloatArray:
        """Parts of the margins that corrections of shape (draws, k) take off. Shape (draws, n)."""
        return np.asarray(corrections @ self.terms.T)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Contrasts (perturbed − base) with people's majorities and the bias of each, and quality pairs (chosen − rejected)."""

    contrasts: Scored
    people: Majority
    biases: tuple[str, ...]
    quality: Scored
    ties: ModelTies

    @property
    def prompts(self) -> PromptNumbers:
        return prompts_of(self.contrasts.prompt_ids, self.people.used, self.quality.prompt_ids)

    @property
    def names(self) -> list[str]:
        """Names of the biases, in alphabetical order."""
        return sorted(set(self.biases))

    def rows_of(self, bias: str) -> Rows:
        """True for the contrasts of a bias that have a majority. Shape (n,)."""
        named: Rows = np.array([name == bias for name in self.biases], dtype=bool)
        return self.people.used & named


class Held(NamedTuple):
    """Corrected margins of rows outside the half that the correction was fitted on, shape (draws, n), and of quality pairs (draws, m)."""

    margins: FloatArray
    quality: FloatArray


class Fit(NamedTuple):
    """Corrections in margin per unit of each term, shape (draws, k), 0 for a term that is 0 throughout; and how far people
    follow the margin itself: a, in log odds per root mean square of the margins, shape (draws,)."""

    corrections: FloatArray
    following: FloatArray


def fitted(rows: Scored, target: FloatArray, weights: FloatArray) -> Fit:
    """Corrections of the rows' margins.

    P(people prefer the first side) = σ(a · margin − Σ bⱼ · termⱼ), with normal priors on a and b; correctionⱼ = bⱼ / a. There is
    no intercept: swapping the sides of a pair turns every sign. `target`: 1, 0 or 0.5, shape (n,); `weights` (draws, n).
    """
    size = _sizes(rows.margins[:, None])
    scales = _sizes(rows.terms)
    beta = newton(np.column_stack([rows.margins / size, -rows.terms / scales]), target, weights)
    return Fit(beta[:, 1:] / np.maximum(beta[:, :1], LEAST_FOLLOWING) * size / scales, beta[:, 0])


def newton(design: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    """Coefficients of weighted logistic regressions with normal priors, shape (draws, k), of one design of shape (n, k)."""
    n, k = design.shape
    products = (design[:, :, None] * design[:, None, :]).reshape(n, k * k)
    beta, prior = np.zeros((len(weights), k)), np.eye(k) / PRIOR_SD**2
    for _ in range(_STEPS):
        chance = expit(beta @ design.T)
        slope = (weights * (target - chance)) @ design - beta / PRIOR_SD**2
        curvature = ((weights * chance * (1 - chance)) @ products).reshape(-1, k, k) + prior
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        # A full step may overshoot if votes are nearly separated.
        beta += step * np.minimum(1, _MOST / np.maximum(np.abs(step).max(axis=1, keepdims=True), _MOST))
        if np.abs(step).max() < _ENOUGH:
            break
    return beta


def folds_of(strata: Codes, weights: FloatArray, rng: np.random.Generator) -> Codes:
    """Random folds that divide the prompts with a weight in every stratum evenly. Shape (draws, prompts)."""
    folds = np.zeros(weights.shape, dtype=np.int64)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        keys = rng.random((len(weights), len(members))) + (weights[:, members] == 0)
        folds[:, members] = keys.argsort(axis=1).argsort(axis=1) % FOLDS
    return folds


def corrected_apart(
    problem: Problem, prompts: PromptNumbers, weights: FloatArray, first: Rows, strength: float
) -> Held:
    """Fit on each half of the prompts, and correct the other at a strength. `weights`: of the prompts, shape (draws, prompts);
    `first`: True for those of the first half."""
    margins = np.repeat(problem.contrasts.margins[None], len(weights), axis=0)
    quality = np.repeat(problem.quality.margins[None], len(weights), axis=0)
    for half in (first, ~first) if strength else ():
        corrections = strength * fit_of(problem, prompts, weights * half).corrections
        margins -= problem.contrasts.shifts(corrections) * ~half[:, prompts.of_contrast]
        quality -= problem.quality.shifts(corrections) * ~half[:, prompts.of_quality]
    return Held(margins, quality)


class StrengthChoice(NamedTuple):
    """A strength, and how much less each one above 0 misses people's majorities by than 0 does."""

    strength: float
    gains: dict[float, Mean]


def choose_strength(problem: Problem, repeats: int, rng: np.random.Generator, max_loss: float) -> StrengthChoice:
    """The strength that forecasts held-out majorities best; 0 unless its gain over 0 is shown.

    A bias's forecast is the scorer's own share for the side with the bias, over all of its voted contrasts at corrections fitted without
    the majority's fold; its loss is the squared error of that forecast (Brier 1950), which is least at people's share. It adds up over
    rows, so that a correction which follows the chance of its own folds loses on the others: pooled over folds, |skew − people| falls
    for every scorer, since each fold's correction knows the chance of the rest. Biases weigh the same. A strength has to gain at the 5%
    level, one-sided, by a t test clustered by prompt (one standard error would let every tenth scorer through that needs nothing), and to
    keep accuracy on quality pairs within `max_loss`. Of those, the largest gain; ties go to the smaller strength.
    """
    prompts = problem.prompts
    ones = np.ones((repeats, len(prompts.strata)))
    folds = folds_of(prompts.strata, ones, rng)
    losses = np.zeros((len(STRENGTHS), len(problem.biases)))
    right = np.zeros(len(STRENGTHS))
    of_bias = [problem.rows_of(bias) for bias in problem.names]
    for fold in range(FOLDS):
        corrections = fit_of(problem, prompts, ones * (folds != fold)).corrections
        held, checked = (folds[:, codes] == fold for codes in (prompts.of_contrast, prompts.of_quality))
        shift, quality_shift = problem.contrasts.shifts(corrections), problem.quality.shifts(corrections)
        for at, strength in enumerate(STRENGTHS):
            hits = hits_of(problem.contrasts.margins - strength * shift, problem.ties)
            for rows in of_bias:
                missed = hits[:, rows].mean(axis=1, keepdims=True) - problem.people.target[rows]
                losses[at, rows] += (missed**2 * held[:, rows]).sum(axis=0) / (repeats * rows.sum() * len(of_bias))
            ranked = hits_of(problem.quality.margins - strength * quality_shift, problem.ties)
            right[at] += (ranked * checked).sum() / (repeats * max(1, checked.shape[1]))
    used = problem.people.used
    ids = list(compress(problem.contrasts.prompt_ids, used))
    gains = {
        strength: mean_of((losses[0] - losses[at])[used] * len(ids), ids, "squared error")
        for at, strength in enumerate(STRENGTHS)
        if at
    }
    size = {
        strength: round(gain.estimate.value, DECIMALS)
        for (strength, gain), accuracy in zip(gains.items(), right[1:], strict=True)
        if gain.p_value(side="greater") <= ALPHA and round(right[0] - accuracy, DECIMALS) <= max_loss
    }
    return StrengthChoice(max(size, key=lambda strength: size[strength], default=0.0), gains)


def fit_of(problem: Problem, prompts: PromptNumbers, weights: FloatArray) -> Fit:
    """The fit on the rows with a majority, under each weighting of the prompts, shape (draws, prompts)."""
    return fitted(problem.contrasts, problem.people.target, weights[:, prompts.of_contrast] * problem.people.used)


def _sizes(columns: FloatArray) -> FloatArray:
    """Root mean square of each column, 1 for one of zeros. Shape (k,)."""
    largest = np.abs(columns).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    sizes = largest * np.sqrt(((columns / largest) ** 2).mean(axis=0))  # squares of tiny numbers would be 0
    return np.where(sizes > 0, sizes, 1.0)
