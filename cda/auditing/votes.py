"""A panel of judges in an audit: what each judge prefers by itself, beside the panel's mean and the mean of the judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import Group, People, Scorings, estimated, people_of, sides_of
from cda.auditing.result import measured_change, per_scoring, rng, ties_of
from cda.records import TieRule
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, PerScoring, Test
from cda.results.skew import AgainstPeople, BiasPanel, JudgedBias, PoweredVotes, PreferenceTable, VotedBias, VotesMoved
from cda.scorers.compared import Preferences
from cda.stats.people import against_people, mean_against_people, people_change
from cda.stats.prediction_powered import powered_human_skew, powered_miscalibration
from cda.stats.preference import positive_share, preference_table
from cda.stats.proportions import exact_change_test, share
from cda.stats.votes import Majority, agreement, noise_ceiling


def panels(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, BiasPanel]:
    """Skew, and where people voted miscalibration, of every judge of a panel, by bias; empty where no panel was asked.

    Args:
        groups: Contrasts of every bias, with a verdict of one judge at least.
        scorings: Of these contrasts.
        rule: For people's ties.
    """
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.judges:
        return {}
    return {group.bias.name: _panel(group, scoring.judges, rule) for group in groups}


def _panel(group: Group, judges: Mapping[str, Preferences], rule: TieRule) -> BiasPanel:
    compared = [(one.prompt, one.perturbed, one.base) for one in group.contrasts]
    margins = {name: judge.margins(compared) for name, judge in judges.items()}
    people = people_of(group, rule)
    majority = None if people is None else people.majority
    (together,) = group.margins.values()
    return BiasPanel(
        judges={name: _alone(values, group, majority) for name, values in margins.items()},
        panel=_alone(together, group, majority),
        mean=_mean(np.stack(list(margins.values())), group, majority),
    )


def _alone(margins: FloatArray, group: Group, people: Majority | None) -> JudgedBias:
    """One judge, or the panel as one, on the contrasts that it has a verdict on."""
    there = ~np.isnan(margins)
    missed = None
    if people is not None:
        filled, voted = np.where(there, margins, 0.0), replace(people, used=people.used & there)
        missed = estimated(lambda: against_people(filled, voted, group.prompt_ids, "half").miscalibration)
    return JudgedBias(
        skew=estimated(lambda: positive_share(margins[there], _ids(group, there), ties_of(group.unit))),
        ties=int((margins == 0).sum()),
        unread=int((~there).sum()),
        miscalibration=missed,
    )


def _mean(margins: FloatArray, group: Group, people: Majority | None) -> JudgedBias:
    """Mean over the judges of each share, on the contrasts that all of them have a verdict on."""
    there: NDArray[np.bool_] = ~np.asarray(np.isnan(margins).any(axis=0), dtype=bool)
    hits = np.where(margins == 0, 0.5, margins > 0).mean(axis=0)
    missed = None
    if people is not None:
        filled, voted = np.where(there, margins, 0.0), replace(people, used=people.used & there)
        missed = estimated(lambda: mean_against_people(filled, voted, group.prompt_ids, "half").miscalibration)
    return JudgedBias(
        skew=estimated(lambda: share(hits[there], _ids(group, there), len(margins))),
        ties=None,
        unread=int((~there).sum()),
        miscalibration=missed,
    )


def _ids(group: Group, rows: NDArray[np.bool_]) -> list[str]:
    return [name for name, keep in zip(group.prompt_ids, rows, strict=True) if keep]


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
    human_skew, moved = _moved(group, people, seed) if two else _votes_alone(group, people)
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


def _votes_alone(group: Group, people: People) -> tuple[Estimate, VotesMoved]:
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
