"""Results of a dose on rows that did not choose it: repeated 2-fold cross-validation, split by prompt.

Intervals come from resampled prompts: the whole procedure anew in every draw, so that they cover the choice too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from cda.arrays import FloatArray
from cda.dosing.choice import (
    DECIMALS,
    MAX_QUALITY_LOSS,
    REPEATS,
    Codes,
    DoseCurve,
    OutOfFold,
    Rows,
    choose_dose,
    half_gaps,
    mean_size,
    out_of_fold,
    preference_order,
    prompt_codes,
)
from cda.results.base import Estimate
from cda.results.dose import HeldOutChange, HeldOutDose, HeldOutPeople
from cda.results.skew import AgainstPeople
from cda.stats.bootstrap import ROUNDING
from cda.stats.people import absolute, against_people, bounded_by_skew, mean_against_people
from cda.stats.proportions import paired_change, wilson_share

N_DRAWS = 1_000
REPEATS_A_DRAW = 10  # fewer than the estimate has: their own noise widens the interval by a hair
_MAX_NUMBERS = 1 << 20  # draws × prompts at a time
METHOD = "prompts drawn and doses chosen anew, bootstrap 95%"
FIXED_METHOD = "prompts drawn and split anew, bootstrap 95%"


def cross_validated_dose(
    curve: DoseCurve,
    rng: np.random.Generator,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
    bias: str | None = None,
) -> HeldOutDose:
    """Choose the dose, and measure such a choice on held-out rows (repeated 2-fold cross-validation, by prompt).

    Miscalibration and quality average each row's out-of-fold results over repeats; the gap is computed on each half and
    then averaged, for the chosen doses and for 0 and 1 on the same halves. For the intervals, every draw resamples
    prompts with replacement, splits the distinct ones and chooses the doses anew, so that the intervals cover the
    sampling of prompts and the choice that depends on it. With the choices kept fixed, the interval of a change of skew
    would contain the truth a third of the time. A gap is an absolute value, which grows under resampling: its interval
    lies high, and that of its change lies towards 0 if the other gap is large. They do not cover that the choices rest
    on half the votes and the exported dose on all of them. `max_quality_loss`: accuracy that a dose may lose against
    dose 0 on the half it is chosen on, as a share. `bias`: measure on its contrasts alone; the dose is chosen on those
    of all. DataError: too few prompts, with their number and the number needed.
    """
    held = out_of_fold(curve, rng, repeats, max_quality_loss)
    final = choose_dose(curve, max_quality_loss=max_quality_loss)
    weights = draw_prompts(prompt_codes(curve)[2], rng)
    splits = np.random.default_rng(int(rng.integers(2**63)))
    drawn = resampled_choices(curve, weights, splits, max_quality_loss, bias)
    rows, own = curve.rows_of(bias), curve.of(bias)
    held = replace(held, margins=held.margins[:, rows], first_half=held.first_half[:, rows])
    quality = None
    if held.quality_margins is not None:
        accuracy = wilson_share((held.quality_margins > 0).mean(axis=0), own.quality_prompt_ids)
        quality = _covering(accuracy, drawn.dose.quality)
    chosen = held_out_people(own, held.margins, held.margins > 0, held, drawn.dose)
    base, plain = (_at_fixed(own, dose, held, drawn) for dose in (0.0, 1.0))
    return HeldOutDose(
        people=chosen,
        base=base,
        plain=plain,
        quality=quality,
        against_base=_change(own, 0.0, held, drawn, chosen.gap.value - base.gap.value),
        against_plain=_change(own, 1.0, held, drawn, chosen.gap.value - plain.gap.value),
        chosen={dose: float((held.chosen == dose).mean()) for dose in curve.doses},
        dose=final.dose,
        barred=final.barred,
        repeats=repeats,
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
    curve: DoseCurve, margins: FloatArray, hits: FloatArray | Rows, held: OutOfFold, drawn: Measures
) -> HeldOutPeople:
    """Out-of-fold results against people, rows averaged over repeats, with the intervals of `drawn`, the same on
    resampled prompts. `margins`, at doses chosen without the row, and `hits`, of several models their mean, have shape
    (repeats, n); margins of several models stand one after another.
    """
    measured = mean_against_people(margins, curve.people, curve.prompt_ids)
    covering = {
        "skew": _covering(measured.skew, drawn.skew),
        "miscalibration": _covering(measured.miscalibration, drawn.miscalibration),
        "signed_gap": _covering(measured.signed_gap, drawn.signed_gap),
    }
    return _held_out(curve, hits, held, drawn, measured.model_copy(update=covering), METHOD)


def _at_fixed(curve: DoseCurve, dose: float, held: OutOfFold, drawn: Resampled) -> HeldOutPeople:
    """A fixed dose, measured on the halves of the chosen doses."""
    margins = curve.margins_at(dose)
    measured = against_people(margins, curve.people, curve.prompt_ids)
    return _held_out(curve, margins > 0, held, drawn.at(dose), measured, FIXED_METHOD)


def _held_out(
    curve: DoseCurve, hits: FloatArray | Rows, held: OutOfFold, drawn: Measures, measured: AgainstPeople, method: str
) -> HeldOutPeople:
    """Results with the mean size of the gap on a half; hits of shape (repeats, n), or (n,) at a fixed dose."""
    used = curve.people.used
    gaps = half_gaps(hits[..., used], curve.people.target[used], held.first_half[:, used])
    value, size = float(mean_size(gaps.ravel())), absolute(measured.signed_gap)
    bounds = {"value": value, "low": min(size.low, value), "high": max(size.high, value)}
    return HeldOutPeople(
        skew=measured.skew,
        human_skew=measured.human_skew,
        miscalibration=measured.miscalibration,
        gap=_covering(size.model_copy(update=bounds), drawn.gap, method),
        mean_signed_gap=measured.signed_gap,
        n_ties=measured.n_ties,
    )


def _change(curve: DoseCurve, dose: float, held: OutOfFold, drawn: Resampled, gap: float) -> HeldOutChange:
    """Out-of-fold rows, averaged over repeats, minus the same rows at a fixed dose; `gap` is the change of the gaps."""
    rows, at = curve.people.used, curve.doses.index(dose)
    target, ids = curve.people.target[rows], list(compress(curve.prompt_ids, rows))
    fixed, chosen = (curve.margins[at, rows] > 0).astype(np.float64), (held.margins[:, rows] > 0).astype(np.float64)
    own, other = drawn.dose, drawn.at(dose)
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
    if high - low <= ROUNDING:
        return estimate
    bounds = {"low": min(low, estimate.value), "high": max(high, estimate.value), "method": method}
    return estimate.model_copy(update=bounds)


@dataclass(frozen=True, slots=True)
class _Contrasts:
    """Sums over each prompt's contrasts with a majority."""

    n: FloatArray  # (prompts,)
    hits: FloatArray  # (prompts, doses)
    misses: FloatArray
    excess: FloatArray


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over each prompt's rows. Doses in order of preference."""

    choosing: tuple[_Contrasts, ...]  # of each bias
    measured: _Contrasts
    n_quality: FloatArray
    right: FloatArray  # quality pairs ranked right
    base: int  # place of dose 0
    plain: int  # place of dose 1

    @property
    def totals(self) -> tuple[FloatArray, ...]:
        return self.measured.hits, self.measured.misses, self.measured.excess, self.right

    def shares(self, totals: FloatArray, weights: FloatArray) -> FloatArray:
        """Totals, shape (draws, 4), over the number of rows in each draw."""
        with np.errstate(invalid="ignore", divide="ignore"):
            n, n_quality = weights @ self.measured.n, weights @ self.n_quality
            return np.asarray(totals / np.column_stack([n, n, n, n_quality]))


def resampled_choices(
    curve: DoseCurve,
    weights: FloatArray,
    rng: np.random.Generator,
    max_quality_loss: float,
    bias: str | None = None,
    repeats: int = REPEATS_A_DRAW,
) -> Resampled:
    """Draw by draw: split the drawn prompts in two, choose on each half, measure on the other, average over repeats. A
    prompt drawn twice counts twice on one side: copies are never split, and the distinct prompts of a draw are divided
    evenly. `weights`: count of each prompt of `prompt_codes` in each draw, shape (draws, prompts).
    """
    sums = _sums(curve, bias)
    step = max(1, _MAX_NUMBERS // weights.shape[1])
    parts = [
        _chosen(sums, weights[at : at + step], rng, max_quality_loss, repeats) for at in range(0, len(weights), step)
    ]
    gaps = np.concatenate([part[1] for part in parts], axis=1)

    def measures(shares: FloatArray, half_gaps: FloatArray) -> Measures:
        skew, miscalibration, signed_gap, quality = shares.T
        has_quality = curve.quality_margins is not None
        return Measures(skew, miscalibration, signed_gap, half_gaps, quality if has_quality else None)

    def at_fixed(dose: int) -> FloatArray:
        return sums.shares(np.column_stack([weights @ total[:, dose] for total in sums.totals]), weights)

    return Resampled(
        measures(np.concatenate([part[0] for part in parts]), gaps[0]),
        measures(at_fixed(sums.base), gaps[1]),
        measures(at_fixed(sums.plain), gaps[2]),
    )


def draw_prompts(strata: Codes, rng: np.random.Generator, n_draws: int = N_DRAWS) -> FloatArray:
    """Count of each prompt in each draw, with the size of every stratum fixed. Shape (n_draws, prompts)."""
    weights = np.zeros((n_draws, len(strata)))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        weights[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=n_draws)
    return weights


def _sums(curve: DoseCurve, bias: str | None) -> _Sums:
    order, people = preference_order(curve.doses), curve.people
    of_contrast, of_quality, strata = prompt_codes(curve)

    def by_prompt(rows: FloatArray, of_row: Codes) -> FloatArray:
        sums = np.zeros((len(strata), rows.shape[1]))
        np.add.at(sums, of_row, rows)
        return sums

    def counts(of_row: Codes) -> FloatArray:
        return np.bincount(of_row, minlength=len(strata)).astype(np.float64)

    def contrasts(rows: Rows) -> _Contrasts:
        used = people.used & rows
        hits, at = (curve.margins[order][:, used] > 0).T.astype(np.float64), of_contrast[used]
        excess = hits - people.target[used][:, None]
        return _Contrasts(counts(at), *(by_prompt(sums, at) for sums in (hits, np.abs(excess), excess)))

    right = np.zeros((len(of_quality), len(order)))
    if curve.quality_margins is not None:
        right = (curve.quality_margins[order] > 0).T.astype(np.float64)
    doses = np.array(curve.doses)[order].tolist()
    return _Sums(
        tuple(contrasts(rows) for rows in curve.bias_rows()),
        contrasts(curve.rows_of(bias)),
        counts(of_quality),
        by_prompt(right, of_quality),
        doses.index(0.0),
        doses.index(1.0),
    )


def _chosen(
    sums: _Sums, weights: FloatArray, rng: np.random.Generator, max_quality_loss: float, repeats: int
) -> tuple[FloatArray, FloatArray]:
    """Every draw split, chosen on and measured: out-of-fold skew, miscalibration, signed gap and quality, shape (draws,
    4); and the signed gap on every half at the dose of the other half, at 0 and at 1, shape (3, draws, 2 · repeats).
    """
    totals, gaps = np.zeros((len(weights), 4)), np.empty((3, len(weights), 2 * repeats))
    voted = np.sum([contrasts.n for contrasts in sums.choosing], axis=0) > 0
    strata = 2 * voted + (sums.n_quality > 0)
    rows = np.arange(len(weights))
    for split in range(repeats):
        first = _halves(strata, weights, rng)
        for side, here in enumerate((first, ~first)):
            best = _best(sums, weights * here, max_quality_loss)
            other = weights * ~here
            on_other = [other @ total for total in sums.totals]
            totals += np.column_stack([total[rows, best] for total in on_other]) / repeats
            with np.errstate(invalid="ignore", divide="ignore"):
                on_half = on_other[2] / (other @ sums.measured.n)[:, None]
            gaps[:, :, 2 * split + side] = on_half[rows, best], on_half[:, sums.base], on_half[:, sums.plain]
    return sums.shares(totals, weights), gaps


def _best(sums: _Sums, weights: FloatArray, max_quality_loss: float) -> Codes:
    """Each draw's dose by the rule of `choose_dose`, as its place in the order of preference. Shape (draws,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        n_quality = (weights @ sums.n_quality)[:, None]
        losses = []
        for contrasts in sums.choosing:
            n = (weights @ contrasts.n)[:, None]
            losses.append((weights @ contrasts.misses) / n + np.abs((weights @ contrasts.excess) / n))
        # A draw may leave a half without a contrast of one bias; then the others choose.
        n_chosen = np.sum([np.isfinite(loss) for loss in losses], axis=0)
        objective = np.round(np.sum([np.nan_to_num(loss, nan=0.0) for loss in losses], axis=0) / n_chosen, DECIMALS)
        right = (weights @ sums.right) / n_quality
    lost = np.round(right[:, [sums.base]] - right, DECIMALS)
    barred = lost > max_quality_loss  # without quality pairs, 0/0 bars nothing
    barred[:, sums.base] = False
    return np.asarray(np.where(barred, np.inf, objective).argmin(axis=1))


def _halves(strata: Codes, weights: FloatArray, rng: np.random.Generator) -> Rows:
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
