"""Shares, their changes and tests, by prompt if prompts repeat: skew, quality accuracy, and labels against choices.

`hits`: 1 or True for a hit, 0 for none, 0.5 if a tie counts half, or a share of several answers. Shape (n,). `ties`: a margin
of exactly 0 is no preference for the first side (`no-hit`: rewards, whose ties are chance), or half of one (`half`: judges).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.records import Exclusions, Preference, count_reasons
from cda.results.base import Estimate, Measure, PerScoring, Test
from cda.results.effects import Contingency
from cda.results.skew import PreferenceTable
from cda.stats.draws import ROUNDING, bootstrap_sums, clustered_error, effective_rows

Z_95 = float(stats.norm.ppf(0.975))
# One row a prompt, and several.
_WILSON = "Wilson 95%", "Wilson 95% on the effective number of rows"
_NEWCOMBE = "Newcombe paired 95%", "Newcombe paired 95% on the effective number of rows"


def wilson_share(hits: ArrayLike, prompt_ids: Sequence[str], answers_a_row: float = 1) -> Estimate:
    """Share of hits with Wilson's 95% interval on the effective number of rows (`effective_rows`).

    If each prompt occurs once it is Wilson's own. A share of 0 or 1 keeps a width: there every prompt counts as one
    row. `answers_a_row`: answers, such as several models', that each row is a mean of: rows that vary less than 0 and 1
    would are worth up to so many; 1 gives ties that count half nothing. DataError: no rows, or outside 0 to 1.
    """
    values = _checked(hits, prompt_ids)
    n, n_prompts, p = len(values), len(set(prompt_ids)), float(values.mean())
    effective = effective_rows(values, prompt_ids) * _worth(values, answers_a_row)
    low, high = wilson(p * effective, effective)
    return Estimate(value=p, low=low, high=high, n=n, n_prompts=n_prompts, unit="share", method=_WILSON[n_prompts < n])


def paired_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str], answers_a_row: float = 1) -> Estimate:
    """Change of a share of hits, after − before, on the same rows, with a 95% interval.

    Newcombe's paired score interval (1998, Statistics in Medicine 17, 2635–2650, method 10, with the
    continuity-corrected phi) of as many rows as the differences are worth (`effective_rows`): it keeps its width when
    no row changed, and is Newcombe's own if each prompt occurs once and rows are 0 or 1. `answers_a_row` is as in
    `wilson_share`. DataError: no rows, or shapes that differ.
    """
    first, second = _checked(before, prompt_ids), _checked(after, prompt_ids)
    n, n_prompts = len(first), len(set(prompt_ids))
    effective = effective_rows(second - first, prompt_ids)
    p, q = float(first.mean()), float(second.mean())
    rows_before, rows_after = (effective * _worth(side, answers_a_row) for side in (first, second))
    (low_p, high_p), (low_q, high_q) = wilson(p * rows_before, rows_before), wilson(q * rows_after, rows_after)
    # For one row: its standard deviation before times that after, and the correlation of the two.
    deviations = effective * math.sqrt(max(0.0, p * (1 - p) * q * (1 - q) / (rows_before * rows_after)))
    phi = 0.0
    if deviations > ROUNDING:
        phi = float(((first - p) * (second - q)).mean()) / deviations
        if phi > 0:
            phi = max(0.0, phi - 1 / (2 * effective * deviations))
    difference = q - p
    down_q, up_q, down_p, up_p = q - low_q, high_q - q, p - low_p, high_p - p
    low = max(-1.0, difference - math.sqrt(max(0.0, down_q**2 - 2 * phi * down_q * up_p + up_p**2)))
    high = min(1.0, difference + math.sqrt(max(0.0, up_q**2 - 2 * phi * up_q * down_p + down_p**2)))
    method, unit = _NEWCOMBE[n_prompts < n], "share difference"
    return Estimate(value=difference, low=low, high=high, n=n, n_prompts=n_prompts, unit=unit, method=method)


def wilson(hits: float, n: float) -> tuple[float, float]:
    """Wilson's 95% score interval for a share; `hits` may hold halves. DataError: no rows, or hits outside 0 to `n`."""
    # Sums of shares may miss n by rounding.
    if not (n > 0 and -1e-9 * n <= hits <= n * (1 + 1e-9)):
        raise DataError(f"{hits:g} hits of {n:g}: a share of that cannot be estimated")
    p, z2 = hits / n, Z_95**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


def unpaired_change(before: ArrayLike, after: ArrayLike) -> Estimate:
    """Change of a share, after − before, as if the two had been measured on different rows: two-proportion z 95%.

    The interval that papers print (√(p₁q₁/n₁ + p₂q₂/n₂), Wald), of hits of shapes (n,) and (m,). On the same rows it is
    wrong, most often too wide, and it treats rows of one prompt as independent: shown next to `paired_change`, never
    instead of it. DataError: no rows, or values that are not between 0 and 1.
    """
    first, second = (_shares(hits) for hits in (before, after))
    p, q = float(first.mean()), float(second.mean())
    half = Z_95 * math.sqrt(p * (1 - p) / len(first) + q * (1 - q) / len(second))
    n, method = min(len(first), len(second)), "unpaired two-proportion z 95%"
    return Estimate.symmetric(q - p, half, n=n, n_prompts=n, unit="share difference", method=method, bound=1.0)


def exact_change_test(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Test:
    """Exact two-sided test that a share of hits did not change, on the same rows; prompts are independent, rows are
    not.

    Fisher's randomisation test for pairs (1935): without a change, each prompt's sum of differences is as likely to
    have the other sign, so that Σ ± dᵍ over all choices of signs says how far chance alone gets. If each prompt occurs
    once and rows are 0 or 1, that is the exact McNemar test. p is 1 if nothing changed. DataError: no rows, shapes that
    differ, or rows that are not 0, 0.5 or 1.
    """
    first, second = _checked(before, prompt_ids), _checked(after, prompt_ids)
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
        chances = np.convolve(chances, plus)
    # T and the observed sum are both odd or both even.
    return min(1.0, 2 * float(chances[: (len(chances) - 1 - observed) // 2 + 1].sum()))


def _worth(values: FloatArray, most: float) -> float:
    """Independent answers of 0 or 1 that one row is worth: p(1 − p) over the rows' variance, 1 if they do not vary."""
    p, variance = float(values.mean()), float(values.var())
    return min(float(most), max(1.0, p * (1 - p) / variance)) if variance > ROUNDING else 1.0


def _checked(hits: ArrayLike, prompt_ids: Sequence[str]) -> FloatArray:
    if np.shape(hits) != (len(prompt_ids),):
        raise DataError(f"{np.shape(hits)} values for {len(prompt_ids)} prompts: one each is needed")
    return _shares(hits)


def _shares(hits: ArrayLike) -> FloatArray:
    values = np.asarray(hits, dtype=np.float64)
    if not len(values):
        raise DataError("no rows: a share of nothing cannot be estimated")
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError("a share is estimated from values between 0 and 1")
    return values


ModelTies = Literal["no-hit", "half"]


def hits_of(margins: FloatArray, ties: ModelTies = "no-hit") -> FloatArray:
    """1 for each margin above 0, else 0; a margin of exactly 0 as `ties` has it."""
    return np.where(margins == 0, 0.5 if ties == "half" else 0.0, margins > 0)


def positive_share(margins: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Estimate:
    """Share of margins above 0: the skew of contrasts, the accuracy of quality pairs (score(chosen) − score(rejected))."""
    return wilson_share(hits_of(finite(margins, "margins"), ties), prompt_ids)


def positive_share_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Measure:
    """Change of the share of positive margins between two scorings of the same rows; a margin of 0 is no hit."""
    first, second = finite(before, "margins"), finite(after, "margins")
    ties = int((first == 0).sum()), int((second == 0).sum())
    return share_change(hits_of(first), hits_of(second), prompt_ids, ties)


def share_change(before: FloatArray, after: FloatArray, prompt_ids: Sequence[str], n_ties: tuple[int, int]) -> Measure:
    """Change of a share of hits, each shape (n,), between two scorings of the same rows, with its test over prompts;
    `n_ties`: rows with margin exactly 0, before and after.
    """
    return Measure(
        before=wilson_share(before, prompt_ids),
        after=wilson_share(after, prompt_ids),
        change=paired_change(before, after, prompt_ids),
        unpaired=unpaired_change(before, after),
        test=exact_change_test(before, after, prompt_ids),
        ties=PerScoring[int](before=n_ties[0], after=n_ties[1]),
    )


def preference_table(
    margins: ArrayLike, people: Sequence[Preference | None], prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> PreferenceTable:
    """The model's preferences on contrasts with votes, by people's majority; its margin of exactly 0 is a tie.

    `people`: `tie` for a split too; None without votes, which leaves the contrast out. `ties`: value of a tie of the
    model in `skew_given`. DataError: a margin that is not finite, or no contrast with votes.
    """
    values = finite(margins, "margins")
    rows = {word: np.array([majority == word for majority in people], dtype=bool) for word in get_args(Preference)}
    if not any(keep.any() for keep in rows.values()):
        raise DataError("no contrast has votes: there is nothing to compare the model's preferences with")
    ids, signs = np.asarray(prompt_ids, dtype=str), {"perturbed": 1, "base": -1, "tie": 0}
    return PreferenceTable(
        counts={
            word: {side: int((np.sign(values[keep]) == sign).sum()) for side, sign in signs.items()}
            for word, keep in rows.items()
        },
        skew_given={
            word: positive_share(values[keep], ids[keep].tolist(), ties) for word, keep in rows.items() if keep.any()
        },
    )


def contingency(
    chosen: Sequence[bool | None], rejected: Sequence[bool | None], prompt_ids: Sequence[str]
) -> Contingency:
    """Bias × chosen/rejected table of preference pairs: does either side exhibit the bias; None if the label is
    unparsed. DataError: no labelled pair, or no pair in which exactly one side has the bias.
    """
    parsed = np.array([None not in sides for sides in zip(chosen, rejected, strict=True)], dtype=bool)
    if not parsed.any():
        raise DataError(f"none of {len(chosen)} pairs has a label on both sides: rates cannot be estimated")
    first, second = np.array(chosen, object)[parsed].astype(bool), np.array(rejected, object)[parsed].astype(bool)
    ids, one_side = np.asarray(prompt_ids, dtype=str)[parsed], first != second
    if not one_side.any():
        raise DataError(f"no pair of {len(first)} has the bias on one side only: no choice for or against it was made")
    return Contingency(
        both=int((first & second).sum()),
        only_chosen=int((first & ~second).sum()),
        only_rejected=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
        selection_rate=wilson_share(first[one_side], ids[one_side].tolist()),
        chosen_rate=wilson_share(first, ids.tolist()),
        rejected_rate=wilson_share(second, ids.tolist()),
        exclusions=Exclusions(len(chosen), count_reasons(["unparsed label"] * int((~parsed).sum()))),
    )


def chosen_correlation(feature_differences: ArrayLike, prompt_ids: Sequence[str], rng: np.random.Generator) -> Estimate:
    """r_train: r between a feature's difference, chosen − rejected, and being chosen, each pair taken in both orders.

    Papers swap a random half of the pairs and get a number that moves with the seed; this is its mean over swaps.
    Without a spread between draws, the interval is Fisher's z over the prompts. DataError: no pair differs in it.
    """
    x = np.asarray(feature_differences, dtype=np.float64)
    if x.size and not x.any():
        raise DataError(f"none of {len(x)} pairs differs in the feature: a correlation is undefined")
    columns = np.column_stack([np.ones(len(x)), x, x * x])
    drawn = bootstrap_sums(columns, prompt_ids, _both_orders, rng, "correlation", method="bca")
    # Rounding may leave −1 to 1.
    value, low, high = float(np.clip(drawn.value, -1, 1)), max(-1.0, drawn.low), min(1.0, drawn.high)
    method = drawn.method
    if high - low <= ROUNDING:
        half = Z_95 / np.sqrt(max(drawn.n_prompts - 3, 1))
        # A correlation of 1 has no z; half a prompt against it is the continuity correction.
        inner = float(np.clip(drawn.value, -1 + 0.5 / drawn.n_prompts, 1 - 0.5 / drawn.n_prompts))
        low, high = (float(np.tanh(np.arctanh(inner) + side * half)) for side in (-1, 1))
        method = "Fisher z 95% over prompts"
    bounds = {"low": min(low, value), "high": max(high, value)}
    return drawn.model_copy(update={"value": value, **bounds, "method": method})


def _both_orders(sums: FloatArray) -> FloatArray:
    n, x, xx = sums.T
    return np.asarray(np.divide(x, np.sqrt(n * xx), out=np.full(len(sums), np.nan), where=xx > 0))


def beyond_noise(
    before: ArrayLike,
    after: ArrayLike,
    prompt_ids: Sequence[str],
    quality_before: ArrayLike,
    quality_after: ArrayLike,
    quality_prompt_ids: Sequence[str],
) -> Estimate:
    """Mean margin after − stretch · mean margin before, where stretch = mean quality margin after / before; reward
    units after.

    Ours. A share of positive margins nears one half when rewards become noisier; a mean does not, since noise adds 0 to
    it on average. A training may also stretch all rewards, which multiplies every mean alike; quality pairs (chosen −
    rejected, shape (m,)) say by how much. If rewards were stretched and made noisier, and nothing else, the result is 0
    on average, whatever the shares do. Below 0 the model wants less of the bias than noise and stretching leave of it.
    The error is the first-order one of this ratio, over whole prompts of contrasts and of quality pairs together (in
    the same names), held against Student's t with one degree of freedom less than the fewer prompts of the two.
    DataError: margins that are not finite, lengths that differ, fewer than two prompts of either kind, or a mean
    quality margin before that is not shown to be above 0: without it there is no yardstick.
    """
    own = np.column_stack([finite(before, "margins"), finite(after, "margins")])
    pairs = np.column_stack([finite(quality_before, "margins"), finite(quality_after, "margins")])
    n_prompts = min(len(set(prompt_ids)), len(set(quality_prompt_ids)))
    if n_prompts < 2:
        raise DataError("fewer than two prompts of contrasts or of quality pairs: their spread is unknown")
    (was, now), (scale, new_scale) = own.mean(axis=0), pairs.mean(axis=0)
    t = float(stats.t.ppf(0.975, n_prompts - 1))
    if scale - t * clustered_error((pairs[:, 0] - scale) / len(pairs), quality_prompt_ids) <= 0:
        raise DataError(
            "the model before has no mean margin on quality pairs that is shown to be above 0, the yardstick for stretched rewards"
        )
    stretch = new_scale / scale
    value = float(now - stretch * was)
    of_contrasts = ((own[:, 1] - now) - stretch * (own[:, 0] - was)) / len(own)
    of_pairs = -was / scale * ((pairs[:, 1] - new_scale) - stretch * (pairs[:, 0] - scale)) / len(pairs)
    half = t * clustered_error(np.concatenate([of_contrasts, of_pairs]), [*prompt_ids, *quality_prompt_ids])
    half = max(half, ROUNDING * max(abs(now), abs(stretch * was)))  # traces of rounding are no change
    method = "prompt-clustered t 95%, stretch from quality pairs"
    return Estimate.symmetric(value, half, n=len(own), n_prompts=len(set(prompt_ids)), unit="reward", method=method)
