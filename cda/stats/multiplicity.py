"""Tests of several hypotheses: corrections, the test that several fail together, and differences of one effect between groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Missing, Test
from cda.results.evidence import Correction

T = TypeVar("T", bound=Test | Missing)


def corrected(p_values: Sequence[float], method: Correction) -> list[float]:
    """Adjusted by the named method; Bonferroni's are n·p and at most 1, "bh" is Benjamini and Hochberg's, "none" leaves them as
    they are.

    >>> corrected([0.01, 0.04, 0.03], "bonferroni")
    [0.03, 0.12, 0.09]
    """
    if method == "holm":
        return holm(p_values)
    if method == "bh":
        return benjamini_hochberg(p_values)
    p = _checked(p_values)
    return list((p if method == "none" else np.minimum(p * len(p), 1.0)).tolist())


def partial_conjunction(p_values: Sequence[float], r: int) -> float:
    """P-value of "at least r of these k effects are real", from one p-value each: (k − r + 1)·p₍ᵣ₎, at most 1.

    Benjamini and Heller (2008), Biometrics 64, 1215–1222, in Bonferroni's form: valid however the k tests depend on
    each other, for an r fixed in advance, 1 to k (else DataError); r = k is the largest p-value. As they stand these
    need not grow with r; to ask for several r of the same data, take the running maximum from r = 1 on.

    >>> partial_conjunction([0.004, 0.5, 0.001], 2)
    0.008
    """
    p = np.sort(_checked(p_values))
    if not 1 <= r <= len(p):
        raise DataError(f"{r} of {len(p)} p-values: r lies between 1 and their number")
    return float(min(1.0, (len(p) - r + 1) * p[r - 1]))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979); the family-wise error rate is kept.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return list(adjusted.tolist())


def holm_of(tests: Sequence[T]) -> list[T]:
    """The tests with Holm's p over those that there are."""
    adjusted = iter(holm([test.p_value for test in tests if isinstance(test, Test)]))
    return [test.model_copy(update={"p_holm": next(adjusted)}) if isinstance(test, Test) else test for test in tests]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up adjusted p-values (1995): false discovery rate of independent or positively
    dependent tests.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    if not len(p_values):
        return []
    return list(stats.false_discovery_control(_checked(p_values), method="bh").tolist())


def _checked(p_values: Sequence[float]) -> FloatArray:
    p = np.asarray(p_values, dtype=np.float64)
    wrong = ~((p >= 0) & (p <= 1))
    if wrong.any():
        raise DataError(f"{int(wrong.sum())} of {len(p)} p-values are not between 0 and 1: nothing can be adjusted")
    return p
