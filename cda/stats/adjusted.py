"""Regression of margins on what else differs between the two sides of a pair: the effect at no difference, and the features
that the margins rise or fall with. Features are given as in `cda.stats.drift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.effects import Adjusted, Confound, ExactSlope, Form
from cda.stats.digits import two_digits
from cda.stats.draws import ROUNDING
from cda.stats.multiplicity import holm

Features = Mapping[str, ArrayLike]
_SHOWN = 0.05
"""A confound's Holm-adjusted p is below it."""
_EXACT = 1e-9
"""Of the largest margin: what rounding leaves."""


def paired_features(perturbed: Features, base: Features, n: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Both sides of each feature of n pairs as arrays, NaN where it does not hold; DataError for no pairs, and infinite values."""
    if n == 0:
        raise DataError("no pairs: drift of nothing cannot be measured")
    return {name: (_noninfinite(values, name), _noninfinite(base[name], name)) for name, values in perturbed.items()}


def _noninfinite(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    finite(array[~np.isnan(array)], name)
    return array


def _comparable(perturbed: Features, base: Features, n: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Both sides, with one value in the pairs in which a feature does not hold: they do not differ in it."""
    sides = {}
    for name, (first, second) in paired_features(perturbed, base, n).items():
        unheld = np.isnan(first) | np.isnan(second)
        sides[name] = np.where(unheld, 1.0, first), np.where(unheld, 1.0, second)
    return sides


@dataclass(frozen=True, slots=True)
class _Fit:
    """Least squares of n margins on an intercept and k − 1 columns, each in its own unit; `names` are those of the columns'
    features. `identified`: which of the k coefficients no mix of the others replaces; `reach`: the largest size of each column;
    `clusters`: the prompt of each row."""

    names: list[str]
    coefficients: FloatArray
    identified: NDArray[np.bool_]
    reach: FloatArray
    inverse: FloatArray
    residuals: FloatArray
    clusters: NDArray[np.intp]
    rank: int

    @property
    def n_prompts(self) -> int:
        return int(self.clusters.max()) + 1

    @property
    def freedom(self) -> int:
        return self.n_prompts - self.rank

    def influence(self, at: int) -> FloatArray:
        """Influence of each prompt on a coefficient."""
        summed: FloatArray = np.bincount(self.clusters, weights=self.inverse[at] * self.residuals).astype(np.float64)
        return summed

    def error(self, influence: FloatArray) -> float:
        """Cluster-robust standard error (Liang and Zeger, 1986) times G/(G − k)."""
        return float(np.sqrt(self.n_prompts / self.freedom * (influence**2).sum()))

    def half(self, error: float) -> float:
        """Half of the 95% interval of this standard error."""
        return float(stats.t.ppf(0.975, self.freedom)) * error

    def p_value(self, at: int) -> float:
        """Two-sided p of a coefficient of 0."""
        error = self.error(self.influence(at))
        return float(2 * stats.t.sf(abs(self.coefficients[at]) / error, self.freedom)) if error > 0 else 1.0

    def at_work(self, size: float) -> list[int]:
        """Places of the columns, the intercept apart, that have a part in fitted margins of up to `size`."""
        parts = np.abs(self.coefficients) * self.reach > _EXACT * size
        return [at for at in range(1, len(parts)) if parts[at]]


def _fit(
    values: FloatArray, sides: Mapping[str, tuple[FloatArray, FloatArray]], ids: Sequence[str], form: Form
) -> _Fit:
    used = [name for name, (first, second) in sides.items() if (first != second).any()]
    columns = [(name, column) for name in used for column in _terms(*sides[name], form)]
    design = np.column_stack([np.ones(len(values)), *(column for _, column in columns)])
    # Columns of one scale, so that the rank does not depend on units.
    scale = np.sqrt((design**2).mean(axis=0))
    left, singular, right = np.linalg.svd(design / scale, full_matrices=False)
    rank = int((singular > singular[0] * 1e-10 * max(design.shape)).sum())
    inverse = (right[:rank].T / singular[:rank]) @ left[:, :rank].T / scale[:, None]
    coefficients = inverse @ values
    return _Fit(
        names=[name for name, _ in columns],
        coefficients=coefficients,
        identified=(right[:rank] ** 2).sum(axis=0) > 1 - 1e-8,
        reach=np.abs(design).max(axis=0),
        inverse=inverse,
        residuals=values - design @ coefficients,
        clusters=np.unique(np.asarray(ids, dtype=str), return_inverse=True)[1],
        rank=rank,
    )


def adjusted_effect(
    margins: ArrayLike,
    perturbed: Features,
    base: Features,
    prompt_ids: Sequence[str],
    form: Form = "linear",
    unit: str = "reward",
) -> Adjusted | Missing:
    """Least-squares regression of the paired margin on the differences between sides; its intercept is the effect.

    Forms, each 0 if the sides are equal: `linear`: the difference d = perturbed − base. `log_ratio`: log(perturbed /
    base), with 1 added to both if a value is 0; `signed_log` if one is negative. `signed_log`: sign(d) · log(1 + |d|).
    `quadratic`: d and d². Standard errors are cluster-robust by prompt (Liang and Zeger, 1986) times G/(G − k) for G
    prompts and k coefficients: HC1 if each prompt occurs once, unchanged by rows repeated within their prompt.
    Intervals are t's with G − k degrees of freedom. Missing: fewer prompts than coefficients, a difference that is the
    same in all pairs (or a mix of differences that is), which no regression tells from the effect, or margins that it
    explains in full, so that its error is unknown.
    """
    values = finite(margins, "margins")
    fit = _fit(values, _comparable(perturbed, base, len(values)), prompt_ids, form)
    words = form.replace("_", " ")
    if not fit.identified[0]:
        mixed = [name for name, known in zip(fit.names, fit.identified[1:], strict=True) if not known]
        reason = f"a difference in {_listed(mixed)} is the same in all pairs, so the effect cannot be told from it"
        return Missing(reason=f"{words}: {reason}")
    if fit.freedom <= 0:
        reason = f"{fit.n_prompts} prompts for {fit.rank} coefficients; more prompts than coefficients are needed"
        return Missing(reason=f"{words}: {reason}")
    value, error = float(fit.coefficients[0]), fit.error(fit.influence(0))
    # Rounding leaves a trace of an error if there is none.
    if error <= ROUNDING * float(np.abs(values).max()):
        return Missing(reason=f"{words}: {_without_error(values, fit)}")
    method = f"{form} adjustment, CR 95%"
    total = float(((values - values.mean()) ** 2).sum())
    return Adjusted(
        form=form,
        effect=Estimate.symmetric(
            value, fit.half(error), n=len(values), n_prompts=fit.n_prompts, unit=unit, method=method
        ),
        standard_error=error,
        p_value=fit.p_value(0),
        features=tuple(dict.fromkeys(fit.names)),
        r_squared=1 - float((fit.residuals**2).sum()) / total,
    )


def confounds(
    margins: ArrayLike, perturbed: Features, base: Features, prompt_ids: Sequence[str], unit: str = "reward"
) -> tuple[Confound, ...]:
    """Features with whose difference the margin is shown to rise or fall, the others held equal: by the linear regression
    of `adjusted_effect`, at a Holm-adjusted p below 0.05 over all features in it; if the regression explains the margins in
    full, those in it. The one that alone explains most of the margins' variance comes first. Features that no regression
    tells from others are left out.
    """
    values = finite(margins, "margins")
    sides = _comparable(perturbed, base, len(values))
    fit = _fit(values, sides, prompt_ids, "linear")
    size = float(np.abs(values).max())
    if fit.freedom <= 0 or float(np.ptp(values)) <= _EXACT * size:
        return ()
    places = [at for at in range(1, len(fit.coefficients)) if fit.identified[at]]
    tests: dict[int, float | None] = dict.fromkeys(set(places) & set(fit.at_work(size)))
    if float(np.abs(fit.residuals).max()) > _EXACT * size:
        p_holm = zip(places, holm([fit.p_value(at) for at in places]) if places else (), strict=True)
        tests = {at: p for at, p in p_holm if p < _SHOWN}
    found = [_confound(fit, at, sides[fit.names[at - 1]], values, p_holm, unit) for at, p_holm in tests.items()]
    return tuple(sorted(found, key=lambda confound: (-confound.r_squared, confound.feature)))


def _confound(
    fit: _Fit, at: int, sides: tuple[FloatArray, FloatArray], values: FloatArray, p_holm: float | None, unit: str
) -> Confound:
    name, slope, difference = fit.names[at - 1], float(fit.coefficients[at]), sides[0] - sides[1]
    mean, method = float(difference.mean()), "linear adjustment, CR 95%"
    estimate = partial(Estimate.symmetric, n=len(values), n_prompts=fit.n_prompts, method=method)
    # Delta method: the slope and the mean difference both vary with the prompts that were drawn.
    of_mean = np.bincount(fit.clusters, weights=difference - mean) / len(values)
    error = fit.error(mean * fit.influence(at) + slope * of_mean)
    return Confound(
        feature=name,
        slope=ExactSlope(value=slope, reason="the margins are explained in full, so that its error is unknown")
        if p_holm is None
        else estimate(slope, fit.half(fit.error(fit.influence(at))), unit=f"{unit} per {name}"),
        accounts_for=estimate(slope * mean, fit.half(error), unit=unit),
        r_squared=float(np.corrcoef(difference, values)[0, 1] ** 2) if np.ptp(difference) > 0 else 0.0,
        p_holm=p_holm,
    )


def _terms(perturbed: FloatArray, base: FloatArray, form: Form) -> list[FloatArray]:
    """Regressors of one feature, each of shape (n,) and 0 if the sides are equal."""
    difference = perturbed - base
    if form == "linear":
        return [difference]
    if form == "quadratic":
        return [difference, difference**2]
    smallest = min(perturbed.min(), base.min())
    if form == "log_ratio" and smallest > 0:
        return [np.log(perturbed / base)]
    if form == "log_ratio" and smallest == 0:
        return [np.log1p(perturbed) - np.log1p(base)]
    return [np.sign(difference) * np.log1p(np.abs(difference))]


def _without_error(values: FloatArray, fit: _Fit) -> str:
    """Reason why an adjusted effect has no error: drift explains every margin, or the rest is the same in every prompt."""
    size, value = float(np.abs(values).max()), float(fit.coefficients[0])
    varies, left_over = float(np.ptp(values)) > 1e-12 * size, float(np.abs(fit.residuals).max()) > _EXACT * size
    if not varies or left_over:
        return f"nothing is left to vary between its {fit.n_prompts} prompts, so that the effect's error is unknown"
    why = f"the difference in {_listed([fit.names[at - 1] for at in fit.at_work(size)])} explains"
    if abs(value) <= _EXACT * size:
        return f"{why} the margins in full, and nothing is left for the bias to explain"
    return f"{why} in full how the margins vary; {two_digits(value)} is left, and its error is unknown"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in dict.fromkeys(names))
