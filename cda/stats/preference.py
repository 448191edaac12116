"""Shares of preferences: skew and quality accuracy of one scorer, their change after training, and labels against choices.

`ties`: a margin of exactly 0 is no preference for the first side (`no-hit`: rewards, whose ties are chance), or half of one
(`half`: judges).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cda.arrays import FloatArray, finite
from cda.errors import DataError
from cda.records import Exclusions, Preference, count_reasons
from cda.results.base import Estimate, Measure, PerScoring
from cda.results.effects import Contingency
from cda.results.skew import PreferenceTable
from cda.stats.bootstrap import ROUNDING, bootstrap_sums, clustered_error
from cda.stats.proportions import Z_95, exact_change_test, paired_change, unpaired_change, wilson_share
from cda.stats.votes import WORDS

ModelTies = Literal["no-hit", "half"]


def margins_finite(margins: ArrayLike) -> FloatArray:
    """Margins as an array; DataError if one is NaN or infinite."""
    return finite(margins, "margins")


def hits_of(margins: FloatArray, ties: ModelTies = "no-hit") -> FloatArray:
    """1 for each margin above 0, else 0; a margin of exactly 0 as `ties` has it."""
    return np.where(margins == 0, 0.5 if ties == "half" else 0.0, margins > 0)


def positive_share(margins: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Estimate:
    """Share of margins above 0: the skew of contrasts, the accuracy of quality pairs (score(chosen) − score(rejected))."""
    return wilson_share(hits_of(margins_finite(margins), ties), prompt_ids)


def positive_share_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Measure:
    """Change of the share of positive margins between two scorings of the same rows; a margin of 0 is no hit."""
    first, second = margins_finite(before), margins_finite(after)
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
    values = margins_finite(margins)
    rows = {word: np.array([majority == word for majority in people], dtype=bool) for word in WORDS}
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
    drawn = bootstrap_sums(columns, prompt_ids, _both_orders, rng, method="bca").estimate("correlation")
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
    own = np.column_stack([margins_finite(before), margins_finite(after)])
    pairs = np.column_stack([margins_finite(quality_before), margins_finite(quality_after)])
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
