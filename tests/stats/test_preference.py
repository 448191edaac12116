"""Skew and its change, preferences by majority, and the change beyond noise, on margins that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from rows import ids, rng

from cda.errors import DataError
from cda.stats.people import human_skew, people_change
from cda.stats.proportions import beyond_noise, positive_share, positive_share_change, preference_table
from cda.stats.votes import Majority, count_votes, majority

PREFERRED = [["perturbed"], ["base"], ["base"], ["tie"], [], ["base"]]
BEFORE = [1.0, 2.0, -1.0, 5.0, -5.0, 0.0]
AFTER = [1.0, -2.0, -1.0, -5.0, 5.0, 3.0]


def test_skew_is_the_share_above_zero_and_a_tie_is_no_hit() -> None:
    found = positive_share([1e-9, -1, 0, 2], ids(4))
    assert (found.value, found.n, found.unit) == (0.5, 4, "share")


def test_change_by_hand() -> None:
    found = positive_share_change(BEFORE, AFTER, ids(6))
    assert (found.before.value, found.after.value) == (3 / 6, 3 / 6)
    assert found.change.value == 0.0
    assert (found.ties.before, found.ties.after) == (1, 0)
    assert found.test.p_value == 1.0  # two rows up, two down


def people(votes: list[list[str]]) -> Majority:
    return majority(count_votes(votes), "drop")


def test_beside_people_by_hand() -> None:
    found = people_change(BEFORE, AFTER, people(PREFERRED), ids(6), rng())
    # Voted rows 0, 1, 2, 5, of which people prefer the first perturbed. Before, the model prefers 0 and 1 (5 is a margin of
    # 0, which counts as base); after, 0 and 5.
    human = human_skew(people(PREFERRED), ids(6))
    assert (human.value, human.n) == (1 / 4, 4)
    assert (found.miscalibration.before.value, found.miscalibration.after.value) == (1 / 4, 1 / 4)
    assert (found.skew_on_voted.before.value, found.skew_on_voted.after.value) == (2 / 4, 2 / 4)
    assert (found.gap.before.value, found.gap.change.value) == (1 / 4, 0.0)
    assert (found.miscalibration.ties.before, found.miscalibration.ties.after) == (1, 0)
    assert found.gap.change.low <= 0.0 <= found.gap.change.high


def test_a_model_that_votes_like_people_is_calibrated() -> None:
    like = np.array([1.0, -1.0] * 5)
    found = people_change(-like, like, people([["perturbed"], ["base"]] * 5), ids(10), rng())
    missed, auc = found.miscalibration, found.auc
    assert (missed.before.value, missed.after.value, missed.change.value) == (1.0, 0.0, -1.0)
    assert missed.test.p_value == pytest.approx(2 / 2**10)
    assert (auc.before.value, auc.after.value, auc.change.value) == (0.0, 1.0, 1.0)


def test_a_shift_of_all_margins_moves_everything_but_the_auc() -> None:
    sides = rng(1).random(80) < 0.4
    before = np.where(sides, 0.5, -0.5) + rng(2).normal(size=80)
    voted = people([["perturbed"] if one else ["base"] for one in sides])
    found = people_change(before + 2, before, voted, ids(80), rng())
    assert found.gap.change.high < 0 and found.miscalibration.change.high < 0
    assert (found.auc.change.value, found.auc.change.low, found.auc.change.high) == (0.0, 0.0, 0.0)


def test_nothing_moved_keeps_a_width() -> None:
    values = np.array([1.0, -1.0] * 10)
    gap = people_change(values, values, people([["perturbed"], ["base"]] * 10), ids(20), rng()).gap.change
    assert gap.low < gap.value == 0.0 < gap.high


PEOPLE = ["perturbed", "perturbed", "perturbed", "perturbed", "base", "base", "tie", None]
MARGINS = [1.0, 2.0, 3.0, -1.0, 1.0, 0.0, -2.0, 5.0]
NAMES = [str(row) for row in range(8)]


def test_counts_and_what_the_model_prefers_given_people() -> None:
    found = preference_table(MARGINS, PEOPLE, NAMES)  # type: ignore[arg-type]
    assert found.counts == {
        "perturbed": {"perturbed": 3, "base": 1, "tie": 0},
        "base": {"perturbed": 1, "base": 0, "tie": 1},
        "tie": {"perturbed": 0, "base": 1, "tie": 0},
    }
    assert {word: (one.value, one.n) for word, one in found.skew_given.items()} == {
        "perturbed": (0.75, 4), "base": (0.5, 2), "tie": (0.0, 1),
    }  # fmt: skip
    assert 0 < found.skew_given["perturbed"].low < 0.75 < found.skew_given["perturbed"].high < 1


def test_a_judges_tie_counts_half() -> None:
    found = preference_table(MARGINS, PEOPLE, NAMES, "half")  # type: ignore[arg-type]
    assert found.skew_given["base"].value == 0.75


IDS = [f"q{row}" for row in range(200)]
PAIR_IDS = [f"p{row}" for row in range(300)]


def world(random: np.random.Generator, noise: float, stretch: float, shift: float) -> tuple[np.ndarray, ...]:
    """Contrasts and quality pairs before and after: rewards stretched, shifted on contrasts alone, and made noisier."""
    own, pairs = random.normal(0.9, 1, 200), random.normal(0.7, 1, 300)
    after = stretch * (own - shift) + random.normal(0, noise, 200)
    return own, after, pairs, stretch * pairs + random.normal(0, noise, 300)


def measured(own: np.ndarray, after: np.ndarray, pairs: np.ndarray, pairs_after: np.ndarray):
    return beyond_noise(own, after, IDS, pairs, pairs_after, PAIR_IDS)


def test_beyond_noise_by_hand() -> None:
    found = beyond_noise([1.0, 3.0], [1.0, 1.0], ["a", "b"], [1.0, 1.0], [2.0, 2.0], ["c", "d"])
    assert found.value == 1.0 - 2.0 * 2.0
    # Influences of the contrasts: (0 + 2·1)/2 and (0 − 2·1)/2, none of the pairs; G = 4 prompts, t with 1 degree of freedom.
    assert found.high - found.value == pytest.approx(12.7062047 * np.sqrt(4 / 3 * 2))


@pytest.mark.parametrize(("noise", "stretch"), [(0.0, 3.0), (2.0, 1.0), (3.0, 2.0), (1.0, 0.3)])
def test_noise_and_stretching_are_rarely_taken_for_a_change(noise: float, stretch: float) -> None:
    random = np.random.default_rng(0)
    found = [measured(*world(random, noise, stretch, 0.0)) for _ in range(400)]
    assert np.mean([one.high < 0 for one in found]) <= 0.05
    assert np.mean([one.low > 0 for one in found]) <= 0.05


@pytest.mark.parametrize(("noise", "stretch"), [(0.1, 1.0), (0.5, 2.0), (0.5, 0.5)])
def test_a_shift_is_found_and_covered(noise: float, stretch: float) -> None:
    random = np.random.default_rng(1)
    found = [measured(*world(random, noise, stretch, 0.6)) for _ in range(400)]
    assert np.mean([one.high < 0 for one in found]) > 0.9
    assert 0.9 <= np.mean([one.low <= -0.6 * stretch <= one.high for one in found]) <= 0.99


def test_rows_of_one_prompt_are_not_taken_for_independent() -> None:
    own, after, pairs, pairs_after = world(np.random.default_rng(2), 0.5, 1.0, 0.3)
    once = measured(own, after, pairs, pairs_after)
    ids = [name for name in IDS for _ in range(3)]
    thrice = beyond_noise(np.repeat(own, 3), np.repeat(after, 3), ids, pairs, pairs_after, PAIR_IDS)
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=1e-9)


def test_prompts_that_contrasts_and_pairs_share_are_one_cluster() -> None:
    random = np.random.default_rng(3)
    before, after = random.normal(1, 1, 50), random.normal(1, 1, 50)
    ids = [str(row) for row in range(50)]
    # Where the contrasts are the quality pairs, their errors cancel; taken for other prompts, they add up.
    shared = beyond_noise(before, after, ids, before, after, ids)
    assert abs(shared.value) < 1e-9 and shared.high - shared.low < 1e-9
    apart = beyond_noise(before, after, ids, before, after, [f"other {name}" for name in ids])
    assert apart.high - apart.low > 0.1


@pytest.mark.parametrize(
    ("own", "pairs", "said"), [([1.0, np.nan], [1.0, 1.1], "NaN"), ([1.0, 2.0], [-1.0, 1.0], "yardstick")]
)
def test_without_a_yardstick_there_is_no_answer(own: list[float], pairs: list[float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        beyond_noise(own, own, ["a", "b"], pairs, pairs, ["c", "d"])
    with pytest.raises(DataError, match="fewer than two prompts"):
        beyond_noise([1.0, 2.0], [1.0, 2.0], ["a", "a"], [1.0, 1.1], [1.0, 1.1], ["c", "d"])
