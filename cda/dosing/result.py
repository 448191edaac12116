"""The dose in numbers: every way of taking the bias out on the same contrasts, held out, and which of them does best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import JsonValue

from cda.arrays import FloatArray
from cda.auditing.groups import Group, people_of
from cda.dosing.choice import DoseCurve, dose_response, mixed_curve
from cda.dosing.held_out import cross_validated_dose
from cda.errors import DataError
from cda.recipe.audit import DoseSection
from cda.records import Exclusions, Pair, TieRule, count_reasons, prompt_id
from cda.results.dose import (
    Aim,
    BestWay,
    DoseMethod,
    DosePoint,
    DoseResult,
    HeldOutBias,
    HeldOutDose,
    HeldOutPeople,
    MixingDiffers,
    PlainChange,
)
from cda.scorers.compared import Rewards
from cda.stats.proportions import paired_change
from cda.stats.streams import Stream, generator
from cda.stats.votes import Majority, assumed_ties

Curve = Mapping[float, Rewards]
MIXING = "mixing"
UNREAD = "a text too long, or both sides the same after cutting"
METHODS = ("dose", MIXING, "direction", "features")
"""The adapter at a dose; scores before and after mixed; a direction of the hidden states, or measured features, taken off."""


def dose_result(
    curves: Mapping[str, Curve],
    groups: Mapping[str, Sequence[Group]],
    pairs: Sequence[Pair],
    ties: TieRule,
    settings: DoseSection,
    seed: int,
    aim: Aim = "votes",
    *,
    too_few: Mapping[str, int],
    missing: Mapping[str, str],
    fitted: Mapping[str, dict[str, JsonValue]],
    available_quality: int,
) -> DoseResult:
    """Everything that a report shows of the dose.

    Args:
        curves: Method to rewards at every dose; `dose` is one of them, the others are compared with it.
        groups: Method to the contrasts of each bias with their margins at every dose.
        pairs: Quality pairs.
        ties: What people's ties count.
        settings: The recipe's.
        seed: Of splits and intervals.
        aim: What the dose is to come near. For a tie the gap is |skew − 50%|, and miscalibration says nothing.
        too_few: Biases without a say, with their prompts.
        missing: Ways that were not tried, with the reason.
        fitted: What was fitted for the ways without training.
        available_quality: Quality pairs before a sample was drawn.

    Raises:
        DataError: Too few prompts to choose a dose by, or quality pairs of which none can be read.
    """
    made = {name: _curve(curves[name], groups[name], pairs, ties, aim) for name in curves}
    own, people, ids, left_out, unread = made["dose"]
    base, plain = (own.doses.index(dose) for dose in (0.0, 1.0))
    checked = own.quality_margins
    mixed = mixed_curve(
        own.margins[base],
        own.margins[plain],
        own.doses,
        None if checked is None else checked[base],
        None if checked is None else checked[plain],
        own.quality_prompt_ids,
    )
    made[MIXING] = (_with_biases(mixed, own.biases), people, ids, {}, {})
    methods = {name: _method(*made[name][:3], settings, seed) for name in METHODS if name in made}
    return DoseResult(
        doses=own.doses,
        biases=tuple(sorted(set(own.biases))),
        aim=aim,
        repeats=settings.repeats,
        max_quality_loss=settings.max_quality_loss,
        chosen=methods["dose"].chosen,
        methods=methods,
        mixing_differs=_mixing_differs(own, mixed),
        best=best(methods, aim),
        quality_pairs=len(own.quality_prompt_ids),
        left_out={"contrasts": left_out, "quality pairs": unread},
        seed=seed,
        too_few=dict(too_few),
        missing=dict(missing),
        fitted=dict(fitted),
        available_quality=available_quality,
    )


def best(methods: Mapping[str, DoseMethod], aim: Aim = "votes") -> BestWay:
    """The way of least miscalibration + gap (of least gap, where the aim is a tie), held out, in the mean over biases, among
    those that keep quality.

    Fixed doses 0 (no training) and 1 (plain CDA) stand beside the chosen ones, measured on the same halves: a gap on half
    of the votes is larger by chance than on all of them. Quality is kept where no more than the allowed share is lost in
    the held-out estimate.
    """
    losses = {name: _loss(method, "people", aim) for name, method in methods.items() if method.quality_kept}
    losses["no training"] = _loss(methods["dose"], "base", aim)
    if methods["dose"].plain_keeps_quality:
        losses["plain CDA"] = _loss(methods["dose"], "plain", aim)
    return BestWay(name=min(losses, key=lambda name: losses[name]), losses=losses)


def _loss(method: DoseMethod, procedure: Literal["people", "base", "plain"], aim: Aim) -> float:
    held: list[HeldOutPeople] = [getattr(one, procedure) for one in method.held_out.values()]
    return float(np.mean([one.gap.value + (0 if aim == "tie" else one.miscalibration.value) for one in held]))


def _method(curve: DoseCurve, people: Majority, ids: Sequence[str], settings: DoseSection, seed: int) -> DoseMethod:
    held: dict[str, HeldOutDose] = {
        bias: cross_validated_dose(curve, people, ids, _rng(seed), settings.repeats, settings.max_quality_loss, bias)
        for bias in sorted(set(curve.biases))
    }
    first = next(iter(held.values()))
    response = {bias: _response(curve, people, ids, bias) for bias in held}
    plain = next(one for one in next(iter(response.values())) if one.dose == 1.0).quality_change
    limit = settings.max_quality_loss
    return DoseMethod(
        chosen=first.dose,
        barred=first.barred,
        shares={f"{dose:g}": share for dose, share in first.chosen.items()},
        quality=first.quality,
        quality_kept=first.against_base.quality is None or first.against_base.quality.value >= -limit,
        plain_keeps_quality=plain is None or plain.value >= -limit,
        held_out={
            bias: HeldOutBias(
                people=one.people,
                base=one.base,
                plain=one.plain,
                plain_change=_plain_change(curve, people, ids, bias),
                against_base=one.against_base,
                against_plain=one.against_plain,
            )
            for bias, one in held.items()
        },
        response=response,
    )


def _plain_change(curve: DoseCurve, people: Majority, ids: Sequence[str], bias: str) -> PlainChange:
    """What dose 1 changes against dose 0: nothing is chosen, so it is measured on all rows of a bias."""
    rows = np.flatnonzero(curve.rows_of(bias) & people.used)
    before, after, target = curve.margins_at(0.0)[rows] > 0, curve.margins_at(1.0)[rows] > 0, people.target[rows]
    kept = [ids[row] for row in rows.tolist()]
    return PlainChange(
        skew=paired_change(before * 1.0, after * 1.0, kept),
        miscalibration=paired_change(np.abs(before - target), np.abs(after - target), kept),
    )


def _response(curve: DoseCurve, people: Majority, ids: Sequence[str], bias: str) -> tuple[DosePoint, ...]:
    rows = curve.rows_of(bias)
    own = DoseCurve(curve.doses, curve.margins[:, rows], curve.quality_margins, curve.quality_prompt_ids)
    majority = Majority(people.target[rows], people.used[rows], people.rule, people.exclusions)
    kept = [one for one, keep in zip(ids, rows, strict=True) if keep]
    return dose_response(own, majority, kept)


def _curve(
    curve: Curve, groups: Sequence[Group], pairs: Sequence[Pair], ties: TieRule, aim: Aim
) -> tuple[DoseCurve, Majority, list[str], dict[str, int], dict[str, int]]:
    """Margins of all biases side by side, with people's majorities and the clusters; contrasts and pairs left out."""
    doses = tuple(curve)
    margins, targets, used = [], [], []
    ids: list[str] = []
    biases: list[str] = []
    reasons: list[str] = []
    for group in groups:
        majority = _majority(group, ties, aim)
        reasons += [UNREAD] * group.n_unread
        margins.append(np.array([group.margins[f"{dose:g}"] for dose in doses]))
        targets.append(majority.target)
        used.append(majority.used)
        reasons += [reason for reason, n in majority.exclusions.reasons.items() for _ in range(n)]
        ids += group.prompt_ids
        biases += [group.bias.name] * len(group)
    found = np.concatenate(used)
    whole_majority = Majority(np.concatenate(targets), found, ties, Exclusions(len(found), count_reasons(reasons)))
    quality, names = _quality(pairs, curve)
    whole = DoseCurve(doses, np.concatenate(margins, axis=1), quality, names, tuple(biases))
    return whole, whole_majority, ids, count_reasons(reasons), count_reasons([UNREAD] * (len(pairs) - len(names)))


def _majority(group: Group, ties: TieRule, aim: Aim) -> Majority:
    if aim == "tie":
        return assumed_ties(len(group))
    people = people_of(group, ties)
    if people is None:
        raise DataError(
            f"{group.bias.name}: nobody's majority is for one side of a contrast; no dose can be chosen by it"
        )
    return people.majority


def _quality(pairs: Sequence[Pair], curve: Curve) -> tuple[FloatArray | None, tuple[str, ...]]:
    """score(chosen) − score(rejected) at each dose, shape (k, m), without pairs that some dose says nothing of.

    Raises:
        DataError: There are pairs, and none can be read: a dose would be chosen with no limit on the quality it loses.
    """
    compared = [(pair.prompt, pair.chosen, pair.rejected) for pair in pairs]
    if not compared:
        return None, ()
    margins = np.array([rewards.margins(compared) for rewards in curve.values()])
    read = np.isfinite(margins).all(axis=0)
    if not read.any():
        raise DataError(
            f"none of {len(pairs)} quality pairs can be read at every dose ({UNREAD}), and without one a dose is chosen with "
            "no limit on quality loss. Raise model.max_length_tokens, give shorter pairs (audit.quality), or none at all "
            "(audit.quality=null)"
        )
    return margins[:, read], tuple(prompt_id(pair.prompt) for pair, keep in zip(pairs, read, strict=True) if keep)


def _with_biases(curve: DoseCurve, biases: tuple[str, ...]) -> DoseCurve:
    return DoseCurve(curve.doses, curve.margins, curve.quality_margins, curve.quality_prompt_ids, biases)


def _mixing_differs(own: DoseCurve, mixed: DoseCurve) -> dict[str, MixingDiffers]:
    """How far mixed scores are from the adapter's own at each dose: preferences that differ, and the mean distance of the
    margins as a share of the spread of the change from dose 0 to 1."""
    ends = own.margins_at(1.0) - own.margins_at(0.0)
    spread = float(np.sqrt((ends**2).mean())) or 1.0
    return {
        f"{dose:g}": MixingDiffers(
            preferences=float(((one > 0) != (other > 0)).mean()),
            distance=float(np.abs(one - other).mean()) / spread,
            n=len(one),
        )
        for dose, one, other in zip(own.doses, own.margins, mixed.margins, strict=True)
    }


def _rng(seed: int) -> np.random.Generator:
    return generator(seed, Stream.INTERVALS)
