"""Whether two rewriters tell the same story of an attribute: correlations, quantiles and distance of their margins."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate, Missing
from cda.results.discover import Measured
from cda.results.evidence import Agreement, Distance, QuantilePair

_N_DRAWS = 10_000
_MIN_PROMPTS = 5  # with fewer, too many draws are of one prompt alone and have no correlation
_UNDEFINED_LIMIT = 0.01
_CHUNK_BYTES = 4 << 20
_QUANTILES = tuple(round(0.05 * step, 2) for step in range(1, 20))


def agreements(rows: Sequence[Measured], rng: np.random.Generator) -> tuple[Agreement, ...]:
    """Agreement of every two rewriters of one candidate, in the order in which they first come.

    Only responses that both rewrote are compared, so that a difference is not one of prompts; their margins are averaged
    within each prompt, so that prompts, which are independent, are what is counted.

    Args:
        rows: Measured rewrites of one candidate.
        rng: For the intervals.

    Raises:
        ValueError: Rows of several candidates.
    """
    if len({row.candidate for row in rows}) > 1:
        raise ValueError("rows of several candidates: agreement is of one candidate's rewriters")
    names = list(dict.fromkeys(row.rewriter for row in rows))
    return tuple(_agreement(rows, first, second, rng) for first, second in itertools.combinations(names, 2))


def _agreement(rows: Sequence[Measured], first: str, second: str, rng: np.random.Generator) -> Agreement:
    x, y, n_responses = _shared(rows, first, second)
    pearson: Estimate | Missing
    spearman: Estimate | Missing
    if not len(x):
        pearson = spearman = Missing(reason="no response that both rewrote")
        return Agreement(
            first=first, second=second, n_prompts=0, n_responses=0, pearson=pearson, spearman=spearman, quantiles=(),
            distance=None,
        )  # fmt: skip
    try:
        pearson, spearman = correlations(x, y, rng)
    except DataError as error:
        pearson = spearman = Missing(reason=str(error))
    tested = stats.ks_2samp(x, y)
    quantiles = zip(_QUANTILES, np.quantile(x, _QUANTILES), np.quantile(y, _QUANTILES), strict=True)
    return Agreement(
        first=first,
        second=second,
        n_prompts=len(x),
        n_responses=n_responses,
        pearson=pearson,
        spearman=spearman,
        quantiles=tuple(
            QuantilePair(share=share, first=float(one), second=float(other)) for share, one, other in quantiles
        ),
        distance=Distance(
            statistic=float(tested.statistic), p_value=float(tested.pvalue), n_first=len(x), n_second=len(y)
        ),
    )


def correlations(x: FloatArray, y: FloatArray, rng: np.random.Generator) -> tuple[Estimate, Estimate]:
    """Pearson's and Spearman's correlation over prompts, with 95% intervals from prompts drawn with replacement.

    In each draw the ranks are those among the prompts drawn, ties sharing the mean of theirs: ranks that were fixed before
    would hide that ranks are themselves estimated.

    Args:
        x: One value a prompt, shape (n,).
        y: Another of the same prompts, shape (n,).
        rng: For the draws.

    Raises:
        DataError: Fewer than five prompts, or values that (nearly) do not vary.
    """
    n = len(x)
    if n < _MIN_PROMPTS:
        raise DataError(f"{n} shared prompts: a correlation with an interval needs {_MIN_PROMPTS} or more")
    # Rounding is no variation.
    if any(np.ptp(one) <= 1e-12 * np.abs(one).max() for one in (x, y)):
        raise DataError(f"margins do not vary over the {n} shared prompts: they have no correlation")
    values = _weighted(x, y, np.ones((1, n)))[:, 0]
    step = max(1, _CHUNK_BYTES // (8 * n))
    chunks = [min(step, _N_DRAWS - start) for start in range(0, _N_DRAWS, step)]
    even = np.full(n, 1 / n)
    draws = np.concatenate(
        [_weighted(x, y, rng.multinomial(n, even, size=size).astype(float)) for size in chunks], axis=1
    )
    if np.mean(~np.isfinite(draws)) > _UNDEFINED_LIMIT:
        raise DataError(f"margins hardly vary over the {n} shared prompts: they have no correlation")
    found = []
    for value, drawn in zip(values, draws, strict=True):
        low, high = np.nanquantile(drawn, (0.025, 0.975))
        found.append(
            Estimate(
                value=float(value),
                low=float(low),
                high=float(high),
                n=n,
                n_prompts=n,
                unit="correlation",
                method="bootstrap over prompts 95%",
            )
        )
    return found[0], found[1]


def _shared(rows: Sequence[Measured], first: str, second: str) -> tuple[FloatArray, FloatArray, int]:
    """Mean margins of both rewriters by prompt over the responses both rewrote, and how many responses these are."""
    margins: dict[str, dict[tuple[str, str, str], list[float]]] = {first: defaultdict(list), second: defaultdict(list)}
    for row in rows:
        if row.rewriter in margins:
            margins[row.rewriter][row.prompt_id, row.direction, row.original].append(row.margin)
    both = [item for item in margins[first] if item in margins[second]]
    by_prompt: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in both:
        by_prompt[item[0]].append((float(np.mean(margins[first][item])), float(np.mean(margins[second][item]))))
    means = np.array([np.mean(pairs, axis=0) for pairs in by_prompt.values()]).reshape(-1, 2)
    return means[:, 0], means[:, 1], len(both)


def _weighted(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Pearson and Spearman under each row of weights (how often each prompt is drawn). Shape (2, draws)."""
    ranks = _ranks(x, weights), _ranks(y, weights)
    return np.stack([_pearson(x[None] - x.mean(), y[None] - y.mean(), weights), _pearson(*ranks, weights)])


def _ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Mid-rank of every value among the values drawn, shape (draws, n)."""
    order = np.argsort(values, kind="stable")
    _, starts, at = np.unique(values[order], return_index=True, return_inverse=True)
    level = np.empty(len(values), dtype=np.intp)
    level[order] = at
    counts = np.add.reduceat(weights[:, order], starts, axis=1)
    through = np.cumsum(counts, axis=1)
    return np.asarray((through - counts + (counts + 1) / 2)[:, level], dtype=np.float64)


def _pearson(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted correlation of each row, shape (draws,); NaN where a side does not vary."""
    total = weights.sum(axis=1)
    x = x - ((weights * x).sum(axis=1) / total)[:, None]
    y = y - ((weights * y).sum(axis=1) / total)[:, None]
    xx, yy, xy = ((weights * one * other).sum(axis=1) for one, other in ((x, x), (y, y), (x, y)))
    varies = (xx > 1e-12 * xx.max()) & (yy > 1e-12 * yy.max())
    found: FloatArray = np.full(len(weights), np.nan)
    found[varies] = np.clip(xy[varies] / np.sqrt(xx[varies] * yy[varies]), -1, 1)
    return found
