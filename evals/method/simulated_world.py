"""A simulated world with a known effect: attribute W, an invariant Z that goes along with it, and a ξ that rewriting disturbs.

reward = (β + β_z · Z + taste of the prompt) · W + γ · Z + δ · ξ

Z survives a rewrite. ξ of an original goes along with W; a rewriter draws it anew from its own habit, whichever way it
rewrites (what RATE assumes). Z has mean 0, so that the average effect is β.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.stats.rate import Contrasts, from_rewards

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """What the reward is made of, and what the rewriter does."""

    effect: float = 0.5
    effect_by_z: float = 0.3
    taste_sd: float = 0.5
    z_reward: float = 1.0
    xi_reward: float = 1.0
    xi_with_attribute: float = 0.8
    rewriter_xi: float = 0.4
    rewriter_xi_sd: float = 0.5


@dataclass(frozen=True)
class Sample:
    """Rewards of n triples; prompts hold several responses each."""

    original: FloatArray
    rewrite: FloatArray
    rewrite_of_rewrite: FloatArray
    attribute: NDArray[np.bool_]
    prompt_ids: list[str]

    def contrasts(self) -> Contrasts:
        return from_rewards(self.original, self.rewrite, self.rewrite_of_rewrite, self.attribute, self.prompt_ids)


def invariant(rng: np.random.Generator, n_prompts: int, per_prompt: int) -> FloatArray:
    """Z of every response, standard normal; half of its variance is the prompt's."""
    own = rng.normal(size=n_prompts * per_prompt)
    return (np.repeat(rng.normal(size=n_prompts), per_prompt) + own) / np.sqrt(2)


def draw(
    world: World,
    rng: np.random.Generator,
    n_prompts: int,
    per_prompt: int,
    z: FloatArray | None = None,
    attribute: NDArray[np.bool_] | None = None,
) -> Sample:
    """Triples of the world; Z and W are drawn where they are not given, W the likelier the larger Z is."""
    n = n_prompts * per_prompt
    z = invariant(rng, n_prompts, per_prompt) if z is None else z
    w = rng.random(n) < 1 / (1 + np.exp(-z)) if attribute is None else attribute
    effect = world.effect + world.effect_by_z * z
    effect = effect + np.repeat(rng.normal(0, world.taste_sd, n_prompts), per_prompt)

    def reward(has: NDArray[np.bool_], xi: FloatArray) -> FloatArray:
        return effect * has + world.z_reward * z + world.xi_reward * xi

    def rewriter() -> FloatArray:
        return rng.normal(world.rewriter_xi, world.rewriter_xi_sd, n)

    return Sample(
        reward(w, world.xi_with_attribute * w + rng.normal(size=n)),
        reward(~w, rewriter()),
        reward(w, rewriter()),
        w,
        [f"p{prompt}" for prompt in np.repeat(np.arange(n_prompts), per_prompt)],
    )


def welch_standard_error(sample: Sample) -> float:
    """Error of the double-rewrite ATE as the reference code takes it: two unpaired groups, every row on its own."""
    n, variance = len(sample.attribute), 0.0
    for group in (sample.attribute, ~sample.attribute):
        sides = sample.rewrite_of_rewrite[group], sample.rewrite[group]
        variance += (group.sum() / n) ** 2 * sum(float(side.var(ddof=1)) / len(side) for side in sides)
    return float(np.sqrt(variance))
