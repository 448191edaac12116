"""RATE: what adding an attribute does to a reward, by naive, single-rewrite and double-rewrite estimators.

With w the attribute of the original, 1 where present (RATE, Algorithm 1):

    double   rewrite of rewrite against rewrite: both went through the rewriter, so that what it changes besides cancels
    single   original against rewrite: what the rewriter changes besides is taken for the attribute
    naive    originals with against originals without: whatever goes along with the attribute is taken for it; a judge
             gives no reward of one text, so there it is its preference between such originals of the same prompt

ATT averages over originals with the attribute, ATU over those without, ATE = n₁/n · ATT + n₀/n · ATU over all.
ATT(double) − ATT(single) is the rewrite effect at w = 1, ATU(single) − ATU(double) the one at w = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Literal, get_args

import numpy as np

from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import Effect
from cda.results.rate import NotEstimated, RateEffects
from cda.stats.clustered import Resampling, Scale, Target, difference_effect, mean_effect, pooled_within_group_sd
from cda.stats.signed_contrasts import BoolArray, Contrasts

Estimand = Literal["ATT", "ATU", "ATE"]
Estimator = Literal["double", "single", "naive"]
_ESTIMANDS: tuple[Estimand, ...] = get_args(Estimand)
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)


def rate_effects(
    contrasts: Contrasts, resampling: Resampling | None = None, refused: Mapping[Estimand, str] | None = None
) -> RateEffects:
    """All effects of one sample; what cannot be estimated is listed with its reason, never as a number.

    Args:
        contrasts: Triples of both directions where possible.
        resampling: For BCa intervals.
        refused: Estimands that are not to be given by the estimators that rest on rewrites (double, single), and why.

    Raises:
        DataError: Not one effect can be estimated.
    """
    # One number for all three estimands, so drawn once: another draw would give it another interval.
    naive = cache(partial(effect, contrasts, "ATE", "naive", resampling))
    wanted: list[tuple[str, str, Callable[[], Effect]]] = [
        (estimand, estimator, unless(refused, estimand, partial(effect, contrasts, estimand, estimator, resampling)))
        for estimator in ESTIMATORS
        for estimand in _ESTIMANDS
        if estimator != "naive"
    ]
    wanted += [(estimand, "naive", partial(_renamed, naive, estimand)) for estimand in _ESTIMANDS]
    groups: tuple[tuple[int, Estimand], ...] = ((1, "ATT"), (0, "ATU"))
    wanted += [
        (f"w = {w}", "rewrite effect", unless(refused, group, partial(rewrite_effect, contrasts, w, resampling)))
        for w, group in groups
    ]
    found, missing = collect(wanted)
    if not found:
        raise DataError((refused or {}).get("ATE") or missing[0].reason)
    n_with = int(contrasts.attribute.sum())
    return RateEffects(effects=found, not_estimated=missing, n_with=n_with, n_without=len(contrasts) - n_with)


def effect(
    contrasts: Contrasts,
    estimand: Estimand = "ATE",
    estimator: Estimator = "double",
    resampling: Resampling | None = None,
) -> Effect:
    """One effect of the attribute, with an error that is paired within triples and clustered by prompt.

    The naive estimator has one number for all three estimands: it knows nothing of either group's counterfactual.

    Args:
        contrasts: n triples.
        estimand: Among originals with the attribute, without it, or all.
        estimator: Which contrast is averaged.
        resampling: For the BCa interval.

    Raises:
        DataError: A group that is needed is empty (W is constant), comes from one prompt, or does not vary.
    """
    target = Target(estimand, estimator, contrasts.unit, scale_of(contrasts))
    if estimator == "naive":
        return _naive(contrasts, target, resampling)
    rows = _group(contrasts, target)
    values = contrasts.double if estimator == "double" else contrasts.single
    return mean_effect(values[rows], _prompts(contrasts, rows), target, resampling)


def rewrite_effect(contrasts: Contrasts, w: int, resampling: Resampling | None = None) -> Effect:
    """Rewrite of rewrite − original among originals with attribute w: what two rewrites do while W stays as it was.

    Args:
        contrasts: n triples.
        w: 1 for originals with the attribute, 0 for those without.
        resampling: For the BCa interval.

    Raises:
        DataError: No original has this w, one prompt only, or nothing varies.
    """
    target = Target(f"w = {w}", "rewrite effect", contrasts.unit, scale_of(contrasts))
    rows = contrasts.attribute == bool(w)
    if not rows.any():
        raise target.cannot(f"no original has w = {w}: W is constant")
    return mean_effect(contrasts.rewrite_effect[rows], _prompts(contrasts, rows), target, resampling)


def scale_of(contrasts: Contrasts) -> Scale:
    """What standardised effects of these triples are divided by."""
    if contrasts.originals is None:
        return Missing(reason="a pairwise judge gives preferences, not rewards with a spread of their own")
    return pooled_within_group_sd(contrasts.originals, contrasts.attribute)


def collect(
    wanted: list[tuple[str, str, Callable[[], Effect]]],
) -> tuple[tuple[Effect, ...], tuple[NotEstimated, ...]]:
    """Effects that can be estimated, and the others with their reasons."""
    found: list[Effect] = []
    missing: list[NotEstimated] = []
    for estimand, estimator, estimate in wanted:
        try:
            found.append(estimate())
        except DataError as error:
            missing.append(NotEstimated(estimand=estimand, estimator=estimator, reason=str(error)))
    return tuple(found), tuple(missing)


def unless(
    refused: Mapping[Estimand, str] | None, estimand: Estimand, estimate: Callable[[], Effect]
) -> Callable[[], Effect]:
    """The estimate, or one that fails with the reason why its estimand is refused."""
    if refused is None or estimand not in refused:
        return estimate
    reason = refused[estimand]

    def refuse() -> Effect:
        raise DataError(reason)

    return refuse


def _renamed(estimate: Callable[[], Effect], estimand: str) -> Effect:
    return estimate().model_copy(update={"estimand": estimand})


def _naive(contrasts: Contrasts, target: Target, resampling: Resampling | None) -> Effect:
    if contrasts.originals is not None:
        if contrasts.attribute.all() or not contrasts.attribute.any():
            raise target.cannot(_constant(contrasts))
        return difference_effect(contrasts.originals, contrasts.attribute, contrasts.prompt_ids, target, resampling)
    if contrasts.naive is None or contrasts.naive_rows is None:
        raise target.cannot(
            "a judge compares answers to one prompt, and has a verdict on no original with the attribute beside one without it"
        )
    prompt_ids = [contrasts.prompt_ids[row] for row in contrasts.naive_rows[:, 0]]
    return mean_effect(contrasts.naive, prompt_ids, target, resampling)


def _group(contrasts: Contrasts, target: Target) -> BoolArray:
    w = contrasts.attribute
    rows = {"ATT": w, "ATU": ~w}.get(target.estimand, np.ones(len(w), dtype=bool))
    missing = not rows.any() or (target.estimand == "ATE" and (w.all() or not w.any()))
    if missing:
        raise target.cannot(_constant(contrasts))
    return rows


def _constant(contrasts: Contrasts) -> str:
    found, missing = ("have", "without") if contrasts.attribute.all() else ("lack", "with")
    return f"W is constant: all {len(contrasts)} originals {found} the attribute, there is none {missing} it"


def _prompts(contrasts: Contrasts, rows: BoolArray) -> list[str]:
    return [name for name, inside in zip(contrasts.prompt_ids, rows, strict=True) if inside]
