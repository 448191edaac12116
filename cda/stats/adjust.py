"""Margins adjusted for drift in several functional forms, and the verdict on whether the effect is identified."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.effects import Adjusted, Form, Identified, NotIdentified, Overlap, PairsEffect, SameMargin
from cda.stats.drift import DEFAULT_LIMITS, Limit, paired_features
from cda.stats.overlap import DEFAULT_RULE, OverlapRule, checked_margins, effect, overlap_effect, overlap_of, too_small

DEFAULT_FORMS: tuple[Form, ...] = ("linear", "log_ratio")


def adjusted_effect(
    margins: ArrayLike,
    perturbed: Mapping[str, ArrayLike],
    base: Mapping[str, ArrayLike],
    prompt_ids: Sequence[str],
    form: Form = "linear",
    unit: str = "reward",
) -> Adjusted | Missing:
    """Least-squares regression of the paired margin on the differences between sides; its intercept is the effect.

    Forms, each 0 where the sides are equal: `linear`: the difference d = perturbed − base. `log_ratio`: log(perturbed /
    base), with 1 added to both where a value is 0; `signed_log` where one is negative. `signed_log`: sign(d) · log(1 + |d|).
    `quadratic`: d and d².

    Standard errors are cluster-robust by prompt (Liang and Zeger, 1986) times G/(G − k) for G prompts and k coefficients:
    HC1 where each prompt occurs once, and unchanged by rows that are repeated within their prompt. Intervals are t's with
    G − k degrees of freedom.

    Args:
        margins: score(perturbed) − score(base). Shape (n,), in `unit`.
        perturbed: Feature to its values on the biased sides, shape (n,) each; no treatment feature among them.
        base: The same features on the unbiased sides.
        prompt_ids: Cluster of each pair. Length n.
        form: How a difference enters.
        unit: Of the margins.

    Returns:
        The adjusted effect, or why there is none: fewer prompts than coefficients, a difference that is the same in all
        pairs (or a mix of differences that is), which no regression tells from the effect, or margins that it
        explains in full, so that its error is unknown.

    Raises:
        DataError: Shapes that differ, or values that are not finite.
    """
    values = checked_margins(margins, len(prompt_ids))
    sides = paired_features(perturbed, base, len(values))
    used = tuple(name for name, (first, second) in sides.items() if (first != second).any())
    columns = [column for name in used for column in _terms(*sides[name], form)]
    design = np.column_stack([np.ones(len(values)), *columns])
    # Columns of one scale, so that the rank does not depend on units.
    design /= np.sqrt((design**2).mean(axis=0))
    left, singular, right = np.linalg.svd(design, full_matrices=False)
    rank = int((singular > singular[0] * 1e-10 * max(design.shape)).sum())
    if rank < len(right) and float((right[:rank, 0] ** 2).sum()) < 1 - 1e-8:
        return Missing(
            reason=f"{form}: a difference in {', '.join(used)} is the same in all pairs, so the effect cannot be told from it"
        )
    clusters = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True)[1]
    n_prompts = int(clusters.max()) + 1
    if n_prompts <= rank:
        return Missing(
            reason=f"{form}: {n_prompts} prompts for {rank} coefficients; more prompts than coefficients are needed"
        )
    inverse = (right[:rank].T / singular[:rank]) @ left[:, :rank].T
    coefficients = inverse @ values
    residuals = values - design @ coefficients
    influence = np.bincount(clusters, weights=inverse[0] * residuals)
    error = float(np.sqrt(n_prompts / (n_prompts - rank) * (influence**2).sum()))
    # Rounding leaves a trace of an error where there is none.
    value, freedom = float(coefficients[0]), n_prompts - rank
    if error <= 1e-12 * float(np.abs(values).max()):
        return Missing(reason=f"{form}: {_without_error(value, values, residuals, n_prompts)}")
    half = float(stats.t.ppf(0.975, freedom)) * error
    total = float(((values - values.mean()) ** 2).sum())
    return Adjusted(
        form=form,
        effect=Estimate(
            value=value,
            low=value - half,
            high=value + half,
            n=len(values),
            n_prompts=n_prompts,
            unit=unit,
            method=f"{form} adjustment, CR 95%",
        ),
        standard_error=error,
        p_value=float(2 * stats.t.sf(abs(value) / error, freedom)),
        features=used,
        r_squared=1 - float((residuals**2).sum()) / total,
    )


def identify(
    margins: ArrayLike,
    perturbed: Mapping[str, ArrayLike],
    base: Mapping[str, ArrayLike],
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
    forms: Sequence[Form] = DEFAULT_FORMS,
    rule: OverlapRule = DEFAULT_RULE,
    unit: str = "reward",
) -> Identified | NotIdentified:
    """The effect where the sides overlap, the adjusted effects, and whether together they identify one.

    Not identified from these pairs, if any of these holds:
        the overlap is too small (see `OverlapRule`);
        a form cannot be estimated;
        two forms differ in sign. Two of which each lies in the other's interval, and neither excludes 0, do not: they both
        say that no effect is shown.

    Args:
        margins: score(perturbed) − score(base). Shape (n,), in `unit`.
        perturbed: Feature to its values on the biased sides, shape (n,) each.
        base: The same features on the unbiased sides.
        prompt_ids: Cluster of each pair. Length n.
        rng: For the intervals.
        limits: Drift that is small; these features, less the treatment, are adjusted for.
        treatment: Features that are the bias itself (a bias file's `treatment`).
        forms: Two or more functional forms.
        rule: When the overlap is enough.
        unit: Of the margins.

    Raises:
        DataError: Fewer than two forms, one prompt, margins that do not vary between prompts, a limited feature not
            measured, shapes that differ, values not finite.
    """
    if len(set(forms)) < 2:
        raise DataError("one functional form cannot disagree with itself: give at least two of linear, log_ratio, …")
    overlap, inside = overlap_of(perturbed, base, prompt_ids, limits=limits, treatment=treatment)
    names = [name for name in limits if name not in treatment]
    first, second = ({name: side[name] for name in names} for side in (perturbed, base))
    adjusted = {form: adjusted_effect(margins, first, second, prompt_ids, form, unit) for form in dict.fromkeys(forms)}
    reasons = [too_small(overlap.n, overlap.n_prompts, overlap.n_total, rule), *_disagreements(adjusted)]
    against = [reason for reason in reasons if reason]
    among = overlap_effect(margins, inside, prompt_ids, rng, rule=rule, unit=unit)
    verdict: type[Identified] | type[NotIdentified] = NotIdentified if against else Identified
    return verdict(
        reason="; ".join(against) + "." if against else _agreement(overlap, among, adjusted),
        overlap=overlap,
        overlap_effect=among,
        adjusted=adjusted,
        unadjusted=effect(margins, prompt_ids, rng, unit),
    )


def _terms(perturbed: FloatArray, base: FloatArray, form: Form) -> list[FloatArray]:
    """Regressors of one feature, each of shape (n,) and 0 where the sides are equal."""
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


def _without_error(value: float, values: FloatArray, residuals: FloatArray, n_prompts: int) -> str:
    """Why an adjusted effect has no error: drift explains every margin, or the rest is the same in every prompt."""
    size = float(np.abs(values).max())
    varies, left_over = float(np.ptp(values)) > 1e-12 * size, float(np.abs(residuals).max()) > 1e-9 * size
    if not varies or left_over:
        return f"nothing is left to vary between its {n_prompts} prompts, so that the effect's error is unknown"
    if abs(value) <= 1e-9 * size:
        return "what else differs explains the margins in full, and nothing is left for the bias to explain"
    return (
        f"what else differs explains in full how the margins vary; {_signed(value)} is left, and its error is unknown"
    )


def _disagreements(adjusted: Mapping[Form, Adjusted | Missing]) -> list[str]:
    """Forms that cannot be estimated, then pairs of forms that differ in sign, in words."""
    found = [one.reason for one in adjusted.values() if isinstance(one, Missing)]
    fitted = [one for one in adjusted.values() if isinstance(one, Adjusted)]
    for at, one in enumerate(fitted):
        for other in fitted[at + 1 :]:
            opposite = one.effect.value * other.effect.value < 0
            if opposite and not (_no_effect_shown(one.effect, other) and _no_effect_shown(other.effect, one)):
                found.append(
                    f"adjusted effects differ in sign: {one.form} {_number(one.effect)}, {other.form} {_number(other.effect)}"
                )
    return found


def _no_effect_shown(value: Estimate, by: Adjusted) -> bool:
    return by.effect.low <= min(0.0, value.value) and by.effect.high >= max(0.0, value.value)


def _agreement(
    overlap: Overlap, among: PairsEffect | SameMargin | Missing, adjusted: Mapping[Form, Adjusted | Missing]
) -> str:
    """What an identified effect rests on. Forms agree in sign, or show no effect."""
    forms = ", ".join(f"{one.form} {_number(one.effect)}" for one in adjusted.values() if isinstance(one, Adjusted))
    here = f"mean margin {_number(among.mean_margin)}, " if isinstance(among, PairsEffect) else ""
    return (
        f"{overlap.n} of {overlap.n_total} pairs have drift within limits: {here}"
        f"and adjustment of all pairs does not contradict itself ({forms})."
    )


def _number(estimate: Estimate) -> str:
    return f"{_signed(estimate.value)} [{_signed(estimate.low)}, {_signed(estimate.high)}]"


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")
