"""Shares of people from few votes and many verdicts of a judge: prediction-powered inference (PPI++).

They are estimated as if people had voted on every row. Rows with a majority (`people.used`) are the labelled ones, rows
without votes the unlabelled ones. Which rows people voted on should be chance: PPI++ removes the judge's bias, not that of a
hand-picked sample. A tie or split that the rule leaves out is outside the population, and which rows without votes would be so
is unknown: take the rule `half` if there are any. `judge`: preference for the perturbed side in [−1, 1]; 0 a tie (counts 0.5),
NaN none; shape (n,). They raise DataError for a verdict outside [−1, 1], votes without a majority that the tie rule left out,
no row with both majority and verdict, none with a verdict only, and as `prediction_powered_mean` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.records import Exclusions, count_reasons
from cda.results.base import Estimate
from cda.results.skew import PoweredShare, PredictionPowered
from cda.stats.estimators import PERCENT, ROUNDING, Z
from cda.stats.people import within_preferences
from cda.stats.proportions import ModelTies, hits_of
from cda.stats.votes import Majority

Codes = NDArray[np.intp]
_METHOD = f"PPI++ {PERCENT}, by prompts"


def prediction_powered_mean(
    y: FloatArray, f: FloatArray, g: FloatArray, labelled_ids: Sequence[str], unlabelled_ids: Sequence[str]
) -> PredictionPowered:
    """Mean label, a share, of a population: from n labels y, predictions f on their rows, and N alike, g, on others.

    θ = mean(Y) + λ · (mean g − mean f), with the power tuning λ = Cov(Y, f) / ((1 + n/N) · Var(f)) clipped to [0, 1]
    (Angelopoulos, Duchi and Zrnic 2023, PPI++, arXiv:2311.01453; point estimate and λ as in `ppi_mean_ci` of
    ppi-python). However biased predictions are, θ is not, if the labelled rows are a random part of the population.

    The standard error is that of a sum over prompts: each prompt's influence is what its labelled rows move through (Y
    − λf)/n plus what its unlabelled rows move through λf/N. A prompt may stand on both sides (no row may): its rows
    there vary together. If each prompt occurs once, it is the i.i.d. interval of ppi-python. λ is tuned as if rows were
    independent: under clustering it stays valid but may not be the best one, so the width ratio may exceed 1.

    The interval is normal: in simulated shares near 0.3 it covered 92% at 30 labelled prompts, 93% at 50 and 94% to 95%
    from 100 on. With few labels, tuning λ costs more than it gains unless Y and f correlate above about 1/√(n − 2)
    (Mani et al. 2025, arXiv:2505.20178). DataError: one prompt only on a side, or labels without spread.
    """
    names, codes = np.unique([*labelled_ids, *unlabelled_ids], return_inverse=True)
    labelled, unlabelled = codes[: len(y)], codes[len(y) :]
    for side, own in (("labelled", labelled), ("unlabelled", unlabelled)):
        # The influences of a side with one prompt only add up to 0: its error would be counted as none.
        if (own == own[0]).all():
            raise DataError(f"all {len(own)} {side} rows are of one prompt: the spread between prompts is unknown")
    tuning = _power_tuning(y, f, g)
    classical_error = _standard_error(y, 0 * g, labelled, unlabelled)
    error = _standard_error(y - tuning * f, tuning * g, labelled, unlabelled)
    n_labelled_prompts = len(np.unique(labelled))
    # Rounding leaves some 1e-16 if there is no spread.
    if min(classical_error, error) <= ROUNDING * np.abs(np.concatenate([y, f, g])).max():
        raise DataError(
            f"the mean label does not vary between the {n_labelled_prompts} labelled prompts: the normal interval "
            "would have no width. Use a share of the labels alone, whose Wilson interval keeps one"
        )
    value, n, n_prompts = float(y.mean() + tuning * (g.mean() - f.mean())), len(y) + len(g), len(names)
    return PredictionPowered(
        estimate=Estimate.symmetric(value, Z * error, n=n, n_prompts=n_prompts, unit="share", method=_METHOD),
        classical=Estimate.symmetric(
            float(y.mean()),
            Z * classical_error,
            n=len(y),
            n_prompts=n_labelled_prompts,
            unit="share",
            method=_METHOD,
        ),
        power_tuning=tuning,
        width_ratio=error / classical_error,
        n_unlabelled=len(g),
    )


def _power_tuning(y: FloatArray, f: FloatArray, g: FloatArray) -> float:
    """λ with the least variance for independent rows, clipped to [0, 1]; 0 if the predictions are constant."""
    pooled = np.concatenate([f, g])
    if np.ptp(pooled) == 0:
        return 0.0
    covariance = np.mean((y - y.mean()) * (f - f.mean()))
    return float(np.clip(covariance / ((1 + len(f) / len(g)) * pooled.var(ddof=1)), 0.0, 1.0))


def _standard_error(residuals: FloatArray, predictions: FloatArray, labelled: Codes, unlabelled: Codes) -> float:
    """Standard error of mean(residuals) + mean(predictions), from the squared influences of whole prompts."""
    size = int(max(labelled.max(), unlabelled.max())) + 1
    influence = np.bincount(labelled, (residuals - residuals.mean()) / len(residuals), size)
    influence += np.bincount(unlabelled, (predictions - predictions.mean()) / len(predictions), size)
    return float(np.sqrt(influence @ influence))


def _within_share(estimate: Estimate) -> Estimate:
    """Value and bounds cut to [0, 1]: a share lies there, its normal interval need not."""
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return estimate.model_copy(update={name: min(1.0, max(0.0, end)) for name, end in ends.items()})


def powered_human_skew(people: Majority, judge: ArrayLike, prompt_ids: Sequence[str]) -> PoweredShare:
    """Share of people's majorities for the perturbed side."""
    return _powered(people.target, _judge_target(judge), people, prompt_ids)


def powered_miscalibration(
    margins: ArrayLike, people: Majority, judge: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> PoweredShare:
    """Share of rows on which a model and people disagree: label |hit − majority|, prediction |hit − judge|. A hit is a
    margin above 0, `ties` the value of one of exactly 0; one that is not finite raises DataError.
    """
    hits, target = hits_of(finite(margins, "margins"), ties), _judge_target(judge)
    return _powered(np.abs(hits - people.target), np.abs(hits - target), people, prompt_ids)


def _powered(labels: FloatArray, predictions: FloatArray, people: Majority, prompt_ids: Sequence[str]) -> PoweredShare:
    # Votes that the tie rule left out would pass for rows without votes and shift the population.
    reasons = people.exclusions.reasons
    if left_out := {reason: reasons[reason] for reason in reasons.keys() - {"no votes", "no label"}}:
        raise DataError(
            f"rows with votes but no majority ({Exclusions(people.exclusions.seen, left_out)}): the judge's verdicts "
            "cannot leave out the same rows. Take the majorities under the tie rule 'half'"
        )
    judged = ~np.isnan(predictions)
    labelled, unlabelled = people.used & judged, ~people.used & judged
    if not labelled.any():
        raise DataError("no row has both a majority of people and a verdict of the judge: the judge cannot be checked")
    if not unlabelled.any():
        raise DataError(
            "no row has a verdict of the judge and no votes: the judge adds nothing, estimate from the votes alone"
        )
    ids = np.asarray(prompt_ids, dtype=str)
    powered = prediction_powered_mean(
        labels[labelled],
        predictions[labelled],
        predictions[unlabelled],
        ids[labelled].tolist(),
        ids[unlabelled].tolist(),
    )
    shares = {"estimate": _within_share(powered.estimate), "classical": _within_share(powered.classical)}
    without = Exclusions(len(judged), count_reasons(["no verdict"] * int((~judged).sum())))
    return PoweredShare(share=powered.model_copy(update=shares), exclusions=without)


def _judge_target(judge: ArrayLike) -> FloatArray:
    """Preferences in [−1, 1] as shares of the perturbed side in [0, 1]; NaN stays."""
    values = np.asarray(judge, dtype=np.float64)
    within_preferences(values)
    return (values + 1) / 2
