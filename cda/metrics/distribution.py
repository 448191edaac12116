"""A distribution in few numbers: mean with its interval, quantiles, and counts in bins that several share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.results.rewards import Distribution
from cda.stats.bootstrap import bootstrap_mean

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
N_BINS = 20


def common_edges(values: Sequence[ArrayLike], n_bins: int = N_BINS) -> tuple[float, ...]:
    """Edges of equally wide bins from the smallest to the largest of all values. Length n_bins + 1.

    Raises:
        DataError: No value at all.
    """
    arrays = [np.asarray(one, dtype=np.float64).ravel() for one in values]
    together: NDArray[np.float64] = np.concatenate(arrays) if arrays else np.empty(0)
    if not together.size:
        raise DataError("no values: there is no distribution to show")
    low, high = float(together.min()), float(together.max())
    if high <= low:  # all the same: one bin of some width
        low, high = low - 0.5, high + 0.5
    return tuple(float(edge) for edge in np.linspace(low, high, n_bins + 1))


def distribution(
    values: ArrayLike, prompt_ids: Sequence[str], edges: Sequence[float], rng: np.random.Generator, unit: str = "reward"
) -> Distribution:
    """Mean, quantiles and histogram of values.

    Args:
        values: Shape (n,), in `unit`.
        prompt_ids: Cluster of each. Length n.
        edges: Of the bins, from `common_edges`; every value lies within them.
        rng: For the interval of the mean.
        unit: Of the values.

    Raises:
        DataError: No values, one prompt only, or values outside the bins.
    """
    found = np.asarray(values, dtype=np.float64)
    mean = bootstrap_mean(found, prompt_ids, rng).estimate(unit)
    counts = np.histogram(found, np.asarray(edges))[0]
    if counts.sum() != len(found):
        raise DataError(f"{len(found) - int(counts.sum())} of {len(found)} values lie outside the bins")
    return Distribution(
        mean=mean,
        quantiles=tuple(float(one) for one in np.quantile(found, LEVELS)),
        counts=tuple(int(one) for one in counts),
    )
