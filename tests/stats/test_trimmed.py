"""Tukey's fences by hand, and where leaving rows out turns a mean."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.means import inside_fences, iqr_trimmed_mean


def test_known_fences() -> None:
    """Quartiles 2 and 4, fences −1 and 7: both belong to the inside."""
    assert inside_fences([1, 2, 3, 4, 7]).tolist() == [True] * 5
    assert inside_fences([1, 2, 3, 4, 7.01]).tolist() == [True] * 4 + [False]
    assert inside_fences([-1.01, 2, 3, 4, 5]).tolist() == [False] + [True] * 4


def test_no_range_keeps_what_is_equal_but_for_rounding() -> None:
    assert inside_fences([0.3, 0.1 + 0.2, 0.3, 0.3, 0.3, 9]).tolist() == [True] * 5 + [False]
    assert inside_fences([5.0]).tolist() == [True]


def test_a_few_rows_turn_the_mean() -> None:
    values, ids = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, -90.0], [str(row) for row in range(7)]
    found = iqr_trimmed_mean(values, ids)
    assert found.raw == pytest.approx(-12)
    assert found.estimate.value == pytest.approx(1)
    assert (found.n_trimmed, found.estimate.n) == (1, 6)
    assert found.sign_changes
    assert not iqr_trimmed_mean(values[:-1], ids[:-1]).sign_changes


def test_the_interval_is_that_of_the_rows_left() -> None:
    values = np.append(np.random.default_rng(0).normal(0, 1, 40), 1000.0)
    found = iqr_trimmed_mean(values, [str(row) for row in range(41)])
    assert found.estimate.low < 0 < found.estimate.high < 1


def test_nothing_to_trim_is_said() -> None:
    for values in ([], [1.0, np.nan]):
        with pytest.raises(DataError, match="finite"):
            inside_fences(values)
    with pytest.raises(DataError, match="prompt"):
        iqr_trimmed_mean([1.0, 2.0], ["a", "a"])
