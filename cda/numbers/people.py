"""Models and judges against people: every measure of the table that has `against`, of the rows with a majority.

A margin of exactly 0 is no preference for the perturbed side, if `ties` does not say otherwise. A new measure is one entry of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.numbers.measures import MEASURES, AuditMeasure, Unit, VotedRows, of_people
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, or_missing
from cda.stats.estimators import mean_of, paired_change, share_of
from cda.stats.people import absolute, auc, auc_change, gap_change
from cda.stats.proportions import ModelTies, hits_of, share_measure
from cda.stats.votes import Majority

ONE_SIDED = Missing(reason="all majorities are for one side")
"""In place of an AUC."""


def voted_rows(
    margins: ArrayLike, people: Majority, prompt_ids: Sequence[str], ties: ModelTies | Literal["drop"] = "no-hit"
) -> VotedRows:
    """The rows with a majority, of margins of shape (n,) or (k, n); `drop` leaves out rows that any margin of is 0.

    Raises:
        DataError: No row is left, or a margin is not finite.
    """
    values = np.atleast_2d(finite(margins, "margins"))
    rows = people.used & (values != 0).all(axis=0) if ties == "drop" else people.used
    if not rows.any():
        raise DataError("no row has both a preference of the model and a majority of people: nothing can be compared")
    hits = hits_of(values, "half" if ties == "half" else "no-hit")
    return VotedRows(values[:, rows], hits[:, rows], people.target[rows], list(compress(prompt_ids, rows)))


def against_people(
    margins: ArrayLike, people: Majority, prompt_ids: Sequence[str], ties: ModelTies | Literal["drop"] = "no-hit"
) -> dict[str, Estimate]:
    """One model's preferences, or a judge's in [−1, 1], next to people's, by measure; margins of shape (n,). A margin of exactly 0 is no hit
    (as in the audit), counts `half`, or leaves the row out (`drop`, as in the paper's judges). Without an AUC if all majorities are for one side.

    Of several models, shape (k, n), the mean of each measure: rows are averaged first, for models on the same rows are not independent
    evidence; the gap is that of the mean skew, and there is no AUC.
    """
    voted = voted_rows(margins, people, prompt_ids, ties)
    own = {key: each for key, each in of_people().items() if each.unit != "AUC" or np.ndim(margins) == 1}
    return {"human_skew": share_of(voted.target, voted.prompt_ids)} | known(own, partial(_estimate, voted))


def measured_against(
    scorings: Sequence[ArrayLike], people: Majority, prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> dict[str, Measure | BeforeAfter | Missing]:
    """One model against people, or a model before and after a training, paired: margins of shape (n,) each. Every measure of the table, as
    a `VotedBias` has it."""
    voted = [voted_rows(margins, people, prompt_ids, ties) for margins in scorings]
    sided = {0.0, 1.0} <= set(voted[0].target.tolist())
    return {
        key: or_missing(partial(_measured, measure, voted)) if sided or measure.unit != "AUC" else ONE_SIDED
        for key, measure in of_people().items()
    }


def known(measures: Mapping[str, AuditMeasure], of: Callable[[AuditMeasure], Estimate]) -> dict[str, Estimate]:
    """A number of each measure, without those that the rows cannot give."""
    found = {key: or_missing(partial(of, measure)) for key, measure in measures.items()}
    return {key: each for key, each in found.items() if isinstance(each, Estimate)}


def row_values(measure: AuditMeasure, voted: VotedRows) -> FloatArray:
    """The value of each row, shape (k, n); of a size those of what it is the size of, of an AUC the margins."""
    values = measure.against or (MEASURES[measure.size_of].against if measure.size_of else None)
    return values(voted) if values else voted.margins


def average(rows: FloatArray, prompt_ids: Sequence[str], unit: Unit) -> Estimate:
    """Mean over rows, and over models first, shape (k, n), by the estimator of a unit."""
    values = rows.mean(axis=0)
    return share_of(values, prompt_ids, len(rows)) if unit == "share" else mean_of(values, prompt_ids, unit).estimate


def average_change(before: FloatArray, after: FloatArray, prompt_ids: Sequence[str], unit: Unit) -> Estimate:
    """Paired change of such a mean."""
    first, second = before.mean(axis=0), after.mean(axis=0)
    return (
        paired_change(first, second, prompt_ids)
        if unit == "share"
        else average((second - first)[None], prompt_ids, unit)
    )


def change_of(before: VotedRows, after: VotedRows, measure: AuditMeasure) -> Estimate:
    """Change of a measure, after − before, paired, on the same rows."""
    first, second = (row_values(measure, voted) for voted in (before, after))
    target, ids = before.target, before.prompt_ids
    match measure.unit:
        case "AUC":
            return auc_change(first[0], second[0], target, ids)
        case "distance of shares":
            return gap_change(first[0] + target, second[0] + target, target, ids)
        case "share difference":  # people are the same on both sides
            return average_change(first + target, second + target, ids, "share")
    return average_change(first, second, ids, measure.unit)


def _estimate(voted: VotedRows, measure: AuditMeasure) -> Estimate:
    rows, target, ids = row_values(measure, voted), voted.target, voted.prompt_ids
    match measure.unit:
        case "AUC":
            return auc(rows[0], target, ids)
        case "share difference" | "distance of shares":
            signed = paired_change(target, (rows + target).mean(axis=0), ids, len(rows))
            return absolute(signed) if measure.size_of else signed
    return average(rows, ids, measure.unit)


def _measured(measure: AuditMeasure, voted: Sequence[VotedRows]) -> Measure | BeforeAfter:
    rows = [row_values(measure, each)[0] for each in voted]
    if measure.unit == "share" and np.isin(rows, (0, 0.5, 1)).all():  # what an exact test can count out
        return share_measure(rows, voted[0].prompt_ids, [each.margins[0] for each in voted])
    before, *after = (_estimate(each, measure) for each in voted)
    if not after:
        return BeforeAfter(before=before)
    change = or_missing(partial(change_of, voted[0], voted[1], measure))
    return BeforeAfter(before=before, after=after[0], change=change)
