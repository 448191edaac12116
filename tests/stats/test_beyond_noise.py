"""Noise and stretching leave the mean margin where it was; a debiasing does not. Known answers and rates."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.preference import beyond_noise

IDS = [f"q{row}" for row in range(200)]
PAIR_IDS = [f"p{row}" for row in range(300)]


def world(rng: np.random.Generator, noise: float, stretch: float, shift: float) -> tuple[np.ndarray, ...]:
    """Contrasts and quality pairs before and after: rewards stretched, shifted on contrasts alone, and made noisier."""
    own, pairs = rng.normal(0.9, 1, 200), rng.normal(0.7, 1, 300)
    after = stretch * (own - shift) + rng.normal(0, noise, 200)
    return own, after, pairs, stretch * pairs + rng.normal(0, noise, 300)


def measured(own: np.ndarray, after: np.ndarray, pairs: np.ndarray, pairs_after: np.ndarray):
    return beyond_noise(own, after, IDS, pairs, pairs_after, PAIR_IDS)


def test_by_hand() -> None:
    found = beyond_noise([1.0, 3.0], [1.0, 1.0], ["a", "b"], [1.0, 1.0], [2.0, 2.0], ["c", "d"])
    assert found.value == 1.0 - 2.0 * 2.0
    # Influences of the contrasts: (0 + 2·1)/2 and (0 − 2·1)/2, none of the pairs; G = 4 prompts, t with 1 degree of freedom.
    assert found.high - found.value == pytest.approx(12.7062047 * np.sqrt(4 / 3 * 2))


@pytest.mark.parametrize(("noise", "stretch"), [(0.0, 3.0), (2.0, 1.0), (3.0, 2.0), (1.0, 0.3)])
def test_noise_and_stretching_are_rarely_taken_for_a_change(noise: float, stretch: float) -> None:
    rng = np.random.default_rng(0)
    found = [measured(*world(rng, noise, stretch, 0.0)) for _ in range(400)]
    assert np.mean([one.high < 0 for one in found]) <= 0.05
    assert np.mean([one.low > 0 for one in found]) <= 0.05


@pytest.mark.parametrize(("noise", "stretch"), [(0.1, 1.0), (0.5, 2.0), (0.5, 0.5)])
def test_a_shift_is_found_and_covered(noise: float, stretch: float) -> None:
    rng = np.random.default_rng(1)
    found = [measured(*world(rng, noise, stretch, 0.6)) for _ in range(400)]
    assert np.mean([one.high < 0 for one in found]) > 0.9
    assert 0.9 <= np.mean([one.low <= -0.6 * stretch <= one.high for one in found]) <= 0.99


def test_rows_of_one_prompt_are_not_taken_for_independent() -> None:
    own, after, pairs, pairs_after = world(np.random.default_rng(2), 0.5, 1.0, 0.3)
    once = measured(own, after, pairs, pairs_after)
    ids = [name for name in IDS for _ in range(3)]
    thrice = beyond_noise(np.repeat(own, 3), np.repeat(after, 3), ids, pairs, pairs_after, PAIR_IDS)
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=1e-9)


def test_prompts_that_contrasts_and_pairs_share_are_one_cluster() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(1, 1, 50), rng.normal(1, 1, 50)
    ids = [str(row) for row in range(50)]
    # Where the contrasts are the quality pairs, their errors cancel; taken for other prompts, they add up.
    shared = beyond_noise(before, after, ids, before, after, ids)
    assert abs(shared.value) < 1e-9 and shared.high - shared.low < 1e-9
    apart = beyond_noise(before, after, ids, before, after, [f"other {name}" for name in ids])
    assert apart.high - apart.low > 0.1


@pytest.mark.parametrize(
    ("own", "pairs", "said"),
    [
        ([1.0, np.nan], [1.0, 1.1], "NaN"),
        ([1.0, 2.0], [-1.0, 1.0], "yardstick"),
    ],
)
def test_without_a_yardstick_there_is_no_answer(own: list[float], pairs: list[float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        beyond_noise(own, own, ["a", "b"], pairs, pairs, ["c", "d"])
    with pytest.raises(DataError, match="fewer than two prompts"):
        beyond_noise([1.0, 2.0], [1.0, 2.0], ["a", "a"], [1.0, 1.1], [1.0, 1.1], ["c", "d"])
