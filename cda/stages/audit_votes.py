"""The model beside people, for every bias that people voted on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from cda.metrics.people import against_people
from cda.metrics.people_change import people_change
from cda.metrics.prediction_powered import powered_human_skew, powered_miscalibration
from cda.metrics.preference_table import preference_table
from cda.metrics.votes import TieRule, agreement, noise_ceiling
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, PerScoring, Test
from cda.results.people import AgainstPeople, PoweredVotes, PreferenceTable, VotedBias, VotesMoved
from cda.stages.audit_groups import FloatArray, Group, People, estimated, people_of, sides_of
from cda.stages.audit_result import measured_change, per_scoring, rng, ties_of
from cda.stats.proportions import exact_change_test

T = TypeVar("T")
_ONE_SIDED = Missing(reason="all majorities are for one side")


def votes(groups: Sequence[Group], rule: TieRule, seed: int) -> dict[str, VotedBias]:
    """Every bias that people voted on: human skew, miscalibration, gap, AUC; agreement and noise ceiling from raw votes."""
    return {name: _voted(group, people, seed) for name, (group, people) in _with_people(groups, rule).items()}


def votes_moved(groups: Sequence[Group], rule: TieRule, seed: int) -> dict[str, VotesMoved]:
    """The part of `votes` that a training changes; of two scorings."""
    return {name: _moved(group, people, seed)[1] for name, (group, people) in _with_people(groups, rule).items()}


def votes_undecided(groups: Sequence[Group], rule: TieRule) -> dict[str, int]:
    """Biases that people voted on without a majority for one side on any contrast: how many contrasts have votes."""
    voted = {group.bias.name: sum(bool(one.votes or one.preferred) for one in group.contrasts) for group in groups}
    return {group.bias.name: n for group in groups if (n := voted[group.bias.name]) and not people_of(group, rule)}


def _with_people(groups: Sequence[Group], rule: TieRule) -> dict[str, tuple[Group, People]]:
    found = {group.bias.name: (group, people_of(group, rule)) for group in groups}
    return {name: (group, people) for name, (group, people) in sorted(found.items()) if people}


def _voted(group: Group, people: People, seed: int) -> VotedBias:
    ids, found, counts = list(group.prompt_ids), people.majority, people.counts
    two = len(group.margins) == 2
    human_skew, moved = _moved(group, people, seed) if two else _alone(group, people)
    return VotedBias(
        **dict(moved),
        human_skew=human_skew,
        gap_test=None if two else _gap_test(group, people),
        by_majority=per_scoring(
            {label: _by_majority(values, group, people) for label, values in group.margins.items()}
        ),
        rule=found.rule,
        left_out=dict(found.exclusions.reasons),
        agreement=None if counts is None else estimated(lambda: agreement(counts, ids, rng(seed))),
        noise_ceiling=None if counts is None else estimated(lambda: noise_ceiling(counts, found, ids, rng(seed))),
        prediction_powered=_powered(group) if any(one.verdicts for one in group.contrasts) else None,
    )


def _moved(group: Group, people: People, seed: int) -> tuple[Estimate, VotesMoved]:
    """Human skew, and what training did to the model beside people."""
    before, after = group.margins.values()
    change = people_change(before, after, people.majority, list(group.prompt_ids), rng(seed))
    sides = (change.before, change.after)
    auc = _ONE_SIDED if change.auc is None else BeforeAfter(**_of(sides, "auc"), change=change.auc)
    return change.before.human_skew, VotesMoved(
        skew_on_voted=measured_change(change.skew),
        miscalibration=measured_change(change.miscalibration),
        gap=BeforeAfter(**_of(sides, "gap"), change=change.gap),
        auc=auc,
        signed_gap=PerScoring[Estimate](**_of(sides, "signed_gap")),
    )


def _alone(group: Group, people: People) -> tuple[Estimate, VotesMoved]:
    """Human skew, and one model beside people."""
    (values,) = group.margins.values()
    one = against_people(values, people.majority, list(group.prompt_ids), ties_of(group.unit))
    return one.human_skew, VotesMoved(
        skew_on_voted=Measure(before=one.skew),
        miscalibration=Measure(before=one.miscalibration),
        gap=BeforeAfter(before=one.gap),
        auc=_ONE_SIDED if one.auc is None else BeforeAfter(before=one.auc),
        signed_gap=PerScoring[Estimate](before=one.signed_gap),
    )


def _of(sides: Sequence[AgainstPeople], name: str) -> dict[str, Estimate]:
    return {when: getattr(one, name) for when, one in zip(("before", "after"), sides, strict=True)}


def _by_majority(margins: FloatArray, group: Group, people: People) -> PreferenceTable:
    words = sides_of(group, people)
    return preference_table(margins, words, group.prompt_ids, ties_of(group.unit))


def _gap_test(group: Group, people: People) -> Test:
    """Exact paired test that the model's preferences and people's majorities are for the perturbed side equally often."""
    (margins,) = group.margins.values()
    rows = people.majority.used
    hits = np.where(margins == 0, 0.5, margins > 0) if ties_of(group.unit) == "half" else (margins > 0).astype(float)
    kept = [one for one, keep in zip(group.prompt_ids, rows, strict=True) if keep]
    test = exact_change_test(people.majority.target[rows], hits[rows], kept)
    return Test(p_value=test.p_value, method=test.method)


def _powered(group: Group) -> PoweredVotes | Missing:
    """Human skew and miscalibration of all contrasts, from few votes and the judges' verdicts; ties count half."""
    people = people_of(group, "half")
    if people is None:
        return Missing(reason="no contrast has a majority")
    value = {"perturbed": 1.0, "tie": 0.0, "base": -1.0}
    judge = np.array(
        [np.mean([value[word] for word in one.verdicts]) if one.verdicts else np.nan for one in group.contrasts]
    )
    ids, ties = group.prompt_ids, ties_of(group.unit)
    missed = {
        label: estimated(partial(powered_miscalibration, margins, people.majority, judge, ids, ties))
        for label, margins in group.margins.items()
    }
    return PoweredVotes(
        human_skew=estimated(partial(powered_human_skew, people.majority, judge, ids)),
        miscalibration=per_scoring(missed),
    )
