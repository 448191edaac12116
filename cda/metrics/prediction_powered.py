"""Human skew and miscalibration from few human majorities and many verdicts of an LLM judge (PPI++)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.metrics.preference import ModelTies, margins_finite
from cda.metrics.votes import Majority
from cda.records import Exclusions, count_reasons
from cda.results.base import Estimate
from cda.results.people import PoweredShare
from cda.stats.prediction_powered import prediction_powered_mean

FloatArray = NDArray[np.float64]
_NO_VOTES = frozenset({"no votes", "no label"})


def powered_human_skew(people: Majority, judge: ArrayLike, prompt_ids: Sequence[str]) -> PoweredShare:
    """Share of people's majorities for the perturbed side, as if people had voted on every row.

    Rows with a majority (`people.used`) are the labelled ones, rows without votes the unlabelled ones. Which rows
    people voted on should be chance: PPI++ removes the judge's bias, not that of a hand-picked sample.

    Args:
        people: Majorities of n rows. A tie or split that the rule leaves out is outside the population, and which rows
            without votes would be so is unknown: take the rule `half` where there are any.
        judge: Preference for the perturbed side in [−1, 1]; 0 a tie (counts 0.5), NaN none. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: Lengths that differ, a verdict outside [−1, 1], votes without a majority that the tie rule left out,
            no row with both majority and verdict, none with a verdict only, and as in `prediction_powered_mean`.
    """
    return _powered(people.target, _judge_target(judge), people, prompt_ids)


def powered_miscalibration(
    margins: ArrayLike, people: Majority, judge: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> PoweredShare:
    """Share of rows on which a model and people disagree, as if people had voted on every row.

    Label |hit − majority|, prediction |hit − judge|, where a hit is a margin above 0 (ties: what a margin of 0 counts,
    nothing or half a hit).

    Args:
        margins: score(perturbed) − score(base) of every row. Shape (n,), reward units.
        people: As in `powered_human_skew`.
        judge: As in `powered_human_skew`.
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: A margin that is not finite, and as in `powered_human_skew`.
    """
    values = margins_finite(margins)
    hits = np.where(values == 0, 0.5, values > 0) if ties == "half" else (values > 0).astype(np.float64)
    target = _judge_target(judge)
    if not hits.shape == target.shape == people.target.shape:
        raise DataError(f"{hits.shape} margins, {target.shape} verdicts, {people.target.shape} majorities: one each")
    return _powered(np.abs(hits - people.target), np.abs(hits - target), people, prompt_ids)


def _powered(labels: FloatArray, predictions: FloatArray, people: Majority, prompt_ids: Sequence[str]) -> PoweredShare:
    if not len(labels) == len(predictions) == len(prompt_ids):
        raise DataError(f"{len(labels)} majorities, {len(predictions)} verdicts, {len(prompt_ids)} prompts: one each")
    _all_votes_count(people)
    judged = ~np.isnan(predictions)
    labelled, unlabelled = people.used & judged, ~people.used & judged
    if not labelled.any():
        raise DataError("no row has both a majority of people and a verdict of the judge: the judge cannot be checked")
    if not unlabelled.any():
        raise DataError(
            "no row has a verdict of the judge and no votes: the judge adds nothing, estimate from the votes alone"
        )
    ids = np.asarray(prompt_ids, dtype=str)
    found = prediction_powered_mean(
        labels[labelled],
        predictions[labelled],
        predictions[unlabelled],
        ids[labelled].tolist(),
        ids[unlabelled].tolist(),
    )
    shares = {"estimate": _within_share(found.estimate), "classical": _within_share(found.classical)}
    without = Exclusions(len(judged), count_reasons(["no verdict"] * int((~judged).sum())))
    return PoweredShare(share=found.model_copy(update=shares), exclusions=without)


def _all_votes_count(people: Majority) -> None:
    """Refuse votes that the tie rule left out: they would pass for rows without votes and shift the population."""
    left_out = {reason: count for reason, count in people.exclusions.reasons.items() if reason not in _NO_VOTES}
    if left_out:
        raise DataError(
            f"rows with votes but no majority ({Exclusions(people.exclusions.seen, left_out)}): the judge's verdicts "
            "cannot leave out the same rows. Take the majorities under the tie rule 'half'"
        )


def _judge_target(judge: ArrayLike) -> FloatArray:
    """Preferences in [−1, 1] as shares of the perturbed side in [0, 1]; NaN stays."""
    values = np.asarray(judge, dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"verdicts of shape {values.shape}: one a row is needed; take the mean of a panel first")
    if (np.abs(values) > 1).any():
        raise DataError("a judge's verdict is a preference in [-1, 1]: 1 the perturbed side, 0 a tie, -1 the base")
    return (values + 1) / 2


def _within_share(found: Estimate) -> Estimate:
    """Value and bounds cut to [0, 1]: a share lies there, its normal interval need not."""
    value, low, high = (min(1.0, max(0.0, one)) for one in (found.value, found.low, found.high))
    return found.model_copy(update={"value": value, "low": low, "high": high})
