"""Tilted policies against leaving out each sample by hand, closed forms, and the bias that few samples have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from cda.stats.tilt import Padded, Tilted, fewest_effective, leave_out_weights, reach, tilted_to

SIZES = (2, 5, 3, 8)
ROWS = list(np.split(np.random.default_rng(1).permutation(sum(SIZES)), np.cumsum(SIZES)[:-1]))


def by_hand(estimate: Callable[[np.ndarray], float], n: int) -> float:
    """The jackknife of a statistic of rows, by computing it anew without each row and without every two."""
    rows = np.arange(n)
    whole = estimate(rows)
    without_one = float(np.mean([estimate(np.delete(rows, row)) for row in rows]))
    if n == 2:
        return 2 * whole - without_one
    without_two = float(np.mean([estimate(np.delete(rows, pair)) for pair in combinations(rows, 2)]))
    return (n**2 * whole - 2 * (n - 1) ** 2 * without_one + (n - 2) ** 2 * without_two) / 2


def weights(rewards: np.ndarray, beta: float) -> np.ndarray:
    raised = np.exp((rewards - rewards.max()) / beta)
    return np.asarray(raised / raised.sum())


@pytest.mark.parametrize("beta", [100.0, 1.0, 0.3, 0.02])
def test_means_and_kl_are_those_of_leaving_out_each_sample(beta: float) -> None:
    rng = np.random.default_rng(2)
    rewards, values = rng.normal(size=(2, sum(SIZES)))
    rewards[ROWS[1][:2]] = rewards.max()  # two share the top
    tilt = Tilted(rewards, beta, Padded.of(ROWS))
    for place, rows in enumerate(ROWS):
        own, shown = rewards[rows], values[rows]
        mean = by_hand(lambda kept, own=own, shown=shown: float(weights(own[kept], beta) @ shown[kept]), len(rows))  # type: ignore[misc]

        def kl(kept: np.ndarray, own: np.ndarray = own) -> float:
            of = weights(own[kept], beta)
            return float((of[of > 0] * np.log(len(kept) * of[of > 0])).sum())

        assert tilt.means(values)[place] == pytest.approx(mean, abs=1e-9)
        assert tilt.gains(values)[place] == pytest.approx(mean - shown.mean(), abs=1e-9)
        assert tilt.kl_nats()[place] == pytest.approx(by_hand(kl, len(rows)), abs=1e-9)
        assert tilt.effective[place] == pytest.approx(1 / (weights(own, beta) ** 2).sum())


def test_a_binary_attribute_under_a_gaussian_reward_has_a_closed_form() -> None:
    """p e^(δ/β) / (1 − p + p e^(δ/β)); the Gaussian part adds σ²/β to the reward and σ²/2β² to the KL."""
    p, delta, sigma, beta, n = 0.3, 1.0, 0.5, 0.8, 16
    rng = np.random.default_rng(3)
    shown = (rng.random((4000, n)) < p).astype(np.float64)
    rewards = delta * shown + sigma * rng.normal(size=shown.shape) + 10 * rng.normal(size=(4000, 1))
    tilt = Tilted(rewards.ravel(), beta, Padded.of(list(np.arange(4000 * n).reshape(4000, n))))
    raised = p * np.exp(delta / beta)
    q = raised / (1 - p + raised)
    kl = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p)) + sigma**2 / (2 * beta**2)
    shift, error = q - p, 4 * tilt.means(shown.ravel()).std() / np.sqrt(4000)
    assert abs(tilt.means(shown.ravel()).mean() - q) < 0.03 * shift + error
    assert abs(tilt.gains(rewards.ravel()).mean() - (delta * shift + sigma**2 / beta)) < 0.04
    assert tilt.kl_nats().mean() == pytest.approx(kl, rel=0.06)
    # What the weights say without the jackknife falls short by far more.
    plain = (tilt.weights * shown).sum(axis=1).mean() - shown.mean()
    assert plain < 0.9 * shift


def test_rewards_that_do_not_differ_leave_the_policy_as_it_is() -> None:
    values = np.random.default_rng(5).normal(size=sum(SIZES))
    samples = Padded.of(ROWS)
    tilt = Tilted(np.full(sum(SIZES), 3.7), 0.1, samples)
    assert not tilt.kl_nats().any() and not tilt.gains(values).any() and samples.spread(np.full(18, 3.7)) == 0
    np.testing.assert_allclose(tilt.effective, SIZES)
    pooled = sum(((values[rows] - values[rows].mean()) ** 2).sum() for rows in ROWS) / (sum(SIZES) - len(SIZES))
    assert samples.spread(values) == pytest.approx(np.sqrt(pooled))


def test_a_sample_that_takes_all_the_weight_gives_finite_numbers() -> None:
    tilt = Tilted(np.array([0.0, 1e6, 5.0, 1e9]), 1e-3, Padded.of([np.arange(4)]))
    found = [tilt.means(np.array([0.0, 1.0, 0.0, 1.0])), tilt.kl_nats(), tilt.effective]
    assert np.isfinite(found).all() and tilt.effective[0] == pytest.approx(1)


def test_few_responses_need_a_share_of_them_and_many_twice_their_root() -> None:
    assert fewest_effective(np.array([4.0, 4.0])) == pytest.approx(3)
    assert fewest_effective(np.array([16.0, 16.0])) == 10 and fewest_effective(np.array([256.0])) == 32
    assert fewest_effective(np.array([64.0, 4.0])) == pytest.approx((16 + 3) / 2)


def test_groups_of_many_samples_have_the_expectation_of_leaving_out_single_ones() -> None:
    """200 samples in 64 groups of three or four: the plain mean falls short, the jackknifed one does not."""
    rng = np.random.default_rng(8)
    rewards = rng.normal(size=600 * 200)
    tilt = Tilted(rewards, 1.0, Padded.of(list(np.arange(len(rewards)).reshape(600, 200))))
    error = 4 * tilt.means(rewards).std() / np.sqrt(600)
    assert (
        leave_out_weights(200).kept.shape == (1 + 64 + 64 * 63 // 2, 64) and leave_out_weights(200).member.sum() == 200
    )
    assert abs(tilt.means(rewards).mean() - 1) < error < 0.03  # of a standard normal, tilted by 1
    plain = (tilt.weights * rewards.reshape(600, 200)).sum(axis=1).mean()
    assert plain < 1 - error / 4


@pytest.mark.parametrize("unit", [1.0, 250.0])
def test_a_policy_at_a_kl_is_the_same_in_every_unit_of_the_reward(unit: float) -> None:
    """A Gaussian reward of deviation σ has the KL σ²/2β², and a mean σ²/β higher."""
    rng = np.random.default_rng(4)
    samples = Padded.of(list(np.arange(300 * 64).reshape(300, 64)))
    rewards = unit * (rng.normal(size=(300, 64)) + 5 * rng.normal(size=(300, 1))).ravel()
    furthest = reach(rewards, samples)
    assert furthest is not None
    assert (furthest.effective, furthest.needed) == (pytest.approx(16, abs=1e-3), 16.0)
    tilt = tilted_to(rewards, samples, 0.5, furthest)
    assert tilt.kl_nats().mean() == pytest.approx(0.5, abs=1e-6) and furthest.kl_nats > 0.5
    assert tilt.gains(rewards).mean() == pytest.approx(unit, rel=0.02)  # β = σ
    assert tilted_to(rewards, samples, furthest.kl_nats, furthest).effective.mean() == pytest.approx(16, abs=1e-2)


def test_rewards_that_tie_end_a_tilt_and_equal_ones_have_none() -> None:
    samples = Padded.of(list(np.arange(10 * 40).reshape(10, 40)))
    tied = np.tile([0.0, 1.0], 200)
    furthest = reach(tied, samples)
    assert furthest is not None and furthest.effective == pytest.approx(20)
    assert furthest.kl_nats == pytest.approx(np.log(2), abs=0.02)
    assert reach(np.repeat(np.arange(10.0), 40), samples) is None
