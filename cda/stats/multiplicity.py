"""Correction for testing several hypotheses at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from cda.errors import DataError


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), in the given order; the family-wise error rate is kept.

    Raises:
        DataError: A p-value that is not between 0 and 1.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up adjusted p-values (1995), in the given order; the false discovery rate is kept.

    It holds for independent or positively dependent tests.

    Raises:
        DataError: A p-value that is not between 0 and 1.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    if not len(p_values):
        return []
    return [float(value) for value in stats.false_discovery_control(_checked(p_values), method="bh")]


def _checked(p_values: Sequence[float]) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    wrong = ~((p >= 0) & (p <= 1))
    if wrong.any():
        raise DataError(f"{int(wrong.sum())} of {len(p)} p-values are not between 0 and 1: nothing can be adjusted")
    return p
