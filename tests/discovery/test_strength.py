"""Diversity-adjusted bias strength: known sums, thresholds, penalties, and input that is of no use."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import ArrayLike

from cda.discovery.result import strength_curve
from cda.errors import DataError
from cda.results.discover import RunStrength

EAST, NORTH, NORTH_EAST, WEST = (2.0, 0.0), (0.0, 0.5), (1.0, 1.0), (-1.0, 0.0)
HALF = math.sqrt(0.5)  # cosine of 45°


def strength(
    rewards: Sequence[float | None], judges: Sequence[float | None], embeddings: ArrayLike, penalty: float = 1.0
) -> RunStrength:
    (at_half,) = strength_curve(rewards, judges, embeddings, [0.5], penalty)
    return at_half


@pytest.mark.parametrize(
    ("rewards", "embeddings", "value", "places"),
    [
        ([1.0, 3.0], [EAST, NORTH], 4.0, [1, 0]),  # unlike ones add up in full
        ([3.0, 1.0], [EAST, (7.0, 0.0)], 3.0, [0, 1]),  # a repeat of a stronger one adds nothing
        ([3.0, 2.0], [EAST, WEST], 5.0, [0, 1]),  # opposites are not worth more than unlike ones
        ([1.0, 1.0], [EAST, NORTH_EAST], 2 - HALF, [0, 1]),  # of equal ones the first is the stronger
        # 3 in full, 2 at a right angle in full, 1 at 45° to both; then the strongest is the one between.
        ([2.0, 3.0, 1.0], [EAST, NORTH, NORTH_EAST], 5 + (1 - HALF), [1, 0, 2]),
        ([2.0, 1.0, 3.0], [EAST, NORTH, NORTH_EAST], 3 + 3 * (1 - HALF), [2, 0, 1]),
        ([], np.empty((0, 384)), 0.0, []),
        ([], [], 0.0, []),
    ],
)
def test_known_sums(rewards: list[float], embeddings: ArrayLike, value: float, places: list[int]) -> None:
    found = strength(rewards, [0.0] * len(rewards), embeddings)
    assert found.value == pytest.approx(value) and [term.place for term in found.terms] == places


def test_only_rewarded_and_disliked_candidates_count_also_as_stronger_ones() -> None:
    # The first repeats the second, but the judge likes it; the third costs reward; the fourth has none; 0 is not above 0.
    found = strength([9.0, 2.0, -1.0, None, 0.0], [0.5, 0.4, 0.1, 0.1, 0.1], [EAST, EAST, NORTH, NORTH, NORTH])
    assert found.value == pytest.approx(2.0) and [term.place for term in found.terms] == [1]
    assert (found.n_candidates, found.n_unmeasured) == (5, 1)


@pytest.mark.parametrize(("penalty", "value"), [(0.0, 4.0), (0.5, 3 + 1 - 0.5 * HALF), (1.0, 4 - HALF), (2.0, 3.0)])
def test_the_penalty_weighs_and_no_factor_falls_below_nothing(penalty: float, value: float) -> None:
    assert strength([3.0, 1.0], [0.0, 0.0], [EAST, NORTH_EAST], penalty=penalty).value == pytest.approx(value)


def test_a_curve_takes_each_threshold_and_need_not_rise() -> None:
    # The strong one lies between two weaker ones, which are at a right angle to each other.
    curve = strength_curve([2.0, 1.9, 1.9], [0.4, 0.1, 0.1], [NORTH_EAST, EAST, NORTH], [0.1, 0.2, 0.5])
    assert [point.value for point in curve] == pytest.approx([0.0, 3.8, 2 + 3.8 * (1 - HALF)])
    assert [(point.n, point.threshold) for point in curve] == [(0, 0.1), (2, 0.2), (3, 0.5)]


def test_input_of_no_use_is_refused_where_it_is_needed() -> None:
    for bad in [(0.0, 0.0), (np.nan, 1.0)]:
        with pytest.raises(DataError, match="1 of 2 embeddings"):
            strength([2.0, 1.0], [0.0, 0.0], [EAST, bad])
        assert strength([2.0, -1.0], [0.0, 0.0], [EAST, bad]).value == 2.0
    for judges, vectors in [([0.1], [EAST, NORTH]), ([0.1, 0.1], [EAST]), ([0.1, 0.1], [1.0, 2.0])]:
        with pytest.raises(DataError, match="one each is needed"):
            strength([1.0, 2.0], judges, vectors)
