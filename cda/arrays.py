"""Arrays: their types, and the check with which every statistic begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Ids = Sequence[str] | NDArray[Any]
"""Cluster of each row: its name, or a number; numbers are in the order of the names."""
LARGEST = 1e100
"""Largest size of a score or other number from outside: its square, and sums of squares, stay finite."""


def finite(values: ArrayLike, name: str = "values") -> FloatArray:
    """The values as an array of floats.

    Raises:
        DataError: A value is NaN or infinite.
    """
    array = np.asarray(values, dtype=np.float64)
    if bad := int((~np.isfinite(array)).sum()):
        raise DataError(f"{bad} of {array.size} {name} are NaN or infinite")
    return array


def n_distinct(ids: Ids) -> int:
    """Number of clusters."""
    if not isinstance(ids, np.ndarray):
        return len(set(ids))
    ordered = np.sort(ids)  # np.unique hashes numbers, in ten times as long at 400,000
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered))
