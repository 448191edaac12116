"""A dose chosen on one half of the prompts and applied to the other, again and again; and gaps on these halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.errors import DataError
from cda.metrics.dose import MAX_QUALITY_LOSS, DoseCurve, FloatArray, Rows, choose_dose
from cda.metrics.votes import Majority

Codes = NDArray[np.int64]
REPEATS = 50
MIN_PROMPTS = 20
"""Prompts that a choice needs, with a majority and with quality pairs: of two halves, each must tell a gap of 30 points
from none, and a share of ten prompts has a standard error of 16 points at most."""


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """Margins at doses that were chosen without the row, once a repeat.

    Attributes:
        margins: Shape (repeats, n), reward units.
        quality_margins: Shape (repeats, m); None without quality pairs.
        first_half: On which side of the split each contrast was. Shape (repeats, n).
        chosen: λ chosen on the first half and on the second. Shape (repeats, 2).
    """

    margins: FloatArray
    quality_margins: FloatArray | None
    first_half: Rows
    chosen: FloatArray


def out_of_fold(
    curve: DoseCurve,
    people: Majority,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
) -> OutOfFold:
    """Split the prompts in two, choose a dose on each half, apply it to the other; again and again.

    A prompt's contrasts and quality pairs are always on one side. Prompts with a majority, and prompts with quality
    pairs, are each split evenly.

    Raises:
        DataError: Fewer than `MIN_PROMPTS` prompts with a majority (or with quality pairs, where there are any), no
            repeats, and as in `choose_dose`.
    """
    if not len(prompt_ids) == curve.margins.shape[1] == len(people.target):
        raise DataError(
            f"{curve.margins.shape[1]} margins a dose, {len(people.target)} majorities, {len(prompt_ids)} prompts: one each"
        )
    if repeats < 1:
        raise DataError(f"{repeats} repeats of cross-validation: at least 1 is needed")
    of_contrast, of_quality, strata = prompt_codes(curve, people, prompt_ids)
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
            dose = choose_dose(curve, people, here[of_contrast], here[of_quality], max_quality_loss).dose
            at, other, other_quality = curve.doses.index(dose), ~here[of_contrast], ~here[of_quality]
            chosen[repeat, side] = dose
            margins[repeat, other] = curve.margins[at, other]
            if quality is not None and curve.quality_margins is not None:
                quality[repeat, other_quality] = curve.quality_margins[at, other_quality]
    return OutOfFold(margins, quality, halves, chosen)


def half_gaps(hits: FloatArray | Rows, target: FloatArray, first_half: Rows) -> FloatArray:
    """Skew − human skew on each half alone; NaN where a half holds no row.

    Rows of both halves must not be put together before the size is taken: where a half ends above people's skew, the
    dose that it chooses lies too low for the other half, and the two would cancel.

    Args:
        hits: 1 where the margin is above 0. Shape (repeats, n), or (n,) at a fixed dose.
        target: People's majorities. Shape (n,).
        first_half: On which side each row was. Shape (repeats, n).

    Returns:
        Shape (repeats, 2).
    """
    excess = hits - target
    with np.errstate(invalid="ignore"):
        return np.stack([(excess * half).sum(axis=1) / half.sum(axis=1) for half in (first_half, ~first_half)], axis=1)


def mean_size(gaps: FloatArray) -> FloatArray:
    """Mean of |gap| over the last axis, without halves that held no row; NaN where none held any."""
    there = np.isfinite(gaps)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, np.abs(gaps), 0.0).sum(axis=-1) / there.sum(axis=-1))


def prompt_codes(curve: DoseCurve, people: Majority, prompt_ids: Sequence[str]) -> tuple[Codes, Codes, Codes]:
    """Number of the prompt of each contrast and of each quality pair; per prompt 2 with a majority, + 1 with pairs."""
    names, of_row = np.unique([*map(str, prompt_ids), *map(str, curve.quality_prompt_ids)], return_inverse=True)
    of_contrast, of_quality = np.split(of_row.astype(np.int64), [len(prompt_ids)])
    voted, checked = (np.isin(np.arange(len(names)), ones) for ones in (of_contrast[people.used], of_quality))
    return of_contrast, of_quality, (2 * voted + checked).astype(np.int64)


def _half(strata: Codes, rng: np.random.Generator) -> Rows:
    """A random half of each stratum; of an odd one, either the smaller or the larger half."""
    first = np.zeros(len(strata), dtype=bool)
    for stratum in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == stratum))
        first[members[: (len(members) + int(rng.integers(2))) // 2]] = True
    return first


def _enough(found: int, what: str, do: str) -> None:
    if found < MIN_PROMPTS:
        raise DataError(
            f"{found} prompts {what}: choosing a dose on one half and measuring it on the other needs at least "
            f"{MIN_PROMPTS}; {do} {MIN_PROMPTS - found} more"
        )
