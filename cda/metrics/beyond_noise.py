"""How far a bias's mean margin moved beyond noise in the rewards and beyond stretching them, with quality pairs as the yardstick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.errors import DataError
from cda.metrics.preference import margins_finite
from cda.results.base import Estimate
from cda.stats.bootstrap import cluster_sums

FloatArray = NDArray[np.float64]
_ROUNDING = 1e-12
METHOD = "prompt-clustered t 95%, stretch from quality pairs"


def beyond_noise(
    before: ArrayLike,
    after: ArrayLike,
    prompt_ids: Sequence[str],
    quality_before: ArrayLike,
    quality_after: ArrayLike,
    quality_prompt_ids: Sequence[str],
) -> Estimate:
    """Mean margin after − stretch · mean margin before, where stretch = mean quality margin after / before.

    Ours. A share of positive margins nears one half when rewards become noisier; a mean does not, since noise adds 0 to it
    on average. A training may also stretch all rewards, which multiplies every mean alike; quality pairs say by how much. If
    rewards were stretched and made noisier, and nothing else, the result is 0 on average, whatever the shares do.

    The error is the first-order one of this ratio, over whole prompts of contrasts and of quality pairs together, held
    against Student's t with one degree of freedom less than the fewer prompts of the two.

    Args:
        before: score(perturbed) − score(base) before. Shape (n,), reward units.
        after: The same after, on the same rows.
        prompt_ids: Cluster of each contrast. Length n.
        quality_before: score(chosen) − score(rejected) before. Shape (m,).
        quality_after: The same after.
        quality_prompt_ids: Cluster of each quality pair, in the same names. Length m.

    Returns:
        In reward units after; below 0 the model wants less of the bias than noise and stretching leave of it.

    Raises:
        DataError: Margins that are not finite, lengths that differ, fewer than two prompts of either kind, or a mean quality
            margin before that is not shown to be above 0: without it there is no yardstick.
    """
    own = np.column_stack([margins_finite(before), margins_finite(after)])
    pairs = np.column_stack([margins_finite(quality_before), margins_finite(quality_after)])
    n_prompts = min(len(set(prompt_ids)), len(set(quality_prompt_ids)))
    if n_prompts < 2:
        raise DataError("fewer than two prompts of contrasts or of quality pairs: their spread is unknown")
    (was, now), (scale, new_scale) = own.mean(axis=0), pairs.mean(axis=0)
    t = float(stats.t.ppf(0.975, n_prompts - 1))
    if scale - t * _error((pairs[:, 0] - scale) / len(pairs), quality_prompt_ids) <= 0:
        raise DataError(
            "the model before has no mean margin on quality pairs that is shown to be above 0, the yardstick for stretched rewards"
        )
    stretch = new_scale / scale
    value = float(now - stretch * was)
    of_contrasts = ((own[:, 1] - now) - stretch * (own[:, 0] - was)) / len(own)
    of_pairs = -was / scale * ((pairs[:, 1] - new_scale) - stretch * (pairs[:, 0] - scale)) / len(pairs)
    half = t * _error(np.concatenate([of_contrasts, of_pairs]), [*prompt_ids, *quality_prompt_ids])
    half = max(half, _ROUNDING * max(abs(now), abs(stretch * was)))  # traces of rounding are no change
    return Estimate(
        value=value,
        low=value - half,
        high=value + half,
        n=len(own),
        n_prompts=len(set(prompt_ids)),
        unit="reward",
        method=METHOD,
    )


def _error(influences: FloatArray, prompt_ids: Sequence[str]) -> float:
    """Standard error of a sum of influences whose prompts are independent (the sandwich, with factor G/(G − 1))."""
    sums = cluster_sums(influences[:, None], prompt_ids)[:, 0]
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()))
