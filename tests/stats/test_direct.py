"""Direct contrasts: a paired mean under its own name, never RATE."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from cda.results.base import Missing
from cda.stats.clustered import direct_contrast


def test_a_paired_mean_under_its_own_name() -> None:
    random = np.random.default_rng(0)
    base = random.normal(size=50)
    perturbed = base + random.normal(0.3, 0.2, 50)
    found = direct_contrast(perturbed, base, [f"p{row}" for row in range(50)])
    assert (found.estimand, found.estimator) == ("mean margin", "direct contrast")
    assert found.estimate.value == pytest.approx((perturbed - base).mean())
    assert found.standard_error == pytest.approx(stats.sem(perturbed - base))
    assert isinstance(found.standardised, Missing) and found.standardised.reason


@pytest.mark.parametrize(
    ("perturbed", "base", "ids", "message"),
    [
        ([], [], [], "no pairs"),
        ([1.0, 2], [1.0], ["a", "b"], "one each"),
        ([1.0, float("nan")], [1.0, 2], ["a", "b"], r"1 of 2 pairs lack a side.*row 1"),
        ([1.0, 2], [1.0, float("inf")], ["a", "b"], "1 of 2 pairs"),
        ([1.0, 2], [0.0, 0], ["a", "a"], "1 prompt"),
        ([1.0, 1], [0.0, 0], ["a", "b"], "nothing varies"),
    ],
)
def test_what_cannot_be_estimated_raises(perturbed, base, ids, message: str) -> None:
    with pytest.raises(DataError, match=message):
        direct_contrast(perturbed, base, ids)
