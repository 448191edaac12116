"""Attributes in the policy that is tilted to a reward, over a range of β: where optimising it with a KL penalty would lead.

The optimum of reward − β · KL is π(y | x) · exp(reward / β) over its sum (Korbak et al. 2022; Rafailov et al. 2023, equation 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.benchmarks.attributes import Attribute
from cda.errors import DataError
from cda.results.base import Missing, or_missing
from cda.results.benchmarks import AtTilt, Curves, Measured, Tilt, TiltedAttribute, TiltedPolicy
from cda.stats.means import (
    mean_over_prompts,
    no_change_test,
    share_over_prompts,
    skewed_mean_over_prompts,
    without_traces,
)
from cda.stats.multiplicity import holm
from cda.stats.tilt import Padded, Tilted, fewest_effective

GRID = tuple(2.0 ** (half / 2) for half in range(4, -5, -1))
"""β in standard deviations of rewards within prompts, from weak to strong: 4 to ¼."""

Tilts = Sequence[Mapping[str, Tilted | None]]
"""For each β, by scoring; None if the samples do not support it."""


def tilted(
    rewards: Mapping[str, ArrayLike],
    attributes: Sequence[Attribute],
    prompt_ids: Sequence[str],
    curves: Curves,
    betas: Sequence[float] = (),
    quality: Attribute | None = None,
) -> Tilt:
    """Attributes in the policy tilted to each scoring, on the prompts that reach the largest n of `curves`.

    Rewards have shape (n_responses,). β are `GRID`, in standard deviations of each scoring's own rewards within prompts, so that
    a reward that was only stretched is optimised as far; then `betas`, in reward units. Intervals and tests are over prompts, as
    those of best-of-n; the test of the change is at the strongest β of `GRID` that the samples support under every scoring.

    Raises:
        DataError: Rewards that do not differ within any prompt, or no β that the samples support.
    """
    scored = {label: np.asarray(values, dtype=np.float64) for label, values in rewards.items()}
    samples = _complete(prompt_ids, curves.sizes[-1])
    deviations = {label: samples.spread(values) for label, values in scored.items()}
    if alike := [label for label, deviation in deviations.items() if not deviation]:
        raise DataError(f"the rewards ({' and '.join(alike)}) are the same for all responses of a prompt")
    steps = [{label: beta * deviation for label, deviation in deviations.items()} for beta in GRID]
    steps += [dict.fromkeys(scored, beta) for beta in sorted(betas, reverse=True)]
    needed = fewest_effective(samples.n)
    policies, tilts = [], []
    for step in steps:
        made = {label: Tilted(values, step[label], samples) for label, values in scored.items()}
        kept = {label: tilt if tilt.effective.mean() >= needed else None for label, tilt in made.items()}
        policies.append({
            label: _policy(tilt, kept[label] is not None, scored[label], step[label], deviations[label])
            for label, tilt in made.items()
        })  # fmt: skip
        tilts.append(kept)
    supported = [place for place, tilt in enumerate(tilts[: len(GRID)]) if None not in tilt.values()]
    if not supported:
        raise DataError(f"{samples.n.mean():g} responses to a prompt are too few for any β")
    strongest, kept_names = max(supported), {curve.name for curve in curves.attributes}
    found = [_attribute(each, tilts, samples, strongest) for each in attributes if each.name in kept_names]
    if tested := [each.p_value for each in found if each.p_value is not None]:
        found = [each.model_copy(update={"p_holm": p}) for each, p in zip(found, holm(tested), strict=True)]
    reference: TiltedAttribute | Missing = Missing(reason="no response has a quality that can be used")
    if quality is not None:
        reference = or_missing(partial(_attribute, quality, tilts, samples, strongest))
    return Tilt(
        n_prompts=len(samples.n),
        n_responses=int(samples.n.sum()),
        fewest_effective=needed,
        reward_sd=deviations,
        policies=tuple(policies),
        n_asked=len(betas),
        strongest=strongest,
        attributes=tuple(found),
        quality=reference,
    )


def _complete(prompt_ids: Sequence[str], n: int) -> Padded:
    """Samples of the prompts with n responses at least."""
    codes, n_each = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True, return_counts=True)[1:]
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(n_each)[:-1])
    return Padded.of([own for own in rows if len(own) >= n])


def _policy(tilt: Tilted, supported: bool, rewards: FloatArray, beta: float, deviation: float) -> TiltedPolicy:
    effective, n = float(tilt.effective.mean()), int(tilt.samples.n.sum())
    kl: Measured | Missing = _unsupported(effective)
    gained: Measured | Missing = kl
    if supported:
        kl = skewed_mean_over_prompts(tilt.kl_nats(), "nats", n)
        gained = skewed_mean_over_prompts(tilt.gains(rewards) / deviation, "standard deviations", n)
    return TiltedPolicy(beta=beta, beta_sd=beta / deviation, effective=effective, kl_nats=kl, reward_gained=gained)


def _unsupported(effective: float | None = None) -> Missing:
    of = "" if effective is None else f": {effective:.1f} effective responses to a prompt"
    return Missing(reason=f"not supported by these samples{of}")


def _attribute(attribute: Attribute, tilts: Tilts, samples: Padded, strongest: int) -> TiltedAttribute:
    """An attribute at each β. DataError if it is known for fewer than two prompts."""
    sampled = np.where(samples.real, attribute.values[samples.at], 0.0).sum(axis=1) / samples.n
    known = ~np.isnan(sampled)
    if known.sum() < 2:
        raise DataError(f"{attribute.name}: known for {int(known.sum())} prompts with enough responses; two are needed")
    n = int(samples.n[known].sum())
    level = share_over_prompts if attribute.kind == "share" else mean_over_prompts
    means = [
        {label: None if tilt is None else tilt.means(attribute.values)[known] for label, tilt in step.items()}
        for step in tilts
    ]

    def at_tilt(step: Mapping[str, FloatArray | None]) -> AtTilt:
        levels = {
            label: _unsupported() if values is None else level(values, attribute.unit, n)
            for label, values in step.items()
        }
        return AtTilt(scorings=levels, change=_change(step, attribute, n))

    difference = _difference(means[strongest])
    p_value, p_method = (None, None) if difference is None else no_change_test(difference)
    return TiltedAttribute(
        name=attribute.name,
        kind=attribute.kind,
        unit=attribute.unit,
        sampled=level(sampled[known], attribute.unit, n),
        at=tuple(at_tilt(step) for step in means),
        p_value=p_value,
        p_holm=None,
        p_method=p_method,
    )


def _change(step: Mapping[str, FloatArray | None], attribute: Attribute, n: int) -> Measured | Missing | None:
    """Second scoring − first, paired by prompt; None with one scoring."""
    if len(step) < 2:
        return None
    difference = _difference(step)
    unit = "share difference" if attribute.kind == "share" else attribute.unit
    return _unsupported() if difference is None else mean_over_prompts(difference, unit, n)


def _difference(step: Mapping[str, FloatArray | None]) -> FloatArray | None:
    match tuple(step.values()):
        case (np.ndarray() as first, np.ndarray() as second):
            return without_traces(second - first, first)
    return None
