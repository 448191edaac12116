"""Triples as contrasts: their signs, what a judge gives, and every input that is refused."""

from __future__ import annotations

import pytest

from cda.errors import DataError
from cda.results.base import Missing
from cda.stats.rate import effect, from_preferences, from_rewards, rate_effects

IDS = ["a", "b", "c"]
GOOD = [1.0, 2.0, 3.0]


def test_every_contrast_is_with_minus_without() -> None:
    found = from_rewards([5, 1], [2, 4], [4, 3], [1, 0], ["a", "b"])
    assert found.double.tolist() == [2, 1]
    assert found.single.tolist() == [3, 3]
    assert found.rewrite_effect.tolist() == [-1, 2]
    assert found.unit == "reward"


@pytest.mark.parametrize(
    ("side", "bad", "message"),
    [
        (0, [1.0, None, 2.0], r"original: 1 of 3 scores are missing or NaN \(first: row 1\)"),
        (1, [1.0, 2.0, float("nan")], r"rewrite: 1 of 3 scores are missing or NaN \(first: row 2\)"),
        (2, [None, None, 1.0], r"rewrite of rewrite: 2 of 3 scores are missing"),
        (2, [1.0, float("inf"), 1.0], "rewrite of rewrite: 1 of 3 scores are infinite"),
        (1, [1.0], "one each is needed"),
    ],
)
def test_a_triple_without_a_side_is_refused(side: int, bad: list[float | None], message: str) -> None:
    sides: list[list[float | None]] = [list(GOOD), list(GOOD), list(GOOD)]
    sides[side] = bad
    with pytest.raises(DataError, match=message):
        from_rewards(sides[0], sides[1], sides[2], [1, 0, 1], IDS)


@pytest.mark.parametrize(
    ("attribute", "ids", "message"),
    [([], [], "no triples"), ([1, 0], IDS, "one each"), ([1, 0, 2], IDS, "0 or 1"), ([1, 0, 0.5], IDS, "threshold")],
)
def test_attributes_that_are_refused(attribute: list[float], ids: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_rewards(GOOD, GOOD, GOOD, attribute, ids)


def test_a_pairwise_judge_gives_effects_without_a_reward() -> None:
    found = rate_effects(
        from_preferences([0.5, 1, 0, 1], [1, 1, 1, 0], [0, -1, 0, 1], [1, 0, 1, 0], ["a", "a", "b", "b"])
    )
    assert found.get("ATE", "double").estimate.value == pytest.approx(0.625)
    assert found.get("ATE", "double").estimate.unit == "preference"
    assert isinstance(found.get("ATE", "double").standardised, Missing)
    with pytest.raises(DataError, match="verdict on no original with the attribute beside one without"):
        found.get("ATE", "naive")


def test_a_judge_s_naive_pairs_follow_their_rows() -> None:
    contrasts = from_preferences(
        [0.5, 1, 0, 1], [1, 1, 1, 0], [0, -1, 0, 1], [1, 0, 1, 0], ["a", "a", "b", "b"], [0.2, 1], [[0, 1], [2, 3]]
    )
    assert effect(contrasts, "ATE", "naive").estimate.value == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [([[1, 0]], "naive pair 0"), ([[0, 3]], "same prompt"), ([[0, 9]], "row 9"), ([[0, 2]], "without it")],
)
def test_naive_pairs_that_are_refused(pairs: list[list[int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_preferences([0] * 4, [0] * 4, [0] * 4, [1, 0, 1, 0], ["a", "a", "b", "b"], [0.1], pairs)


def test_a_preference_is_bounded() -> None:
    with pytest.raises(DataError, match="between −1 and 1, found -3"):
        from_preferences([0, -3, 0], [0, 0, 0], [0, 0, 0], [1, 0, 1], IDS)
