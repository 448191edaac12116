"""One model against people before and after training, on the same rows, and how far it moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.metrics.people import against_people
from cda.metrics.preference import Change, margins_finite, share_change
from cda.metrics.votes import Majority
from cda.results.base import Estimate
from cda.results.people import AgainstPeople
from cda.stats.auc import auc_change
from cda.stats.bootstrap import bootstrap_sums
from cda.stats.proportions import paired_change

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PeopleChange:
    """Before and after, on the rows that have a majority.

    Attributes:
        before: The model before.
        after: The model after.
        skew: Change of skew on these rows.
        miscalibration: Change of the share on which model and majority disagree.
        gap: Change of |skew − human skew|; negative means nearer to people.
        auc: Change of the AUC; None where all majorities are for one side.
    """

    before: AgainstPeople
    after: AgainstPeople
    skew: Change
    miscalibration: Change
    gap: Estimate
    auc: Estimate | None


def people_change(
    before: ArrayLike, after: ArrayLike, people: Majority, prompt_ids: Sequence[str], rng: np.random.Generator
) -> PeopleChange:
    """Everything about one model beside people, before and after, paired.

    A margin of exactly 0 is no preference for the perturbed side, as in skew.

    Args:
        before: Margins before, score(perturbed) − score(base). Shape (n,).
        after: Margins after, on the same rows. Shape (n,).
        people: Majorities of these rows.
        prompt_ids: Cluster of each row. Length n.
        rng: For clustered intervals.

    Raises:
        DataError: Lengths that differ, a margin that is not finite, or no row with a majority.
    """
    first, second = margins_finite(before), margins_finite(after)
    both = against_people(first, people, prompt_ids), against_people(second, people, prompt_ids)
    rows = people.used
    target = people.target[rows]
    ids = [name for name, keep in zip(prompt_ids, rows, strict=True) if keep]
    hits = (first[rows] > 0).astype(np.float64), (second[rows] > 0).astype(np.float64)
    ties = int((first[rows] == 0).sum()), int((second[rows] == 0).sum())
    return PeopleChange(
        before=both[0],
        after=both[1],
        skew=share_change(hits[0], hits[1], ids, ties),
        miscalibration=share_change(np.abs(hits[0] - target), np.abs(hits[1] - target), ids, ties),
        gap=gap_change(hits[0], hits[1], target, ids, rng),
        auc=auc_change(first[rows], second[rows], target, ids) if both[0].auc is not None else None,
    )


def gap_change(
    before: FloatArray, after: FloatArray, target: FloatArray, ids: Sequence[str], rng: np.random.Generator
) -> Estimate:
    """Paired change of |skew − human skew|, whole prompts drawn.

    Where nothing varies between draws, the interval of the change of skew bounds it: a gap never moves more than skew.
    """
    sums = np.column_stack([before - target, after - target, np.ones(len(target))])
    value = float(_gaps(sums.sum(axis=0, keepdims=True))[0])
    if len(set(ids)) > 1:
        found = bootstrap_sums(sums, ids, _gaps, rng)
        if found.low < found.high:
            return found.estimate("share difference")
    return bounded_by_skew(value, paired_change(before, after, ids))


def bounded_by_skew(value: float, skew: Estimate) -> Estimate:
    """A change of a gap with the farther end of the interval of the change of skew to both sides."""
    most = max(abs(skew.low), abs(skew.high), abs(value))
    return Estimate(
        value=value,
        low=-most,
        high=most,
        n=skew.n,
        n_prompts=skew.n_prompts,
        unit=skew.unit,
        method=f"bounded by skew's {skew.method}",
    )


def _gaps(sums: FloatArray) -> FloatArray:
    return np.asarray((np.abs(sums[:, 1]) - np.abs(sums[:, 0])) / sums[:, 2])
