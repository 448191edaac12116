"""Differences of one effect between groups: Welch's test against scipy's, and what it says of no and of large differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from cda.stats.estimators import mean_of
from cda.stats.levels import heterogeneity


def of_groups(groups: list[np.ndarray]) -> tuple[list[float], list[float], list[int]]:
    tests = [mean_of(own, [f"p{at}" for at in range(len(own))]) for own in groups]
    return [t.estimate.value for t in tests], [t.error for t in tests], [t.estimate.n_prompts for t in tests]


def test_one_row_a_prompt_gives_scipys_welch_test() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.normal(mean, spread, n) for mean, spread, n in ((0.2, 1, 9), (0.9, 3, 14), (-0.4, 0.5, 25))]
    found = heterogeneity(*of_groups(groups))
    expected = stats.f_oneway(*groups, equal_var=False)
    assert found.statistic == pytest.approx(expected.statistic) and found.p_value == pytest.approx(expected.pvalue)
    assert (found.df, found.p_holm) == (2, None)


def test_i_squared_is_the_share_that_is_not_noise() -> None:
    # Weights are 1: the mean is 0, Q = 4 + 4 = 8 on one degree of freedom.
    found = heterogeneity([2.0, -2.0], [1.0, 1.0], [10, 10])
    assert found.i_squared == pytest.approx(1 - 1 / 8)
    same = heterogeneity([1.0, 1.0], [1.0, 1.0], [10, 10])
    assert (same.statistic, same.i_squared) == (0.0, 0.0) and same.p_value == pytest.approx(1.0)


def test_equal_groups_are_rejected_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(0)
    rejected = [
        heterogeneity(*of_groups([rng.normal(1, spread, n) for spread, n in ((1, 8), (2, 8), (1, 12))])).p_value < 0.05
        for _ in range(600)
    ]
    assert 0.025 < np.mean(rejected) < 0.085


@pytest.mark.parametrize(
    ("numbers", "said"),
    [(([1.0], [1.0], [5]), "1 groups"), (([1.0, 2.0], [1.0, 0.0], [5, 5]), "without spread"), (([1.0, 2.0], [1.0, 1.0], [5, 1]), "without spread")],
)  # fmt: skip
def test_too_little_is_an_error(numbers: tuple[list[float], list[float], list[int]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        heterogeneity(*numbers)
