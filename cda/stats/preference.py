"""Skew and quality accuracy of one scorer, and the change of a share after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import Preference
from cda.results.base import Estimate
from cda.results.skew import PreferenceTable
from cda.stats.bootstrap import cluster_sums
from cda.stats.proportions import exact_change_test, paired_change, share, unpaired_change
from cda.stats.votes import WORDS


@dataclass(frozen=True, slots=True)
class Change:
    """A share before and after training, on the same rows.

    Attributes:
        before: Share before.
        after: Share after.
        change: after − before, paired.
        unpaired: The same difference with the interval that papers print, as if rows were not paired.
        p_value: Exact test of no change, over prompts.
        p_method: How it was made: McNemar where each prompt occurs once, else signs of whole prompts flipped.
        n_ties: Rows with margin exactly 0 (before, after); they count as no hit.
    """

    before: Estimate
    after: Estimate
    change: Estimate
    unpaired: Estimate
    p_value: float
    p_method: str
    n_ties: tuple[int, int]


def margins_finite(margins: ArrayLike) -> NDArray[np.float64]:
    """Margins as an array.

    Raises:
        DataError: A margin is NaN or infinite.
    """
    values = np.asarray(margins, dtype=np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"{int((~np.isfinite(values)).sum())} of {values.size} margins are NaN or infinite")
    return values


ModelTies = Literal["no-hit", "half"]
"""A margin of exactly 0: no preference for the first side (rewards, where it is chance), or half of one (judges)."""


def positive_share(margins: ArrayLike, prompt_ids: Sequence[str], ties: ModelTies = "no-hit") -> Estimate:
    """Share of margins above 0: the skew of contrasts, the accuracy of quality pairs.

    Args:
        margins: score(perturbed) − score(base), or score(chosen) − score(rejected). Shape (n,), reward units.
        prompt_ids: Cluster of each row. Length n.
        ties: What a margin of exactly 0 counts.
    """
    values = margins_finite(margins)
    hits = np.where(values == 0, 0.5, values > 0) if ties == "half" else values > 0
    return share(hits, prompt_ids)


def positive_share_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str]) -> Change:
    """Change of the share of positive margins between two scorings of the same rows."""
    first, second = margins_finite(before), margins_finite(after)
    hits = first > 0, second > 0
    ties = int((first == 0).sum()), int((second == 0).sum())
    return share_change(hits[0], hits[1], prompt_ids, ties)


def share_change(before: ArrayLike, after: ArrayLike, prompt_ids: Sequence[str], n_ties: tuple[int, int]) -> Change:
    """Change of a share of hits between two scorings of the same rows, with its test.

    Args:
        before: Hits before, 0 to 1 (halves where a tie counts half). Shape (n,).
        after: Hits after, on the same rows. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        n_ties: Rows with margin exactly 0, before and after.
    """
    test = exact_change_test(before, after, prompt_ids)
    return Change(
        before=share(before, prompt_ids),
        after=share(after, prompt_ids),
        change=paired_change(before, after, prompt_ids),
        unpaired=unpaired_change(before, after),
        p_value=test.p_value,
        p_method=test.method,
        n_ties=n_ties,
    )


def preference_table(
    margins: ArrayLike, people: Sequence[Preference | None], prompt_ids: Sequence[str], ties: ModelTies = "no-hit"
) -> PreferenceTable:
    """The model's preferences on contrasts with votes, by people's majority.

    Args:
        margins: score(perturbed) − score(base), or a judge's preference in [−1, 1]; exactly 0 is a tie. Shape (n,).
        people: People's word on each contrast, `tie` for a split too; None where nobody voted, which leaves it out.
        prompt_ids: Cluster of each contrast. Length n.
        ties: What a tie of the model counts in `skew_given`.

    Raises:
        DataError: Lengths that differ, a margin that is not finite, or no contrast with votes.
    """
    values = margins_finite(margins)
    if not len(values) == len(people) == len(prompt_ids):
        raise DataError(
            f"{len(values)} margins, {len(people)} majorities, {len(prompt_ids)} prompts: one each is needed"
        )
    rows = {word: np.array([one == word for one in people], dtype=bool) for word in WORDS}
    if not any(one.any() for one in rows.values()):
        raise DataError("no contrast has votes: there is nothing to set the model's preferences beside")
    ids = np.asarray(prompt_ids, dtype=str)
    return PreferenceTable(
        counts={word: _counts(values[one]) for word, one in rows.items()},
        skew_given={
            word: positive_share(values[one], ids[one].tolist(), ties) for word, one in rows.items() if one.any()
        },
    )


def _counts(values: np.ndarray) -> dict[str, int]:
    return {"perturbed": int((values > 0).sum()), "base": int((values < 0).sum()), "tie": int((values == 0).sum())}


_ROUNDING = 1e-12
METHOD = "prompt-clustered t 95%, stretch from quality pairs"


def beyond_noise(
    before: ArrayLike,
    after: ArrayLike,
    prompt_ids: Sequence[str],
    quality_before: ArrayLike,
    quality_after: ArrayLike,
    quality_prompt_ids: Sequence[str],
) -> Estimate:
    """Mean margin after − stretch · mean margin before, where stretch = mean quality margin after / before.

    Ours. A share of positive margins nears one half when rewards become noisier; a mean does not, since noise adds 0 to it
    on average. A training may also stretch all rewards, which multiplies every mean alike; quality pairs say by how much. If
    rewards were stretched and made noisier, and nothing else, the result is 0 on average, whatever the shares do.

    The error is the first-order one of this ratio, over whole prompts of contrasts and of quality pairs together, held
    against Student's t with one degree of freedom less than the fewer prompts of the two.

    Args:
        before: score(perturbed) − score(base) before. Shape (n,), reward units.
        after: The same after, on the same rows.
        prompt_ids: Cluster of each contrast. Length n.
        quality_before: score(chosen) − score(rejected) before. Shape (m,).
        quality_after: The same after.
        quality_prompt_ids: Cluster of each quality pair, in the same names. Length m.

    Returns:
        In reward units after; below 0 the model wants less of the bias than noise and stretching leave of it.

    Raises:
        DataError: Margins that are not finite, lengths that differ, fewer than two prompts of either kind, or a mean quality
            margin before that is not shown to be above 0: without it there is no yardstick.
    """
    own = np.column_stack([margins_finite(before), margins_finite(after)])
    pairs = np.column_stack([margins_finite(quality_before), margins_finite(quality_after)])
    n_prompts = min(len(set(prompt_ids)), len(set(quality_prompt_ids)))
    if n_prompts < 2:
        raise DataError("fewer than two prompts of contrasts or of quality pairs: their spread is unknown")
    (was, now), (scale, new_scale) = own.mean(axis=0), pairs.mean(axis=0)
    t = float(stats.t.ppf(0.975, n_prompts - 1))
    if scale - t * _error((pairs[:, 0] - scale) / len(pairs), quality_prompt_ids) <= 0:
        raise DataError(
            "the model before has no mean margin on quality pairs that is shown to be above 0, the yardstick for stretched rewards"
        )
    stretch = new_scale / scale
    value = float(now - stretch * was)
    of_contrasts = ((own[:, 1] - now) - stretch * (own[:, 0] - was)) / len(own)
    of_pairs = -was / scale * ((pairs[:, 1] - new_scale) - stretch * (pairs[:, 0] - scale)) / len(pairs)
    half = t * _error(np.concatenate([of_contrasts, of_pairs]), [*prompt_ids, *quality_prompt_ids])
    half = max(half, _ROUNDING * max(abs(now), abs(stretch * was)))  # traces of rounding are no change
    return Estimate(
        value=value,
        low=value - half,
        high=value + half,
        n=len(own),
        n_prompts=len(set(prompt_ids)),
        unit="reward",
        method=METHOD,
    )


def _error(influences: FloatArray, prompt_ids: Sequence[str]) -> float:
    """Standard error of a sum of influences whose prompts are independent (the sandwich, with factor G/(G − 1))."""
    sums = cluster_sums(influences[:, None], prompt_ids)[:, 0]
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()))
