"""Intervals, standard errors and tests of weighted accuracies, where a benchmark fixes how much each subset weighs.

Where subsets have fixed weights, a difference between two of them is no sampling error: only the spread within each of
them counts. So errors and draws are of residuals from the subset's own mean. A prompt that stands in several subsets
(RewardBench takes AlpacaEval's into three) is drawn with all of its residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.results.base import Estimate
from cda.stats.bootstrap import bootstrap_sums, cluster_sums
from cda.stats.proportions import exact_change_test, paired_change, share, wilson
from cda.stats.streams import Stream, generator

FloatArray = NDArray[np.float64]
_FLIPS = 9_999
_WITHIN = "prompt-clustered bootstrap 95% within subsets"


@dataclass(frozen=True, slots=True)
class Design:
    """How rows are averaged, alike for every scoring.

    Attributes:
        weights: Of each row. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        strata: Subset of each row where subsets have fixed weights, else the same word for all. Shape (n,).
        seed: Of bootstraps and random sign flips.
    """

    weights: FloatArray
    prompt_ids: Sequence[str]
    strata: NDArray[np.str_]
    seed: int

    def rng(self) -> np.random.Generator:
        """The same for every estimate."""
        return generator(self.seed, Stream.AUDIT_INTERVALS)

    def mean(self, values: FloatArray) -> float:
        """Weighted mean."""
        return float(np.average(values, weights=self.weights))

    def is_plain(self, *columns: FloatArray) -> bool:
        """Whether the mean is a plain share, for which there are better intervals than the bootstrap's."""
        inside = all(((one >= 0) & (one <= 1)).all() for one in columns)
        one_stratum = bool((self.strata == self.strata[0]).all())
        return inside and one_stratum and bool(np.allclose(self.weights, self.weights[0]))


def level(values: FloatArray, design: Design) -> Estimate:
    """Weighted mean with a 95% interval: of a plain share Wilson's, else of residuals."""
    if design.is_plain(values):
        return share(values, design.prompt_ids)
    drawn = _drawn(values, design, "share")
    if drawn is not None:
        return drawn
    if np.ptp(values) > 0:
        inside = np.clip(values, 0, 1)
        return _of_strata(lambda rows, ids: share(inside[rows], ids), values, design)
    mean, n = design.mean(values), len(set(design.prompt_ids))
    low, high = wilson(min(max(mean, 0.0), 1.0) * n, n)
    return Estimate(
        value=mean,
        low=min(low, mean),
        high=max(high, mean),
        n=len(values),
        n_prompts=n,
        unit="share",
        method="Wilson 95% over prompts",
    )


def change(before: FloatArray, after: FloatArray, design: Design) -> Estimate:
    """Weighted mean of after − before with a 95% interval, paired; see `level`."""
    if design.is_plain(before, after):
        return paired_change(before, after, design.prompt_ids)
    moved = after - before
    drawn = _drawn(moved, design, "share difference")
    if drawn is not None:
        return drawn
    clipped = np.clip(before, 0, 1), np.clip(after, 0, 1)
    if np.ptp(moved) > 0:
        return _of_strata(lambda rows, ids: paired_change(clipped[0][rows], clipped[1][rows], ids), moved, design)
    # Every row moved alike: the width that as many plain shares would have.
    plain = paired_change(*clipped, design.prompt_ids)
    mean = design.mean(moved)
    return plain.model_copy(
        update={"value": mean, "low": mean - (plain.value - plain.low), "high": mean + (plain.high - plain.value)}
    )


def standard_error(values: FloatArray, design: Design) -> float:
    """Of the weighted mean when whole prompts are drawn.

    √(p(1 − p)/n) of a plain share whose prompts occur once each; with several subsets √Σ W²·p(1 − p)/(n − 1) over them,
    W the subset's share of the weight.
    """
    sums = cluster_sums(_residuals(values, design)[:, None], design.prompt_ids)
    return float(np.sqrt((sums**2).sum()))


def change_test(before: FloatArray, after: FloatArray, design: Design) -> tuple[float, str]:
    """p-value of no change, and how it was made: exact for a plain share of 0, 0.5 and 1, else signs of prompts flipped."""
    if design.is_plain(before, after) and np.isin([before, after], (0, 0.5, 1)).all():
        exact = exact_change_test(before, after, design.prompt_ids)
        return exact.p_value, exact.method
    sums = cluster_sums((design.weights * (after - before))[:, None], design.prompt_ids)[:, 0]
    sums = sums[np.abs(sums) > 1e-12 * design.weights.max()]
    rng = design.rng()
    observed = abs(float(sums.sum())) * (1 - 1e-9)
    reached = sum(abs(float(rng.choice((-1.0, 1.0), len(sums)) @ sums)) >= observed for _ in range(_FLIPS))
    return (1 + reached) / (1 + _FLIPS), f"sign-flip over prompts, {_FLIPS} random draws"


def _drawn(values: FloatArray, design: Design, unit: str) -> Estimate | None:
    """Bootstrap of the prompts' residuals; None where there is no spread to draw from, in all or in one subset."""
    residuals = _residuals(values, design)
    if min(_sizes(design.strata, design).values()) < 2 or np.abs(residuals).max() < 1e-12:
        return None
    mean = design.mean(values)
    found = bootstrap_sums(residuals[:, None], design.prompt_ids, lambda sums: mean + sums[:, 0], design.rng())
    if found.low == found.high:
        return None
    # No share, and no change of one, lies further out than its rows.
    low, high = max(found.low, min(values.min(), mean)), min(found.high, max(values.max(), mean))
    return found.estimate(unit).model_copy(update={"low": float(low), "high": float(high), "method": _WITHIN})


def _residuals(values: FloatArray, design: Design) -> FloatArray:
    """What each row adds to the error of the weighted mean; their sum is 0 in every subset."""
    strata, ids = _drawable(design), np.asarray(design.prompt_ids)
    names = np.unique(strata)
    residuals = np.zeros(len(values))
    for name in names:
        own = strata == name
        n = len(set(ids[own]))
        # A mean of few prompts follows them; of one set alone the plain formula is kept.
        scale = np.sqrt(n / (n - 1)) if len(names) > 1 else 1.0
        weights = design.weights[own]
        residuals[own] = scale * weights * (values[own] - np.average(values[own], weights=weights))
    return np.asarray(residuals / design.weights.sum(), dtype=np.float64)


def _drawable(design: Design) -> NDArray[np.str_]:
    """Strata in which a subset of a single prompt, which has no spread of its own, joins the next smallest."""
    strata = design.strata.copy()
    while True:
        sizes = _sizes(strata, design)
        by_size = sorted(sizes, key=lambda name: sizes[name])
        if len(by_size) == 1 or sizes[by_size[0]] > 1:
            return strata
        strata[strata == by_size[0]] = by_size[1]


def _sizes(strata: NDArray[np.str_], design: Design) -> dict[str, int]:
    """Prompts in each stratum."""
    ids = np.asarray(design.prompt_ids)
    return {str(name): len(set(ids[strata == name])) for name in np.unique(strata)}


def _of_strata(
    estimate: Callable[[NDArray[np.bool_], list[str]], Estimate], values: FloatArray, design: Design
) -> Estimate:
    """Where subsets have no spread within, or a single prompt: their own intervals, added by the squares of their widths."""
    mean, ids = design.mean(values), np.asarray(design.prompt_ids)
    own = [design.strata == name for name in np.unique(design.strata)]
    found = [estimate(rows, ids[rows].tolist()) for rows in own]
    weights = np.array([design.weights[rows].sum() for rows in own]) / design.weights.sum()
    down = weights * np.array([one.value - one.low for one in found])
    up = weights * np.array([one.high - one.value for one in found])
    return Estimate(
        value=mean,
        low=mean - float(np.sqrt((down**2).sum())),
        high=mean + float(np.sqrt((up**2).sum())),
        n=len(values),
        n_prompts=len(set(design.prompt_ids)),
        unit=found[0].unit,
        method=f"{found[0].method} within subsets",
    )
