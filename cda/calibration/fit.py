"""Corrections of margins, fitted by logistic regression on people's majorities; how much of them to apply, by
cross-validation.

A corrected margin is margin − strength · Σ termⱼ · correctionⱼ. Draws are fitted together: every array with the axis
`draws` holds one weighting of the prompts, or one split of them, in each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from cda.arrays import FloatArray
from cda.dosing.choice import DECIMALS, Codes, Prompts, Rows, prompts_of
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
    def prompts(self) -> Prompts:
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
    """Corrected margins of rows outside the half that the correction was fitted on, shape (draws, n), of quality pairs (draws,
    m), and the strength that either half chose (draws, 2)."""

    margins: FloatArray
    quality: FloatArray
    chosen: FloatArray


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
    problem: Problem, prompts: Prompts, weights: FloatArray, first: Rows, rng: np.random.Generator, max_loss: float
) -> Held:
    """Fit and choose on each half of the prompts, and correct the other. `weights`: of the prompts, shape (draws, prompts);
    `first`: True for those of the first half."""
    margins = np.repeat(problem.contrasts.margins[None], len(weights), axis=0)
    quality = np.repeat(problem.quality.margins[None], len(weights), axis=0)
    chosen = np.empty((len(weights), 2))
    for at, half in enumerate((first, ~first)):
        own = weights * half
        places = chosen_strengths(problem, prompts, own, folds_of(prompts.strata, own, rng), max_loss)
        chosen[:, at] = np.array(STRENGTHS)[places]
        corrections = chosen[:, [at]] * fit_of(problem, prompts, own).corrections
        margins -= problem.contrasts.shifts(corrections) * ~half[:, prompts.of_contrast]
        quality -= problem.quality.shifts(corrections) * ~half[:, prompts.of_quality]
    return Held(margins, quality, chosen)


def chosen_strengths(
    problem: Problem, prompts: Prompts, weights: FloatArray, folds: Codes, max_loss: float, together: bool = False
) -> NDArray[np.intp]:
    """Place in `STRENGTHS` that cross-validation over the folds chooses, shape (draws,); with `together`, one for the mean
    over all draws, which must have the same weights. Shape (1,).

    The strength of least miscalibration + gap, in the mean over biases, among those that gain more than one standard error
    against 0 and keep accuracy on quality pairs within `max_loss`; else 0. Ties go to the smaller one.
    """
    shift, quality_shift = _shifts_by_fold(problem, prompts, weights, folds)
    hits, right = (
        [hits_of(rows.margins - strength * moved, problem.ties) for strength in STRENGTHS]
        for rows, moved in ((problem.contrasts, shift), (problem.quality, quality_shift))
    )
    if together:
        hits, right = ([values.mean(axis=0, keepdims=True) for values in sides] for sides in (hits, right))
        weights = weights[:1]
    gains = [_gain(problem, prompts, weights, hits[0], other) for other in hits[1:]]
    kept = weights[:, prompts.of_quality]
    with np.errstate(invalid="ignore"):
        accuracy = [(kept * values).sum(axis=1) / kept.sum(axis=1) for values in right]
    gained = [np.zeros(len(weights))]
    for (mean, error), after in zip(gains, accuracy[1:], strict=True):
        allowed = (mean > error) & ~(np.round(accuracy[0] - after, DECIMALS) > max_loss)  # 0/0 bars nothing
        gained.append(np.where(allowed, np.round(mean, DECIMALS), -np.inf))
    return np.asarray(np.stack(gained).argmax(axis=0), dtype=np.intp)


def _shifts_by_fold(
    problem: Problem, prompts: Prompts, weights: FloatArray, folds: Codes
) -> tuple[FloatArray, FloatArray]:
    """Full corrections of contrasts and quality pairs, each fitted without the row's fold. Shapes (draws, n) and (draws, m)."""
    shift, quality_shift = (
        np.zeros((len(weights), len(rows.margins))) for rows in (problem.contrasts, problem.quality)
    )
    for fold in range(FOLDS):
        corrections = fit_of(problem, prompts, weights * (folds != fold)).corrections
        shift += problem.contrasts.shifts(corrections) * (folds[:, prompts.of_contrast] == fold)
        quality_shift += problem.quality.shifts(corrections) * (folds[:, prompts.of_quality] == fold)
    return shift, quality_shift


def _gain(
    problem: Problem, prompts: Prompts, weights: FloatArray, before: FloatArray, after: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fall of miscalibration + gap between two sets of hits (draws, n), in the mean over biases, and its standard error over
    prompts. Shape (draws,) each."""
    target, n_prompts = problem.people.target, weights.shape[1]
    total, influence, n_biases = np.zeros(len(weights)), np.zeros((len(weights), n_prompts)), np.zeros(len(weights))
    for bias in problem.names:
        rows = np.flatnonzero(problem.rows_of(bias))
        codes = prompts.of_contrast[rows]
        weight = weights[:, codes]
        n = np.maximum(weight.sum(axis=1, keepdims=True), 1)
        fall = _losses(before[:, rows], target[rows], weight) - _losses(after[:, rows], target[rows], weight)
        mean = (weight * fall).sum(axis=1, keepdims=True) / n
        total += mean[:, 0]
        n_biases += weight.any(axis=1)
        order = codes.argsort(kind="stable")
        found, starts = np.unique(codes[order], return_index=True)
        influence[:, found] += np.add.reduceat(((fall - mean) / n)[:, order], starts, axis=1)
    n_biases = np.maximum(n_biases, 1)
    return total / n_biases, np.sqrt((weights * influence**2).sum(axis=1)) / n_biases


def _losses(hits: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    """Rows whose weighted mean is miscalibration + |skew − people's skew|. Shape (draws, n)."""
    excess = hits - target
    side = np.sign((weights * excess).sum(axis=1, keepdims=True))
    return np.asarray(np.abs(excess) + side * excess)


def fit_of(problem: Problem, prompts: Prompts, weights: FloatArray) -> Fit:
    """The fit on the rows with a majority, under each weighting of the prompts, shape (draws, prompts)."""
    return fitted(problem.contrasts, problem.people.target, weights[:, prompts.of_contrast] * problem.people.used)


def _sizes(columns: FloatArray) -> FloatArray:
    """Root mean square of each column, 1 for one of zeros. Shape (k,)."""
    largest = np.abs(columns).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    sizes = largest * np.sqrt(((columns / largest) ** 2).mean(axis=0))  # squares of tiny numbers would be 0
    return np.where(sizes > 0, sizes, 1.0)
