"""Best-of-n against counting every subset and closed forms; tilted policies and the beta that samples support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from rows import ids
from scipy import stats

from cda.benchmarks.best_of_n import GRID, Attribute, best_of_n, tilted, usual_sizes
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import Curve, Curves, Measured, NoSpread, Tilt
from cda.results.effects import T_TEST
from cda.stats.picks import kl_at_most, pick_probabilities
from cda.stats.tilt import Padded, Tilted


def counted(rewards: Sequence[float], n: int) -> list[float]:
    """Pick probabilities by looking at every subset; equals of the highest reward share."""
    found = [0.0] * len(rewards)
    subsets = list(combinations(range(len(rewards)), n))
    for subset in subsets:
        top = max(rewards[place] for place in subset)
        winners = [place for place in subset if rewards[place] == top]
        for place in winners:
            found[place] += 1 / len(winners) / len(subsets)
    return found


def share(values: Sequence[float], name: str = "jargon") -> Attribute:
    return Attribute(name, "share", np.asarray(values, dtype=np.float64))


def mean(values: Sequence[float], name: str = "words") -> Attribute:
    return Attribute(name, "mean", np.asarray(values, dtype=np.float64))


def estimate(measured: Measured | None) -> Estimate:
    assert isinstance(measured, Estimate)
    return measured


def levels(found: Curves, scoring: str, curve: int = 0) -> list[float]:
    return [at.scorings[scoring].value for at in found.curves[curve].at]


@pytest.mark.parametrize(
    "rewards",
    [
        [0.3, -1.0, 2.0, 0.1, 5.0, 0.2],
        [1.0, 1.0, 1.0],
        [2.0, 1.0, 2.0, 0.0, 1.0, 2.0, -3.0],
        [7.0],
        [0.0, 0.0, 1.0, 1.0],
    ],
    ids=["distinct", "constant", "ties", "one", "two levels"],
)
def test_pick_probabilities_are_those_of_counting_every_subset(rewards: list[float]) -> None:
    sizes = range(1, len(rewards) + 1)
    found = pick_probabilities(rewards, sizes)
    np.testing.assert_allclose(found, [counted(rewards, n) for n in sizes], atol=1e-14)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_kl_of_best_of_n() -> None:
    """The KL of the density n·Fⁿ⁻¹ from the uniform one, by quadrature."""
    assert kl_at_most(1) == 0
    for n in (2, 16):
        u = (np.arange(200_000) + 0.5) / 200_000
        density = n * u ** (n - 1)
        assert kl_at_most(n) == pytest.approx(float((density * np.log(density)).mean()), abs=1e-4)


def test_usual_sizes_go_as_far_as_half_of_the_prompts() -> None:
    assert usual_sizes([16, 16, 16]) == (1, 2, 4, 8, 16)
    assert usual_sizes([16, 16, 15, 15, 15]) == (1, 2, 4, 8)
    assert usual_sizes([4, 4, 1, 1]) == (1, 2, 4)
    assert usual_sizes([64, 3]) == (1, 2)  # one prompt says nothing of others


def test_constant_rewards_leave_every_attribute_as_it_was_sampled() -> None:
    shown = np.random.default_rng(1).integers(0, 2, 40 * 8)
    found = best_of_n({"model": np.full(320, 2.5)}, [share(shown), mean(shown * 3.0)], ids(320, 8))
    for curve, scale in enumerate((1, 3)):
        np.testing.assert_allclose(levels(found, "model", curve), scale * shown.mean(), atol=1e-12)
        slope = found.curves[curve].slope["model"]
        assert isinstance(slope, NoSpread) and slope.value == 0
    assert found.curves[0].p_value is None and found.curves[0].at[2].change is None


def test_a_reward_that_is_the_feature_picks_its_largest_value() -> None:
    """Of 1 … N the largest of n is n(N + 1)/(n + 1) in expectation; times 1, 2, … by prompt, so that prompts differ."""
    words = np.array([prompt * word for prompt in range(1, 6) for word in range(1, 9)], dtype=np.float64)
    found = best_of_n({"before": words, "after": -words}, [mean(words)], ids(40, 8))
    scale = np.mean(np.arange(1, 6))
    assert found.sizes == (1, 2, 4, 8)
    np.testing.assert_allclose(levels(found, "before"), [scale * n * 9 / (n + 1) for n in (1, 2, 4, 8)])
    np.testing.assert_allclose(levels(found, "after"), [scale * 9 / (n + 1) for n in (1, 2, 4, 8)])
    (curve,) = found.curves
    doublings = np.arange(4) - 1.5
    slope = scale * (doublings @ [n * 9 / (n + 1) for n in (1, 2, 4, 8)]) / 5
    assert estimate(curve.slope["before"]).value == pytest.approx(slope)
    assert estimate(curve.slope_change).value == pytest.approx(-2 * slope)  # the two are mirror images around the mean
    assert estimate(curve.slope["before"]).unit == "words per doubling of n"


def test_a_reward_that_is_the_label_finds_it_wherever_one_of_n_has_it() -> None:
    """K of N exhibit it, all with the same reward: 1 − C(N − K, n)/C(N, n); the others' order does not matter."""
    n_with = [1, 2, 3, 0, 6]
    shown = np.concatenate([np.arange(6) < k for k in n_with]).astype(np.float64)
    found = best_of_n({"before": shown, "after": -shown}, [share(shown)], ids(30, 6), sizes=[2, 4, 6])
    with_it = [np.mean([1 - math.comb(6 - k, n) / math.comb(6, n) for k in n_with]) for n in (1, 2, 4, 6)]
    only_it = [np.mean([math.comb(k, n) / math.comb(6, n) for k in n_with]) for n in (1, 2, 4, 6)]
    np.testing.assert_allclose(levels(found, "before"), with_it)
    np.testing.assert_allclose(levels(found, "after"), only_it)
    assert found.sizes == (1, 2, 4, 6)


def test_change_is_paired_by_prompt_and_tested_at_the_largest_n() -> None:
    rng = np.random.default_rng(2)
    words = rng.normal(100, 30, (30, 8))
    noise = rng.normal(0, 20, (2, 30, 8))
    rewards = {"before": (words + noise[0]).ravel(), "after": (0.2 * words + noise[1]).ravel()}
    found = best_of_n(rewards, [mean(words.ravel())], ids(240, 8))
    (curve,) = found.curves
    before, after = (words[range(30), np.reshape(values, (30, 8)).argmax(axis=1)] for values in rewards.values())
    difference = after - before
    change = estimate(curve.at[-1].change)
    half = 2.0452 * difference.std(ddof=1) / math.sqrt(30)  # t of 29 degrees of freedom
    assert (change.value, change.low) == pytest.approx((difference.mean(), difference.mean() - half), rel=1e-4)
    assert (change.n, change.n_prompts) == (240, 30)
    assert curve.p_value == pytest.approx(stats.ttest_rel(after, before).pvalue)
    assert (curve.p_method, curve.p_holm) == (T_TEST, curve.p_value)
    assert curve.at[0].change is None  # at n = 1 the reward has no say


def test_prompts_with_too_few_responses_are_left_out_of_that_n_and_counted() -> None:
    prompts = np.array([*ids(16, 4), "short", "short"])
    shown = np.array([1, 0, 0, 0] * 4 + [1, 1])
    rewards = np.array([4.0, 3.0, 2.0, 1.0] * 4 + [1.0, 2.0])
    order = np.random.default_rng(3).permutation(18)  # which does not matter
    found = best_of_n({"model": rewards[order]}, [share(shown[order])], list(prompts[order]))
    (curve,) = found.curves
    assert [(at.n, at.n_prompts, at.n_too_few) for at in curve.at] == [(1, 5, 0), (2, 5, 0), (4, 4, 1)]
    assert levels(found, "model") == pytest.approx([(4 * 0.25 + 1) / 5, (4 * 0.5 + 1) / 5, 1.0])
    assert curve.slope["model"].value == pytest.approx((0.0 * -1 + 1.0 - 0.25) / 2)  # of the four that reach 4
    # Of those four as well, so that n = 1 can stand next to n = 4.
    assert [at.complete["model"].value for at in curve.at] == pytest.approx([0.25, 0.5, 1.0])
    assert found.responses_per_prompt == (2, 4.0, 4)


def test_a_prompt_with_an_unknown_quality_is_left_out_of_the_quality_alone() -> None:
    quality = np.array([float(row) for row in range(12)])
    quality[5] = np.nan
    rewards = np.arange(12.0)
    found = best_of_n({"model": rewards}, [mean(rewards)], ids(12, 4), quality=mean(list(quality), "quality"))
    assert found.quality is not None and found.quality.n_unknown == 1
    assert [at.n_prompts for at in found.quality.at] == [2, 2, 2]
    assert found.quality.at[-1].scorings["model"].value == (3 + 11) / 2
    assert found.curves[0].at[-1].scorings["model"].value == 7
    quality[1] = np.nan
    found = best_of_n({"model": rewards}, [mean(rewards)], ids(12, 4), quality=mean(list(quality), "quality"))
    assert isinstance(found.quality, Missing) and "known for 1 prompts" in found.quality.reason


def test_holm_over_the_attributes_that_a_reward_can_select_on() -> None:
    rng = np.random.default_rng(4)
    words = rng.normal(size=200)
    others = [mean(list(rng.normal(size=200)), name) for name in ("a", "b")]
    rewards = {"before": words, "after": -words}
    constant = share([float(prompt % 2) for prompt in range(40) for _ in range(5)], "topic")
    found = best_of_n(
        rewards, [mean(list(words)), *others, constant], ids(200, 5), quality=mean(list(words), "quality")
    )
    assert found.unvaried == ("topic",)
    p = [curve.p_value for curve in found.curves]
    assert None not in p and found.curves[0].p_holm == pytest.approx(3 * p[0])  # type: ignore[operator]
    assert isinstance(found.quality, Curve) and found.quality.p_holm is None and found.quality.p_value == p[0]


def test_what_is_the_same_in_every_prompt_has_no_interval() -> None:
    shown = np.tile([1.0, 0.0], 6)
    same = best_of_n({"before": shown, "after": 3 * shown}, [share(shown)], ids(12, 2)).curves[0]
    assert same.at[1].change == NoSpread(
        value=0.0, reason="the same in each of 6 prompts, so that nothing is known of how far others differ"
    )
    assert same.p_value == 1.0
    turned = best_of_n({"before": shown, "after": -shown}, [share(shown)], ids(12, 2)).curves[0]
    assert isinstance(turned.at[1].change, NoSpread) and turned.at[1].change.value == -1
    assert turned.p_value == 2**-5  # six coins on one side, or on the other
    before = estimate(turned.at[1].scorings["before"])
    assert before.value == before.high == 1
    assert before.low == pytest.approx(6 / (6 + 1.96**2), abs=1e-4)  # Wilson, 6 of 6


def test_two_prompts_at_least_reach_every_n() -> None:
    rewards, shown = {"model": [1.0, 2.0, 3.0, 4.0]}, [share([0, 1, 1, 0])]
    for n in (4, 0):
        with pytest.raises(DataError, match=f"best of n = {n}: two prompts at least"):
            best_of_n(rewards, shown, ids(4, 2), [n])
    for prompts in (ids(4, 4), ids(4, 1)):
        with pytest.raises(DataError, match="two prompts at least"):
            best_of_n(rewards, shown, prompts)


N_PROMPTS, N = 40, 16
RNG = np.random.default_rng(6)
SHOWN = (RNG.random(N_PROMPTS * N) < 0.4).astype(np.float64)
NOISE = RNG.normal(size=N_PROMPTS * N)
IDS = [f"p{row // N}" for row in range(N_PROMPTS * N)]
JARGON = Attribute("jargon", "share", SHOWN)


def tilt_of(rewards: dict[str, np.ndarray], *attributes: Attribute, ids: list[str] = IDS, **given: object) -> Tilt:
    quality = given.get("quality")
    assert quality is None or isinstance(quality, Attribute)
    curves = best_of_n(rewards, attributes, ids, quality=quality)
    return tilted(rewards, attributes, ids, curves, given.get("betas", ()), quality)  # type: ignore[arg-type]


def test_the_change_is_paired_by_prompt_and_tested_at_the_strongest_supported_tilt() -> None:
    rewards = {"before": SHOWN + 0.5 * NOISE, "after": 0.2 * SHOWN + 0.5 * NOISE}
    words = Attribute("words", "mean", NOISE * 10 + 100)
    found = tilt_of(rewards, JARGON, words)
    jargon, other = found.attributes
    steps, strongest = found.policies, found.strongest
    beta = {label: steps[strongest][label].beta for label in rewards}
    samples = Padded.of(list(np.arange(N_PROMPTS * N).reshape(N_PROMPTS, N)))
    means = [Tilted(values, beta[label], samples).means(SHOWN) for label, values in rewards.items()]
    change = jargon.at[strongest].change
    assert isinstance(change, Estimate) and change.value == pytest.approx((means[1] - means[0]).mean())
    half = float(stats.t.ppf(0.975, N_PROMPTS - 1)) * (means[1] - means[0]).std(ddof=1) / np.sqrt(N_PROMPTS)
    assert change.low == pytest.approx(change.value - half)
    assert jargon.p_value == pytest.approx(stats.ttest_rel(means[1], means[0]).pvalue)
    assert jargon.p_holm == pytest.approx(min(1.0, 2 * min(jargon.p_value, other.p_value)))  # type: ignore[type-var, operator]
    assert change.value < 0 and jargon.sampled.value == pytest.approx(SHOWN.mean())


def test_a_reward_that_was_only_stretched_is_tilted_to_alike() -> None:
    reward = SHOWN + NOISE
    found = tilt_of({"before": reward, "after": 3 * reward + 7}, JARGON, betas=[1.0])
    first, asked = found.policies[0], found.policies[-1]
    assert first["after"].beta == pytest.approx(3 * first["before"].beta) and first["after"].beta_sd == pytest.approx(4)
    assert (asked["before"].beta, asked["after"].beta) == (1, 1) and found.n_asked == 1
    assert asked["after"].effective < asked["before"].effective
    change = found.attributes[0].at[found.strongest].change
    assert isinstance(change, NoSpread) and change.value == 0 and found.attributes[0].p_value == 1


def test_a_tilt_beyond_the_samples_has_no_numbers() -> None:
    found = tilt_of({"model": SHOWN + NOISE}, JARGON, betas=[0.01, 5.0])
    effective = [step["model"].effective for step in found.policies]
    assert effective[: len(GRID)] == sorted(effective[: len(GRID)], reverse=True) and found.fewest_effective == 10
    for step, at in zip(found.policies, found.attributes[0].at, strict=True):
        supported = step["model"].effective >= 10
        numbers = (step["model"].kl_nats, step["model"].reward_gained, at.scorings["model"])
        assert [isinstance(number, Missing) for number in numbers] == [not supported] * 3
        assert at.change is None
    assert effective[found.strongest] >= 10 > effective[found.strongest + 1]
    assert [step["model"].beta for step in found.policies[-2:]] == [5.0, 0.01]
    levels = [at.scorings["model"].value for at in found.attributes[0].at[: found.strongest + 1]]  # type: ignore[union-attr]
    assert levels == sorted(levels) and found.attributes[0].p_value is None


def test_prompts_with_few_responses_or_an_unknown_quality_are_left_out() -> None:
    ids = [*IDS, "short", "short"]
    shown, rewards = np.append(SHOWN, [1, 0]), np.append(SHOWN + NOISE, [1e3, 0.0])
    grades = np.append(NOISE, [1, 2])
    grades[3] = np.nan
    quality = Attribute("quality", "mean", grades)
    found = tilt_of({"model": rewards}, Attribute("jargon", "share", shown), ids=ids, quality=quality)
    alone = tilt_of({"model": SHOWN + NOISE}, JARGON)
    assert (found.n_prompts, found.n_responses) == (N_PROMPTS, N_PROMPTS * N)
    assert found.attributes == alone.attributes and found.policies == alone.policies
    assert isinstance(found.quality, type(found.attributes[0]))
    level = found.quality.at[0].scorings["model"]
    assert isinstance(level, Estimate) and level.n_prompts == N_PROMPTS - 1
    assert isinstance(alone.quality, Missing) and "no response has a quality" in alone.quality.reason


def test_a_quality_that_is_hardly_known_is_missing_with_its_reason() -> None:
    grades = np.full(N_PROMPTS * N, np.nan)
    grades[:N] = 1.0
    found = tilt_of({"model": NOISE}, JARGON, quality=Attribute("quality", "mean", grades))
    assert isinstance(found.quality, Missing) and "known for 1 prompts" in found.quality.reason


def test_rewards_that_never_differ_are_refused() -> None:
    with pytest.raises(DataError, match=r"rewards \(after\) are the same for all responses of a prompt"):
        tilt_of({"before": NOISE, "after": np.repeat(np.arange(N_PROMPTS * 1.0), N)}, JARGON)
