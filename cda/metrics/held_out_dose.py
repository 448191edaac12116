"""How a dose does on rows that had no say in choosing it: repeated 2-fold cross-validation, split by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cda.errors import DataError
from cda.metrics.dose import MAX_QUALITY_LOSS, DoseCurve, FloatArray, Rows, choose_dose
from cda.metrics.people import AgainstPeople, absolute, mean_against_people
from cda.metrics.people_change import gap_change
from cda.metrics.resampled_dose import Codes, Measures, Resampled, draw_prompts, resampled_choices
from cda.metrics.votes import Majority
from cda.stats.estimate import Estimate
from cda.stats.proportions import paired_change, share

REPEATS = 50
METHOD = "prompts drawn and doses chosen anew, bootstrap 95%"
MIN_PROMPTS = 20
"""Prompts that a choice needs, with a majority and with quality pairs: of two halves, each must tell a gap of 30 points
from none, and a share of ten prompts has a standard error of 16 points at most."""
_ROUNDING = 1e-12  # an interval narrower than this has no spread behind it


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


@dataclass(frozen=True, slots=True)
class HeldOutChange:
    """The chosen dose, held out, minus a fixed dose on the same rows; a negative miscalibration or gap is a gain."""

    skew: Estimate
    miscalibration: Estimate
    gap: Estimate
    quality: Estimate | None


@dataclass(frozen=True, slots=True)
class HeldOutDose:
    """How choosing the dose does on rows that had no say in it, and the dose to export.

    Attributes:
        people: Skew, miscalibration and gap, each row at the doses chosen without it, averaged over repeats. The gap is
            that of the averaged skew. `n_ties` counts rows of every repeat; there is no AUC, since margins of several
            doses are not on one scale.
        quality: Accuracy on quality pairs, likewise; None without any.
        against_base: Change from dose 0.
        against_plain: Change from dose 1.
        chosen: Each dose's share of the 2 × `repeats` choices, in order of dose.
        dose: λ chosen on all rows, for export. Its own numbers on these rows would flatter it.
        barred: Doses that lose more quality than allowed on all rows.
        repeats: Splits in two.
    """

    people: AgainstPeople
    quality: Estimate | None
    against_base: HeldOutChange
    against_plain: HeldOutChange
    chosen: dict[float, float]
    dose: float
    barred: tuple[float, ...]
    repeats: int


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
    of_contrast, of_quality, strata = _prompts(curve, people, prompt_ids)
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


def cross_validated_dose(
    curve: DoseCurve,
    people: Majority,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
    bias: str | None = None,
) -> HeldOutDose:
    """Choose the dose, and say how such a choice does on rows that had no say in it (repeated 2-fold, by prompt).

    Estimates average each row's out-of-fold hits over repeats. For the intervals prompts are drawn with replacement and
    the doses chosen anew in every draw, so that they cover which prompts were measured and what those would choose.
    Prompts drawn once and the choices kept instead, the interval of a change of skew would hold the truth a third of
    the time. What they do not cover: the choices rest on half the votes, the exported dose on all of them.

    The gap is that of the averaged skew: what choosing a dose leaves on average. A single choice scatters around it.

    Args:
        curve: Margins at every dose.
        people: Majorities of the n contrasts; all for one side will do.
        prompt_ids: Cluster of each contrast, in the same names as the curve's quality prompts. Length n.
        rng: For splits and intervals.
        repeats: Splits in two.
        max_quality_loss: Accuracy that a dose may lose against dose 0 on the half it is chosen on, as a share.
        bias: Measure on the contrasts of this one of the curve's biases; those of all choose.

    Raises:
        DataError: Too few prompts (says how many there are and are needed), and as in `choose_dose`.
    """
    held = out_of_fold(curve, people, prompt_ids, rng, repeats, max_quality_loss)
    final = choose_dose(curve, people, max_quality_loss=max_quality_loss)
    drawn = _resampled([curve], people, prompt_ids, rng, max_quality_loss, bias)
    own = curve.rows_of(bias)
    held = replace(held, margins=held.margins[:, own], first_half=held.first_half[:, own])
    people = replace(people, target=people.target[own], used=people.used[own])
    prompt_ids = [name for name, keep in zip(prompt_ids, own, strict=True) if keep]
    curve = replace(curve, margins=curve.margins[:, own], biases=())
    quality = None
    if held.quality_margins is not None:
        accuracy = share((held.quality_margins > 0).mean(axis=0), curve.quality_prompt_ids, rng)
        quality = _covering(accuracy, drawn.dose.quality)
    return HeldOutDose(
        people=_people([held], drawn.dose, people, prompt_ids, rng),
        quality=quality,
        against_base=_change(curve, 0.0, held, drawn, people, prompt_ids, rng),
        against_plain=_change(curve, 1.0, held, drawn, people, prompt_ids, rng),
        chosen={dose: float((held.chosen == dose).mean()) for dose in curve.doses},
        dose=final.dose,
        barred=final.barred,
        repeats=repeats,
    )


def held_out_mean(
    curves: Sequence[DoseCurve],
    people: Majority,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    repeats: int = REPEATS,
    max_quality_loss: float = MAX_QUALITY_LOSS,
) -> AgainstPeople:
    """Held-out mean over models on the same rows, each at doses of its own; the gap is that of their mean skew.

    Raises:
        DataError: No model, and as in `cross_validated_dose`.
    """
    if not curves:
        raise DataError("no model: the mean over models needs one at least")
    held = [out_of_fold(one, people, prompt_ids, rng, repeats, max_quality_loss) for one in curves]
    drawn = _resampled(curves, people, prompt_ids, rng, max_quality_loss)
    return _people(held, drawn.dose, people, prompt_ids, rng)


def _people(
    models: Sequence[OutOfFold], drawn: Measures, people: Majority, prompt_ids: Sequence[str], rng: np.random.Generator
) -> AgainstPeople:
    # Repeats stand beside each other as models do: rows are averaged over all of them.
    found = mean_against_people(np.concatenate([one.margins for one in models]), people, prompt_ids, rng)
    signed = _covering(found.signed_gap, drawn.signed_gap)
    return replace(
        found,
        skew=_covering(found.skew, drawn.skew),
        miscalibration=_covering(found.miscalibration, drawn.miscalibration),
        signed_gap=signed,
        gap=absolute(signed),
    )


def _change(
    curve: DoseCurve,
    dose: float,
    held: OutOfFold,
    drawn: Resampled,
    people: Majority,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
) -> HeldOutChange:
    """Out-of-fold rows, averaged over repeats, minus the same rows at a fixed dose."""
    rows, at = people.used, curve.doses.index(dose)
    target, ids = people.target[rows], [name for name, keep in zip(prompt_ids, rows, strict=True) if keep]
    fixed, chosen = (curve.margins[at, rows] > 0).astype(np.float64), (held.margins[:, rows] > 0).astype(np.float64)
    other = drawn.base if dose == 0 else drawn.plain
    moved = drawn.dose.minus(other)
    quality = None
    if curve.quality_margins is not None and held.quality_margins is not None:
        right = curve.quality_margins[at] > 0, (held.quality_margins > 0).mean(axis=0)
        quality = _covering(paired_change(*right, curve.quality_prompt_ids, rng), moved.quality)
    missed = np.abs(fixed - target), np.abs(chosen - target).mean(axis=0)
    gaps = np.abs(drawn.dose.signed_gap) - np.abs(other.signed_gap)
    return HeldOutChange(
        skew=_covering(paired_change(fixed, chosen.mean(axis=0), ids, rng), moved.skew),
        miscalibration=_covering(paired_change(*missed, ids, rng), moved.miscalibration),
        gap=_covering(gap_change(fixed, chosen.mean(axis=0), target, ids, rng), gaps),
        quality=quality,
    )


def _resampled(
    curves: Sequence[DoseCurve],
    people: Majority,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    max_quality_loss: float,
    bias: str | None = None,
) -> Resampled:
    """The procedure on resampled prompts; of several models, the mean in every draw."""
    of_contrast, of_quality, strata = _prompts(curves[0], people, prompt_ids)
    if any(one.quality_prompt_ids != curves[0].quality_prompt_ids for one in curves):
        raise DataError("the models have quality pairs of different prompts: their mean needs the same pairs")
    weights = draw_prompts(strata, rng)
    found = [
        resampled_choices(one, people, of_contrast, of_quality, weights, rng, max_quality_loss, bias) for one in curves
    ]
    if len(found) == 1:
        return found[0]
    return Resampled(
        *(_mean(models) for models in zip(*((one.dose, one.base, one.plain) for one in found), strict=True))
    )


def _mean(models: Sequence[Measures]) -> Measures:
    """Mean over models of what `AgainstPeople` holds, draw by draw."""
    skew, miscalibration, signed_gap = (
        np.mean([getattr(one, name) for one in models], axis=0) for name in ("skew", "miscalibration", "signed_gap")
    )
    return Measures(skew, miscalibration, signed_gap, quality=None)


def _covering(one: Estimate, draws: FloatArray | None) -> Estimate:
    """An estimate with the interval of the draws; where no draw differs, its own interval keeps its width."""
    if draws is None:
        return one
    low, high = np.nanquantile(draws, (0.025, 0.975))
    if high - low <= _ROUNDING:
        return one
    return replace(one, low=min(float(low), one.value), high=max(float(high), one.value), method=METHOD)


def _prompts(curve: DoseCurve, people: Majority, prompt_ids: Sequence[str]) -> tuple[Codes, Codes, Codes]:
    """Number of the prompt of each contrast and of each quality pair; per prompt 2 with a majority, + 1 with pairs."""
    names, of_row = np.unique([*map(str, prompt_ids), *map(str, curve.quality_prompt_ids)], return_inverse=True)
    of_contrast, of_quality = np.split(of_row.astype(np.int64), [len(prompt_ids)])
    voted, checked = (np.isin(np.arange(len(names)), ones) for ones in (of_contrast[people.used], of_quality))
    return of_contrast, of_quality, (2 * voted + checked).astype(np.int64)


def _half(strata: NDArray[np.int64], rng: np.random.Generator) -> Rows:
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
