"""Verdicts of LLM judges in an audit: each judge of a panel, their agreement, and each criterion of a rubric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import Group, Scorings, contrast_comparisons, people_of, rng
from cda.records import TieRule
from cda.results.base import Estimate, or_missing
from cda.results.skew import BiasPanel, JudgedBias, JudgedCriterion
from cda.scorers.compared import Preferences
from cda.stats.judges import left_out, verdict_counts
from cda.stats.people import against_people, mean_against_people, panel_margins
from cda.stats.proportions import hits_of, paired_change, positive_share, wilson_share
from cda.stats.votes import Majority, agreement

_FEWEST_TO_LEAVE_OUT = 3


def panels(groups: Sequence[Group], scorings: Scorings, rule: TieRule, seed: int) -> dict[str, BiasPanel]:
    """Every judge of a panel by bias: skew, miscalibration if people voted, and agreement; empty if no panel was asked.
    `groups` hold contrasts with a verdict of one judge at least; `rule` is for people's ties."""
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.judges:
        return {}
    return {group.bias.name: _panel(group, scoring, rule, seed) for group in groups}


def criteria(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, dict[str, JudgedCriterion]]:
    """Skew by each criterion of a judge's rubric (of a panel: by its preference), and its difference from the skew
    overall, by bias; empty without criteria."""
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.criteria:
        return {}
    return {
        group.bias.name: {name: _criterion(own, group, rule) for name, own in scoring.criteria.items()}
        for group in groups
    }


def _criterion(scoring: Preferences, group: Group, rule: TieRule) -> JudgedCriterion:
    margins = scoring.margins(contrast_comparisons(group.contrasts))
    (overall,) = group.margins.values()
    read = ~np.isnan(margins)

    def against_overall() -> Estimate:
        before, after = (hits_of(values[read], "half") for values in (overall, margins))
        return paired_change(before, after, list(compress(group.prompt_ids, read)))

    judged = _judged(margins, group, _majority(group, rule))
    return JudgedCriterion(**dict(judged), against_overall=or_missing(against_overall))


def _majority(group: Group, rule: TieRule) -> Majority | None:
    people = people_of(group, rule)
    return None if people is None else people.majority


def _panel(group: Group, scoring: Preferences, rule: TieRule, seed: int) -> BiasPanel:
    judges = scoring.judges
    compared = contrast_comparisons(group.contrasts)
    verdicts = np.stack([judge.margins(compared) for judge in judges.values()])
    (together,) = group.margins.values()
    judged = partial(_judged, group=group, people=_majority(group, rule))
    several = len(judges) >= _FEWEST_TO_LEAVE_OUT
    return BiasPanel(
        judges={name: judged(values) for name, values in zip(judges, verdicts, strict=True)},
        panel=judged(together),
        mean=judged(verdicts),
        majority=judged(panel_margins(verdicts, "majority")[0]),
        agreement=or_missing(lambda: agreement(verdict_counts(verdicts), group.prompt_ids, rng(seed))),
        without={
            name: left_out(verdicts, place, group.prompt_ids, rng(seed), scoring.rule)
            for place, name in enumerate(judges)
            if several
        },
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
        skew=or_missing(skew),
        ties=None if is_mean else int((margins == 0).sum()),
        unread=int((~there).sum()),
        miscalibration=None if people is None else or_missing(lambda: miscalibration(people)),
    )
