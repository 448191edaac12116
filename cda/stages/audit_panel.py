"""A panel of judges in an audit: what each judge prefers by itself, beside the panel's mean and the mean of the judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cda.metrics.people import against_people, mean_against_people
from cda.metrics.preference import positive_share
from cda.metrics.votes import Majority, TieRule
from cda.results.people import BiasPanel, JudgedBias
from cda.score.compared import Preferences
from cda.stages.audit_groups import FloatArray, Group, Scorings, estimated, people_of
from cda.stages.audit_result import ties_of
from cda.stats.proportions import share


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
