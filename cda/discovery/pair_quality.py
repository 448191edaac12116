"""Quality of rewritten pairs: labels of both sides, agreement of rewriters, drift, and an LLM's grades and guesses."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import stats

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.pair_questions import edit_grades, guessed_attribute
from cda.errors import DataError
from cda.llm.protocol import LLM
from cda.results.base import Estimate, Missing
from cda.results.discover import Measured
from cda.results.effects import FeatureDrift
from cda.results.evidence import Distance, Fidelity, PairQuality, QuantilePair, RewriterAgreement
from cda.rewriting.rewriter import Labeller
from cda.scorers.compared import distinct_texts, text_id
from cda.stats.drift import feature_drift, measured
from cda.stats.proportions import wilson_share

_N_DRAWS = 10_000
_MIN_PROMPTS = 5  # with fewer, too many draws are of one prompt alone and have no correlation
_UNDEFINED_LIMIT = 0.01
_CHUNK_BYTES = 4 << 20
_QUANTILES = tuple(round(0.05 * step, 2) for step in range(1, 20))


def agreements(rows: Sequence[Measured], rng: np.random.Generator) -> tuple[RewriterAgreement, ...]:
    """Agreement of every two rewriters of one candidate, in the order in which they first come.

    Only responses that both rewrote are compared, so that a difference is not one of prompts; their margins are averaged
    within each prompt, since only prompts are independent.

    Raises:
        ValueError: Rows of several candidates.
    """
    if len({row.candidate for row in rows}) > 1:
        raise ValueError("rows of several candidates: agreement is of one candidate's rewriters")
    names = list(dict.fromkeys(row.rewriter for row in rows))
    return tuple(_agreement(rows, first, second, rng) for first, second in itertools.combinations(names, 2))


def _agreement(rows: Sequence[Measured], first: str, second: str, rng: np.random.Generator) -> RewriterAgreement:
    x, y, n_responses = _shared(rows, first, second)
    pearson: Estimate | Missing
    spearman: Estimate | Missing
    try:
        pearson, spearman = correlations(x, y, rng)
    except DataError as error:
        pearson = spearman = Missing(reason=str(error) if len(x) else "no response that both rewrote")
    quantiles: tuple[QuantilePair, ...] = ()
    distance = None
    if len(x):
        tested = stats.ks_2samp(x, y)
        by_share = zip(_QUANTILES, np.quantile(x, _QUANTILES), np.quantile(y, _QUANTILES), strict=True)
        quantiles = tuple(QuantilePair(share=at, first=float(own), second=float(other)) for at, own, other in by_share)
        distance = Distance(
            statistic=float(tested.statistic), p_value=float(tested.pvalue), n_first=len(x), n_second=len(y)
        )
    return RewriterAgreement(
        first=first,
        second=second,
        n_prompts=len(x),
        n_responses=n_responses,
        pearson=pearson,
        spearman=spearman,
        quantiles=quantiles,
        distance=distance,
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
    # Rounding errors are not variation.
    if any(np.ptp(side) <= 1e-12 * np.abs(side).max() for side in (x, y)):
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
    estimates = []
    for value, drawn in zip(values.tolist(), draws, strict=True):
        low, high = np.nanquantile(drawn, (0.025, 0.975)).tolist()
        method = "bootstrap over prompts 95%"
        estimates.append(Estimate(value=value, low=low, high=high, n=n, n_prompts=n, unit="correlation", method=method))
    return estimates[0], estimates[1]


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
    """Weighted correlation of each row, shape (draws,); NaN if a side does not vary."""
    total = weights.sum(axis=1)
    x = x - ((weights * x).sum(axis=1) / total)[:, None]
    y = y - ((weights * y).sum(axis=1) / total)[:, None]
    xx, yy, xy = (weights * x * x).sum(axis=1), (weights * y * y).sum(axis=1), (weights * x * y).sum(axis=1)
    varies = (xx > 1e-12 * xx.max()) & (yy > 1e-12 * yy.max())
    correlation: FloatArray = np.full(len(weights), np.nan)
    correlation[varies] = np.clip(xy[varies] / np.sqrt(xx[varies] * yy[varies]), -1, 1)
    return correlation


def pair_quality(
    rows: Sequence[Measured],
    bias: Bias,
    rng: np.random.Generator,
    *,
    label: Labeller | None = None,
    labelled_by: Literal["measure", "llm"] = "measure",
    llm: LLM | None = None,
) -> PairQuality:
    """Quality of one candidate's pairs, as far as the given inputs allow.

    Args:
        rows: Measured rewrites of one candidate, by any number of rewriters.
        bias: The candidate's.
        rng: For intervals, and for which pairs are guessed from.
        label: Labels sides; preferably not the labeller that checked the rewriters.
        labelled_by: Name of that labeller.
        llm: Grades and guesses.

    Raises:
        DataError: No rows.
        LLMError: Nothing can be answered.
        ValueError: Rows of several candidates.
    """
    _one_candidate(rows)
    labelled = fidelity(rows, bias, label) if label is not None else {}
    drift: tuple[FeatureDrift, ...] | Missing
    try:
        drift = pair_drift(rows, bias, rng)
    except DataError as error:
        drift = Missing(reason=str(error))
    return PairQuality(
        candidate=rows[0].candidate,
        n=len(rows),
        n_prompts=len({row.prompt_id for row in rows}),
        labelled_by=None if label is None else labelled_by,
        fidelity=labelled.get(None),
        fidelity_by_rewriter={name: found for name, found in labelled.items() if name is not None},
        agreement=agreements(rows, rng),
        grades=edit_grades(rows, bias, llm, rng) if llm is not None else None,
        guesses=guessed_attribute(rows, bias, llm, rng) if llm is not None else None,
        drift=drift,
    )


def fidelity(rows: Sequence[Measured], bias: Bias, label: Labeller) -> dict[str | None, Fidelity]:
    """Fidelity of all pairs under None, and of each rewriter's under its name; each distinct text is labelled once.

    Raises:
        DataError: No rows.
    """
    _one_candidate(rows)
    texts = distinct_texts((row.prompt, text) for row in rows for text in (row.with_attribute, row.without_attribute))
    labels = label([prompt for prompt, _ in texts.values()], [text for _, text in texts.values()], bias)
    by_text = dict(zip(texts, labels, strict=True))
    pairs = [
        (
            row.prompt_id,
            by_text[text_id(row.prompt, row.with_attribute)],
            by_text[text_id(row.prompt, row.without_attribute)],
        )
        for row in rows
    ]
    return {
        name: _fidelity([pair for row, pair in zip(rows, pairs, strict=True) if name in (None, row.rewriter)])
        for name in (None, *dict.fromkeys(row.rewriter for row in rows))
    }


def pair_drift(rows: Sequence[Measured], bias: Bias, rng: np.random.Generator) -> tuple[FeatureDrift, ...]:
    """Differences between the sides, with minus without; features that are the attribute itself are marked as treatment.

    Raises:
        DataError: No rows, or one prompt.
    """
    treatment = {*bias.treatment, *([bias.measure.feature] if bias.measure is not None else [])}
    present, absent = measured([row.with_attribute for row in rows]), measured([row.without_attribute for row in rows])
    return tuple(feature_drift(present, absent, [row.prompt_id for row in rows], rng, treatment=treatment))


def _fidelity(pairs: Sequence[tuple[str, bool | None, bool | None]]) -> Fidelity:
    """From prompt, label of the side with and label of the side without."""

    def hit_share(hits: Sequence[tuple[str, bool]]) -> Estimate | None:
        return wilson_share([hit for _, hit in hits], [prompt for prompt, _ in hits]) if hits else None

    present = [(prompt, label) for prompt, label, _ in pairs if label is not None]
    absent = [(prompt, not label) for prompt, _, label in pairs if label is not None]
    both = [(prompt, w and not wo) for prompt, w, wo in pairs if w is not None and wo is not None]
    n = len(pairs)
    return Fidelity(
        n=n,
        present=hit_share(present),
        absent=hit_share(absent),
        both=hit_share(both),
        n_unparsed_with=n - len(present),
        n_unparsed_without=n - len(absent),
    )


def _one_candidate(rows: Sequence[Measured]) -> None:
    if not rows:
        raise DataError("no pairs: their quality cannot be measured")
    if len({row.candidate for row in rows}) > 1:
        raise ValueError("rows of several candidates: quality is of one candidate's pairs")
