"""The effect among pairs that drift little, and when there are too few of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import Limit, PairsEffect, SameMargin
from cda.stats.identification import OverlapRule, effect, overlap_effect, overlap_of, within_limits

LIMITS = {"words": Limit(ratio=1.15), "list_lines": Limit(difference=0)}
PERTURBED = {"words": [110, 200, 100, 300], "list_lines": [0, 0, 4, 5]}
BASE = {"words": [100, 100, 100, 100], "list_lines": [0, 0, 0, 0]}


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def ids(n: int) -> list[str]:
    return [f"p{row}" for row in range(n)]


def test_pairs_beyond_any_limit_are_outside_and_counted_by_feature() -> None:
    inside, beyond = within_limits(PERTURBED, BASE, 4, limits=LIMITS)
    assert inside.tolist() == [True, False, False, False]
    assert beyond == {"words": 2, "list_lines": 2}


def test_the_treatment_is_exempt() -> None:
    found, inside = overlap_of(PERTURBED, BASE, ids(4), limits=LIMITS, treatment=["list_lines"])
    assert inside.tolist() == [True, False, True, False]
    assert (found.n, found.n_prompts, found.n_total, found.share.value) == (2, 2, 4, 0.5)
    assert (found.beyond, found.exempt) == ({"words": 2}, ("list_lines",))


def test_a_limit_on_what_was_not_measured_raises() -> None:
    with pytest.raises(DataError, match="limit is set on bold"):
        within_limits(PERTURBED, BASE, 4, limits={"bold": Limit(difference=0)})


def test_effect_among_the_pairs_within_limits() -> None:
    margins = np.tile([1.0, -1.0, 2.0, 9.0], 30)
    inside = np.tile([True, True, True, False], 30)
    found = overlap_effect(margins, inside, ids(120), rng())
    assert isinstance(found, PairsEffect)
    assert found.mean_margin.value == pytest.approx(2 / 3)
    assert found.skew.value == pytest.approx(2 / 3)
    assert (found.mean_margin.n, found.mean_margin.unit) == (90, "reward")
    assert effect(margins, ids(120), rng()).mean_margin.value == pytest.approx(11 / 4)


@pytest.mark.parametrize(
    ("n_inside", "n_prompts", "rule", "message"),
    [
        (0, 100, OverlapRule(), "no overlap: none of 100 pairs"),
        (29, 100, OverlapRule(), "29 of 100 pairs have drift within limits, from 29 prompts; 30 prompts are needed"),
        (40, 10, OverlapRule(), "from 10 prompts; 30"),
        (30, 100, OverlapRule(min_share=0.5), "(30%); 50% are needed"),
        (1, 100, OverlapRule(min_prompts=0, min_share=0), "from 1 prompts; 2 prompts are needed"),
    ],
)
def test_too_small_an_overlap_is_said_in_words(n_inside: int, n_prompts: int, rule: OverlapRule, message: str) -> None:
    clusters = [f"p{row % n_prompts}" for row in range(100)]
    found = overlap_effect(np.ones(100), np.arange(100) < n_inside, clusters, rng(), rule=rule)
    assert isinstance(found, Missing)
    assert message in found.reason


@pytest.mark.parametrize(
    ("n_inside", "n_total", "enough"),
    [(30, 100, True), (29, 100, False), (40, 200, True), (39, 200, False), (30, 150, True), (30, 151, False)],
)
def test_exactly_enough_overlap_is_enough(n_inside: int, n_total: int, enough: bool) -> None:
    """30 prompts and a fifth of the pairs, both of them included."""
    margins, inside = np.arange(n_total) % 7 - 2.0, np.arange(n_total) < n_inside
    found = overlap_effect(margins, inside, ids(n_total), rng())
    assert isinstance(found, PairsEffect) == enough


def test_bad_margins_raise() -> None:
    for margins, inside in (([1.0, np.inf], [True, True]), ([1.0], [True, True]), ([1.0, 2.0], [True])):
        with pytest.raises(DataError):
            overlap_effect(margins, inside, ids(2), rng())


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 200), st.floats(-5, 5)), min_size=2, max_size=40))
def test_label_swap_flips_the_effect_and_keeps_the_overlap(rows: list[tuple[int, int, float]]) -> None:
    one, other, margins = np.array(rows, float).T
    names = ids(len(rows))
    there, inside = overlap_of({"words": one}, {"words": other}, names, limits={"words": LIMITS["words"]})
    back, same = overlap_of({"words": other}, {"words": one}, names, limits={"words": LIMITS["words"]})
    assert (there, inside.tolist()) == (back, same.tolist())
    assume(np.ptp(margins) > 1e-6)
    forward, backward = effect(margins, names, rng()), effect(-margins, names, rng())
    assert backward.mean_margin.value == pytest.approx(-forward.mean_margin.value)
    ties = float((margins == 0).mean())
    assert forward.skew.value + backward.skew.value == pytest.approx(1 - ties)


def test_like_pairs_that_share_one_margin_keep_it() -> None:
    margins = np.where(np.arange(100) < 50, -1.0, 0.5)
    found = overlap_effect(margins, np.arange(100) < 50, ids(100), rng())
    assert isinstance(found, SameMargin)
    assert (found.value, found.n, found.n_prompts, found.p_value) == (-1.0, 50, 50, pytest.approx(2 * 0.5**50))
    assert "(−1 in each)" in found.reason  # a minus, not a hyphen
    few = overlap_effect(margins, np.arange(100) < 5, ids(100), rng())
    assert isinstance(few, Missing) and not isinstance(few, SameMargin)
