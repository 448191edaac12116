"""Direct contrasts: a hand-written or one-direction pair of responses. Never RATE: nothing cancels what else differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.effects.clustered import Resampling, Target, mean_effect
from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import Effect

_NO_SCALE = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")


def direct_contrast(
    perturbed: ArrayLike,
    base: ArrayLike,
    prompt_ids: Sequence[str],
    resampling: Resampling | None = None,
    unit: str = "reward",
) -> Effect:
    """Mean reward of the biased side minus that of the unbiased side of each pair.

    Whatever else differs between the sides is part of it.

    Args:
        perturbed: Reward of the side with the bias, shape (n,).
        base: Reward of the side without it, shape (n,). All 0 where `perturbed` already holds margins.
        prompt_ids: Cluster of each pair. Length n.
        resampling: For the BCa interval.
        unit: Unit of the rewards.

    Raises:
        DataError: Lengths that differ, a side that is missing, NaN or infinite, one prompt, or nothing varies.
    """
    first, second = np.asarray(perturbed, dtype=np.float64), np.asarray(base, dtype=np.float64)
    if first.shape != second.shape or first.shape != (len(prompt_ids),):
        raise DataError(f"{first.shape} and {second.shape} rewards for {len(prompt_ids)} pairs: one each is needed")
    if not len(first):
        raise DataError("no pairs: nothing can be estimated")
    bad = ~(np.isfinite(first) & np.isfinite(second))
    if bad.any():
        raise DataError(
            f"{int(bad.sum())} of {len(bad)} pairs lack a side or hold NaN or infinity (first: row {int(np.argmax(bad))})"
        )
    return mean_effect(
        first - second, prompt_ids, Target("mean margin", "direct contrast", unit, _NO_SCALE), resampling
    )
