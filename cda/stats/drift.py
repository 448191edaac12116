"""Drift, the other changes between the two sides of a pair, and identification of an effect in spite of it.

Features are given as `perturbed` and `base`: name to its values on the biased and on the unbiased sides, shape (n,) each,
NaN for a text for which the feature does not hold (syllables of a Chinese text): such a pair is never beyond a limit on it.
Infinite values raise DataError. `treatment`: features that are the bias itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import BoolArray, FloatArray, finite
from cda.errors import DataError, did_you_mean
from cda.features import TEXT_FEATURES, scope_in_words
from cda.languages import scopes_of
from cda.results.base import Estimate, Missing
from cda.results.effects import (
    Confound,
    FeatureDrift,
    Form,
    Identification,
    Limit,
    Overlap,
    SameMargin,
)
from cda.stats.digits import two_digits, with_ends
from cda.stats.estimators import ROUNDING, Mean, Regression, mean_of, share_of
from cda.stats.multiplicity import holm
from cda.stats.rate import same_in_all
from cda.stats.verdict import MIN_PROMPTS, MIN_SHARE

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


class _Fit(Regression):
    """Margins on an intercept and the differences in features, whose names are `names`; `reach`: the largest size of each column."""

    def __init__(
        self, values: FloatArray, sides: Mapping[str, tuple[FloatArray, FloatArray]], ids: Sequence[str], form: Form
    ) -> None:
        used = [name for name, (first, second) in sides.items() if (first != second).any()]
        design = np.column_stack([np.ones(len(values)), *(_term(*sides[name], form) for name in used)])
        super().__init__(values, design, ids)
        self.names = used
        self.reach = np.abs(design).max(axis=0)
        self.freedom = self.n_prompts - self.rank

    def coefficient(self, at: int, unit: str) -> Mean:
        return self.of(_unit(at, len(self.coefficients)), unit)

    def at_work(self, size: float) -> list[int]:
        """Places of the columns, the intercept apart, that have a part in fitted margins of up to `size`."""
        parts = np.abs(self.coefficients) * self.reach > _EXACT * size
        return [at for at in range(1, len(parts)) if parts[at]]


def _unit(at: int, k: int) -> FloatArray:
    return np.asarray(np.arange(k) == at, dtype=np.float64)


def adjusted_effect(
    margins: ArrayLike,
    perturbed: Features,
    base: Features,
    prompt_ids: Sequence[str],
    form: Form = "linear",
    unit: str = "reward",
) -> Estimate | Missing:
    """Least-squares regression of the paired margin on the differences between sides; its intercept is the effect.

    Forms, each 0 if the sides are equal: `linear`: the difference d = perturbed − base. `log_ratio`: log(perturbed /
    base), with 1 added to both if a value is 0; sign(d) · log(1 + |d|) if one is negative. Missing: fewer prompts than
    coefficients, a difference that is the same in all pairs (or a mix of differences that is), which no regression tells from the effect, or margins that it
    explains in full, so that its error is unknown.
    """
    values = finite(margins, "margins")
    fit = _Fit(values, _comparable(perturbed, base, len(values)), prompt_ids, form)
    words = form.replace("_", " ")
    if not fit.identified[0]:
        mixed = [name for name, known in zip(fit.names, fit.identified[1:], strict=True) if not known]
        reason = f"a difference in {_listed(mixed)} is the same in all pairs, so the effect cannot be told from it"
        return Missing(reason=f"{words}: {reason}")
    if fit.freedom <= 0:
        reason = f"{fit.n_prompts} prompts for {fit.rank} coefficients; more prompts than coefficients are needed"
        return Missing(reason=f"{words}: {reason}")
    found = fit.coefficient(0, unit)
    if not found.error:
        return Missing(reason=f"{words}: {_without_error(values, fit)}")
    return found.estimate


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
    fit = _Fit(values, sides, prompt_ids, "linear")
    size = float(np.abs(values).max())
    if fit.freedom <= 0 or float(np.ptp(values)) <= _EXACT * size:
        return ()
    places = [at for at in range(1, len(fit.coefficients)) if fit.identified[at]]
    tests: dict[int, float | None] = dict.fromkeys(set(places) & set(fit.at_work(size)))
    if float(np.abs(fit.residuals).max()) > _EXACT * size:
        p_holm = zip(
            places, holm([fit.coefficient(at, unit).p_value() for at in places]) if places else (), strict=True
        )
        tests = {at: p for at, p in p_holm if p < _SHOWN}
    found = [
        _confound(fit, at, sides[fit.names[at - 1]], values, p_holm, prompt_ids, unit) for at, p_holm in tests.items()
    ]
    return tuple(sorted(found, key=lambda confound: (-confound.r_squared, confound.feature)))


def _confound(
    fit: _Fit,
    at: int,
    sides: tuple[FloatArray, FloatArray],
    values: FloatArray,
    p_holm: float | None,
    prompt_ids: Sequence[str],
    unit: str,
) -> Confound:
    name, slope, difference = fit.names[at - 1], float(fit.coefficients[at]), sides[0] - sides[1]
    mean, own = float(difference.mean()), _unit(at, len(fit.coefficients))
    # Delta method: the slope and the mean difference both vary with the prompts that were drawn.
    of_mean = Regression(difference, np.ones((len(values), 1)), prompt_ids).influence(np.ones(1))
    explained = fit.moved_by(slope * mean, mean * fit.influence(own) + slope * of_mean, own, unit)
    return Confound(
        feature=name,
        slope=slope if p_holm is None else fit.coefficient(at, f"{unit} per {name}").estimate,
        accounts_for=explained.estimate,
        r_squared=float(np.corrcoef(difference, values)[0, 1] ** 2) if np.ptp(difference) > 0 else 0.0,
        p_holm=p_holm,
    )


def _term(perturbed: FloatArray, base: FloatArray, form: Form) -> FloatArray:
    """Regressor of one feature, shape (n,), 0 if the sides are equal."""
    difference, smallest = perturbed - base, min(perturbed.min(), base.min())
    if form == "linear":
        return difference
    if smallest > 0:
        return np.asarray(np.log(perturbed / base))
    if smallest == 0:
        return np.asarray(np.log1p(perturbed) - np.log1p(base))
    return np.asarray(np.sign(difference) * np.log1p(np.abs(difference)))


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


# Limits for the features that bias files tell a rewriter to keep. Features without a limit follow from these (characters
# and sentences from words, long words and type-token ratio from readability); they are reported, and do not exclude.
DEFAULT_LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "words": Limit(ratio=1.15),  # "the word count, within 15%" in every bias file that keeps length
        "list_lines": Limit(difference=0),  # layout is kept or it is not
        "headers": Limit(difference=0),
        "bold": Limit(difference=0),
        "exclamations": Limit(difference=1),  # one may be punctuation, two are a tone
        "specifics": Limit(ratio=1.25, difference=2),  # a name said once more by its name is no new fact
        "hedges": Limit(difference=2),
        "flesch_reading_ease": Limit(difference=10),  # the width of one step of Flesch's scale (plain, fairly easy, …)
    }
)


def measured(texts: Sequence[str], features: Collection[str] = tuple(TEXT_FEATURES)) -> dict[str, FloatArray]:
    """Features of many texts, each of shape (n,), NaN where one does not hold; DataError for an unknown one."""
    for feature in features:
        if feature not in TEXT_FEATURES:
            known = ", ".join(TEXT_FEATURES)
            raise DataError(f"feature '{feature}' is unknown.{did_you_mean(feature, TEXT_FEATURES)} Known: {known}")
    scoped = [(text, scopes_of(text)) for text in texts]
    return {
        name: np.array([TEXT_FEATURES[name].within(*each) for each in scoped], dtype=np.float64) for name in features
    }


def feature_drift(
    perturbed: Features,
    base: Features,
    prompt_ids: Sequence[str],
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
) -> list[FeatureDrift]:
    """Drift of every measured feature, in the order given; the treatment's too, marked as such. `limits`: what is small."""
    return [
        _drift_of(name, *sides, prompt_ids, limits.get(name), name in treatment)
        for name, sides in paired_features(perturbed, base, len(prompt_ids)).items()
    ]


def _drift_of(
    name: str,
    perturbed: FloatArray,
    base: FloatArray,
    prompt_ids: Sequence[str],
    limit: Limit | None,
    is_treatment: bool,
) -> FeatureDrift:
    there = ~(np.isnan(perturbed) | np.isnan(base))
    first, second, ids = perturbed[there], base[there], list(compress(prompt_ids, there))
    n_unheld = len(there) - len(ids)
    if n_unheld and len(set(ids)) < 2:
        why = f"holds in {scope_in_words(name)} only: {n_unheld} of {len(there)} pairs have a text that is not"
        return FeatureDrift(
            feature=name, is_treatment=is_treatment, perturbed_mean=None, base_mean=None, difference=Missing(reason=why),
            standardised=None, median_ratio=None, beyond=None, limit=limit, n_unheld=n_unheld,
        )  # fmt: skip
    drawn = mean_of(first - second, ids, name).estimate
    spread = float(np.sqrt((first.var() + second.var()) / 2))
    # Rounding leaves a trace of a spread if both sides are constant.
    varies = spread > ROUNDING * float(max(np.abs(first).max(), np.abs(second).max()))
    both = (first > 0) & (second > 0)
    return FeatureDrift(
        feature=name,
        is_treatment=is_treatment,
        perturbed_mean=float(first.mean()),
        base_mean=float(second.mean()),
        difference=drawn,
        standardised=drawn.over(spread, "standard deviations") if varies else None,
        median_ratio=float(np.median(first[both] / second[both])) if both.any() else None,
        beyond=share_of(~limit.holds(first, second), ids) if limit else None,
        limit=limit,
        n_unheld=n_unheld,
    )


def overlap_of(
    perturbed: Features,
    base: Features,
    prompt_ids: Sequence[str],
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
) -> tuple[Overlap, BoolArray]:
    """The overlap, and which pairs are in it, shape (n,): those with every limited feature's drift within limits. A
    limited feature outside the treatment that was not measured raises DataError.
    """
    n = len(prompt_ids)
    sides = paired_features(perturbed, base, n)
    inside, beyond = np.ones(n, dtype=bool), {}
    for name, limit in limits.items():
        if name in treatment:
            continue
        if name not in sides:
            raise DataError(f"a limit is set on {name}, which was not measured on these pairs")
        holds = limit.holds(*sides[name])
        beyond[name] = int((~holds).sum())
        inside &= holds
    overlap = Overlap(
        share=share_of(inside, prompt_ids),
        n=int(inside.sum()),
        n_prompts=len(set(compress(prompt_ids, inside))),
        n_total=n,
        beyond=beyond,
    )
    return overlap, inside


def mean_margin(margins: ArrayLike, prompt_ids: Sequence[str], unit: str = "reward") -> Estimate:
    """Mean margin with its prompt-clustered interval; DataError for one prompt, or without spread between prompts."""
    values = finite(margins, "margins")
    found = mean_of(values, prompt_ids, unit)
    mean = found.estimate
    if not found.error:
        raise DataError(
            f"the mean margin does not vary between its {mean.n_prompts} prompts "
            f"({two_digits(mean.value)} in each): its error is unknown"
        )
    return mean


def overlap_effect(
    margins: ArrayLike, inside: ArrayLike, prompt_ids: Sequence[str], unit: str = "reward"
) -> Estimate | SameMargin | Missing:
    """The effect among the pairs within limits (`inside`, shape (n,), of the margins of all), or why they cannot say."""
    rows: BoolArray = np.asarray(inside, dtype=bool)
    values = finite(margins, "margins")
    kept = list(compress(prompt_ids, rows))
    if reason := too_small(len(kept), len(set(kept)), len(values)):
        return Missing(reason=reason)
    try:
        return mean_margin(values[rows], kept, unit)
    except DataError as error:
        return same_in_all(values[rows], kept, str(error)) or Missing(reason=str(error))


def identify(
    margins: ArrayLike,
    perturbed: Features,
    base: Features,
    prompt_ids: Sequence[str],
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
    unit: str = "reward",
) -> Identification:
    """The effect among pairs whose sides overlap, the adjusted effects, and whether together they identify one.

    Adjusted for are the limited features outside the treatment. Not identified if the overlap is too small
    (`MIN_PROMPTS`, `MIN_SHARE`), a form cannot be estimated, or the two forms differ in sign; not if each lies in the
    other's interval and neither excludes 0, since both say that no effect is shown. DataError: one prompt, margins that do not vary between prompts, a limited feature not measured.
    """
    overlap, inside = overlap_of(perturbed, base, prompt_ids, limits=limits, treatment=treatment)
    names = [name for name in limits if name not in treatment]
    first, second = ({name: side[name] for name in names} for side in (perturbed, base))
    adjusted = {form: adjusted_effect(margins, first, second, prompt_ids, form, unit) for form in get_args(Form)}
    small = too_small(overlap.n, overlap.n_prompts, overlap.n_total)
    against = [*([small] if small else []), *_disagreements(adjusted)]
    among = overlap_effect(margins, inside, prompt_ids, unit)
    reason = "; ".join(against) + "."
    if not against:
        fitted = _listed_fits(_fitted(adjusted))
        here = f"mean margin {with_ends(among)}, " if isinstance(among, Estimate) else ""
        reason = (
            f"{overlap.n} of {overlap.n_total} pairs have drift within limits: {here}"
            f"and adjustment of all pairs does not contradict itself ({fitted})."
        )
    mean_margin(margins, prompt_ids, unit)  # of all pairs: without spread there is no effect to identify
    return Identification(
        verdict="not identified from these pairs" if against else "identified",
        reason=reason,
        overlap=overlap,
        overlap_effect=among,
        adjusted=adjusted,
        confounds=confounds(margins, first, second, prompt_ids, unit),
    )


def too_small(n: int, n_prompts: int, n_total: int) -> str:
    """Reason why an overlap is too small to speak, in words; empty if it is enough."""
    pairs = f"{n} of {n_total} pairs have drift within limits"
    if n == 0:
        return f"no overlap: none of {n_total} pairs has drift within limits"
    if n_prompts < MIN_PROMPTS:
        return f"overlap too small: {pairs}, from {n_prompts} prompts; {MIN_PROMPTS} such prompts are needed"
    if n < MIN_SHARE * n_total:
        return f"overlap too small: {pairs} ({n / n_total:.0%}); {MIN_SHARE:.0%} are needed"
    return ""


def _disagreements(adjusted: Mapping[Form, Estimate | Missing]) -> list[str]:
    """Forms that cannot be estimated, or that differ in sign, in words."""
    by_reason: dict[str, list[str]] = {}
    for form, fit in adjusted.items():
        if isinstance(fit, Missing):
            words = form.replace("_", " ")
            by_reason.setdefault(fit.reason.removeprefix(f"{words}: "), []).append(words)
    reasons = [f"{', '.join(forms)}: {reason}" for reason, forms in by_reason.items()]
    fitted = _fitted(adjusted)
    if len(fitted) == 2:
        first, second = fitted.values()
        shown = not (_no_effect_shown(first, second) and _no_effect_shown(second, first))
        if first.value * second.value < 0 and shown:
            reasons.append(f"adjusted effects differ in sign: {_listed_fits(fitted)}")
    return reasons


def _fitted(adjusted: Mapping[Form, Estimate | Missing]) -> dict[Form, Estimate]:
    return {form: fit for form, fit in adjusted.items() if isinstance(fit, Estimate)}


def _listed_fits(fitted: Mapping[Form, Estimate]) -> str:
    return ", ".join(f"{form.replace('_', ' ')} {with_ends(effect)}" for form, effect in fitted.items())


def _no_effect_shown(effect: Estimate, by: Estimate) -> bool:
    return by.low <= min(0.0, effect.value) and by.high >= max(0.0, effect.value)
