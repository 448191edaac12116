"""The effect where the two sides overlap: among the pairs that differ in the bias and in little else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.results.base import Missing
from cda.results.effects import Overlap, PairsEffect, SameMargin
from cda.stats.bootstrap import bootstrap_mean
from cda.stats.clustered import same_in_all
from cda.stats.drift import DEFAULT_LIMITS, BoolArray, Limit, paired_features
from cda.stats.proportions import share


@dataclass(frozen=True, slots=True)
class OverlapRule:
    """When the overlapping pairs are enough to speak.

    Attributes:
        min_prompts: Prompts among them. 30: below it a 95% interval from between-prompt spread covers visibly less.
        min_share: Share of all pairs. 0.2: below one in five, the pairs that happen to be alike are a selection that
            says little about the others, and any adjustment for the rest is extrapolated from far away.
    """

    min_prompts: int = 30
    min_share: float = 0.2


DEFAULT_RULE = OverlapRule()


def within_limits(
    perturbed: Mapping[str, ArrayLike],
    base: Mapping[str, ArrayLike],
    n: int,
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
) -> tuple[BoolArray, dict[str, int]]:
    """Which pairs have the drift of every limited feature within limits, treatment exempt, and how many are beyond each.

    Args:
        perturbed: Feature to its values on the biased sides, shape (n,) each.
        base: The same features on the unbiased sides.
        n: Number of pairs.
        limits: By feature; every one outside the treatment must have been measured.
        treatment: Features that are the bias itself.

    Raises:
        DataError: A limited feature was not measured, and as in `paired_features`.
    """
    sides = paired_features(perturbed, base, n)
    inside = np.ones(n, dtype=bool)
    beyond = {}
    for name, limit in limits.items():
        if name in treatment:
            continue
        if name not in sides:
            raise DataError(f"a limit is set on {name}, which was not measured on these pairs")
        holds = limit.holds(*sides[name])
        beyond[name] = int((~holds).sum())
        inside &= holds
    return inside, beyond


def overlap_of(
    perturbed: Mapping[str, ArrayLike],
    base: Mapping[str, ArrayLike],
    prompt_ids: Sequence[str],
    *,
    limits: Mapping[str, Limit] = DEFAULT_LIMITS,
    treatment: Collection[str] = (),
) -> tuple[Overlap, BoolArray]:
    """The overlap, and which pairs are in it, shape (n,). Arguments and errors as in `within_limits`."""
    n = len(prompt_ids)
    inside, beyond = within_limits(perturbed, base, n, limits=limits, treatment=treatment)
    found = Overlap(
        share=share(inside, prompt_ids),
        n=int(inside.sum()),
        n_prompts=len(_kept(prompt_ids, inside)),
        n_total=n,
        beyond=beyond,
        exempt=tuple(name for name in limits if name in treatment),
    )
    return found, inside


def effect(
    margins: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator, unit: str = "reward"
) -> PairsEffect:
    """Skew and mean margin with prompt-clustered intervals.

    Args:
        margins: score(perturbed) − score(base). Shape (n,), in `unit`.
        prompt_ids: Cluster of each row. Length n.
        rng: For the intervals.
        unit: Of the margins.

    Raises:
        DataError: No rows, one prompt, or margins that are not finite or do not vary between prompts.
    """
    values = checked_margins(margins, len(prompt_ids))
    mean = bootstrap_mean(values, prompt_ids, rng)
    # Rounding leaves a trace of an error where there is none.
    if mean.standard_error <= 1e-12 * float(np.abs(values).max()):
        raise DataError(
            f"the mean margin does not vary between its {mean.n_clusters} prompts "
            f"({f'{mean.value:g}'.replace('-', '−')} in each): its error is unknown"
        )
    return PairsEffect(skew=share(values > 0, prompt_ids), mean_margin=mean.estimate(unit))


def overlap_effect(
    margins: ArrayLike,
    inside: ArrayLike,
    prompt_ids: Sequence[str],
    rng: np.random.Generator,
    *,
    rule: OverlapRule = DEFAULT_RULE,
    unit: str = "reward",
) -> PairsEffect | SameMargin | Missing:
    """The effect among the pairs within limits, or why they cannot say.

    Args:
        margins: Of all pairs. Shape (n,).
        inside: Which pairs are within limits. Shape (n,).
        prompt_ids: Cluster of each pair. Length n.
        rng: For the intervals.
        rule: How many prompts and which share of the pairs must overlap.
        unit: Of the margins.

    Raises:
        DataError: Shapes that differ, or margins that are not finite.
    """
    rows: NDArray[np.bool_] = np.asarray(inside, dtype=bool)
    values = checked_margins(margins, len(prompt_ids))
    if rows.shape != values.shape:
        raise DataError(f"{rows.shape} overlap flags for {len(values)} pairs: one each is needed")
    kept = [prompt for prompt, keep in zip(prompt_ids, rows, strict=True) if keep]
    if reason := too_small(len(kept), len(set(kept)), len(values), rule):
        return Missing(reason=reason)
    try:
        return effect(values[rows], kept, rng, unit)
    except DataError as error:
        return same_in_all(values[rows], kept, str(error)) or Missing(reason=str(error))


def too_small(n: int, n_prompts: int, n_total: int, rule: OverlapRule) -> str:
    """Why an overlap is too small to speak, in words; empty where it is enough."""
    found = f"{n} of {n_total} pairs have drift within limits"
    if n == 0:
        return f"no overlap: none of {n_total} pairs has drift within limits"
    if n_prompts < max(2, rule.min_prompts):
        return f"overlap too small: {found}, from {n_prompts} prompts; {max(2, rule.min_prompts)} prompts are needed"
    if n < rule.min_share * n_total:
        return f"overlap too small: {found} ({n / n_total:.0%}); {rule.min_share:.0%} are needed"
    return ""


def checked_margins(margins: ArrayLike, n: int) -> NDArray[np.float64]:
    """Margins as an array of shape (n,).

    Raises:
        DataError: Another shape, or a margin that is NaN or infinite.
    """
    values = np.asarray(margins, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"{values.shape} margins for {n} pairs: one each is needed")
    if not np.isfinite(values).all():
        raise DataError(f"{int((~np.isfinite(values)).sum())} of {n} margins are NaN or infinite")
    return values


def _kept(prompt_ids: Sequence[str], inside: BoolArray) -> set[str]:
    return {prompt for prompt, keep in zip(prompt_ids, inside, strict=True) if keep}
