"""Means over several models on the same contrasts, models and prompts both drawn again; and ranks of models.

`rows`: a share between 0 and 1, or a difference of two, of every model on every contrast, shape (k, n), k models and n
contrasts in the same order. `prompt_ids`: the prompt of each contrast, length n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.results.base import Estimate
from cda.stats.draws import N_DRAWS, ROUNDING, cluster_sums
from cda.stats.proportions import Z_95, paired_change, wilson_share

FEW_MODELS = 5
"""With fewer models the interval is over prompts alone: it holds for these models, and says nothing of others."""
_OF_THESE = "{}, of these models"
_TWO_WAY = "two-way bootstrap over models and prompts 95%"
_CHUNK = 2_000
"""Draws that are made at once."""


def mean_share(rows: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator) -> Estimate:
    """Mean over models of a share, with a 95% interval; its `n` counts contrasts.

    From `FEW_MODELS` models on, models and prompts are both drawn with replacement (the pigeonhole bootstrap: Owen 2007,
    Annals of Applied Statistics 1, 386–411, which overstates the part of single cells a little). Few models, drawn as they
    are, differ too little: their weights are drawn k − 1 at a time (Rao and Wu 1988, J. Am. Stat. Assoc. 83, 231–241), and
    their distance from the mean is stretched by Student's t with k − 1 degrees of freedom over 1.96. With fewer models, or
    if nothing varies, it is Wilson's interval of the mean rows: of these models, over prompts.

    Raises:
        DataError: No model or no contrast, another shape, or a value outside 0 to 1.
    """
    values = _checked(rows, prompt_ids)
    if len(values) >= FEW_MODELS and (drawn := _two_way(values, prompt_ids, rng)):
        return _estimate(values, prompt_ids, drawn, "share", (0.0, 1.0))
    fixed = wilson_share(values.mean(axis=0), prompt_ids, len(values))
    return fixed.model_copy(update={"method": _of_these(fixed.method, len(values))})


def mean_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator) -> Estimate:
    """Mean over models of after − before, paired by model and contrast; a `before` of shape (n,), such as people's
    preferences, is the same for every model. The interval is as in `mean_share`, with Newcombe's in place of Wilson's.
    """
    later = _checked(after, prompt_ids)
    earlier = _checked(np.broadcast_to(np.asarray(before, dtype=np.float64), later.shape), prompt_ids)
    differences = later - earlier
    if len(later) >= FEW_MODELS and (drawn := _two_way(differences, prompt_ids, rng)):
        return _estimate(differences, prompt_ids, drawn, "share difference", (-1.0, 1.0))
    fixed = paired_change(earlier.mean(axis=0), later.mean(axis=0), prompt_ids, len(later))
    return fixed.model_copy(update={"method": _of_these(fixed.method, len(later))})


def ranks(
    rows: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator, nearest_to: ArrayLike | None = None
) -> list[Estimate]:
    """Rank of each model by its mean over contrasts, 1 the largest; or, with `nearest_to` of shape (n,), by the distance of
    its mean from that one's, 1 the nearest. Equal models share the mean of their places.

    The interval holds the middle 95% of the ranks among the same models over draws of whole prompts. It answers which
    places this model could have had on other prompts, one model at a time: it is no statement on all models together.

    Raises:
        DataError: Fewer than two models or two prompts, or another shape.
    """
    values = np.asarray(rows, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2 or len(set(prompt_ids)) < 2:
        raise DataError("ranks need two models and two prompts at least")
    if nearest_to is not None:
        values = values - np.asarray(nearest_to, dtype=np.float64)
    sums = _cluster_sums(values, prompt_ids)[:, :-1]

    def places(weights: FloatArray) -> FloatArray:
        totals = weights @ sums
        return _places(totals if nearest_to is None else -np.abs(totals))

    drawn = np.concatenate([places(weights) for weights in _prompt_weights(len(sums), rng)])
    own = places(np.ones((1, len(sums))))[0]
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0, method="nearest")
    n, n_prompts = values.shape[1], len(sums)
    return [
        Estimate(
            value=float(rank), low=float(min(down, rank)), high=float(max(up, rank)), n=n, n_prompts=n_prompts,
            unit="rank", method="prompt-clustered bootstrap 95%, among these models",
        )
        for rank, down, up in zip(own, low, high, strict=True)
    ]  # fmt: skip


def _checked(rows: ArrayLike, prompt_ids: Sequence[str]) -> FloatArray:
    values = finite(rows)
    if values.ndim != 2 or not len(values) or values.shape[1] != len(prompt_ids):
        raise DataError(f"{values.shape} values for {len(prompt_ids)} contrasts: a row for each model is needed")
    return values


def _two_way(values: FloatArray, prompt_ids: Sequence[str], rng: np.random.Generator) -> tuple[float, float] | None:
    """Ends of the interval; None without a spread between draws, or with one prompt."""
    k, sums = len(values), _cluster_sums(values, prompt_ids)
    if len(sums) < 2:
        return None
    stretch = float(stats.t.ppf(0.975, k - 1)) / Z_95
    drawn = []
    for weights in _prompt_weights(len(sums), rng):
        taken = rng.multinomial(k - 1, np.full(k, 1 / k), size=len(weights)) / (k - 1)
        of_models = 1 / k + stretch * (taken - 1 / k)
        totals = weights @ sums
        drawn.append((totals[:, :-1] * of_models).sum(axis=1) / totals[:, -1])
    low, high = np.quantile(np.concatenate(drawn), (0.025, 0.975))
    return (float(low), float(high)) if high - low > ROUNDING else None


def _cluster_sums(values: FloatArray, prompt_ids: Sequence[str]) -> FloatArray:
    """Sums of each model over the contrasts of a prompt, and their number in the last column: shape (G, k + 1)."""
    return cluster_sums(np.column_stack([values.T, np.ones(values.shape[1])]), prompt_ids)


def _prompt_weights(n_prompts: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """How often each prompt is drawn, chunk by chunk: shape (draws, G)."""
    chunk = max(1, min(_CHUNK, (1 << 22) // n_prompts))
    for start in range(0, N_DRAWS, chunk):
        size = min(chunk, N_DRAWS - start)
        yield rng.multinomial(n_prompts, np.full(n_prompts, 1 / n_prompts), size=size).astype(np.float64)


def _places(means: FloatArray) -> FloatArray:
    """Rank of each model in each draw, 1 the largest; shapes (draws, k). Rounding makes no two means differ."""
    rounded = np.round(means / max(float(np.abs(means).max()), math.ulp(1.0)), 10)
    return np.asarray(stats.rankdata(-rounded, axis=1), dtype=np.float64)


def _estimate(
    values: FloatArray, prompt_ids: Sequence[str], ends: tuple[float, float], unit: str, within: tuple[float, float]
) -> Estimate:
    value = float(values.mean())
    low, high = (float(np.clip(end, *within)) for end in ends)
    n, n_prompts = values.shape[1], len(set(prompt_ids))
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), n=n, n_prompts=n_prompts, unit=unit, method=_TWO_WAY
    )


def _of_these(method: str, n_models: int) -> str:
    return method if n_models == 1 else _OF_THESE.format(method)
