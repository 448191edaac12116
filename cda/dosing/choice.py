"""The dose of a debiasing adapter: its dose–response curve, and the dose that people's votes choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.dose import DosePoint
from cda.stats.people import against_people
from cda.stats.proportions import paired_change, positive_share
from cda.stats.votes import Majority

Rows = NDArray[np.bool_]
Codes = NDArray[np.int64]
DOSES = tuple(step / 4 for step in range(11))
"""0 (the base model) to 2.5 in quarters; 1 is plain CDA."""
MAX_QUALITY_LOSS = 0.01
"""Accuracy on quality pairs that a dose may lose against dose 0, as a share."""
REPEATS = 50
MIN_PROMPTS = 20
"""Prompts that a choice needs, with a majority and with quality pairs: of two halves, each must tell a gap of 30 points
from none, and a share of ten prompts has a standard error of 16 points at most."""
DECIMALS = 9  # doses that differ by rounding alone are tied


@dataclass(frozen=True, slots=True)
class DoseCurve:
    """Margins of the same n rows, and m quality pairs, at every dose λ, in reward units, with people's majorities.

    `doses` ascend, with 0 (base model) and 1 (plain CDA) among them, length k. `margins`: score(perturbed) −
    score(base), shape (k, n). `quality_margins`: score(chosen) − score(rejected), shape (k, m); None without any.
    Prompts are clusters. Several `biases` (empty: all rows are of one) weigh the same, and gaps of opposite sign do not
    cancel.
    """

    doses: tuple[float, ...]
    margins: FloatArray
    people: Majority
    prompt_ids: Sequence[str]
    quality_margins: FloatArray | None = None
    quality_prompt_ids: Sequence[str] = ()
    biases: tuple[str, ...] = ()

    def rows_of(self, bias: str | None) -> Rows:
        """True for the contrasts of a bias; for all of them if it is None. Shape (n,)."""
        if bias is None:
            return np.ones(self.margins.shape[1], dtype=bool)
        return np.array([name == bias for name in self.biases], dtype=bool)

    def bias_rows(self) -> list[Rows]:
        """The contrasts of each bias, in alphabetical order; of one bias, all of them."""
        return [self.rows_of(bias) for bias in sorted(set(self.biases))] or [self.rows_of(None)]

    def of(self, bias: str | None) -> DoseCurve:
        """The contrasts of one bias; all of them, as those of one, if it is None."""
        rows, people = self.rows_of(bias), self.people
        return replace(
            self,
            margins=self.margins[:, rows],
            people=replace(people, target=people.target[rows], used=people.used[rows]),
            prompt_ids=list(compress(self.prompt_ids, rows)),
            biases=(),
        )

    def margins_at(self, dose: float) -> FloatArray:
        """Margins of the contrasts at one of the doses. Shape (n,)."""
        return np.asarray(self.margins[self.doses.index(dose)], dtype=np.float64)

    def mixed(self, doses: Sequence[float]) -> DoseCurve:
        """Curve from the scores at 0 and 1 alone: margin(λ) = (1 − λ) · margin(0) + λ · margin(1). Scaling the
        adapter's weights by λ gives another curve wherever scores are not linear in them.
        """
        at, base, plain = np.asarray(doses, dtype=np.float64), self.doses.index(0.0), self.doses.index(1.0)

        def mix(margins: FloatArray) -> FloatArray:
            return np.asarray((1 - at)[:, None] * margins[base] + at[:, None] * margins[plain])

        quality = None if self.quality_margins is None else mix(self.quality_margins)
        return replace(self, doses=tuple(at.tolist()), margins=mix(self.margins), quality_margins=quality)


@dataclass(frozen=True, slots=True)
class Choice:
    """The dose that some rows choose, and the doses that lose more quality than allowed on these rows."""

    dose: float
    barred: tuple[float, ...]


def dose_response(curve: DoseCurve) -> tuple[DosePoint, ...]:
    """Every dose against people, and its change of quality."""
    points = []
    for at, dose in enumerate(curve.doses):
        quality = change = None
        if curve.quality_margins is not None:
            base, here, ids = curve.quality_margins[0], curve.quality_margins[at], curve.quality_prompt_ids
            quality = positive_share(here, ids)
            change = paired_change(base > 0, here > 0, ids) if at else None
        measured = against_people(curve.margins[at], curve.people, curve.prompt_ids)
        points.append(DosePoint(dose=dose, people=measured, quality=quality, quality_change=change))
    return tuple(points)


def choose_dose(
    curve: DoseCurve,
    rows: Rows | None = None,
    quality_rows: Rows | None = None,
    max_quality_loss: float = MAX_QUALITY_LOSS,
) -> Choice:
    """The dose of least miscalibration + gap, in the mean over biases, among those that keep quality, and 0, always
    allowed. Ties go to the dose nearest to 1, then to the smaller. `rows` (n,) and `quality_rows` (m,) limit what the
    choice rests on; among them are a contrast with a majority, and a quality pair if the curve has any.
    """
    used = curve.people.used if rows is None else curve.people.used & rows
    excess = (curve.margins > 0) - curve.people.target
    per_bias = [excess[:, used & own] for own in curve.bias_rows() if (used & own).any()]
    losses = [np.abs(own).mean(axis=1) + np.abs(own.mean(axis=1)) for own in per_bias]
    objective = np.round(np.mean(losses, axis=0), DECIMALS)
    allowed = np.ones(len(curve.doses), dtype=bool)
    if curve.quality_margins is not None:
        checked = curve.quality_margins if quality_rows is None else curve.quality_margins[:, quality_rows]
        right = (checked > 0).mean(axis=1)
        allowed = np.round(right[0] - right, DECIMALS) <= max_quality_loss
        allowed[0] = True
    order = preference_order(curve.doses)
    best = order[np.where(allowed, objective, np.inf)[order].argmin()]
    return Choice(curve.doses[best], tuple(np.array(curve.doses)[~allowed].tolist()))


def preference_order(doses: Sequence[float]) -> Codes:
    """Indices of the doses from the one nearest to 1 outwards; of two as near, the smaller first."""
    from_plain = np.round(np.abs(np.array(doses) - 1), DECIMALS)
    return np.lexsort((np.array(doses), from_plain))


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """Margins at doses chosen without the row, reward units, shape (repeats, n); of quality pairs (repeats, m) or None.
    `first_half`: True for contrasts of that half, shape (repeats, n); `chosen`: λ of either half, shape (repeats, 2).
    """

    margins: FloatArray
    quality_margins: FloatArray | None
    first_half: Rows
    chosen: FloatArray


def out_of_fold(
    curve: DoseCurve, rng: np.random.Generator, repeats: int = REPEATS, max_quality_loss: float = MAX_QUALITY_LOSS
) -> OutOfFold:
    """Split the prompts in two, choose a dose on each half, apply it to the other; `repeats` times.

    A prompt's contrasts and quality pairs are always on one side. Prompts with a majority, and prompts with quality
    pairs, are each split evenly. DataError: fewer than `MIN_PROMPTS` of either, if there are any of the latter.
    """
    of_contrast, of_quality, strata = prompt_codes(curve)
    _enough(int((strata >= 2).sum()), "with a majority of people", "collect votes on")
    if curve.quality_margins is not None:
        _enough(int((strata % 2).sum()), "with quality pairs", "leave quality pairs out, or add pairs of")
    margins = np.empty((repeats, len(of_contrast)))
    quality = None if curve.quality_margins is None else np.empty((repeats, len(of_quality)))
    halves, chosen = np.empty(margins.shape, dtype=bool), np.empty((repeats, 2))
    for repeat in range(repeats):
        first = _half(strata, rng)
        halves[repeat] = first[of_contrast]
        for side, here in enumerate((first, ~first)):
            dose = choose_dose(curve, here[of_contrast], here[of_quality], max_quality_loss).dose
            at, other, other_quality = curve.doses.index(dose), ~here[of_contrast], ~here[of_quality]
            chosen[repeat, side] = dose
            margins[repeat, other] = curve.margins[at, other]
            if quality is not None and curve.quality_margins is not None:
                quality[repeat, other_quality] = curve.quality_margins[at, other_quality]
    return OutOfFold(margins, quality, halves, chosen)


def half_gaps(hits: FloatArray | Rows, target: FloatArray, first_half: Rows) -> FloatArray:
    """Skew − human skew on each half alone, shape (repeats, 2); NaN for a half without rows. Shapes: (repeats, n), or
    (n,).

    Rows of both halves must not be put together before the size is taken: if a half ends above people's skew, the dose
    that it chooses lies too low for the other half, and the two would cancel.
    """
    excess = hits - target
    with np.errstate(invalid="ignore"):
        return np.stack([(excess * half).sum(axis=1) / half.sum(axis=1) for half in (first_half, ~first_half)], axis=1)


def mean_size(gaps: FloatArray) -> FloatArray:
    """Mean of |gap| over the last axis, without halves that held no row; NaN if none held any."""
    there = np.isfinite(gaps)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, np.abs(gaps), 0.0).sum(axis=-1) / there.sum(axis=-1))


def prompt_codes(curve: DoseCurve) -> tuple[Codes, Codes, Codes]:
    """Number of the prompt of each contrast and of each quality pair; per prompt 2 with a majority, + 1 with pairs."""
    names, of_row = np.unique([*curve.prompt_ids, *curve.quality_prompt_ids], return_inverse=True)
    of_contrast, of_quality = np.split(of_row.astype(np.int64), [len(curve.prompt_ids)])
    voted, checked = (np.isin(np.arange(len(names)), codes) for codes in (of_contrast[curve.people.used], of_quality))
    return of_contrast, of_quality, (2 * voted + checked).astype(np.int64)


def _half(strata: Codes, rng: np.random.Generator) -> Rows:
    """A random half of each stratum; of an odd one, either the smaller or the larger half."""
    first = np.zeros(len(strata), dtype=bool)
    for stratum in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == stratum))
        first[members[: (len(members) + int(rng.integers(2))) // 2]] = True
    return first


def _enough(n: int, what: str, do: str) -> None:
    if n < MIN_PROMPTS:
        raise DataError(
            f"{n} prompts {what}: choosing a dose on one half and measuring it on the other needs at least "
            f"{MIN_PROMPTS}; {do} {MIN_PROMPTS - n} more"
        )
