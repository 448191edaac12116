"""Models and judges against people: skew, miscalibration, gap and AUC.

`margins`: a margin of exactly 0 is no preference for the perturbed side, if `ties` does not say otherwise. `people`:
majorities of the same rows. Rows without a majority are left out. All raise DataError if no row is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.records import Exclusions, PanelRule, count_reasons
from cda.results.base import BeforeAfter, Estimate, Missing, PerScoring
from cda.results.skew import AgainstPeople, VotesMoved
from cda.stats.estimators import FEWEST_DRAWN, PERCENT, Z, paired_change, resampled, share_of
from cda.stats.proportions import ModelTies, hits_of, share_change
from cda.stats.votes import Majority

DELONG = f"DeLong {PERCENT}, by prompts"
ONE_SIDED = Missing(reason="all majorities are for one side")
"""In place of an AUC."""


def against_people(
    margins: ArrayLike, people: Majority, prompt_ids: Sequence[str], ties: ModelTies | Literal["drop"] = "no-hit"
) -> AgainstPeople:
    """One model's preferences, or a judge's in [−1, 1], next to people's. A margin of exactly 0 is no hit (as in the
    audit), counts `half`, or leaves the row out (`drop`, as in the paper's judges).
    """
    values = finite(margins, "margins")
    rows = people.used & (values != 0) if ties == "drop" else people.used
    if not rows.any():
        raise DataError("no row has both a preference of the model and a majority of people: nothing can be compared")
    hits = hits_of(values, "half" if ties == "half" else "no-hit")[rows]
    target, ids = people.target[rows], list(compress(prompt_ids, rows))
    area = auc(values[rows], target, ids) if len(np.unique(target[target != 0.5])) == 2 else None
    return _against(hits[None], target, ids, area, int((values[people.used] == 0).sum()))


def mean_against_people(
    margins: ArrayLike, people: Majority, prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> AgainstPeople:
    """Mean over models of each share, on the same rows, margins of shape (models, n); the gap is that of the mean skew.
    Rows are averaged first: models on the same rows are not independent evidence.
    """
    values = finite(margins, "margins")
    rows = people.used
    hits, ids = hits_of(values, ties)[:, rows], list(compress(prompt_ids, rows))
    return _against(hits, people.target[rows], ids, None, int((values[:, rows] == 0).sum()))


def _against(hits: FloatArray, target: FloatArray, ids: list[str], area: Estimate | None, n_ties: int) -> AgainstPeople:
    """Hits of each model, shape (models, n), against people's target, shape (n,)."""
    n_models, skew = len(hits), hits.mean(axis=0)
    signed = paired_change(target, skew, ids, n_models)
    return AgainstPeople(
        skew=share_of(skew, ids, n_models),
        human_skew=share_of(target, ids),
        miscalibration=share_of(np.abs(hits - target).mean(axis=0), ids, n_models),
        signed_gap=signed,
        gap=absolute(signed),
        auc=area,
        n_ties=n_ties,
    )


def people_change(before: ArrayLike, after: ArrayLike, people: Majority, prompt_ids: Sequence[str]) -> VotesMoved:
    """One model against people, by its margins before and after a training, shape (n,) each, paired."""
    scored = finite(before, "margins"), finite(after, "margins")
    was, became = (against_people(values, people, prompt_ids) for values in scored)
    rows = people.used
    target, ids = people.target[rows], list(compress(prompt_ids, rows))
    first, second = (hits_of(values[rows]) for values in scored)
    ties = was.n_ties, became.n_ties
    area: BeforeAfter | Missing = ONE_SIDED
    if was.auc and became.auc:
        moved = auc_change(scored[0][rows], scored[1][rows], target, ids)
        area = BeforeAfter(before=was.auc, after=became.auc, change=moved)
    return VotesMoved(
        skew_on_voted=share_change(first, second, ids, ties),
        miscalibration=share_change(np.abs(first - target), np.abs(second - target), ids, ties),
        gap=BeforeAfter(before=was.gap, after=became.gap, change=gap_change(first, second, target, ids)),
        auc=area,
        signed_gap=PerScoring[Estimate](before=was.signed_gap, after=became.signed_gap),
    )


def gap_change(before: FloatArray, after: FloatArray, target: FloatArray, ids: Sequence[str]) -> Estimate:
    """Paired change of |skew − human skew|, of hits of shape (n,), whole prompts drawn. If nothing varies between
    draws, the interval of the change of skew bounds it: a gap never moves more than skew.
    """
    sums = np.column_stack([before - target, after - target, np.ones(len(target))])
    value = float(_gaps(sums.sum(axis=0, keepdims=True))[0])
    if len(set(ids)) >= FEWEST_DRAWN:
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

    Variance after Obuchowski (1997), Biometrics 53, 567–578 (DeLong's if each prompt occurs once), on the logit scale.
    If it is 0 (perfect separation), Newcombe's score interval (2006), Statistics in Medicine 25, 559–573, method 5,
    over the prompts. Equal margins count half; target 0.5 is left out. DataError: majorities all for one side.
    """
    ranked = _ranked(margins, target, prompt_ids)
    area, variance = ranked.area, ranked.covariance(ranked)
    if variance > 1e-15 and 0 < area < 1:
        step = Z * np.sqrt(variance) / (area * (1 - area))
        low, high = (float(1 / (1 + (1 - area) / area * np.exp(-sign * step))) for sign in (-1, 1))
    else:
        low, high = _newcombe_auc(area, ranked.prompts_up, ranked.prompts_down)
    return Estimate(value=area, low=low, high=high, n=ranked.n, n_prompts=ranked.n_prompts, unit="AUC", method=DELONG)


def auc_change(before: ArrayLike, after: ArrayLike, target: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Change of the area, after − before, of two scorings of the same rows, paired and clustered by prompt.

    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837–845, with Obuchowski's clustered covariance: rows that
    both scorings rank alike add no width. `target` and DataError are as in `auc`.
    """
    first, second = _ranked(before, target, prompt_ids), _ranked(after, target, prompt_ids)
    difference = second.area - first.area
    variance = first.covariance(first) + second.covariance(second) - 2 * first.covariance(second)
    half = Z * float(np.sqrt(max(variance, 0.0)))
    if half < 1e-9 and {first.area, second.area} & {0.0, 1.0}:
        # Perfect separation has no spread to show: the wider of the areas' own intervals.
        own = [_newcombe_auc(side.area, side.prompts_up, side.prompts_down) for side in (first, second)]
        half = max(high - low for low, high in own)
    if first.n_prompts == 1:
        half = 2.0  # nothing is known of others
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


def _newcombe_auc(area: float, n_up: int, n_down: int) -> tuple[float, float]:
    """Areas that a score test with Hanley and McNeil's variance does not reject."""
    half, tiny = (n_up + n_down) / 2 - 1, 1e-12  # at 0 and 1 themselves the variance is 0

    def excess(theta: float) -> float:
        terms = 1 + half * (1 - theta) / (2 - theta) + half * theta / (1 + theta)
        return abs(area - theta) - Z * float(np.sqrt(theta * (1 - theta) * terms / (n_up * n_down)))

    low = optimize.brentq(excess, tiny, min(area, 1 - tiny)) if area > 0 and excess(tiny) > 0 else 0.0
    high = optimize.brentq(excess, max(area, tiny), 1 - tiny) if area < 1 and excess(1 - tiny) > 0 else 1.0
    return float(low), float(high)
