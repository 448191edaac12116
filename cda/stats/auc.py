"""Area under the ROC curve with an interval clustered by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats.proportions import Z_95


def auc(margins: ArrayLike, target: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Area under the ROC curve of the margin against people's majority, with a clustered 95% interval.

    Variance after Obuchowski (1997), Biometrics 53, 567–578 (DeLong's where each prompt occurs once), on the logit
    scale. Where it is 0 (perfect separation), Newcombe's score interval (2006), Statistics in Medicine 25, 559–573,
    method 5, over the prompts.

    Args:
        margins: object unit; equal margins count half. Shape (n,).
        target: 1 perturbed, 0 base; rows with 0.5 are left out. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: Majorities all for one side: then nothing can be ranked.
    """
    one = _ranked(margins, target, prompt_ids)
    area, variance = one.area, one.covariance(one)
    if variance > 1e-15 and 0 < area < 1:
        step = Z_95 * np.sqrt(variance) / (area * (1 - area))
        low, high = (float(1 / (1 + (1 - area) / area * np.exp(-sign * step))) for sign in (-1, 1))
        method = "Obuchowski clustered logit 95%"
    else:
        low, high = _newcombe_auc(area, one.prompts_up, one.prompts_down)
        method = "Newcombe AUC score 95%"
    return Estimate(value=area, low=low, high=high, n=one.n, n_prompts=one.n_prompts, unit="AUC", method=method)


def auc_change(before: ArrayLike, after: ArrayLike, target: ArrayLike, prompt_ids: Sequence[str]) -> Estimate:
    """Change of the area, after − before, of two scorings of the same rows, with a paired clustered 95% interval.

    DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44, 837–845, with Obuchowski's clustered covariance: rows that
    both scorings rank alike add no width.

    Args:
        before: Margins before, any unit. Shape (n,).
        after: Margins after, any unit. Shape (n,).
        target: 1 perturbed, 0 base; rows with 0.5 are left out. Shape (n,).
        prompt_ids: Cluster of each row. Length n.

    Raises:
        DataError: Majorities all for one side, or shapes that differ.
    """
    first, second = _ranked(before, target, prompt_ids), _ranked(after, target, prompt_ids)
    difference = second.area - first.area
    variance = first.covariance(first) + second.covariance(second) - 2 * first.covariance(second)
    half = Z_95 * float(np.sqrt(max(variance, 0.0)))
    if half < 1e-9 and {first.area, second.area} & {0.0, 1.0}:
        # Perfect separation has no spread to show: the wider of the areas' own intervals.
        own = [_newcombe_auc(one.area, one.prompts_up, one.prompts_down) for one in (first, second)]
        half = max(high - low for low, high in own)
    method = "paired DeLong, clustered 95%"
    if first.n_prompts == 1:
        half, method = 2.0, "one prompt: nothing is known of others"
    low, high = max(-1.0, difference - half), min(1.0, difference + half)
    return Estimate(
        value=difference, low=low, high=high, n=first.n, n_prompts=first.n_prompts, unit="AUC difference", method=method
    )


@dataclass(frozen=True, slots=True)
class _Ranked:
    """An area with each prompt's part in it, from rows of either side (up: people preferred perturbed)."""

    area: float
    by_up: NDArray[np.float64]
    by_down: NDArray[np.float64]
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
    values, sides = np.asarray(margins, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if not len(values) == len(sides) == len(prompt_ids) or not np.isfinite(values).all():
        raise DataError(
            f"AUC needs one finite margin, one side and one prompt for each row; got {values.shape} margins"
        )
    if not np.isin(sides, (0, 0.5, 1)).all():
        raise DataError("AUC needs people's side of each row: 1 perturbed, 0 base, 0.5 neither")
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
        return abs(area - theta) - Z_95 * float(np.sqrt(theta * (1 - theta) * terms / (n_up * n_down)))

    low = optimize.brentq(excess, tiny, min(area, 1 - tiny)) if area > 0 and excess(tiny) > 0 else 0.0
    high = optimize.brentq(excess, max(area, tiny), 1 - tiny) if area < 1 and excess(1 - tiny) > 0 else 1.0
    return float(low), float(high)
