"""Results of a dose on rows that did not choose it: repeated 2-fold cross-validation, split by prompt.

Intervals come from resampled prompts: the whole procedure anew in every draw, so that they cover the choice too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cda.arrays import FloatArray
from cda.dosing.choice import (
    MAX_QUALITY_LOSS,
    MIN_PROMPTS,
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
    mean_size,
    on_halves,
    out_of_fold,
    prompt_codes,
    prompt_sums,
)
from cda.numbers.measures import of_people, sizes
from cda.numbers.people import against_people, change_of, known, row_values, voted_rows
from cda.results.base import BeforeAfter, Estimate
from cda.results.dose import ByMeasure, DoseMethod, HeldOutBias
from cda.stats.estimators import ROUNDING, of_draws, paired_change, share_of
from cda.stats.people import absolute, bounded_by_skew
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
        quality = covering(accuracy, drawn[0].dose["accuracy"])
    kept = held_out[curve.names[0]].against_base.get("accuracy")
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
    people = held_out_people(curve, held.margins, held, drawn.dose)
    fixed = {dose: curve.margins_at(dose)[None] for dose in (0.0, 1.0)}
    base, plain = (held_out_people(curve, margins, held, drawn.at(dose), fixed=True) for dose, margins in fixed.items())
    # From dose 0 to dose 1 nothing is chosen, so that the change is measured on all rows.
    before, after = (voted_rows(margins, curve.people, curve.prompt_ids) for margins in fixed.values())
    against_base = held_out_change(curve, 0.0, held, drawn, (base, people))
    return HeldOutBias(
        people=people,
        base=base,
        plain=plain,
        against_base=against_base,
        against_plain=held_out_change(curve, 1.0, held, drawn, (plain, people)),
        plain_change=known(of_people(rows=True), partial(change_of, before, after)),
        sizes={
            key: _size((base, people), against_base[each.size_of], drawn, each.size_of) for key, each in sizes().items()
        },
    )


def _size(levels: tuple[ByMeasure, ByMeasure], change: Estimate, drawn: Resampled, key: str) -> BeforeAfter:
    """|measure| of all held-out rows together, such as |skew − human skew|, at dose 0 and at the chosen doses (`levels`), and its change; `change` is that
    of the measure itself, which bounds that of its size for few prompts: drawn anew, 20 prompts hold it in 87% of samples. For more, as sizes
    grow when they are drawn, the interval reaches as far to one side as the draws do to the other (92% of samples without)."""
    before, after = (absolute(level[key]) for level in levels)
    moved = bounded_by_skew(after.value - before.value, change)
    if after.n_prompts >= 2 * MIN_PROMPTS:
        moved = covering(moved, np.abs(drawn.dose[key]) - np.abs(drawn.base[key]))
        far = max(moved.high - moved.value, moved.value - moved.low)
        moved = moved.model_copy(update={"low": moved.value - far, "high": moved.value + far})
    return BeforeAfter(before=before, after=after, change=moved)


Drawn = Mapping[str, FloatArray]
"""Results of one procedure in every draw, shape (draws,), by measure, and `accuracy` if there are quality pairs; of the size of another
measure that other one on each half alone, shape (draws, halves). NaN if a draw left nothing to measure on."""


def draws_of(drawn: Drawn, key: str) -> FloatArray:
    """A measure in every draw, shape (draws,): of a size its mean over halves."""
    return mean_size(drawn[key]) if drawn[key].ndim == 2 else drawn[key]


def joined(parts: Sequence[Drawn]) -> Drawn:
    """The results of several parts of the draws, one after another."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


@dataclass(frozen=True, slots=True)
class Resampled:
    """The same draws, split alike, for a dose chosen on the other half and for doses 0 and 1."""

    dose: Drawn
    base: Drawn
    plain: Drawn

    def at(self, dose: float) -> Drawn:
        """Those of dose 0 or 1."""
        return self.base if dose == 0 else self.plain


def held_out_people(
    curve: DoseCurve,
    margins: FloatArray,
    held: OutOfFold,
    drawn: Drawn,
    fixed: bool = False,
    ties: ModelTies = "no-hit",
) -> ByMeasure:
    """Results against people, rows averaged over repeats; of a size, such as the gap, its mean on a half of `held`, whose interval is
    that of `drawn`, the same on resampled prompts; so are all others where doses were chosen. `margins` have shape (repeats, n), (1, n) at
    a fixed dose; those of several models, whose mean rows are measured, stand one after another.
    """
    people = curve.people
    found = against_people(margins, people, curve.prompt_ids, ties)
    if not fixed:
        found |= {key: covering(found[key], drawn[key]) for key in of_people(rows=True) if key in found}
    voted, n_models = voted_rows(margins, people, curve.prompt_ids, ties), max(1, len(margins) // len(held.first_half))
    for key, measure in sizes().items():
        rows = row_values(measure, voted)
        rows = rows.reshape(n_models, -1, rows.shape[1]).mean(axis=0)
        value = float(mean_size(on_halves(rows, held.first_half[:, people.used]).ravel()))
        size = absolute(found[measure.size_of])
        bounds = {"value": value, "low": min(size.low, value), "high": max(size.high, value)}
        found[key] = covering(size.model_copy(update=bounds), draws_of(drawn, key))
    return found


def held_out_change(
    curve: DoseCurve,
    dose: float,
    held: OutOfFold,
    drawn: Resampled,
    levels: tuple[ByMeasure, ByMeasure],
    ties: ModelTies = "no-hit",
) -> ByMeasure:
    """Out-of-fold rows, averaged over repeats, minus the same rows at a fixed dose; sizes change as the `levels`, at that dose and out of
    fold, do. The interval of a change of rows reaches as far as that of the draws and that of the rows themselves: where few rows change,
    and all to one side, no draw holds a change to the other."""
    at, own, other = curve.doses.index(dose), drawn.dose, drawn.at(dose)
    before, after = (
        voted_rows(margins, curve.people, curve.prompt_ids, ties) for margins in (curve.margins[at], held.margins)
    )
    found = known(of_people(rows=True), partial(change_of, before, after))
    for key, measure in sizes().items():
        was, became = (level[key].value for level in levels)
        found[key] = bounded_by_skew(became - was, found[measure.size_of])
    if curve.quality_margins is not None and held.quality_margins is not None:
        right = hits_of(curve.quality_margins[at], ties), hits_of(held.quality_margins, ties).mean(axis=0)
        found["accuracy"] = paired_change(*right, curve.quality_prompt_ids)
    covered = {key: covering(change, draws_of(own, key) - draws_of(other, key)) for key, change in found.items()}
    return {key: each if key in sizes() else _hull(each, found[key]) for key, each in covered.items()}


def _hull(first: Estimate, second: Estimate) -> Estimate:
    return first.model_copy(update={"low": min(first.low, second.low), "high": max(first.high, second.high)})


def covering(estimate: Estimate, draws: FloatArray) -> Estimate:
    """An estimate with the interval of the draws; if no draw differs, its own interval keeps its width."""
    if estimate.n_prompts < 2 or float(np.nanmax(draws) - np.nanmin(draws)) <= ROUNDING:
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

    def measures(own: ContrastSums, totals: Mapping[str, FloatArray], halves: Mapping[str, FloatArray]) -> Drawn:
        with np.errstate(invalid="ignore", divide="ignore"):
            n, n_quality = weights @ own.n, weights @ sums.n_quality
            return {key: total / (n_quality if key == "accuracy" else n) for key, total in totals.items()} | {**halves}

    resampled, places = [], [sums.place(dose) for dose in (0.0, 1.0)]
    for own, chunks in zip(sums.of_bias, zip(*parts, strict=True), strict=True):
        out_of_fold, halves = map(joined, zip(*chunks, strict=True))
        fixed = ({key: weights @ total[:, place] for key, total in own.of.items()} for place in places)
        dose, base, plain = (
            measures(own, totals, {key: each[:, at] for key, each in halves.items()})
            for at, totals in enumerate((out_of_fold, *fixed))
        )
        resampled.append(Resampled(dose, base, plain))
    return resampled


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
) -> list[tuple[dict[str, FloatArray], dict[str, FloatArray]]]:
    """Every draw split, chosen on and measured, for each bias: sums of out-of-fold rows by measure, shape
    (draws,); and of each size the mean on every half at the dose of the other half, at 0 and at 1, shape (draws,
    3, 2 · repeats).
    """
    rows, fixed = np.arange(len(weights)), [sums.place(0.0), sums.place(1.0)]
    size_of = {key: measure.size_of for key, measure in sizes().items()}
    found = [
        (
            {key: np.zeros(len(rows)) for key in own.of},
            {key: np.empty((len(rows), 3, 2 * repeats)) for key in size_of},
        )
        for own in sums.of_bias
    ]
    for split in range(repeats):
        first = halves(strata, weights, rng)
        for side, here in enumerate((first, ~first)):
            best, _ = best_doses(sums, weights * here, max_quality_loss)
            other = weights * ~here
            for own, (totals, on_half) in zip(sums.of_bias, found, strict=True):
                measured = {key: other @ total for key, total in own.of.items()}
                for key, total in measured.items():
                    totals[key] += total[rows, best] / repeats
                for key, of in size_of.items():
                    with np.errstate(invalid="ignore", divide="ignore"):
                        mean = measured[of] / (other @ own.n)[:, None]
                    on_half[key][:, :, 2 * split + side] = np.column_stack([mean[rows, best], mean[:, fixed]])
    return found


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
