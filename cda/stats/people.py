"""Models and judges against people: gap, AUC, panels, and few votes with many verdicts. `people`: majorities of the same rows. Rows
without a majority are left out. All raise DataError if no row is left.

Judges: `verdicts` are preferences of each judge, −1 to 1, for the perturbed side; 0 a tie, NaN none; shape (judges, n). With few
votes and many verdicts, shares are estimated as if people had voted on every row (prediction-powered inference, PPI++). Rows with
a majority (`people.used`) are the labelled ones, rows without votes the unlabelled ones. Which rows people voted on should be
chance: PPI++ removes the judge's bias, not that of a hand-picked sample. A tie or split that the rule leaves out is outside the
population, and which rows without votes would be so is unknown: take the rule `half` if there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.records import PERCENT, Exclusions, PanelRule, count_reasons
from cda.results.base import Estimate, Missing, or_missing
from cda.results.skew import LeftOutJudge, PoweredShare
from cda.stats.estimators import (
    FEWEST_DRAWN,
    ROUNDING,
    Z,
    effective_rows,
    paired_change,
    resampled,
    share_of,
    t_quantile,
    wilson,
)
from cda.stats.proportions import ModelTies, hits_of, positive_share
from cda.stats.votes import N_SUMS, Counts, Majority, agreement, alphas, coincidences

DELONG = f"DeLong {PERCENT}, by prompts"


def gap_change(before: FloatArray, after: FloatArray, target: FloatArray, ids: Sequence[str]) -> Estimate:
    """Paired change of |skew − human skew|, of hits of shape (n,), whole prompts drawn. With fewer than `2 * FEWEST_DRAWN` prompts, or if
    nothing varies between draws, the interval of the change of skew bounds it: a gap never moves more than skew.
    """
    sums = np.column_stack([before - target, after - target, np.ones(len(target))])
    value = float(_gaps(sums.sum(axis=0, keepdims=True))[0])
    if len(set(ids)) >= 2 * FEWEST_DRAWN:
        drawn = resampled(sums, ids, _gaps, "share difference")
        if drawn.low < drawn.high:
            return drawn
    return bounded_by_skew(value, paired_change(before, after, ids))


def bounded_by_skew(value: float, skew: Estimate) -> Estimate:
    """A change of a gap with the farther end of the interval of the change of skew to both sides."""
    most = max(abs(skew.low), abs(skew.high), abs(value))
    return skew.model_copy(update={"value": value, "low": -most, "high": most})


def _gaps(sums: FloatArray) -> FloatArray:
    return np.asarray((np.abs(sums[:, 1]) - np.abs(sums[:, 0])) / sums[:, 2])


def absolute(signed: Estimate) -> Estimate:
    """The size of a signed estimate, with the interval that its own implies: from 0 if that holds 0."""
    near, high = sorted((abs(signed.low), abs(signed.high)))
    low = 0.0 if signed.low <= 0 <= signed.high else near
    return signed.model_copy(update={"value": abs(signed.value), "low": low, "high": high})


def panel_margins(verdicts: ArrayLike, rule: PanelRule = "mean") -> tuple[FloatArray, Exclusions]:
    """Preference of a panel over the judges who gave a verdict, shape (n,), NaN without any; and the number of such rows.

    Verdicts, (judges, n): for the perturbed side, 0 a tie, NaN none. Their mean; or by `majority` 1 if more of them are for the
    perturbed side than for the base, −1 in reverse, 0 for as many, however sure each is. DataError: a verdict outside [−1, 1],
    or all are NaN.
    """
    values = np.asarray(verdicts, dtype=np.float64)
    if values.ndim != 2 or not values.size or np.isnan(values).all():
        raise DataError("no verdicts: a panel needs at least one judge with one readable verdict")
    within_preferences(values)
    given = (~np.isnan(values)).sum(axis=0)
    if rule == "majority":
        together = np.sign(np.nansum(np.sign(values), axis=0))
    else:
        together = np.nansum(values, axis=0) / np.maximum(given, 1)
    return np.where(given > 0, together, np.nan), Exclusions(
        values.shape[1], count_reasons(["no verdict"] * int((given == 0).sum()))
    )


def within_preferences(verdicts: FloatArray) -> None:
    """Raise DataError if a verdict lies outside [−1, 1]."""
    if (np.abs(verdicts) > 1).any():
        raise DataError("a judge's verdict is a preference in [-1, 1]: 1 the perturbed side, 0 a tie, -1 the base")


def human_skew(people: Majority, prompt_ids: Sequence[str]) -> Estimate:
    """Share of majorities for the perturbed side."""
    return share_of(people.target[people.used], list(compress(prompt_ids, people.used)))


def auc(margins: ArrayLike, target: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Area under the ROC curve of the margin, in any unit, against people's majority, clustered by prompt.

    Variance after Obuchowski (1997), Biometrics 53, 567–578 (DeLong's if each prompt occurs once), on the logit scale, with Student's t
    by the prompts of the side that has fewer.
    If it is 0 (perfect separation), Wilson's interval over the prompts of the side that has fewer. Equal margins count half; target 0.5 is left out. DataError: majorities all for one side.
    """
    ranked = _ranked(margins, target, prompt_ids)
    area, variance = ranked.area, ranked.covariance(ranked)
    if variance > 1e-15 and 0 < area < 1:
        step = ranked.quantile() * np.sqrt(variance) / (area * (1 - area))
        low, high = (float(1 / (1 + (1 - area) / area * np.exp(-sign * step))) for sign in (-1, 1))
    else:
        low, high = ranked.without_error()
    return Estimate(value=area, low=low, high=high, n=ranked.n, n_prompts=ranked.n_prompts, unit="AUC", method=DELONG)


def auc_change(before: ArrayLike, after: ArrayLike, target: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Change of the area, after − before, of two scorings of the same rows, paired and clustered by prompt.

    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837–845, with Obuchowski's clustered covariance: rows that
    both scorings rank alike add no width. `target` and DataError are as in `auc`; also fewer than `FEWEST_DRAWN` prompts of a side.
    """
    first, second = _ranked(before, target, prompt_ids), _ranked(after, target, prompt_ids)
    difference = second.area - first.area
    variance = first.covariance(first) + second.covariance(second) - 2 * first.covariance(second)
    if min(first.prompts_up, first.prompts_down) < FEWEST_DRAWN:
        raise DataError(
            f"fewer than {FEWEST_DRAWN} prompts with a majority for one of the sides: the error of a change of AUC is unknown"
        )
    half = first.quantile() * float(np.sqrt(max(variance, 0.0)))
    if half < 1e-9 and {first.area, second.area} & {0.0, 1.0}:
        # Perfect separation has no spread to show: the wider of the areas' own intervals.
        own = [side.without_error() for side in (first, second)]
        half = max(high - low for low, high in own)
    n, n_prompts = first.n, first.n_prompts
    return Estimate.symmetric(
        difference, half, n=n, n_prompts=n_prompts, unit="AUC difference", method=DELONG, bound=1.0
    )


@dataclass(frozen=True, slots=True)
class _Ranked:
    """An area with each prompt's part in it, from rows of either side (up: people preferred perturbed)."""

    area: float
    by_up: FloatArray
    by_down: FloatArray
    prompts_up: int
    prompts_down: int
    n_prompts: int
    n: int

    def quantile(self) -> float:
        """Student's t of the side that has fewer prompts; the normal one if it has one, which shows no spread."""
        fewer = min(self.prompts_up, self.prompts_down)
        return t_quantile(fewer - 1) if fewer > 1 else Z

    def without_error(self) -> tuple[float, float]:
        """Ends of the interval of an area whose rows show no spread: Wilson's over the prompts of the side that has fewer."""
        n = min(self.prompts_up, self.prompts_down)
        return wilson(self.area * n, n)

    def covariance(self, other: _Ranked) -> float:
        """Obuchowski's clustered covariance of two areas of the same rows."""
        return float(
            _corrected(self.prompts_up) * (self.by_up * other.by_up).sum()
            + _corrected(self.prompts_down) * (self.by_down * other.by_down).sum()
            + _corrected(self.n_prompts) * ((self.by_up * other.by_down).sum() + (self.by_down * other.by_up).sum())
        )


def _ranked(margins: ArrayLike, target: ArrayLike, prompt_ids: Sequence[str]) -> _Ranked:
    values, sides = finite(margins, "margins"), np.asarray(target, dtype=np.float64)
    clusters = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True)[1]
    up, down = sides == 1, sides == 0
    n_up, n_down = int(up.sum()), int(down.sum())
    if not n_up or not n_down:
        raise DataError(
            f"{n_up} majorities for the perturbed side and {n_down} for the base: AUC needs both, so whether margins "
            "follow people cannot be estimated"
        )
    ranks = stats.rankdata(np.concatenate([values[up], values[down]]))
    # Share of the other side that each row beats (or loses to): DeLong's placement values.
    beats = (ranks[:n_up] - stats.rankdata(values[up])) / n_down
    loses = 1 - (ranks[n_up:] - stats.rankdata(values[down])) / n_up
    area = float(beats.mean())
    n_clusters = int(clusters.max()) + 1
    return _Ranked(
        area=area,
        by_up=np.bincount(clusters[up], beats - area, n_clusters) / n_up,
        by_down=np.bincount(clusters[down], loses - area, n_clusters) / n_down,
        prompts_up=len(np.unique(clusters[up])),
        prompts_down=len(np.unique(clusters[down])),
        n_prompts=len(np.unique(clusters[up | down])),
        n=n_up + n_down,
    )


def _corrected(n: int) -> float:
    return n / (n - 1) if n > 1 else 1.0


def verdict_counts(verdicts: FloatArray) -> Counts:
    """Judges for the perturbed side, for the base, and for neither, of each contrast. Shape (n, 3)."""
    return np.stack([(verdicts > 0).sum(axis=0), (verdicts < 0).sum(axis=0), (verdicts == 0).sum(axis=0)], axis=1)


def left_out(verdicts: FloatArray, judge: int, prompt_ids: Sequence[str], rule: PanelRule = "mean") -> LeftOutJudge:
    """The panel without one of its judges, who are three or more; `rule` makes one preference of theirs."""
    others = np.delete(verdicts, judge, axis=0)

    def skews() -> tuple[FloatArray, FloatArray, list[str]]:
        """Preferences of all and of the others, and the prompts, where the others gave a verdict."""
        (of_all, _), (of_others, _) = panel_margins(verdicts, rule), panel_margins(others, rule)
        read = ~np.isnan(of_others)
        return of_all[read], of_others[read], np.asarray(prompt_ids)[read].tolist()

    def skew() -> Estimate:
        _, of_others, ids = skews()
        return positive_share(of_others, ids, "half")

    def skew_change() -> Estimate:
        of_all, of_others, ids = skews()
        return paired_change(hits_of(of_all, "half"), hits_of(of_others, "half"), ids)

    agreed = or_missing(lambda: agreement(verdict_counts(others), prompt_ids))
    return LeftOutJudge(
        alpha=agreed if isinstance(agreed, Missing) else agreed.alpha,
        alpha_change=or_missing(lambda: alpha_change(verdicts, others, prompt_ids)),
        skew=or_missing(skew),
        skew_change=or_missing(skew_change),
    )


def alpha_change(verdicts: FloatArray, others: FloatArray, prompt_ids: Sequence[str]) -> Estimate:
    """Krippendorff's nominal alpha of some judges minus that of all, on the contrasts that two of them gave a verdict on.

    Whole prompts are drawn, the same for both. DataError: one verdict throughout (alpha is undefined), one prompt, or no draw
    that differs.
    """
    columns = np.hstack([coincidences(verdict_counts(judged)) for judged in (verdicts, others)])

    def change(sums: FloatArray) -> FloatArray:
        return alphas(sums[:, N_SUMS:]) - alphas(sums[:, :N_SUMS])

    if not np.isfinite(change(columns.sum(axis=0, keepdims=True))).all():
        raise DataError("the verdicts of some of the judges are all the same: Krippendorff's alpha is undefined")
    found = resampled(columns, prompt_ids, change, "alpha difference")
    if found.high - found.low <= ROUNDING:
        raise DataError("no draw of the prompts differs, so that there is no interval")
    return found


Codes = NDArray[np.intp]
_PPI = f"PPI++ {PERCENT}, by prompts"


def prediction_powered_mean(
    y: FloatArray, f: FloatArray, g: FloatArray, labelled_ids: Sequence[str], unlabelled_ids: Sequence[str]
) -> PoweredShare:
    """Mean label, a share, of a population: from n labels y, predictions f on their rows, and N alike, g, on others.

    θ = mean(Y) + λ · (mean g − mean f), with the power tuning λ = Cov(Y, f) / ((1 + n/N) · Var(f)) clipped to [0, 1]
    (Angelopoulos, Duchi and Zrnic 2023, PPI++, arXiv:2311.01453; point estimate and λ as in `ppi_mean_ci` of
    ppi-python). However biased predictions are, θ is not, if the labelled rows are a random part of the population.

    The standard error is that of a sum over prompts: each prompt's influence is what its labelled rows move through (Y
    − λf)/n plus what its unlabelled rows move through λf/N. A prompt may stand on both sides (no row may): its rows
    there vary together. λ is tuned as if rows were independent: under clustering it stays valid but may not be the best
    one, so the width ratio may exceed 1. If each prompt occurs once, the error is that of ppi-python.

    The interval is Wilson's on as many rows as the labels are worth (`share_of`), times the fall of the variance: the normal one holds
    the truth in 82 to 88% with 10 labelled prompts. With few labels, tuning λ costs more than it gains unless Y and f correlate above
    about 1/√(n − 2) (Mani et al. 2025, arXiv:2505.20178). DataError: one prompt only on a side, or labels without spread.
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
    # Rounding leaves some 1e-16 if there is no spread.
    if min(classical_error, error) <= ROUNDING * np.abs(np.concatenate([y, f, g])).max():
        raise DataError(
            f"the mean label does not vary between the {len(np.unique(labelled))} labelled prompts, so that its error is "
            "unknown. Use a share of the labels alone, whose Wilson interval keeps one"
        )
    value, n, n_prompts = float(y.mean() + tuning * (g.mean() - f.mean())), len(y) + len(g), len(names)
    value = min(1.0, max(0.0, value))  # a share lies there, its estimate need not
    worth = effective_rows(y, labelled_ids) * (classical_error / error) ** 2
    low, high = wilson(value * worth, worth)
    return PoweredShare(
        estimate=Estimate(value=value, low=low, high=high, n=n, n_prompts=n_prompts, unit="share", method=_PPI),
        classical=share_of(y, labelled_ids),
        power_tuning=tuning,
        n_unlabelled=len(g),
        exclusions=Exclusions(len(y) + len(g), {}),
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
    without = Exclusions(len(judged), count_reasons(["no verdict"] * int((~judged).sum())))
    return powered.model_copy(update={"exclusions": without})


def _judge_target(judge: ArrayLike) -> FloatArray:
    """Preferences in [−1, 1] as shares of the perturbed side in [0, 1]; NaN stays."""
    values = np.asarray(judge, dtype=np.float64)
    within_preferences(values)
    return (values + 1) / 2
