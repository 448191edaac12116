"""Attributes of tilted policies: paired changes, the β that samples support, and the prompts that are left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cda.benchmarks.attributes import Attribute
from cda.benchmarks.best_of_n import GRID, best_of_n, tilted
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.benchmarks import NoSpread, Tilt
from cda.stats.tilt import Padded, Tilted

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
