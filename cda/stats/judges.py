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
from cda.stats.votes import N_SUMS, Counts, agreement, alphas, coincidences


def verdict_counts(verdicts: FloatArray) -> Counts:
    """Judges for the perturbed side, for the base, and for neither, of each contrast. Shape (n, 3)."""
    return np.stack([(verdicts > 0).sum(axis=0), (verdicts < 0).sum(axis=0), (verdicts == 0).sum(axis=0)], axis=1)


def left_out(verdicts: FloatArray, judge: int, prompt_ids: Sequence[str], rule: PanelRule = "mean") -> LeftOutJudge:
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

    agreed = or_missing(lambda: agreement(verdict_counts(others), prompt_ids))
    return LeftOutJudge(
        alpha=agreed if isinstance(agreed, Missing) else agreed.alpha,
        alpha_change=or_missing(lambda: alpha_change(verdicts, others, prompt_ids)),
        skew=or_missing(skew),
        skew_change=or_missing(skew_change),
    )


def alpha_change(verdicts: FloatArray, others: FloatArray, prompt_ids: Sequence[str]) -> Estimate:
    """Krippendorff's nominal alpha of some judges minus that of all, on the contrasts that two of them gave a verdict on.

    Whole prompts are drawn, the same for both. DataError: one verdict throughout (alpha is undefined), one prompt, or no draw
    that differs.
    """
    columns = np.hstack([coincidences(verdict_counts(judged)) for judged in (verdicts, others)])

    def change(sums: FloatArray) -> FloatArray:
        return alphas(sums[:, N_SUMS:]) - alphas(sums[:, :N_SUMS])

    if not np.isfinite(change(columns.sum(axis=0, keepdims=True))).all():
        raise DataError("the verdicts of some of the judges are all the same: Krippendorff's alpha is undefined")
    found = resampled(columns, prompt_ids, change, "alpha difference")
    if found.high - found.low <= ROUNDING:
        raise DataError("no draw of the prompts differs, so that there is no interval")
    return found
