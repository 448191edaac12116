"""People's votes in an audit: one model or a training against people, and a panel's judges against people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import (
    VERDICTS,
    Group,
    People,
    Scorings,
    contrast_comparisons,
    estimated,
    people_of,
    per_scoring,
    rng,
    sides_of,
)
from cda.records import TieRule
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, PerScoring, Test
from cda.results.skew import BiasPanel, JudgedBias, PoweredVotes, VotedBias, VotesMoved
from cda.scorers.compared import Preferences
from cda.stats.people import ONE_SIDED, against_people, human_skew, mean_against_people, people_change
from cda.stats.prediction_powered import powered_human_skew, powered_miscalibration
from cda.stats.preference import positive_share, preference_table
from cda.stats.proportions import exact_change_test, wilson_share
from cda.stats.votes import Majority, agreement, noise_ceiling


def votes(groups: Sequence[Group], rule: TieRule, seed: int) -> dict[str, VotedBias]:
    """Every bias that people voted on: human skew, miscalibration, gap, AUC; agreement and noise ceiling from raw votes."""
    return {group.bias.name: _voted(group, people, seed) for group, people in _with_people(groups, rule)}


def votes_moved(groups: Sequence[Group], rule: TieRule, seed: int) -> dict[str, VotesMoved]:
    """The part of `votes` that a training changes; of two scorings."""
    return {group.bias.name: _moved(group, people, seed) for group, people in _with_people(groups, rule)}


def votes_undecided(groups: Sequence[Group], rule: TieRule) -> dict[str, int]:
    """Number of contrasts with votes, for biases that have votes but no majority for a side on any contrast."""
    voted = {
        group.bias.name: sum(bool(contrast.votes or contrast.preferred) for contrast in group.contrasts)
        for group in groups
        if not people_of(group, rule)
    }
    return {name: n for name, n in voted.items() if n}


def _with_people(groups: Sequence[Group], rule: TieRule) -> list[tuple[Group, People]]:
    by_name = sorted(groups, key=lambda group: group.bias.name)
    return [(group, people) for group in by_name if (people := people_of(group, rule))]


def _voted(group: Group, people: People, seed: int) -> VotedBias:
    ids, majority, counts = list(group.prompt_ids), people.majority, people.counts
    trained, words = len(group.margins) == 2, sides_of(group, people)
    moved = _moved(group, people, seed) if trained else _votes_alone(group, people)
    tables = {label: preference_table(values, words, ids, group.ties) for label, values in group.margins.items()}
    return VotedBias(
        **dict(moved),
        human_skew=human_skew(majority, ids),
        gap_test=None if trained else _gap_test(group, majority),
        by_majority=per_scoring(tables),
        rule=majority.rule,
        left_out=dict(majority.exclusions.reasons),
        agreement=None if counts is None else estimated(lambda: agreement(counts, ids, rng(seed))),
        noise_ceiling=None if counts is None else estimated(lambda: noise_ceiling(counts, majority, ids, rng(seed))),
        prediction_powered=_powered(group) if any(contrast.verdicts for contrast in group.contrasts) else None,
    )


def _moved(group: Group, people: People, seed: int) -> VotesMoved:
    before, after = group.margins.values()
    return people_change(before, after, people.majority, group.prompt_ids, rng(seed))


def _votes_alone(group: Group, people: People) -> VotesMoved:
    (values,) = group.margins.values()
    measured = against_people(values, people.majority, list(group.prompt_ids), group.ties)
    return VotesMoved(
        skew_on_voted=Measure(before=measured.skew),
        miscalibration=Measure(before=measured.miscalibration),
        gap=BeforeAfter(before=measured.gap),
        auc=ONE_SIDED if measured.auc is None else BeforeAfter(before=measured.auc),
        signed_gap=PerScoring[Estimate](before=measured.signed_gap),
    )


def _gap_test(group: Group, people: Majority) -> Test:
    """Exact paired test that the model's preferences and people's majorities are for the perturbed side equally often."""
    (margins,) = group.margins.values()
    rows = people.used
    hits = np.where((margins == 0) & (group.ties == "half"), 0.5, margins > 0)
    return exact_change_test(people.target[rows], hits[rows], list(compress(group.prompt_ids, rows)))


def _powered(group: Group) -> PoweredVotes | Missing:
    """Human skew and miscalibration of all contrasts, from few votes and the judges' verdicts; ties count half."""
    people = people_of(group, "half")
    if people is None:
        return Missing(reason="no contrast has a majority")
    given = [[VERDICTS[word] for word in contrast.verdicts] for contrast in group.contrasts]
    judge = np.array([np.mean(verdicts) if verdicts else np.nan for verdicts in given])
    ids, majority = group.prompt_ids, people.majority
    missed = {
        label: estimated(partial(powered_miscalibration, margins, majority, judge, ids, group.ties))
        for label, margins in group.margins.items()
    }
    return PoweredVotes(
        human_skew=estimated(partial(powered_human_skew, majority, judge, ids)), miscalibration=per_scoring(missed)
    )


def panels(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, BiasPanel]:
    """Skew, and miscalibration if people voted, of every judge of a panel, by bias; empty if no panel was asked.

    `groups` hold contrasts with a verdict of one judge at least; `rule` is for people's ties.
    """
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.judges:
        return {}
    return {group.bias.name: _panel(group, scoring.judges, rule) for group in groups}


def _panel(group: Group, judges: Mapping[str, Preferences], rule: TieRule) -> BiasPanel:
    compared = contrast_comparisons(group.contrasts)
    margins = {name: judge.margins(compared) for name, judge in judges.items()}
    people = people_of(group, rule)
    majority = None if people is None else people.majority
    (together,) = group.margins.values()
    return BiasPanel(
        judges={name: _judged(values, group, majority) for name, values in margins.items()},
        panel=_judged(together, group, majority),
        mean=_judged(np.stack(list(margins.values())), group, majority),
    )


def _judged(margins: FloatArray, group: Group, people: Majority | None) -> JudgedBias:
    """One judge, or the panel as one (shape (n,)), or the mean over judges (judges, n), on the contrasts with all verdicts."""
    is_mean = margins.ndim == 2
    there: NDArray[np.bool_] = np.asarray(np.isfinite(np.atleast_2d(margins)).all(axis=0))
    ids = list(compress(group.prompt_ids, there))

    def skew() -> Estimate:
        if is_mean:
            return wilson_share(np.where(margins == 0, 0.5, margins > 0).mean(axis=0)[there], ids, len(margins))
        return positive_share(margins[there], ids, group.ties)

    def miscalibration(majority: Majority) -> Estimate:
        filled, voted = np.where(there, margins, 0.0), replace(majority, used=majority.used & there)
        against = mean_against_people if is_mean else against_people
        return against(filled, voted, group.prompt_ids, "half").miscalibration

    return JudgedBias(
        skew=estimated(skew),
        ties=None if is_mean else int((margins == 0).sum()),
        unread=int((~there).sum()),
        miscalibration=None if people is None else estimated(lambda: miscalibration(people)),
    )
