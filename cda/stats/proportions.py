"""Shares, their changes and tests, by prompt if prompts repeat: skew, quality accuracy, and labels against choices.

`hits`: 1 or True for a hit, 0 for none, 0.5 if a tie counts half, or a share of several answers. Shape (n,). `ties`: a margin
of exactly 0 is no preference for the first side (`no-hit`: rewards, whose ties are chance), or half of one (`half`: judges).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import BoolArray, FloatArray, Ids, finite
from cda.errors import DataError
from cda.records import PERCENT, Exclusions
from cda.results.base import Estimate, Measure, PerScoring, Test
from cda.results.effects import Contingency
from cda.stats.estimators import (
    CLUSTERED_T,
    ROUNDING,
    Z,
    checked_shares,
    mean_of,
    paired_change,
    resampled,
    share_of,
    t_quantile,
)


def unpaired_change(before: ArrayLike, after: ArrayLike) -> Estimate:
    """Change of a share, after − before, as if the two had been measured on different rows: two-proportion z.

    The interval that papers print (√(p₁q₁/n₁ + p₂q₂/n₂), Wald), of hits of shapes (n,) and (m,). On the same rows it is
    wrong, most often too wide, and it treats rows of one prompt as independent: shown next to `paired_change`, never
    instead of it. DataError: no rows, or values that are not between 0 and 1.
    """
    first, second = (checked_shares(hits, [""] * np.size(hits)) for hits in (before, after))
    p, q = float(first.mean()), float(second.mean())
    half = Z * math.sqrt(p * (1 - p) / len(first) + q * (1 - q) / len(second))
    n, method = min(len(first), len(second)), f"unpaired two-proportion z {PERCENT}"
    return Estimate.symmetric(q - p, half, n=n, n_prompts=n, unit="share difference", method=method, bound=1.0)


def exact_change_test(before: ArrayLike, after: ArrayLike, prompt_ids: Ids) -> Test:
    """Exact two-sided test that a share of hits did not change, on the same rows; prompts are independent, rows are
    not.

    Fisher's randomisation test for pairs (1935): without a change, each prompt's sum of differences is as likely to
    have the other sign, so that Σ ± dᵍ over all choices of signs says how far chance alone gets. If each prompt occurs
    once and rows are 0 or 1, that is the exact McNemar test. p is 1 if nothing changed. DataError: no rows, shapes that
    differ, or rows that are not 0, 0.5 or 1.
    """
    first, second = checked_shares(before, prompt_ids), checked_shares(after, prompt_ids)
    clusters = np.unique(np.asarray(prompt_ids), return_inverse=True)[1]
    rows = np.concatenate([first, second])
    if not np.isin(rows, (0, 0.5, 1)).all():
        raise DataError(
            "an exact test of a change needs rows of 0, 0.5 or 1: sums of other values cannot be counted out"
        )
    halves = np.bincount(clusters, weights=2 * (second - first)).astype(np.int64)
    mcnemar = bool((rows != 0.5).all()) and clusters.max() + 1 == len(first)
    return Test(p_value=_sign_flip_p(halves), method="exact McNemar" if mcnemar else "exact sign-flip over prompts")


def _sign_flip_p(sums: NDArray[np.int64]) -> float:
    """P(|Σ ± d| ≥ |Σ d|) over fair signs of integers d, exactly and without listing them: P(|2K − T| ≥ |Σ d|). T = Σ
    |d|, and K is the part of it that gets a plus: for each size of d a binomial count times that size.
    """
    sums = sums[sums != 0] // max(1, int(np.gcd.reduce(sums)))
    observed = abs(int(sums.sum()))
    if observed == 0:
        return 1.0
    chances = np.ones(1)
    for size, count in zip(*np.unique(np.abs(sums), return_counts=True), strict=True):
        plus = np.zeros(size * count + 1)
        plus[::size] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        chances = _convolved(chances, plus)
    # T and the observed sum are both odd or both even.
    return min(1.0, 2 * float(chances[: (len(chances) - 1 - observed) // 2 + 1].sum()))


def _convolved(first: FloatArray, second: FloatArray) -> FloatArray:
    """Their convolution, without the time that chances too small for a float, at the ends of many, would take."""
    (low, up), (start, end) = (np.flatnonzero(each)[[0, -1]] for each in (first, second))
    inner = np.convolve(first[low : up + 1], second[start : end + 1])
    return np.pad(inner, (low + start, len(first) - 1 - up + len(second) - 1 - end))


ModelTies = Literal["no-hit", "half"]


def hits_of(margins: FloatArray, ties: ModelTies = "no-hit") -> FloatArray:
    """1 for each margin above 0, else 0; a margin of exactly 0 as `ties` has it."""
    return np.where(margins == 0, 0.5 if ties == "half" else 0.0, margins > 0)


def positive_share(margins: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Estimate:
    """Share of margins above 0: the skew of contrasts, the accuracy of quality pairs (score(chosen) − score(rejected))."""
    return share_of(hits_of(finite(margins, "margins"), ties), prompt_ids)


def positive_shares(scorings: Iterable[ArrayLike], prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Measure:
    """The share of positive margins under one scoring, or two of the same rows with its change."""
    margins = [finite(each, "margins") for each in scorings]
    return share_measure([hits_of(each, ties) for each in margins], prompt_ids, margins)


def share_measure(hits: Sequence[FloatArray], prompt_ids: Sequence[str], margins: Sequence[FloatArray]) -> Measure:
    """A share of hits, each shape (n,), under one scoring; or under two of the same rows, with its change and the test over prompts.
    Rows with a margin of exactly 0 are counted."""
    shares, n_ties = [share_of(each, prompt_ids) for each in hits], [int((each == 0).sum()) for each in margins]
    if len(hits) == 1:
        return Measure(before=shares[0], ties=PerScoring[int](before=n_ties[0]))
    before, after = hits
    return Measure(
        before=shares[0],
        after=shares[1],
        change=paired_change(before, after, prompt_ids),
        unpaired=unpaired_change(before, after),
        test=exact_change_test(before, after, prompt_ids),
        ties=PerScoring[int](before=n_ties[0], after=n_ties[1]),
    )


def contingency(chosen: Sequence[bool | None], rejected: Sequence[bool | None], prompt_ids: Ids) -> Contingency:
    """Bias × chosen/rejected table of preference pairs: does either side exhibit the bias; None if the label is
    unparsed. DataError: no labelled pair, or no pair in which exactly one side has the bias.
    """
    known = np.array([None not in sides for sides in zip(chosen, rejected, strict=True)], dtype=bool)
    first, second = (np.array([bool(label) for label in side], dtype=bool) for side in (chosen, rejected))
    return contingency_of_known(first, second, known, prompt_ids)


def contingency_of_known(chosen: BoolArray, rejected: BoolArray, known: BoolArray, prompt_ids: Ids) -> Contingency:
    """The same of arrays, each of shape (n,); `known`: False for an unparsed label."""
    if not known.any():
        raise DataError(f"none of {len(chosen)} pairs has a label on both sides: rates cannot be estimated")
    first, second, ids = chosen[known], rejected[known], np.asarray(prompt_ids)[known]
    one_side = first != second
    if not one_side.any():
        raise DataError(f"no pair of {len(first)} has the bias on one side only: no choice for or against it was made")
    return Contingency(
        both=int((first & second).sum()),
        only_chosen=int((first & ~second).sum()),
        only_rejected=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
        selection_rate=share_of(first[one_side], ids[one_side]),
        chosen_rate=share_of(first, ids),
        rejected_rate=share_of(second, ids),
        exclusions=Exclusions(len(chosen), {} if known.all() else {"unparsed label": int((~known).sum())}),
    )


def chosen_correlation(feature_differences: ArrayLike, prompt_ids: Ids, weights: FloatArray | None = None) -> Estimate:
    """r_train: r between a feature's difference, chosen − rejected, and being chosen, each pair taken in both orders.

        r = Σ w·d / √(Σ w · Σ w·d²)

    Papers swap a random half of the pairs and get a number that moves with the seed; this is its mean over swaps.
    `weights` of the pairs, shape (n,), are taken as known; None: all are 1.
    DataError: no pair differs in it.
    """
    x = finite(feature_differences)
    w = np.ones(len(x)) if weights is None else weights
    if not (w * x).any():
        raise DataError(f"none of {len(x)} pairs differs in the feature: a correlation is undefined")
    x = x / np.abs(x).max()
    return resampled(np.column_stack([w * x, w, w * x * x]), prompt_ids, _of_both_orders, "correlation", (-1.0, 1.0))


def _of_both_orders(sums: FloatArray) -> FloatArray:
    xy, n, xx = sums.T
    return np.asarray(np.divide(xy, np.sqrt(n * xx), out=np.full(len(sums), np.nan), where=n * xx > 0))


def beyond_noise(
    before: ArrayLike,
    after: ArrayLike,
    prompt_ids: Sequence[str],
    quality_before: ArrayLike,
    quality_after: ArrayLike,
    quality_prompt_ids: Sequence[str],
    n_biases: int = 1,
) -> Estimate:
    """Mean margin after − stretch · mean margin before, where stretch = mean quality margin after / before; reward
    units after.

    Ours. A share of positive margins nears one half when rewards become noisier; a mean does not, since noise adds 0 to
    it on average. A training may also stretch all rewards, which multiplies every mean alike; quality pairs (chosen −
    rejected, shape (m,)) say by how much. If rewards were stretched and made noisier, and nothing else, the result is 0
    on average, whatever the shares do. Below 0 the model wants less of the bias than noise and stretching leave of it.
    The error is the first-order one of this ratio, over whole prompts of contrasts and of quality pairs together (in
    the same names), held against Student's t with one degree of freedom less than the fewer prompts of the two. The intervals of
    `n_biases` biases hold together (Bonferroni), since the report says which of them moved.
    DataError: margins that are not finite, lengths that differ, fewer than two prompts of either kind, or a mean
    quality margin before that is not shown to be above 0: without it there is no yardstick.
    """
    own = np.column_stack([finite(before, "margins"), finite(after, "margins")])
    pairs = np.column_stack([finite(quality_before, "margins"), finite(quality_after, "margins")])
    n_prompts = min(len(set(prompt_ids)), len(set(quality_prompt_ids)))
    if n_prompts < 2:
        raise DataError("fewer than two prompts of contrasts or of quality pairs: their spread is unknown")
    (was, now), (scale, new_scale) = own.mean(axis=0), pairs.mean(axis=0)
    if mean_of(pairs[:, 0], quality_prompt_ids).estimate.low <= 0:
        raise DataError(
            "the model before has no mean margin on quality pairs that is shown to be above 0, the yardstick for stretched rewards"
        )
    stretch = new_scale / scale
    value = float(now - stretch * was)
    of_contrasts = ((own[:, 1] - now) - stretch * (own[:, 0] - was)) / len(own)
    of_pairs = -was / scale * ((pairs[:, 1] - new_scale) - stretch * (pairs[:, 0] - scale)) / len(pairs)
    influence = np.concatenate([of_contrasts, of_pairs])
    # A sum is its mean times its rows, and these add up to 0.
    error = len(influence) * mean_of(influence, [*prompt_ids, *quality_prompt_ids]).error
    half = max(
        t_quantile(n_prompts - 1, n_biases) * error, ROUNDING * max(abs(now), abs(stretch * was))
    )  # rounding is no change
    n, of_all = len(own), len(set(prompt_ids))
    return Estimate.symmetric(
        value,
        half,
        n=n,
        n_prompts=of_all,
        unit="reward",
        method=CLUSTERED_T + (f", {n_biases} biases together" if n_biases > 1 else ""),
    )
