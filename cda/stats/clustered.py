"""Effects with prompt-clustered errors: of contrasts, of two groups, of a slope, and of pairs without rewrites of rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import BoolArray, FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate, Missing, or_missing
from cda.results.effects import Effect, SameMargin
from cda.stats.draws import N_DRAWS, ROUNDING, Statistic, bootstrap_sums, clustered_error, mean_of_sums
from cda.stats.proportions import Z_95

_FEWEST_FOR_BCA = 5
_NORMAL, _T = "prompt-clustered normal 95%", "prompt-clustered t 95%"


@dataclass(frozen=True, slots=True)
class Resampling:
    """Draws of BCa intervals; without them there are none."""

    rng: np.random.Generator
    n_draws: int = N_DRAWS


@dataclass(frozen=True, slots=True)
class Target:
    """An estimand with its estimator and unit; `scale` divides a standardised effect, or says why there is none."""

    estimand: str
    estimator: str
    unit: str
    scale: float | Missing

    def cannot(self, reason: str) -> DataError:
        """The error that says that this cannot be estimated, and why."""
        return DataError(f"{self.estimand} ({self.estimator}) cannot be estimated: {reason}")


def same_in_all(
    margins: ArrayLike, prompt_ids: Sequence[str], reason: str = "the margin is the same in every pair"
) -> SameMargin | None:
    """The margin that all pairs share, with an exact test of its sign, as there is no spread to take an error from.
    None if margins differ, or come from one prompt, which shows nothing of others. `reason`: why there is no estimate.
    """
    values, n_prompts = np.asarray(margins, dtype=np.float64), len(set(prompt_ids))
    # A difference of rewards leaves a trace of rounding.
    if n_prompts < 2 or not np.isfinite(values).all() or np.ptp(values) > ROUNDING * np.abs(values).max():
        return None
    value = float(np.median(values))
    p_value = float(stats.binomtest(n_prompts, n_prompts).pvalue) if value else None
    return SameMargin(reason=reason, value=value, n=len(values), n_prompts=n_prompts, p_value=p_value)


def mean_effect(values: FloatArray, prompt_ids: Sequence[str], target: Target, resampling: Resampling | None) -> Effect:
    """Mean of paired contrasts, with − without the attribute, shape (n,), with the error of the differences. DataError:
    fewer than two prompts, or contrasts that do not vary between prompts.
    """
    n_prompts = len(set(prompt_ids))
    if n_prompts < 2:
        raise target.cannot(
            f"its {len(prompt_ids)} triples come from {n_prompts} prompt: the spread between prompts needs two at least"
        )
    mean = float(values.mean())
    columns = np.column_stack([values, np.ones(len(values))])
    influence = (values - mean) / len(values)
    return _effect(mean, influence, columns, prompt_ids, mean_of_sums, _size(values), target, resampling)


def difference_effect(
    values: FloatArray, treated: BoolArray, prompt_ids: Sequence[str], target: Target, resampling: Resampling | None
) -> Effect:
    """Mean reward of the treated rows minus that of the others; rows of one prompt stay together on whichever side they
    are. DataError: a side is empty or has one prompt only, or rewards do not vary.
    """
    for side, word in ((treated, "with"), (~treated, "without")):
        n_prompts = len(set(compress(prompt_ids, side)))
        if n_prompts < 2:
            raise target.cannot(f"prompts with an original {word} the attribute: {n_prompts}, two at least are needed")
    first, second = treated.astype(np.float64), (~treated).astype(np.float64)
    mean_first, mean_second = float(values[treated].mean()), float(values[~treated].mean())
    influence = first * (values - mean_first) / first.sum() - second * (values - mean_second) / second.sum()
    columns = np.column_stack([first * values, first, second * values, second])
    difference = mean_first - mean_second
    return _effect(difference, influence, columns, prompt_ids, _difference, _size(values), target, resampling)


def slope_effect(
    values: FloatArray, covariate: FloatArray, prompt_ids: Sequence[str], target: Target, resampling: Resampling | None
) -> Effect:
    """Least-squares slope of paired contrasts on a covariate, shapes (n,), per unit of the covariate. DataError: fewer
    than three prompts, a covariate that does not vary, or contrasts that lie on the line.
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


def pooled_within_group_sd(values: FloatArray, treated: BoolArray) -> float | Missing:
    """√((SS₁ + SS₀) / (n − 2)): the spread of the originals' rewards around the mean of their own group."""
    groups = values[treated], values[~treated]
    if not all(len(group) for group in groups):
        return Missing(reason="W is constant, so that there are no two groups to pool a within-group SD from")
    if len(values) < 3:
        return Missing(reason=f"{len(values)} originals are too few for a within-group SD")
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    sd = float(np.sqrt(squares / (len(values) - 2)))
    if sd <= ROUNDING * _size(values):
        return Missing(reason="the originals' rewards do not vary within the groups: their SD is 0")
    return sd


def direct_contrast(
    margins: ArrayLike, prompt_ids: Sequence[str], resampling: Resampling | None = None, unit: str = "reward"
) -> Effect:
    """Mean margin, biased minus unbiased side of each pair, shape (n,); all else that differs is part of it. DataError:
    a margin that is NaN or infinite, no or one prompt, or nothing varies.
    """
    values = finite(margins, "margins")
    if not len(values):
        raise DataError("no pairs: nothing can be estimated")
    scale = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")
    return mean_effect(values, prompt_ids, Target("mean margin", "direct contrast", unit, scale), resampling)


def observational_effect(rewards: ArrayLike, attribute: ArrayLike, prompt_ids: Sequence[str]) -> Effect:
    """Mean reward with the attribute minus mean reward without it, within each prompt, averaged over prompts; shape
    (n,) each.

    Comparing within prompts removes the effect of prompts; everything correlated with the attribute, 0 or 1, stays in:
    a description of data, not an effect. Prompts whose answers all have it, or all lack it, are left out. DataError:
    rewards that are not finite, fewer than two prompts with answers of both kinds, or differences that do not vary.
    """
    values, labels = np.asarray(rewards, dtype=np.float64), np.asarray(attribute, dtype=np.float64)
    if not np.isin(labels, (0, 1)).all():
        raise DataError("the attribute of an answer is 0 or 1; leave out answers whose label could not be read")
    treated = labels == 1
    finite(values, "rewards")
    names, codes = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True)
    sides = treated.astype(np.float64), (~treated).astype(np.float64)
    counts, sums = ([np.bincount(codes, side * each, len(names)) for side in sides] for each in (1.0, values))
    both = (counts[0] > 0) & (counts[1] > 0)
    target = Target("within prompts", "observational", "reward", pooled_within_group_sd(values, treated))
    if int(both.sum()) < 2:
        raise target.cannot(
            f"{int(both.sum())} prompts have answers both with and without the attribute, two at least are needed"
        )
    having, lacking = (total[both] / n[both] for total, n in zip(sums, counts, strict=True))
    return mean_effect(having - lacking, names[both].tolist(), target, None)


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
    """The statistic of the columns' sums is the value; below rounding of `size` its error is taken for none."""
    n, n_prompts, error = len(influence), len(set(prompt_ids)), clustered_error(influence, prompt_ids)
    if error <= ROUNDING * max(size, float(np.abs(influence).sum()), abs(value)):
        raise target.cannot(f"nothing varies between its {n_prompts} prompts, so that its error is unknown")
    bca: Estimate | Missing = Missing(reason="not asked for")
    if resampling and n_prompts < _FEWEST_FOR_BCA:
        bca = Missing(reason=f"{n_prompts} prompts are too few to resample (at least {_FEWEST_FOR_BCA})")
    elif resampling:
        draw = partial(bootstrap_sums, n_draws=resampling.n_draws, method="bca")
        bca = or_missing(partial(draw, columns, prompt_ids, statistic, resampling.rng, target.unit))
    estimate = Estimate.symmetric(value, Z_95 * error, n=n, n_prompts=n_prompts, unit=target.unit, method=_NORMAL)
    unit, scale = "pooled within-group SD of the originals' rewards", target.scale
    return Effect(
        estimand=target.estimand,
        estimator=target.estimator,
        estimate=estimate,
        bca=bca,
        standard_error=error,
        p_value=float(2 * stats.norm.sf(abs(value) / error)),
        standardised=scale if isinstance(scale, Missing) else estimate.over(scale, unit, _NORMAL + ", SD as known"),
    )


def by_students_t(effect: Effect) -> Effect:
    """The same with Student's t, of one degree of freedom less than prompts, in place of the normal distribution: ten prompts, of
    which a level may consist, give normal intervals that are a seventh too narrow. `bca` stays.
    """
    degrees, error = effect.estimate.n_prompts - 1, effect.standard_error
    ratio = float(stats.t.ppf(0.975, degrees)) / Z_95

    def wider(found: Estimate) -> Estimate:
        half, method = ratio * (found.high - found.value), found.method.replace(_NORMAL, _T)
        return found.model_copy(update={"low": found.value - half, "high": found.value + half, "method": method})

    scaled = effect.standardised
    return effect.model_copy(
        update={
            "estimate": wider(effect.estimate),
            "p_value": float(2 * stats.t.sf(abs(effect.estimate.value) / error, degrees)),
            "standardised": wider(scaled) if isinstance(scaled, Estimate) else scaled,
        }
    )


def _size(values: FloatArray) -> float:
    return float(np.abs(values).max())


def _difference(sums: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without one side is undefined: NaN
        return np.asarray(sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3], dtype=np.float64)


def _slope(sums: FloatArray) -> FloatArray:
    n, x, y, xx, xy = sums.T
    spread = n * xx - x * x
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * xy - x * y) / spread
    return np.asarray(np.where(spread > 1e-9 * n * xx, slope, np.nan), dtype=np.float64)
