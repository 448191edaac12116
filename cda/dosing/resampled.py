"""Choosing a dose on resampled prompts: the whole procedure anew in every draw, so that intervals cover the choice too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cda.arrays import FloatArray
from cda.dosing.choice import DECIMALS, Codes, DoseCurve, Rows, mean_size, preference_order
from cda.stats.votes import Majority

N_DRAWS = 1_000
REPEATS_A_DRAW = 10  # fewer than the estimate has: their own noise widens the interval by a hair
_MAX_NUMBERS = 1 << 20  # draws × prompts at a time


@dataclass(frozen=True, slots=True)
class Measures:
    """Results of one procedure in every draw; NaN if a draw left nothing to measure on.

    Attributes:
        skew: Shape (draws,), as `miscalibration`, `signed_gap` (of all rows together) and `quality`.
        half_gaps: Skew − human skew on each half alone. Shape (draws, halves).
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
    people: Majority,
    of_contrast: Codes,
    of_quality: Codes,
    weights: FloatArray,
    rng: np.random.Generator,
    max_quality_loss: float,
    bias: str | None = None,
    repeats: int = REPEATS_A_DRAW,
) -> Resampled:
    """Draw by draw: split the drawn prompts in two, choose on each half, measure on the other, average over repeats.

    A prompt drawn twice counts twice on one side: copies are never split, and the distinct prompts of a draw are divided
    evenly.

    Args:
        curve: Margins at every dose.
        people: Majorities of the n contrasts.
        of_contrast: Number of the prompt of each contrast. Shape (n,).
        of_quality: Number of the prompt of each quality pair. Shape (m,).
        weights: Count of each prompt in each draw. Shape (draws, prompts).
        max_quality_loss: As in `choose_dose`.
        bias: Measure on its contrasts alone; the dose is chosen on all contrasts.
        repeats: Splits of each draw.
    """
    sums = _sums(curve, people, of_contrast, of_quality, weights.shape[1], bias)
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


def _sums(
    curve: DoseCurve, people: Majority, of_contrast: Codes, of_quality: Codes, n_prompts: int, bias: str | None
) -> _Sums:
    order = preference_order(curve.doses)
    quality = np.zeros((len(of_quality), len(order)))
    if curve.quality_margins is not None:
        quality = (curve.quality_margins[order] > 0).T.astype(np.float64)

    def contrasts(rows: Rows) -> _Contrasts:
        used = people.used & rows
        hits, at = (curve.margins[order][:, used] > 0).T.astype(np.float64), of_contrast[used]
        excess = hits - people.target[used][:, None]
        n = np.bincount(at, minlength=n_prompts).astype(np.float64)
        return _Contrasts(n, *(_by_prompt(rows, at, n_prompts) for rows in (hits, np.abs(excess), excess)))

    doses = np.array(curve.doses)[order].tolist()
    return _Sums(
        tuple(contrasts(rows) for rows in curve.bias_rows()),
        contrasts(curve.rows_of(bias)),
        np.bincount(of_quality, minlength=n_prompts).astype(np.float64),
        _by_prompt(quality, of_quality, n_prompts),
        doses.index(0.0),
        doses.index(1.0),
    )


def _chosen(
    sums: _Sums, weights: FloatArray, rng: np.random.Generator, max_quality_loss: float, repeats: int
) -> tuple[FloatArray, FloatArray]:
    """Every draw split, chosen on and measured.

    Returns:
        Out-of-fold skew, miscalibration, signed gap and quality, shape (draws, 4); and the signed gap on every half at
        the dose of the other half, at 0 and at 1, shape (3, draws, 2 · repeats).
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


def _by_prompt(rows: FloatArray, of_row: Codes, n_prompts: int) -> FloatArray:
    sums = np.zeros((n_prompts, rows.shape[1]))
    np.add.at(sums, of_row, rows)
    return sums
