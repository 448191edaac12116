"""Margins that are the same in every pair: they have no spread to take an error from, and their sign has an exact test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.effects import Effect, SameMargin
from cda.stats.bootstrap import N_DRAWS, Statistic, bootstrap_sums
from cda.stats.signed_contrasts import BoolArray


def same_in_all(
    margins: ArrayLike, prompt_ids: Sequence[str], reason: str = "the margin is the same in every pair"
) -> SameMargin | None:
    """The margin that all pairs share; None where they differ, or come from one prompt, which shows nothing of others.

    Args:
        margins: score(perturbed) − score(base), shape (n,).
        prompt_ids: Cluster of each pair. Length n.
        reason: Why there is no estimate.
    """
    values, n_prompts = np.asarray(margins, dtype=np.float64), len(set(prompt_ids))
    # A difference of rewards leaves a trace of rounding.
    if n_prompts < 2 or not np.isfinite(values).all() or np.ptp(values) > 1e-12 * np.abs(values).max():
        return None
    value = float(np.median(values))
    p_value = float(stats.binomtest(n_prompts, n_prompts).pvalue) if value else None
    return SameMargin(reason=reason, value=value, n=len(values), n_prompts=n_prompts, p_value=p_value)


_Z_95 = float(stats.norm.ppf(0.975))
_FEWEST_FOR_BCA = 5
_NORMAL = "prompt-clustered normal 95%"
_STANDARDISED_UNIT = "pooled within-group SD of the originals' rewards"
Scale = float | Missing
"""What an effect is divided by to be standardised, or why it cannot be."""


@dataclass(frozen=True, slots=True)
class Resampling:
    """How BCa intervals are drawn; without it there are none."""

    rng: np.random.Generator
    n_draws: int = N_DRAWS


@dataclass(frozen=True, slots=True)
class Target:
    """What is estimated, how, in which unit and on which scale."""

    estimand: str
    estimator: str
    unit: str
    scale: Scale

    def cannot(self, reason: str) -> DataError:
        """The error that says that this cannot be estimated, and why."""
        return DataError(f"{self.estimand} ({self.estimator}) cannot be estimated: {reason}")


def mean_effect(values: FloatArray, prompt_ids: Sequence[str], target: Target, resampling: Resampling | None) -> Effect:
    """Mean of paired contrasts. The error is that of the differences, not of two unpaired means.

    Args:
        values: Contrasts, shape (n,), with − without the attribute.
        prompt_ids: Cluster of each row. Length n.
        target: What this is.
        resampling: For the BCa interval.

    Raises:
        DataError: Fewer than two prompts, or contrasts that do not vary between prompts.
    """
    _two_prompts(prompt_ids, target)
    mean = float(values.mean())
    columns = np.column_stack([values, np.ones(len(values))])
    influence = (values - mean) / len(values)
    return _effect(mean, influence, columns, prompt_ids, _mean, _size(values), target, resampling)


def difference_effect(
    values: FloatArray,
    treated: BoolArray,
    prompt_ids: Sequence[str],
    target: Target,
    resampling: Resampling | None,
) -> Effect:
    """Mean of the treated rows minus mean of the others; rows of one prompt stay together whichever side they are on.

    Args:
        values: Rewards, shape (n,).
        treated: Rows with the attribute, shape (n,).
        prompt_ids: Cluster of each row. Length n.
        target: What this is.
        resampling: For the BCa interval.

    Raises:
        DataError: A side is empty or has one prompt only, or rewards do not vary.
    """
    for side, word in ((treated, "with"), (~treated, "without")):
        found = len({name for name, inside in zip(prompt_ids, side, strict=True) if inside})
        if found < 2:
            raise target.cannot(f"prompts with an original {word} the attribute: {found}, two at least are needed")
    one, other = treated.astype(np.float64), (~treated).astype(np.float64)
    mean_one, mean_other = float(values[treated].mean()), float(values[~treated].mean())
    influence = one * (values - mean_one) / one.sum() - other * (values - mean_other) / other.sum()
    columns = np.column_stack([one * values, one, other * values, other])
    difference = mean_one - mean_other
    return _effect(difference, influence, columns, prompt_ids, _difference, _size(values), target, resampling)


def slope_effect(
    values: FloatArray,
    covariate: FloatArray,
    prompt_ids: Sequence[str],
    target: Target,
    resampling: Resampling | None,
) -> Effect:
    """Least-squares slope of paired contrasts on a covariate, per unit of the covariate.

    Args:
        values: Contrasts, shape (n,).
        covariate: Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        target: What this is.
        resampling: For the BCa interval.

    Raises:
        DataError: Fewer than three prompts, a covariate that does not vary, or contrasts that lie on the line.
    """
    if len(set(prompt_ids)) < 3:
        raise target.cannot(f"a slope needs three prompts at least, found {len(set(prompt_ids))}")
    x, y = covariate - covariate.mean(), values - values.mean()
    if not np.ptp(covariate) > 0:
        raise target.cannot("the covariate is the same in every row")
    slope = float(x @ y / (x @ x))
    influence = x * (y - slope * x) / (x @ x)
    columns = np.column_stack([np.ones(len(x)), x, y, x * x, x * y])
    size = _size(values) * float(np.abs(x).sum() / (x @ x))
    return _effect(slope, influence, columns, prompt_ids, _slope, size, target, resampling)


def pooled_within_group_sd(values: FloatArray, treated: BoolArray) -> Scale:
    """√((SS₁ + SS₀) / (n − 2)): the spread of the originals' rewards around the mean of their own group."""
    groups = values[treated], values[~treated]
    if not all(len(group) for group in groups):
        return Missing(reason="W is constant, so that there are no two groups to pool a within-group SD from")
    if len(values) < 3:
        return Missing(reason=f"{len(values)} originals are too few for a within-group SD")
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    sd = float(np.sqrt(squares / (len(values) - 2)))
    if sd <= 1e-12 * float(np.abs(values).max()):
        return Missing(reason="the originals' rewards do not vary within the groups: their SD is 0")
    return sd


def _effect(
    value: float,
    influence: FloatArray,
    columns: FloatArray,
    prompt_ids: Sequence[str],
    statistic: Statistic,
    size: float,
    target: Target,
    resampling: Resampling | None,
) -> Effect:
    """Sandwich error: influences summed within prompts, squared, with the factor G/(G − 1) for G prompts."""
    codes = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True)[1]
    sums = np.bincount(codes, weights=influence)
    n, n_prompts = len(influence), len(sums)
    error = float(np.sqrt(n_prompts / (n_prompts - 1) * (sums**2).sum()))
    # Rounding leaves a trace of an error where there is none.
    if error <= 1e-12 * max(size, float(np.abs(influence).sum()), abs(value)):
        raise target.cannot(f"nothing varies between its {n_prompts} prompts, so that its error is unknown")
    half = _Z_95 * error
    estimate = Estimate(
        value=value, low=value - half, high=value + half, n=n, n_prompts=n_prompts, unit=target.unit, method=_NORMAL
    )
    return Effect(
        estimand=target.estimand,
        estimator=target.estimator,
        estimate=estimate,
        bca=_bca(columns, prompt_ids, statistic, n_prompts, target.unit, resampling),
        standard_error=error,
        p_value=float(2 * stats.norm.sf(abs(value) / error)),
        standardised=_standardised(estimate, target.scale),
    )


def _bca(
    columns: FloatArray,
    prompt_ids: Sequence[str],
    statistic: Statistic,
    n_prompts: int,
    unit: str,
    resampling: Resampling | None,
) -> Estimate | Missing:
    if resampling is None:
        return Missing(reason="not asked for")
    if n_prompts < _FEWEST_FOR_BCA:
        return Missing(reason=f"{n_prompts} prompts are too few to resample (at least {_FEWEST_FOR_BCA})")
    try:
        found = bootstrap_sums(columns, prompt_ids, statistic, resampling.rng, n_draws=resampling.n_draws, method="bca")
    except DataError as error:
        return Missing(reason=str(error))
    return found.estimate(unit)


def _standardised(estimate: Estimate, sd: Scale) -> Estimate | Missing:
    if isinstance(sd, Missing):
        return sd
    value, low, high = estimate.value / sd, estimate.low / sd, estimate.high / sd
    return Estimate(
        value=value,
        low=low,
        high=high,
        n=estimate.n,
        n_prompts=estimate.n_prompts,
        unit=_STANDARDISED_UNIT,
        method=_NORMAL + ", SD as known",
    )


def _size(values: FloatArray) -> float:
    return float(np.abs(values).max())


def _two_prompts(prompt_ids: Sequence[str], target: Target) -> None:
    found = len(set(prompt_ids))
    if found < 2:
        raise target.cannot(
            f"its {len(prompt_ids)} triples come from {found} prompt: the spread between prompts needs two at least"
        )


def _mean(sums: FloatArray) -> FloatArray:
    return np.asarray(sums[:, 0] / sums[:, 1], dtype=np.float64)


def _difference(sums: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without one side is undefined: NaN
        return np.asarray(sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3], dtype=np.float64)


def _slope(sums: FloatArray) -> FloatArray:
    n, x, y, xx, xy = sums.T
    spread = n * xx - x * x
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * xy - x * y) / spread
    return np.asarray(np.where(spread > 1e-9 * n * xx, slope, np.nan), dtype=np.float64)
