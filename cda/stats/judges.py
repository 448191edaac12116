"""A panel of LLM judges: the agreement of its judges, and the part that each of them has in the disagreement.

`verdicts`: preferences of each judge, −1 to 1, for the perturbed side; 0 a tie, NaN none. Shape (judges, n).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import PanelRule
from cda.results.base import Estimate, Missing, or_missing
from cda.results.skew import LeftOutJudge
from cda.stats.estimators import ROUNDING, paired_change, resampled
from cda.stats.people import panel_margins
from cda.stats.proportions import hits_of, positive_share
from cda.stats.votes import Counts, agreement

_WORDS = 3


def verdict_counts(verdicts: FloatArray) -> Counts:
    """Judges for the perturbed side, for the base, and for neither, of each contrast. Shape (n, 3)."""
    return np.stack([(verdicts > 0).sum(axis=0), (verdicts < 0).sum(axis=0), (verdicts == 0).sum(axis=0)], axis=1)


def left_out(
    verdicts: FloatArray, judge: int, prompt_ids: Sequence[str], rng: np.random.Generator, rule: PanelRule = "mean"
) -> LeftOutJudge:
    """The panel without one of its judges, who are three or more; `rule` makes one preference of theirs."""
    others = np.delete(verdicts, judge, axis=0)

    def skews() -> tuple[FloatArray, FloatArray, list[str]]:
        """Preferences of all and of the others, and the prompts, where the others gave a verdict."""
        (of_all, _), (of_others, _) = panel_margins(verdicts, rule), panel_margins(others, rule)
        read = ~np.isnan(of_others)
        return of_all[read], of_others[read], np.asarray(prompt_ids)[read].tolist()

    def skew() -> Estimate:
        _, of_others, ids = skews()
        return positive_share(of_others, ids, "half")

    def skew_change() -> Estimate:
        of_all, of_others, ids = skews()
        return paired_change(hits_of(of_all, "half"), hits_of(of_others, "half"), ids)

    agreed = or_missing(lambda: agreement(verdict_counts(others), prompt_ids, rng))
    return LeftOutJudge(
        alpha=agreed if isinstance(agreed, Missing) else agreed.alpha,
        alpha_change=or_missing(lambda: alpha_change(verdicts, others, prompt_ids, rng)),
        skew=or_missing(skew),
        skew_change=or_missing(skew_change),
    )


def alpha_change(
    verdicts: FloatArray, others: FloatArray, prompt_ids: Sequence[str], rng: np.random.Generator
) -> Estimate:
    """Krippendorff's nominal alpha of some judges minus that of all, on the contrasts that two of them gave a verdict on.

    Whole prompts are drawn, the same for both. DataError: one verdict throughout (alpha is undefined), one prompt, or no draw
    that differs.
    """
    columns = np.hstack([_coincidences(verdict_counts(judged)) for judged in (verdicts, others)])

    def change(sums: FloatArray) -> FloatArray:
        return _alphas(sums[:, _WORDS + 1 :]) - _alphas(sums[:, : _WORDS + 1])

    if not np.isfinite(change(columns.sum(axis=0, keepdims=True))).all():
        raise DataError("the verdicts of some of the judges are all the same: Krippendorff's alpha is undefined")
    found = resampled(columns, prompt_ids, change, rng, "alpha difference")
    if found.high - found.low <= ROUNDING:
        raise DataError("no draw of the prompts differs, so that there is no interval")
    return found


def _coincidences(counts: Counts) -> FloatArray:
    """For each contrast the weight of its pairs of different verdicts, and its verdicts by word; 0 with fewer than two. Shape
    (n, 4). A pair weighs 1 / (verdicts on the contrast − 1)."""
    totals = counts.sum(axis=1)
    several = np.where(totals > 1, totals, 2)
    used = counts * (totals > 1)[:, None]
    differing = (totals**2 - (counts**2).sum(axis=1)) * (totals > 1) / (several - 1)
    return np.column_stack([differing, used]).astype(np.float64)


def _alphas(sums: FloatArray) -> FloatArray:
    """Alpha from sums of `_coincidences`, (draws, 4); NaN if one word is all there is. Shape (draws,)."""
    differing, words = sums[:, 0], sums[:, 1:]
    total = words.sum(axis=1)
    expected = total**2 - (words**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - differing * (total - 1) / expected, np.nan))
