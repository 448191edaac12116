"""Two scorings of the same rows: difference, agreement and correlation, against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids, rng
from scipy import stats

from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.stats.panel import compare_margins


def test_counts_difference_test_and_agreement_by_hand() -> None:
    # Both above 0 in 10 rows, the first alone in 9, the other alone in 2, neither in 19.
    first = np.repeat([2.0, 3.0, -1.0, -4.0], [10, 9, 2, 19])
    other = np.repeat([70.0, -10.0, 20.0, -50.0], [10, 9, 2, 19])
    found = compare_margins(first, other, ids(40), unpaired=(3, 0))
    assert (found.both, found.only_first, found.only_other, found.neither) == (10, 9, 2, 19)
    assert (found.first.value, found.other.value, found.difference.value) == (19 / 40, 12 / 40, pytest.approx(-7 / 40))
    assert found.difference.low < -7 / 40 < found.difference.high
    assert found.test.p_value == pytest.approx(stats.binomtest(2, 11).pvalue) and found.test.method == "exact McNemar"
    assert found.agreement.value == 29 / 40 and found.agreement.n == 40
    assert (found.unpaired_first, found.unpaired_other) == (3, 0)


def test_a_judges_tie_counts_half_and_agrees_with_a_tie_alone() -> None:
    first, other = [0.0, 0.0, 1.0, -1.0], [0.0, 1.0, 1.0, -1.0]
    judged = compare_margins(first, other, ids(4), ("half", "half"))
    assert (judged.first.value, judged.other.value, judged.agreement.value) == (0.5, 0.625, 0.75)
    reward = compare_margins(first, other, ids(4), ("no-hit", "half"))
    assert (reward.first.value, reward.other.value) == (0.25, 0.625)


def test_rows_of_a_prompt_are_one_draw() -> None:
    first, other = rng(1).normal(size=(2, 60))
    once = compare_margins(first, other, ids(60))
    four_times = compare_margins(np.repeat(first, 4), np.repeat(other, 4), ids(240, 4))
    for name in ("difference", "agreement", "correlation"):
        one, many = getattr(once, name), getattr(four_times, name)
        assert (many.n, many.n_prompts) == (240, 60)
        assert many.high - many.low == pytest.approx(one.high - one.low, rel=0.05)
    assert four_times.test.p_value == pytest.approx(once.test.p_value)


def test_margins_without_a_spread_or_with_few_prompts_have_no_correlation() -> None:
    alike = compare_margins([1.0, 1.0, 1.0], [1.0, 2.0, -3.0], ids(3))
    assert isinstance(alike.correlation, Missing) and "alike" in alike.correlation.reason
    assert isinstance(alike.difference, Estimate)
    few = compare_margins([1.0, 2.0, -1.0, 1.0], [1.0, 2.0, -3.0, 0.5], ids(4, 2))
    assert isinstance(few.correlation, Missing) and "too few" in few.correlation.reason
    for bad in ([], [1.0, np.nan, 2.0]):
        with pytest.raises(DataError):
            compare_margins(bad, bad, ids(len(bad)))
