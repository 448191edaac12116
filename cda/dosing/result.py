"""The dose in numbers: every way of taking the bias out on the same contrasts, held out, and which of them does best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Literal

import numpy as np
from pydantic import JsonValue

from cda.arrays import FloatArray
from cda.auditing.groups import Group, pair_comparisons, people_of, read_margins
from cda.dosing.choice import DoseCurve, dose_response
from cda.dosing.held_out import cross_validated_doses
from cda.errors import DataError
from cda.recipe.sections import DoseSection
from cda.records import Exclusions, Pair, TieRule
from cda.results.dose import (
    Aim,
    BestWay,
    DoseMethod,
    DoseResult,
    HeldOutBias,
    HeldOutChoice,
    HeldOutPeople,
    MixingDiffers,
    PlainChange,
)
from cda.scorers.compared import Rewards
from cda.stats.draws import Stream, generator
from cda.stats.proportions import paired_change
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
    """Everything that a report shows of the dose; DataError for too few prompts to choose it, or no readable quality pair.

    `curves` and `groups` are by method: rewards at every dose, and the contrasts of each bias with their margins there.
    The other methods are compared with `dose`. If a tie is the aim, the gap is |skew − 50%|, and miscalibration is meaningless.
    `too_few`: prompts of each bias that has too few to help choose. `missing`: reason for each method that was not tried.
    `fitted`: fitted values of the methods without training. `available_quality`: quality pairs before sampling.
    """
    measured = {name: _measured(curves[name], groups[name], pairs, ties, aim) for name in curves}
    own = measured["dose"]
    measured[MIXING] = mixed = own.mixed(own.doses)
    methods = {name: _method(measured[name], settings, seed) for name in METHODS if name in measured}
    n_unread = len(pairs) - len(own.quality_prompt_ids)
    return DoseResult(
        doses=own.doses,
        biases=tuple(own.names),
        aim=aim,
        repeats=settings.repeats,
        max_quality_loss=settings.max_quality_loss,
        chosen=methods["dose"].chosen,
        methods=methods,
        mixing_differs=_mixing_differs(own, mixed),
        best=best(methods, aim),
        quality_pairs=len(own.quality_prompt_ids),
        left_out={
            "contrasts": dict(own.people.exclusions.reasons),
            "quality pairs": {UNREAD: n_unread} if n_unread else {},
        },
        seed=seed,
        too_few=dict(too_few),
        missing=dict(missing),
        fitted=dict(fitted),
        available_quality=available_quality,
    )


def best(methods: Mapping[str, DoseMethod], aim: Aim = "votes") -> BestWay:
    """The way of least miscalibration + gap (of least gap, if the aim is a tie), held out, in the mean over biases, among
    those that keep quality.

    Fixed doses 0 (no training) and 1 (plain CDA) are measured on the same halves as the chosen ones: a gap on half of the votes
    is larger by chance than on all of them. Quality is kept if no more than the allowed share is lost in the held-out estimate.
    """
    losses = {name: _loss(method, "people", aim) for name, method in methods.items() if method.quality_kept}
    losses["no training"] = _loss(methods["dose"], "base", aim)
    if methods["dose"].plain_keeps_quality:
        losses["plain CDA"] = _loss(methods["dose"], "plain", aim)
    return BestWay(name=min(losses, key=lambda name: losses[name]), losses=losses)


def _loss(method: DoseMethod, procedure: Literal["people", "base", "plain"], aim: Aim) -> float:
    held: list[HeldOutPeople] = [getattr(of_bias, procedure) for of_bias in method.held_out.values()]
    losses = [people.gap.value + (0 if aim == "tie" else people.miscalibration.value) for people in held]
    return float(np.mean(losses))


def _method(curve: DoseCurve, settings: DoseSection, seed: int) -> DoseMethod:
    limit, own = settings.max_quality_loss, {bias: curve.of(bias) for bias in curve.names}
    held = cross_validated_doses(curve, generator(seed, Stream.INTERVALS), settings.repeats, limit)
    first, response = held[0], {bias: dose_response(of_bias) for bias, of_bias in own.items()}
    plain = response[curve.names[0]][curve.doses.index(1.0)].quality_change
    return DoseMethod(
        chosen=first.dose,
        barred=first.barred,
        shares={f"{dose:g}": share for dose, share in first.chosen.items()},
        quality=first.quality,
        quality_kept=first.against_base.quality is None or first.against_base.quality.value >= -limit,
        plain_keeps_quality=plain is None or plain.value >= -limit,
        held_out={
            bias: HeldOutBias(
                **{name: value for name, value in of_bias if name in HeldOutChoice.model_fields},
                plain_change=_plain_change(own[bias]),
            )
            for bias, of_bias in zip(own, held, strict=True)
        },
        response=response,
    )


def _plain_change(curve: DoseCurve) -> PlainChange:
    """Change from dose 0 to dose 1: nothing is chosen, so it is measured on all rows of a bias."""
    used, target = curve.people.used, curve.people.target[curve.people.used]
    before, after = (curve.margins_at(dose)[used] > 0 for dose in (0.0, 1.0))
    ids = list(compress(curve.prompt_ids, used))
    return PlainChange(
        skew=paired_change(before * 1.0, after * 1.0, ids),
        miscalibration=paired_change(np.abs(before - target), np.abs(after - target), ids),
    )


def _measured(curve: Curve, groups: Sequence[Group], pairs: Sequence[Pair], ties: TieRule, aim: Aim) -> DoseCurve:
    """Margins and majorities of all biases; the majorities' exclusions count the contrasts left out."""
    majorities = [_majority(group, ties, aim) for group in groups]
    reasons = Counter({UNREAD: sum(group.n_unread for group in groups)})
    for majority in majorities:
        reasons.update(majority.exclusions.reasons)
    used = np.concatenate([majority.used for majority in majorities])
    target = np.concatenate([majority.target for majority in majorities])
    exclusions = Exclusions(len(used), {reason: n for reason, n in sorted(reasons.items()) if n})
    margins = [np.array([group.margins[f"{dose:g}"] for dose in curve]) for group in groups]
    quality, quality_ids = _quality(pairs, curve)
    return DoseCurve(
        tuple(curve),
        np.concatenate(margins, axis=1),
        Majority(target, used, ties, exclusions),
        [name for group in groups for name in group.prompt_ids],
        quality,
        quality_ids,
        tuple(group.bias.name for group in groups for _ in range(len(group))),
    )


def _majority(group: Group, ties: TieRule, aim: Aim) -> Majority:
    if aim == "tie":
        return assumed_ties(len(group))
    people = people_of(group, ties)
    if people is None:
        raise DataError(f"{group.bias.name}: no contrast has a majority for one side; no dose can be chosen by it")
    return people.majority


def _quality(pairs: Sequence[Pair], curve: Curve) -> tuple[FloatArray | None, tuple[str, ...]]:
    """score(chosen) − score(rejected) at each dose, shape (k, m), of the pairs that have a score at every dose.
    DataError: there are pairs, and none can be read: a dose would be chosen with no limit on the quality it loses.
    """
    if not pairs:
        return None, ()
    margins, ids, _ = read_margins({f"{dose:g}": rewards for dose, rewards in curve.items()}, pair_comparisons(pairs))
    if not ids:
        raise DataError(
            f"none of {len(pairs)} quality pairs can be read at every dose ({UNREAD}), and without one a dose is chosen with "
            "no limit on quality loss. Raise model.max_length_tokens, give shorter pairs (audit.quality), or none at all "
            "(audit.quality=null)"
        )
    return np.array(list(margins.values())), tuple(ids)


def _mixing_differs(own: DoseCurve, mixed: DoseCurve) -> dict[str, MixingDiffers]:
    """Distance of mixed scores from the adapter's own at each dose."""
    ends = own.margins_at(1.0) - own.margins_at(0.0)
    spread = float(np.sqrt((ends**2).mean())) or 1.0
    return {
        f"{dose:g}": MixingDiffers(
            preferences=float(((margins > 0) != (of_mixed > 0)).mean()),
            distance=float(np.abs(margins - of_mixed).mean()) / spread,
            n=len(margins),
        )
        for dose, margins, of_mixed in zip(own.doses, own.margins, mixed.margins, strict=True)
    }
