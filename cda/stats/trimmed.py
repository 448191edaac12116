"""Means without the rows outside Tukey's fences, and whether leaving them out turns the sign."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.results.evidence import TrimmedMean
from cda.stats.one_sided import clustered_t_test

BoolArray = NDArray[np.bool_]
FENCE = 1.5


def iqr_trimmed_mean(values: ArrayLike, prompt_ids: Sequence[str], unit: str = "reward") -> TrimmedMean:
    """Mean of the rows within [Q1 − 1.5·IQR, Q3 + 1.5·IQR], clustered by prompt.

    Args:
        values: Shape (n,), in `unit`.
        prompt_ids: Cluster of each row. Length n.
        unit: Of the values.

    Raises:
        DataError: As `clustered_t_test`, for the rows inside the fences.
    """
    rows = np.asarray(values, dtype=np.float64)
    kept = inside_fences(rows)
    test = clustered_t_test(rows[kept], [one for one, keep in zip(prompt_ids, kept, strict=True) if keep], unit=unit)
    return TrimmedMean(estimate=test.estimate, raw=float(rows.mean()), n_trimmed=int((~kept).sum()))


def inside_fences(values: ArrayLike) -> BoolArray:
    """Which rows lie within 1.5 interquartile ranges of the quartiles (Tukey 1977; linear quartiles), shape (n,).

    Raises:
        DataError: No rows, or values that are not finite.
    """
    rows = np.asarray(values, dtype=np.float64)
    if not len(rows) or not np.isfinite(rows).all():
        raise DataError(f"fences need finite values, at least one; found {int(np.isfinite(rows).sum())} of {len(rows)}")
    first, third = np.quantile(rows, [0.25, 0.75])
    reach = FENCE * (third - first)
    # Where most rows are equal the range is 0, and rounding must not push those rows out.
    slack = 1e-12 * float(np.abs(rows).max())
    return np.asarray((rows >= first - reach - slack) & (rows <= third + reach + slack))
