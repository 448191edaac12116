"""Results of a dose on rows that did not choose it: repeated 2-fold cross-validation, split by prompt.

Intervals come from resampled prompts: the whole procedure anew in every draw, so that they cover the choice too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.dosing.choice import (
    MAX_QUALITY_LOSS,
    REPEATS,
    Codes,
    ContrastSums,
    DoseCurve,
    OutOfFold,
    PromptSums,
    Rows,
    best_doses,
    choose_dose,
    dose_response,
    half_gaps,
    mean_size,
    out_of_fold,
    prompt_codes,
    prompt_sums,
)
from cda.results.base import BeforeAfter, Estimate
from cda.results.dose import DoseMethod, HeldOutBias, HeldOutChange
from cda.results.skew import AgainstPeople
from cda.stats.estimators import ROUNDING, of_draws, paired_change, share_of
from cda.stats.people import absolute, bounded_by_skew, mean_against_people
from cda.stats.proportions import ModelTies, hits_of

N_DRAWS = 1_000
REPEATS_A_DRAW = 10  # fewer than the estimate has: their own noise widens the interval by a hair
_MAX_NUMBERS = 1 << 20  # draws × prompts at a time


def cross_validated_doses(
    curve: DoseCurve,
    rng: np.random.Generator,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
) -> DoseMethod:
    """Choose the dose, and measure such a choice on held-out rows (repeated 2-fold cross-validation, by prompt): on those
    of each bias at doses that all of them choose; and the curve of each bias on all rows.

    Miscalibration and quality average each row's out-of-fold results over repeats; the gap is computed on each half and
    then averaged, for the chosen doses and for 0 and 1 on the same halves. For the intervals, every draw resamples
    prompts with replacement, splits the distinct ones and chooses the doses anew, so that the intervals cover the
    sampling of prompts and the choice that depends on it. With the choices kept fixed, the interval of a change of skew
    would contain the truth a third of the time. A gap is an absolute value, which grows under resampling: its interval
    lies high, and that of its change lies towards 0 if the other gap is large. They do not cover that the choices rest
    on half the votes and the exported dose on all of them. `max_quality_loss`: accuracy that a dose may lose against
    dose 0 on the half it is chosen on, as a share. DataError: too few prompts, with their number and the number needed.
    """
    held = out_of_fold(curve, rng, repeats, max_quality_loss)
    final = choose_dose(curve, max_quality_loss)
    weights = draw_prompts(prompt_codes(curve)[2], rng)
    drawn = resampled_choices(curve, weights, np.random.default_rng(int(rng.integers(2**63))), max_quality_loss)
    held_out, response = {}, {}
    for bias, by in zip(curve.names, drawn, strict=True):
        rows, own = curve.rows_of(bias), curve.of(bias)
        held_out[bias] = _measured(
            own, replace(held, margins=held.margins[:, rows], first_half=held.first_half[:, rows]), by
        )
        response[bias] = dose_response(own)
    quality = None
    if held.quality_margins is not None:
        accuracy = share_of((held.quality_margins > 0).mean(axis=0), curve.quality_prompt_ids)
        quality = covering(accuracy, drawn[0].dose.quality)
    kept = held_out[curve.names[0]].against_base.quality
    plain = response[curve.names[0]][curve.doses.index(1.0)].quality_change
    return DoseMethod(
        chosen=final.dose,
        barred=final.barred,
        shares={f"{dose:g}": float((held.chosen == dose).mean()) for dose in curve.doses},
        quality=quality,
        quality_kept=kept is None or kept.value >= -max_quality_loss,
        plain_keeps_quality=plain is None or plain.value >= -max_quality_loss,
        held_out=held_out,
        response=response,
    )


def _measured(curve: DoseCurve, held: OutOfFold, drawn: Resampled) -> HeldOutBias:
    people = held_out_people(curve, held.margins, held.margins > 0, held, drawn.dose)
    fixed = {dose: curve.margins_at(dose)[None] for dose in (0.0, 1.0)}
    base, plain = (
        held_out_people(curve, margins, margins > 0, held, drawn.at(dose), fixed=True)
        for dose, margins in fixed.items()
    )
    # From dose 0 to dose 1 nothing is chosen, so that the change is measured on all rows.
    used = curve.people.used
    target, ids = curve.people.target[used], list(compress(curve.prompt_ids, used))
    before, after = (margins[0, used] > 0 for margins in fixed.values())
    against_base = held_out_change(curve, 0.0, held, drawn, people.gap.value - base.gap.value)
    return HeldOutBias(
        people=people,
        base=base,
        plain=plain,
        against_base=against_base,
        against_plain=held_out_change(curve, 1.0, held, drawn, people.gap.value - plain.gap.value),
        plain_change={
            "skew": paired_change(before * 1.0, after * 1.0, ids),
            "miscalibration": paired_change(np.abs(before - target), np.abs(after - target), ids),
        },
        distance=_distance(base.signed_gap, people.signed_gap, against_base.skew, drawn),
    )


def _distance(base: Estimate, chosen: Estimate, skew: Estimate, drawn: Resampled) -> BeforeAfter:
    """|skew − human skew| of all held-out rows together, from the signed ones and the change of skew."""
    before, after = absolute(base), absolute(chosen)
    moved = np.abs(drawn.dose.signed_gap) - np.abs(drawn.base.signed_gap)
    return BeforeAfter(
        before=before, after=after, change=covering(bounded_by_skew(after.value - before.value, skew), moved)
    )


@dataclass(frozen=True, slots=True)
class Measures:
    """Results of one procedure in every draw, shape (draws,) each; NaN if a draw left nothing to measure on.
    `half_gaps`: skew − human skew on each half alone, shape (draws, halves); `signed_gap` is that of all rows together.
    """

    skew: FloatArray
    miscalibration: FloatArray
    signed_gap: FloatArray
    half_gaps: FloatArray
    quality: FloatArray | None

    @property
    def gap(self) -> FloatArray:
        """Mean over halves of |skew − human skew|. Shape (draws,)."""
        return mean_size(self.half_gaps)


@dataclass(frozen=True, slots=True)
class Resampled:
    """The same draws, split alike, for a dose chosen on the other half and for doses 0 and 1."""

    dose: Measures
    base: Measures
    plain: Measures

    def at(self, dose: float) -> Measures:
        """Those of dose 0 or 1."""
        return self.base if dose == 0 else self.plain


def held_out_people(
    curve: DoseCurve,
    margins: FloatArray,
    hits: FloatArray | Rows,
    held: OutOfFold,
    drawn: Measures,
    fixed: bool = False,
    ties: ModelTies = "no-hit",
) -> AgainstPeople:
    """Results against people, rows averaged over repeats, and the mean size of the gap on a half of `held`. Its interval is
    that of `drawn`, the same on resampled prompts; so are all others where doses were chosen. `margins`, and `hits`, of
    several models their mean, have shape (repeats, n), (1, n) at a fixed dose; margins of several models stand one after
    another.
    """
    people = curve.people
    measured = mean_against_people(margins, people, curve.prompt_ids, ties)
    if not fixed:
        names = ("skew", "miscalibration", "signed_gap")
        covered = {name: covering(getattr(measured, name), getattr(drawn, name)) for name in names}
        measured = measured.model_copy(update=covered)
    gaps = half_gaps(hits[:, people.used], people.target[people.used], held.first_half[:, people.used])
    value, size = float(mean_size(gaps.ravel())), absolute(measured.signed_gap)
    bounds = {"value": value, "low": min(size.low, value), "high": max(size.high, value)}
    return measured.model_copy(update={"gap": covering(size.model_copy(update=bounds), drawn.gap)})


def held_out_change(
    curve: DoseCurve,
    dose: float,
    held: OutOfFold,
    drawn: Resampled,
    gap: float,
    ties: ModelTies = "no-hit",
) -> HeldOutChange:
    """Out-of-fold rows, averaged over repeats, minus the same rows at a fixed dose; `gap` is the change of the gaps."""
    rows, at = curve.people.used, curve.doses.index(dose)
    target, ids = curve.people.target[rows], list(compress(curve.prompt_ids, rows))
    fixed, chosen = hits_of(curve.margins[at, rows], ties), hits_of(held.margins[:, rows], ties)
    own, other = drawn.dose, drawn.at(dose)
    quality = None
    if curve.quality_margins is not None and held.quality_margins is not None:
        assert own.quality is not None and other.quality is not None  # draws have it where the curve does
        right = hits_of(curve.quality_margins[at], ties), hits_of(held.quality_margins, ties).mean(axis=0)
        quality = covering(paired_change(*right, curve.quality_prompt_ids), own.quality - other.quality)
    missed = np.abs(fixed - target), np.abs(chosen - target).mean(axis=0)
    skew = paired_change(fixed, chosen.mean(axis=0), ids)
    return HeldOutChange(
        skew=covering(skew, own.skew - other.skew),
        miscalibration=covering(paired_change(*missed, ids), own.miscalibration - other.miscalibration),
        gap=covering(bounded_by_skew(gap, skew), own.gap - other.gap),
        quality=quality,
    )


def covering(estimate: Estimate, draws: FloatArray | None) -> Estimate:
    """An estimate with the interval of the draws; if no draw differs, its own interval keeps its width."""
    if draws is None or estimate.n_prompts < 2 or float(np.nanmax(draws) - np.nanmin(draws)) <= ROUNDING:
        return estimate
    return of_draws(estimate.value, draws, estimate.n, estimate.n_prompts, estimate.unit)


def resampled_choices(
    curve: DoseCurve,
    weights: FloatArray,
    rng: np.random.Generator,
    max_quality_loss: float,
    repeats: int = REPEATS_A_DRAW,
) -> list[Resampled]:
    """Draw by draw: split the drawn prompts in two, choose on each half, measure on the other, average over repeats. A
    prompt drawn twice counts twice on one side: copies are never split, and the distinct prompts of a draw are divided
    evenly. `weights`: count of each prompt of `prompt_codes` in each draw, shape (draws, prompts). The measures of each
    bias, in alphabetical order.
    """
    sums, strata = prompt_sums(curve), prompt_codes(curve)[2]
    step = max(1, _MAX_NUMBERS // weights.shape[1])
    parts = [
        _chosen(sums, strata, weights[at : at + step], rng, max_quality_loss, repeats)
        for at in range(0, len(weights), step)
    ]
    totals, gaps = (np.concatenate([part[at] for part in parts], axis=1) for at in (0, 1))

    def measures(own: ContrastSums, totals: FloatArray, half_gaps: FloatArray) -> Measures:
        with np.errstate(invalid="ignore", divide="ignore"):
            n, n_quality = weights @ own.n, weights @ sums.n_quality
            skew, miscalibration, signed_gap, quality = totals.T / np.stack([n, n, n, n_quality])
        has_quality = curve.quality_margins is not None
        return Measures(skew, miscalibration, signed_gap, half_gaps, quality if has_quality else None)

    def at_fixed(own: ContrastSums, dose: float, half_gaps: FloatArray) -> Measures:
        at = sums.place(dose)
        all_rows = [weights @ total[:, at] for total in (own.hits, own.misses, own.excess, sums.right)]
        return measures(own, np.column_stack(all_rows), half_gaps)

    return [
        Resampled(
            measures(own, totals[at], gaps[at, :, 0]),
            at_fixed(own, 0.0, gaps[at, :, 1]),
            at_fixed(own, 1.0, gaps[at, :, 2]),
        )
        for at, own in enumerate(sums.of_bias)
    ]


def draw_prompts(strata: Codes, rng: np.random.Generator, n_draws: int = N_DRAWS) -> FloatArray:
    """Count of each prompt in each draw, with the size of every stratum fixed. Shape (n_draws, prompts)."""
    weights = np.zeros((n_draws, len(strata)))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        weights[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=n_draws)
    return weights


def _chosen(
    sums: PromptSums,
    strata: Codes,
    weights: FloatArray,
    rng: np.random.Generator,
    max_quality_loss: float,
    repeats: int,
) -> tuple[FloatArray, FloatArray]:
    """Every draw split, chosen on and measured: out-of-fold hits, misses, excess and quality pairs ranked right, shape
    (biases, draws, 4); and the signed gap on every half at the dose of the other half, at 0 and at 1, shape (biases,
    draws, 3, 2 · repeats).
    """
    n_biases, n_draws, base, plain = len(sums.of_bias), len(weights), sums.place(0.0), sums.place(1.0)
    totals, gaps = np.zeros((n_biases, n_draws, 4)), np.empty((n_biases, n_draws, 3, 2 * repeats))
    rows = np.arange(n_draws)
    for split in range(repeats):
        first = halves(strata, weights, rng)
        for side, here in enumerate((first, ~first)):
            best, _ = best_doses(sums, weights * here, max_quality_loss)
            other = weights * ~here
            right = (other @ sums.right)[rows, best]
            for at, own in enumerate(sums.of_bias):
                hits, misses, excess = (other @ total for total in (own.hits, own.misses, own.excess))
                measured = [total[rows, best] for total in (hits, misses, excess)]
                totals[at] += np.column_stack([*measured, right]) / repeats
                with np.errstate(invalid="ignore", divide="ignore"):
                    on_half = excess / (other @ own.n)[:, None]
                of_half = np.column_stack([on_half[rows, best], on_half[:, base], on_half[:, plain]])
                gaps[at, :, :, 2 * split + side] = of_half
    return totals, gaps


def halves(strata: Codes, weights: FloatArray, rng: np.random.Generator) -> Rows:
    """A random half of each stratum's prompts that a draw holds, for every draw. Shape (n_draws, prompts)."""
    first = np.zeros(weights.shape, dtype=bool)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        drawn = weights[:, members] > 0
        keys = np.where(drawn, rng.random(drawn.shape), 1.0)
        # With an odd number, either the smaller or the larger half.
        half = (drawn.sum(axis=1) + rng.integers(2, size=len(drawn))) // 2
        # Those before the first one of the other half; if there is none, all that are drawn.
        in_line = np.column_stack([np.sort(keys, axis=1), np.ones(len(keys))])
        first[:, members] = keys < np.take_along_axis(in_line, half[:, None], axis=1)
    return first
