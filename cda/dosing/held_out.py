"""Results of a dose on rows that did not choose it: repeated 2-fold cross-validation, split by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.dosing.choice import (
    MAX_QUALITY_LOSS,
    REPEATS,
    DoseCurve,
    OutOfFold,
    Rows,
    choose_dose,
    half_gaps,
    mean_size,
    out_of_fold,
    prompt_codes,
)
from cda.dosing.resampled import Measures, Resampled, draw_prompts, resampled_choices
from cda.results.base import Estimate
from cda.results.dose import HeldOutChange, HeldOutDose, HeldOutPeople
from cda.stats.people import absolute, against_people, bounded_by_skew, mean_against_people
from cda.stats.proportions import paired_change, wilson_share
from cda.stats.votes import Majority

METHOD = "prompts drawn and doses chosen anew, bootstrap 95%"
FIXED_METHOD = "prompts drawn and split anew, bootstrap 95%"
_ROUNDING = 1e-12  # an interval narrower than this has no spread behind it


def cross_validated_dose(
    curve: DoseCurve,
    people: Majority,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
    bias: str | None = None,
) -> HeldOutDose:
    """Choose the dose, and measure such a choice on held-out rows (repeated 2-fold cross-validation, by prompt).

    Miscalibration and quality average each row's out-of-fold results over repeats; the gap is computed on each half and
    then averaged, for the chosen doses and for 0 and 1 on the same halves.

    For the intervals, every draw resamples prompts with replacement, splits the distinct ones and chooses the doses anew,
    so that the intervals cover the sampling of prompts and the choice that depends on it. With the choices kept fixed, the
    interval of a change of skew would contain the truth a third of the time. A gap is an absolute value, which grows under
    resampling: its interval lies high, and that of its change lies towards 0 if the other gap is large.
    The intervals do not cover that the choices rest on half the votes and the exported dose on all of them.

    Args:
        curve: Margins at every dose.
        people: Majorities of the n contrasts; they may all be for one side.
        prompt_ids: Cluster of each contrast, in the same names as the curve's quality prompts. Length n.
        repeats: Number of splits in two.
        max_quality_loss: Accuracy that a dose may lose against dose 0 on the half it is chosen on, as a share.
        bias: Measure on the contrasts of this bias alone; the dose is chosen on those of all biases.

    Raises:
        DataError: Too few prompts (gives their number and the number needed), and as in `choose_dose`.
    """
    held = out_of_fold(curve, people, prompt_ids, rng, repeats, max_quality_loss)
    final = choose_dose(curve, people, max_quality_loss=max_quality_loss)
    of_contrast, of_quality, strata = prompt_codes(curve, people, prompt_ids)
    weights, splits = draw_prompts(strata, rng), np.random.default_rng(int(rng.integers(2**63)))
    drawn = resampled_choices(curve, people, of_contrast, of_quality, weights, splits, max_quality_loss, bias)
    own = curve.rows_of(bias)
    held = replace(held, margins=held.margins[:, own], first_half=held.first_half[:, own])
    people = replace(people, target=people.target[own], used=people.used[own])
    ids = list(compress(prompt_ids, own))
    curve = replace(curve, margins=curve.margins[:, own], biases=())
    quality = None
    if held.quality_margins is not None:
        accuracy = wilson_share((held.quality_margins > 0).mean(axis=0), curve.quality_prompt_ids)
        quality = _covering(accuracy, drawn.dose.quality)
    chosen = held_out_people(held.margins, held.margins > 0, held, drawn.dose, people, ids)
    base, plain = (
        _at_fixed(curve.margins_at(dose), held, measures, people, ids)
        for dose, measures in ((0.0, drawn.base), (1.0, drawn.plain))
    )
    return HeldOutDose(
        people=chosen,
        base=base,
        plain=plain,
        quality=quality,
        against_base=_change(curve, 0.0, held, drawn, chosen.gap.value - base.gap.value, people, ids),
        against_plain=_change(curve, 1.0, held, drawn, chosen.gap.value - plain.gap.value, people, ids),
        chosen={dose: float((held.chosen == dose).mean()) for dose in curve.doses},
        dose=final.dose,
        barred=final.barred,
        repeats=repeats,
    )


def held_out_people(
    margins: FloatArray,
    hits: FloatArray | Rows,
    held: OutOfFold,
    drawn: Measures,
    people: Majority,
    prompt_ids: Sequence[str],
) -> HeldOutPeople:
    """Out-of-fold results against people, with the intervals of the draws; rows are averaged over repeats.

    Args:
        margins: At doses chosen without the row. Shape (repeats, n); of several models one after another.
        hits: 1 for a margin above 0, of several models their mean. Shape (repeats, n).
        held: The halves.
        drawn: The same procedure on resampled prompts.
        people: Majorities of the n contrasts.
        prompt_ids: Cluster of each contrast.
    """
    measured = mean_against_people(margins, people, prompt_ids)
    signed = _covering(measured.signed_gap, drawn.signed_gap)
    return HeldOutPeople(
        skew=_covering(measured.skew, drawn.skew),
        human_skew=measured.human_skew,
        miscalibration=_covering(measured.miscalibration, drawn.miscalibration),
        gap=_gap(hits, held, people, signed, drawn, METHOD),
        mean_signed_gap=signed,
        n_ties=measured.n_ties,
    )


def _at_fixed(
    margins: FloatArray, held: OutOfFold, drawn: Measures, people: Majority, prompt_ids: Sequence[str]
) -> HeldOutPeople:
    """A fixed dose, measured on the halves of the chosen doses."""
    measured = against_people(margins, people, prompt_ids)
    return HeldOutPeople(
        skew=measured.skew,
        human_skew=measured.human_skew,
        miscalibration=measured.miscalibration,
        gap=_gap(margins > 0, held, people, measured.signed_gap, drawn, FIXED_METHOD),
        mean_signed_gap=measured.signed_gap,
        n_ties=measured.n_ties,
    )


def _gap(
    hits: FloatArray | Rows, held: OutOfFold, people: Majority, signed: Estimate, drawn: Measures, method: str
) -> Estimate:
    """Mean size of the gap on a half; hits of shape (repeats, n), or (n,) at a fixed dose."""
    gaps = half_gaps(hits[..., people.used], people.target[people.used], held.first_half[:, people.used])
    value, size = float(mean_size(gaps.ravel())), absolute(signed)
    bounds = {"value": value, "low": min(size.low, value), "high": max(size.high, value)}
    return _covering(size.model_copy(update=bounds), drawn.gap, method)


def _change(
    curve: DoseCurve,
    dose: float,
    held: OutOfFold,
    drawn: Resampled,
    gap: float,
    people: Majority,
    prompt_ids: Sequence[str],
) -> HeldOutChange:
    """Out-of-fold rows, averaged over repeats, minus the same rows at a fixed dose; `gap` is the change of the gaps."""
    rows, at = people.used, curve.doses.index(dose)
    target, ids = people.target[rows], list(compress(prompt_ids, rows))
    fixed, chosen = (curve.margins[at, rows] > 0).astype(np.float64), (held.margins[:, rows] > 0).astype(np.float64)
    own, other = drawn.dose, drawn.base if dose == 0 else drawn.plain
    quality = None
    if curve.quality_margins is not None and held.quality_margins is not None:
        assert own.quality is not None and other.quality is not None  # draws have it where the curve does
        right = curve.quality_margins[at] > 0, (held.quality_margins > 0).mean(axis=0)
        quality = _covering(paired_change(*right, curve.quality_prompt_ids), own.quality - other.quality)
    missed = np.abs(fixed - target), np.abs(chosen - target).mean(axis=0)
    skew = paired_change(fixed, chosen.mean(axis=0), ids)
    return HeldOutChange(
        skew=_covering(skew, own.skew - other.skew),
        miscalibration=_covering(paired_change(*missed, ids), own.miscalibration - other.miscalibration),
        gap=_covering(bounded_by_skew(gap, skew), own.gap - other.gap),
        quality=quality,
    )


def _covering(estimate: Estimate, draws: FloatArray | None, method: str = METHOD) -> Estimate:
    """An estimate with the interval of the draws; if no draw differs, its own interval keeps its width."""
    if draws is None:
        return estimate
    low, high = (float(bound) for bound in np.nanquantile(draws, (0.025, 0.975)))
    if high - low <= _ROUNDING:
        return estimate
    bounds = {"low": min(low, estimate.value), "high": max(high, estimate.value), "method": method}
    return estimate.model_copy(update=bounds)
