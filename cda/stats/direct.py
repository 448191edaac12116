"""Effects without rewrites of rewrites: direct contrasts, and answers that happen to have the attribute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import Effect
from cda.stats.clustered import Resampling, Target, mean_effect, pooled_within_group_sd

_NO_SCALE = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")


def direct_contrast(
    perturbed: ArrayLike,
    base: ArrayLike,
    prompt_ids: Sequence[str],
    resampling: Resampling | None = None,
    unit: str = "reward",
) -> Effect:
    """Mean reward of the biased side minus that of the unbiased side of each pair.

    Whatever else differs between the sides is part of it.

    Args:
        perturbed: Reward of the side with the bias, shape (n,).
        base: Reward of the side without it, shape (n,). All 0 where `perturbed` already holds margins.
        prompt_ids: Cluster of each pair. Length n.
        resampling: For the BCa interval.
        unit: Unit of the rewards.

    Raises:
        DataError: Lengths that differ, a side that is missing, NaN or infinite, one prompt, or nothing varies.
    """
    first, second = np.asarray(perturbed, dtype=np.float64), np.asarray(base, dtype=np.float64)
    if first.shape != second.shape or first.shape != (len(prompt_ids),):
        raise DataError(f"{first.shape} and {second.shape} rewards for {len(prompt_ids)} pairs: one each is needed")
    if not len(first):
        raise DataError("no pairs: nothing can be estimated")
    bad = ~(np.isfinite(first) & np.isfinite(second))
    if bad.any():
        raise DataError(
            f"{int(bad.sum())} of {len(bad)} pairs lack a side or hold NaN or infinity (first: row {int(np.argmax(bad))})"
        )
    return mean_effect(
        first - second, prompt_ids, Target("mean margin", "direct contrast", unit, _NO_SCALE), resampling
    )


def observational_effect(
    rewards: ArrayLike,
    attribute: ArrayLike,
    prompt_ids: Sequence[str],
    resampling: Resampling | None = None,
    unit: str = "reward",
) -> Effect:
    """Mean reward with the attribute minus mean reward without it, within each prompt, averaged over prompts.

    Comparing within prompts takes out what prompts do; whatever else goes along with the attribute stays in. It is a
    description of data, not an effect of the attribute. Prompts whose answers all have it, or all lack it, say nothing
    and are left out.

    Args:
        rewards: Of each answer, shape (n,).
        attribute: Whether the answer has the attribute, 0 or 1, shape (n,).
        prompt_ids: Prompt of each answer. Length n.
        resampling: For the BCa interval.
        unit: Of the rewards.

    Raises:
        DataError: Lengths that differ, rewards that are not finite, fewer than two prompts with answers of both kinds, or
            differences that do not vary.
    """
    values, labels = np.asarray(rewards, dtype=np.float64), np.asarray(attribute, dtype=np.float64)
    if not np.isin(labels, (0, 1)).all():
        raise DataError("the attribute of an answer is 0 or 1; leave out answers whose label could not be read")
    treated = labels == 1
    if not values.shape == treated.shape == (len(prompt_ids),):
        raise DataError(
            f"{values.shape} rewards, {treated.shape} attributes, {len(prompt_ids)} prompts: one each is needed"
        )
    if not np.isfinite(values).all():
        raise DataError(f"{int((~np.isfinite(values)).sum())} of {values.size} rewards are NaN or infinite")
    names, codes = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True)
    n_with, n_without = (np.bincount(codes, weights=side, minlength=len(names)) for side in (treated, ~treated))
    both = (n_with > 0) & (n_without > 0)
    scale = pooled_within_group_sd(values, treated)
    target = Target("within prompts", "observational", unit, scale)
    if int(both.sum()) < 2:
        raise target.cannot(
            f"{int(both.sum())} prompts have answers both with and without the attribute, two at least are needed"
        )
    sum_with = np.bincount(codes, weights=values * treated, minlength=len(names))
    sum_without = np.bincount(codes, weights=values * ~treated, minlength=len(names))
    differences = sum_with[both] / n_with[both] - sum_without[both] / n_without[both]
    return mean_effect(differences, names[both].tolist(), target, resampling)
