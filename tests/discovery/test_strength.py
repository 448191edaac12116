"""Diversity-adjusted bias strength: known sums, thresholds, penalties, and input that is of no use."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import ArrayLike

from cda.discovery.evidence import strength_curve
from cda.errors import DataError
from cda.results.discover import RunStrength

EAST, NORTH, NORTH_EAST = (2.0, 0.0), (0.0, 0.5), (1.0, 1.0)
HALF = math.sqrt(0.5)  # cosine of 45°


def strength(
    rewards: Sequence[float | None], judges: Sequence[float | None], embeddings: ArrayLike, penalty: float = 1.0
) -> RunStrength:
    (at_half,) = strength_curve(rewards, judges, embeddings, [0.5], penalty)
    return at_half


def test_unlike_candidates_add_up_in_full() -> None:
    found = strength([1.0, 3.0], [0.1, 0.2], [EAST, NORTH])
    assert found.value == pytest.approx(4.0) and found.n == 2
    assert [term.place for term in found.terms] == [1, 0]
    assert found.terms[0].similarity is None and found.terms[0].factor == 1.0


def test_a_repeat_of_a_stronger_one_adds_nothing() -> None:
    assert strength([3.0, 1.0], [0.1, 0.1], [EAST, (7.0, 0.0)]).value == pytest.approx(3.0)


def test_the_nearest_stronger_one_counts_and_weaker_ones_do_not() -> None:
    found = strength([2.0, 3.0, 1.0], [0.0, 0.0, 0.0], [EAST, NORTH, NORTH_EAST])
    # 3 in full, 2 at a right angle in full, 1 at 45° to both.
    assert found.value == pytest.approx(5 + (1 - HALF))
    turned = strength([2.0, 1.0, 3.0], [0.0, 0.0, 0.0], [EAST, NORTH, NORTH_EAST])
    assert turned.value == pytest.approx(3 + 3 * (1 - HALF))


def test_only_rewarded_and_disliked_candidates_count_also_as_stronger_ones() -> None:
    # The first repeats the second, but the judge likes it; the third costs reward; the fourth has none; 0 is not above 0.
    found = strength([9.0, 2.0, -1.0, None, 0.0], [0.5, 0.4, 0.1, 0.1, 0.1], [EAST, EAST, NORTH, NORTH, NORTH])
    assert found.value == pytest.approx(2.0) and [term.place for term in found.terms] == [1]
    assert (found.n_candidates, found.n_unmeasured) == (5, 1)


def test_opposite_attributes_are_not_worth_more_than_unlike_ones() -> None:
    found = strength([3.0, 2.0], [0.0, 0.0], [EAST, (-1.0, 0.0)])
    assert found.value == pytest.approx(5.0) and found.terms[1].similarity == 0.0


@pytest.mark.parametrize(("penalty", "value"), [(0.0, 4.0), (0.5, 3 + 1 - 0.5 * HALF), (1.0, 4 - HALF), (2.0, 3.0)])
def test_the_penalty_weighs_and_no_factor_falls_below_nothing(penalty: float, value: float) -> None:
    assert strength([3.0, 1.0], [0.0, 0.0], [EAST, NORTH_EAST], penalty=penalty).value == pytest.approx(value)


def test_a_curve_takes_each_threshold_and_need_not_rise() -> None:
    # The strong one lies between two weaker ones, which are at a right angle to each other.
    curve = strength_curve([2.0, 1.9, 1.9], [0.4, 0.1, 0.1], [NORTH_EAST, EAST, NORTH], [0.1, 0.2, 0.5])
    assert [one.value for one in curve] == pytest.approx([0.0, 3.8, 2 + 3.8 * (1 - HALF)])
    assert curve[2].value < curve[1].value and [one.n for one in curve] == [0, 2, 3]
    assert [one.threshold for one in curve] == [0.1, 0.2, 0.5]


def test_of_equal_ones_the_first_is_the_stronger() -> None:
    found = strength([1.0, 1.0], [0.0, 0.0], [EAST, NORTH_EAST])
    assert [term.place for term in found.terms] == [0, 1] and found.value == pytest.approx(2 - HALF)


def test_no_candidate_is_a_strength_of_nothing() -> None:
    none = strength([], [], np.empty((0, 384)))
    assert (none.value, none.n, none.n_candidates) == (0.0, 0, 0)
    assert strength([], [], []).value == 0.0
    assert strength([1.0], [0.0], [EAST]).terms[0].reward == 1.0


def test_embeddings_that_have_no_direction_are_refused_where_they_are_needed() -> None:
    for bad in [(0.0, 0.0), (np.nan, 1.0)]:
        with pytest.raises(DataError, match="1 of 2 embeddings"):
            strength([2.0, 1.0], [0.0, 0.0], [EAST, bad])
        assert strength([2.0, -1.0], [0.0, 0.0], [EAST, bad]).value == 2.0


def test_lengths_and_penalty_are_checked() -> None:
    for judges, vectors in [([0.1], [EAST, NORTH]), ([0.1, 0.1], [EAST]), ([0.1, 0.1], [1.0, 2.0])]:
        with pytest.raises(DataError, match="one each is needed"):
            strength([1.0, 2.0], judges, vectors)
    with pytest.raises(ValueError, match="penalty is -1"):
        strength([1.0], [0.0], [EAST], penalty=-1)
