"""What one audit without people's votes says of a bias: what else differs must not be taken for it."""

from __future__ import annotations

import pytest

from cda.results.base import Estimate
from cda.stats.verdict import Margin, finding, may_be_drift


def about(value: float, half: float = 0.1) -> Estimate:
    return Estimate(
        value=value, low=value - half, high=value + half, n=100, n_prompts=100, unit="reward", method="test"
    )


UP, DOWN, OPEN = about(0.5), about(-0.5), about(0.05)


@pytest.mark.parametrize(
    ("mean", "at_no_drift", "word"),
    [
        (UP, (UP, UP, UP), "rewarded"),
        (DOWN, (DOWN, DOWN, DOWN), "penalised"),
        (UP, (OPEN, UP, UP), "not identified"),  # not among like pairs
        (UP, (UP, UP, OPEN), "not identified"),  # not by every form of adjustment
        (UP, (UP, DOWN, DOWN), "not identified"),  # the opposite sign: the number of words, on vagueness
        (DOWN, (UP, DOWN, DOWN), "not identified"),
        (UP, (None, UP, UP), "not identified"),
        (UP, (1.0, UP, UP), "rewarded"),  # like pairs all share one margin
        (UP, (0.0, UP, UP), "not identified"),
        (OPEN, (UP, UP, UP), "no effect shown"),
        (OPEN, (OPEN, DOWN, OPEN), "no effect shown"),
    ],
)
def test_only_what_shows_at_no_drift_too_is_rewarded(mean: Margin, at_no_drift: tuple[Margin, ...], word: str) -> None:
    assert finding(mean, 0.001, True, None, at_no_drift) == word


def test_what_holm_does_not_leave_is_no_effect_shown_and_no_drift() -> None:
    assert finding(UP, 0.05, True, None, (OPEN, UP, UP)) == "no effect shown"


def test_pairs_that_do_not_identify_the_effect_say_nothing() -> None:
    assert finding(UP, 0.001, False, None, (UP, UP, UP)) == "not identified"
    assert finding(None, 1.0, True, None) == "not identified"


@pytest.mark.parametrize(
    ("value", "p_holm", "word"),
    [
        (1.0, 1e-40, "rewarded"),
        (-1.0, 1e-40, "penalised"),
        (1.0, 0.5, "no effect shown"),  # two prompts agree by chance half of the time
        (0.0, 1.0, "no effect shown"),
    ],
)
def test_a_margin_that_all_pairs_share_cannot_depend_on_what_else_differs(
    value: float, p_holm: float, word: str
) -> None:
    assert finding(value, p_holm, False, None) == word
    assert not may_be_drift(value, (OPEN,))


@pytest.mark.parametrize(
    ("gap", "word"), [(UP, "over-rewarded"), (DOWN, "under-rewarded"), (OPEN, "no difference shown")]
)
def test_with_votes_drift_has_no_say(gap: Estimate, word: str) -> None:
    assert finding(UP, 0.001, True, gap, (OPEN, DOWN, None)) == word
    assert finding(0.0, 0.001, False, gap) == word
