"""Which of a prompt's responses a reward picks among n of them: probabilities and expectations in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Missing
from cda.results.benchmarks import AtSize, Curve, Curves, Followed, Measured
from cda.stats.means import mean_over_prompts, no_change_test, share_over_prompts, without_traces
from cda.stats.multiplicity import holm


def kl_at_most(n: int) -> float:
    """KL divergence of best-of-n from the policy that is sampled, in nats: log n − (n − 1)/n.

    Exact where no two responses can have the same reward (Stiennon et al., 2020, appendix G.3; Hilton and Gao, 2022),
    and an upper bound else (Beirami et al., 2024). It says how far the reward was optimised, on one scale with RL.
    """
    return math.log(n) - (n - 1) / n


def pick_probabilities(rewards: ArrayLike, sizes: Sequence[int]) -> FloatArray:
    """How likely each of N responses is the one of highest reward among n, drawn without replacement.

    The response of rank r from the top is picked with probability C(N − r, n − 1) / C(N, n); equal rewards share alike.

    Args:
        rewards: Shape (N,), any unit; only their order matters.
        sizes: Each between 1 and N.

    Returns:
        Shape (len(sizes), N); rows sum to 1.
    """
    values = np.asarray(rewards, dtype=np.float64)
    ascending = np.sort(values)
    above = len(values) - np.searchsorted(ascending, values, side="right")
    reached = len(values) - np.searchsorted(ascending, values, side="left")  # above, and its equals
    none = np.array([_none_drawn(len(values), n) for n in sizes])
    return np.asarray((none[:, above] - none[:, reached]) / (reached - above), dtype=np.float64)


def usual_sizes(n_responses: Sequence[int]) -> tuple[int, ...]:
    """1, 2, 4, 8, … as far as half of the prompts, and two at least, have so many responses.

    Args:
        n_responses: N of each prompt.
    """
    needed = max(2, math.ceil(len(n_responses) / 2))
    powers = [2**exponent for exponent in range(max(n_responses).bit_length())]
    return tuple(n for n in powers if n == 1 or sum(own >= n for own in n_responses) >= needed)


def expected_picks(
    values: FloatArray,
    weights: Mapping[str, Sequence[FloatArray]],
    prompts: Sequence[NDArray[np.intp]],
    sizes: Sequence[int],
) -> dict[str, FloatArray]:
    """Expected value of the pick, shape (n_prompts, n_sizes) a scoring; NaN where n is not reached or a value unknown."""
    found = {label: np.full((len(prompts), len(sizes)), np.nan) for label in weights}
    for row, rows in enumerate(prompts):
        for label, probabilities in weights.items():
            found[label][row, : len(probabilities[row])] = probabilities[row] @ values[rows]
    unknown = [bool(np.isnan(values[rows]).any()) for rows in prompts]
    for one in found.values():
        one[unknown] = np.nan  # also where a matrix product takes 0 · NaN for 0
    return found


def _none_drawn(n_responses: int, n: int) -> FloatArray:
    """C(N − k, n) / C(N, n) for k = 0 … N: the chance that none of k responses is among n."""
    k = np.arange(n_responses)
    ratios = np.maximum(n_responses - k - n, 0) / (n_responses - k)
    return np.concatenate([[1.0], np.cumprod(ratios)])


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """What is followed through the picks.

    Attributes:
        name: Of the bias or the feature.
        kind: `share`: whether a response exhibits a bias, 0 or 1. `mean`: a feature or a quality in its own unit.
        unit: `share`, or the name of the feature.
        values: One a response, shape (n,); NaN where it is not known: then its prompt is left out of this attribute.
        definition: What is followed, in words.
    """

    name: str
    kind: Followed
    unit: str
    values: FloatArray
    definition: str = ""


def best_of_n(
    rewards: Mapping[str, ArrayLike],
    attributes: Sequence[Attribute],
    prompt_ids: Sequence[str],
    sizes: Sequence[int] | None = None,
    quality: Attribute | None = None,
) -> Curves:
    """Attributes of the highest-reward response among n, as n grows.

    Prompts are the unit: intervals and tests are over prompts, each of which counts once at every n that it reaches. Shares
    have Wilson's interval with an effective n (`share_over_prompts`), all else Student's t over prompts; the test of the change at the
    largest n is the paired t test, with Holm's correction over the attributes.

    Args:
        rewards: One or two scorings (`before`, `after`) to rewards, shape (n,) each; higher is better.
        attributes: What to follow.
        prompt_ids: Prompt of each response. Length n.
        sizes: Values of n; 1 is put before them. None for `usual_sizes`.
        quality: A reference quality of the responses, followed beside the attributes.

    Raises:
        DataError: Shapes that differ, rewards that are not finite, a share that is not 0 or 1, fewer than two prompts with
            two responses, or an n that fewer than two prompts reach.
    """
    scored = {label: np.asarray(values, dtype=np.float64) for label, values in rewards.items()}
    _check(scored, [*attributes, *([] if quality is None else [quality])], prompt_ids)
    prompts = _by_prompt(prompt_ids)
    own = np.array([len(rows) for rows in prompts])
    chosen = usual_sizes(own.tolist()) if sizes is None else tuple(sorted({1, *sizes}))
    _check_sizes(chosen, own)
    weights = {
        label: [pick_probabilities(values[rows], [n for n in chosen if n <= len(rows)]) for rows in prompts]
        for label, values in scored.items()
    }
    curves, unvaried = [], []
    for one in attributes:
        if _varies(one.values, prompts):
            curves.append(_curve(one, expected_picks(one.values, weights, prompts, chosen), own, chosen))
        else:
            unvaried.append(one.name)
    reference: Curve | Missing = Missing(reason="no quality was given")
    if quality is not None:
        try:
            reference = _curve(quality, expected_picks(quality.values, weights, prompts, chosen), own, chosen)
        except DataError as error:
            reference = Missing(reason=str(error))
    return Curves(
        attributes=_adjusted(curves),
        quality=reference,
        unvaried=tuple(unvaried),
        sizes=chosen,
        n_prompts=len(prompts),
        n_responses=len(prompt_ids),
        responses_per_prompt=(int(own.min()), float(np.median(own)), int(own.max())),
    )


def _curve(
    attribute: Attribute, picks: Mapping[str, FloatArray], own: NDArray[np.int64], sizes: Sequence[int]
) -> Curve:
    """An attribute's curve from its expectation by prompt, shape (n_prompts, n_sizes) a scoring."""
    first, *others = picks.values()
    difference = without_traces(others[0] - first, first) if others else None
    known = ~np.isnan(first[:, 0])
    change_unit = "share difference" if attribute.kind == "share" else attribute.unit

    def levels(kept: NDArray[np.intp], position: int) -> dict[str, Measured]:
        level, total = share_over_prompts if attribute.kind == "share" else mean_over_prompts, int(own[kept].sum())
        return {label: level(one[kept, position], attribute.unit, total) for label, one in picks.items()}

    complete, at = _reached(attribute, known & (own >= sizes[-1]), sizes[-1]), []
    for position, n in enumerate(sizes):
        kept = np.flatnonzero(known & (own >= n))
        change = None
        if difference is not None and n > 1:
            change = mean_over_prompts(difference[kept, position], change_unit, int(own[kept].sum()))
        n_too_few = int((known & (own < n)).sum())
        at.append(
            AtSize(
                n=n,
                kl_nats=kl_at_most(n),
                n_prompts=len(kept),
                n_too_few=n_too_few,
                scorings=levels(kept, position),
                complete=levels(complete, position),
                change=change,
            )
        )
    doublings = np.log2(sizes) - np.log2(sizes).mean()
    contrast, unit = doublings / (doublings @ doublings), f"{change_unit} per doubling of n"
    total = int(own[complete].sum())
    slopes = {
        label: mean_over_prompts(without_traces(one[complete] @ contrast, one[complete]), unit, total)
        for label, one in picks.items()
    }
    slope_change: Measured | None = None
    tested: tuple[float, str] | tuple[None, None] = (None, None)
    if difference is not None:
        slope_change = mean_over_prompts(without_traces(difference[complete] @ contrast, first[complete]), unit, total)
        tested = no_change_test(difference[complete, -1])
    return Curve(
        name=attribute.name,
        kind=attribute.kind,
        unit=attribute.unit,
        definition=attribute.definition,
        at=tuple(at),
        slope=slopes,
        slope_change=slope_change,
        p_value=tested[0],
        p_holm=None,
        p_method=tested[1],
        n_unknown=int((~known).sum()),
    )


def _reached(attribute: Attribute, kept: NDArray[np.bool_], n: int) -> NDArray[np.intp]:
    """Rows of the prompts that are kept."""
    if kept.sum() < 2:
        raise DataError(
            f"{attribute.name}: known for {int(kept.sum())} prompts with {n} responses: two at least are needed to say "
            "how far prompts differ"
        )
    return np.flatnonzero(kept)


def _adjusted(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """Holm's p over the attributes."""
    tested = [one.p_value for one in curves if one.p_value is not None]
    if not tested:
        return tuple(curves)
    return tuple(one.model_copy(update={"p_holm": p}) for one, p in zip(curves, holm(tested), strict=True))


def _by_prompt(prompt_ids: Sequence[str]) -> list[NDArray[np.intp]]:
    """Rows of each prompt."""
    codes, counts = np.unique(np.asarray(prompt_ids, dtype=str), return_inverse=True, return_counts=True)[1:]
    return np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])


def _varies(values: FloatArray, prompts: Sequence[NDArray[np.intp]]) -> bool:
    return any(float(np.ptp(values[rows])) > 0 for rows in prompts)  # not so where a value is NaN


def _check(scored: Mapping[str, FloatArray], followed: Sequence[Attribute], prompt_ids: Sequence[str]) -> None:
    n, problems = len(prompt_ids), []
    if len(scored) not in (1, 2):
        problems.append(f"{len(scored)} scorings: one, or two to compare, are needed")
    for name, values in [*scored.items(), *((one.name, one.values) for one in followed)]:
        if values.shape != (n,):
            problems.append(f"{name}: shape {values.shape} for {n} responses: one value each is needed")
    for label, values in scored.items():
        if bad := int((~np.isfinite(values)).sum()):
            problems.append(f"{label}: {bad} of {values.size} rewards are NaN or infinite: leave these responses out")
    for one in followed:
        if one.kind == "share" and not np.isin(one.values[~np.isnan(one.values)], (0, 1)).all():
            problems.append(f"{one.name}: a share is of responses that exhibit it (1) or not (0)")
    if problems:
        raise DataError("best of n: " + "\n".join(problems))


def _check_sizes(sizes: Sequence[int], own: NDArray[np.int64]) -> None:
    short = [str(n) for n in sizes if n < 1 or (own >= n).sum() < 2]
    if short or len(sizes) < 2:
        raise DataError(
            f"best of n = {', '.join(short) or 'more than 1'}: two prompts at least need so many responses; of {len(own)} "
            f"prompts, the largest has {own.max(initial=0)}, the median one {np.median(own) if len(own) else 0:g}"
        )
