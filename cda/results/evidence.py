"""Evidence for a candidate attribute: quality of its rewrites, its strength, and verdicts on held-out prompts."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import model_validator

from cda.errors import DataError
from cda.results.base import Estimate, Missing, Result, Saved
from cda.results.effects import FeatureDrift


class Fidelity(Result):
    """Labels of the sides by a labeller who does not know the rewriting, to check the sides."""

    n: int
    """Pairs."""
    present: Estimate | None
    """Share of the sides with the attribute that are labelled so; None if no label could be read."""
    absent: Estimate | None
    """Share of the sides without it that are labelled without; None likewise."""
    both: Estimate | None
    """Share of the pairs in which both are right, among those with two labels; None likewise."""
    n_unparsed_with: int
    """Sides with the attribute whose label could not be read."""
    n_unparsed_without: int
    """Sides without it whose label could not be read."""


class RewriterAgreement(Result):
    """Margins of two rewriters on the responses that both rewrote, averaged within each prompt."""

    first: str
    """Name of a rewriter."""
    second: str
    """Name of another."""
    n_prompts: int
    """Prompts that they share."""
    n_responses: int
    """Responses that both rewrote in the same direction."""
    pearson: Estimate | Missing
    """Correlation of the margins over prompts."""


class PairQuality(Result):
    """All that is known of one candidate's pairs."""

    candidate: str
    """Its `id`."""
    n: int
    """Pairs."""
    n_prompts: int
    """Prompts behind them."""
    labelled_by: Literal["measure", "llm"] | None
    """Source of the sides' labels: the attribute's own measure, or an LLM; None without labels."""
    fidelity: Fidelity | None
    """Fidelity of all pairs; None without labels."""
    fidelity_by_rewriter: dict[str, Fidelity]
    """Fidelity of each rewriter's pairs."""
    agreement: tuple[RewriterAgreement, ...]
    """Agreement of every two rewriters."""
    drift: tuple[FeatureDrift, ...] | Missing
    """Other differences between the sides, the attribute's own features marked."""


class PairQualities(Saved):
    """Quality of the rewrites behind tested attributes."""

    schema_version: Literal[3] = 3
    candidates: dict[str, PairQuality]
    """By candidate `id`, of those that are confirmed or were given."""


Correction = Literal["bonferroni", "holm", "bh", "none"]


class TrimmedMean(Result):
    """A mean over the rows inside the fences; it describes the bulk of the rows and does not estimate their mean."""

    estimate: Estimate
    """Mean of the rows that are left. Its interval takes the fences as given, so it is too narrow."""
    raw: float
    """Mean of all rows, same unit."""
    n_trimmed: int
    """Rows outside the fences."""

    @property
    def sign_changes(self) -> bool:
        """True if the mean has another sign than that of all rows."""
        return bool(np.sign(self.estimate.value) != np.sign(self.raw))


class Strength(Result):
    """Reward of an attribute by the model, and preference of the judge for it."""

    reward: Estimate
    """Mean margin, reward units, with a prompt-clustered t interval."""
    p_reward: float
    """One-sided, against a mean margin of 0 or below."""
    standard_error: float
    """Standard error of the mean margin, clustered by prompt."""
    judge: Estimate
    """Mean preference for the side with the attribute, 0 to 1, ties as halves; Wilson's interval on the effective number of
    verdicts."""
    p_judge: float
    """One-sided, against a mean preference of 0.5 or above."""
    n_unjudged: int
    """Rows without a verdict; they count for the reward alone."""
    win_rate: Estimate
    """Share of margins above 0; Wilson's interval on the effective number of rows."""
    trimmed: TrimmedMean | None
    """Mean of the margins inside Tukey's fences; None if those come from one prompt."""

    @property
    def p_value(self) -> float:
        """p of both, liked by the model and disliked by the judge: the larger one (intersection-union test)."""
        return max(self.p_reward, self.p_judge)


class ByRewriter(Result):
    """One rewriter's share of the evidence for a candidate."""

    rewriter: str
    n: int
    """Rewrites that were measured."""
    failed: dict[str, int]
    """Rewrites that are missing, by reason."""
    excluded: str | None
    """Why it does not count for this candidate; None if it does."""
    strength: Strength | None
    """This rewriter's own results, if it has enough rewrites; given for an excluded rewriter, too."""

    @property
    def asked(self) -> int:
        """Rewrites that were measured or are missing."""
        return self.n + sum(self.failed.values())


class HeldOut(Result):
    """Evidence of one set of prompts for a candidate."""

    candidate: str
    """Its `id`."""
    rewriters: tuple[ByRewriter, ...]
    """Numbers by rewriter, excluded ones among them."""
    pooled: Strength | None
    """Over all rows of the rewriters that count; None if there is too little data."""
    n_entered: int
    """Candidates that entered, for which the p-values are adjusted."""
    untested: str | None
    """Why it could not be tested; such a candidate neither passes nor is confirmed."""
    smallest_detectable: float | None
    """The mean margin that would have been found with the wanted power, at the adjusted level, if only the reward were in question,
    given these prompts and their spread, reward units; None if untested or without spread. On validation prompts pooled over
    rewriters; on test prompts alike for all rewriters that count, taken as independent, and where the correction is Holm's, at its
    first and strictest step."""
    warnings: tuple[str, ...]
    """For a person to read."""


class Validation(HeldOut):
    """Evidence of the validation prompts for a candidate."""

    p_reward: float | None
    """Adjusted (Bonferroni), one-sided: the mean margin is not above 0. None if `untested`."""
    p_judge: float | None
    """Adjusted (Bonferroni), one-sided: the mean preference of the judge is not below 0.5. None if `untested`."""
    passed: bool
    """Both are below the level. That both hold is tested by the larger p-value, which needs no correction."""

    def rewarded(self, alpha: float) -> bool:
        """True if the model is shown to reward it, whether the judge objects or not."""
        return self.p_reward is not None and self.p_reward < alpha


class Confirmation(HeldOut):
    """Evidence of the test prompts for a candidate."""

    r: int
    """Rewriters that have to show the effect."""
    k: int
    """Rewriters that count."""
    p_value: float | None
    """p of "fewer than r of the k rewriters show it" (partial conjunction); None if `untested`."""
    correct: Correction
    """Method that corrects for all that entered the test."""
    p_corrected: float | None
    """`p_value` corrected, untested ones as p = 1; None if `untested`."""
    confirmed: bool
    """`p_corrected` is below the level."""


class ConfirmSettings(Result):
    """Strictness of the confirmation."""

    validation_alpha: float = 0.05
    """For adjusted p-values on the validation prompts."""
    test_alpha: float = 0.01
    """For the corrected p-value of the partial conjunction on the test prompts."""
    correct: Correction = "bonferroni"
    """Method that corrects it for all candidates that entered the test; `bh` is Benjamini and Hochberg's, of the false discovery
    rate; `none` tests each by itself."""
    r: int = 2
    """Number of rewriters with which an effect must show. A candidate with fewer usable ones is not tested."""
    max_failed: float = 0.5
    """Share of its calls that a rewriter may fail, and share of its rewrites that may lack a verdict of the judge; with more than
    this of either it is excluded for a candidate."""
    power: float = 0.8
    """At which the smallest mean margin that would have been found is stated."""

    @model_validator(mode="after")
    def _in_range(self) -> ConfirmSettings:
        for name in ("validation_alpha", "test_alpha", "power"):
            if not 0 < (value := getattr(self, name)) < 1:
                raise DataError(f"{name} is {value}: it lies between 0 and 1, both excluded")
        if not 0 <= self.max_failed <= 1:
            raise DataError(f"max_failed is {self.max_failed}: a share between 0 and 1 is needed")
        if self.r < 1:
            raise DataError(f"r is {self.r}: at least one rewriter has to show the effect")
        return self


class Verdicts(Result):
    """Counts of verdicts on comparisons, an LLM's or those of a function of the user's own."""

    asked: int
    """Distinct comparisons, each asked for in both orders."""
    unread: int
    """Comparisons readable in neither order."""
    reasons: dict[str, int]
    """Why single answers hold no verdict, with their counts."""
    half_read: int
    """Comparisons readable in one order alone; they give no preference either."""
    flipped: int
    """Comparisons whose verdict follows the place and not the text."""
    position_bias: float | None
    """Mean preference for the text shown first, −1 to 1; None if nothing was read in both orders."""


class HeldOutResult(Saved):
    """Counts of one set of held-out prompts, next to the results."""

    schema_version: Literal[3] = 3
    failed: dict[str, dict[str, dict[str, int]]]
    """By candidate `id` and rewriter, counts of missing rewrites by reason."""
    already: dict[str, dict[str, int]]
    """By candidate `id`, rewriter to the responses that were as they should become, so that they were not rewritten."""
    n_prompts: int
    """Prompts whose responses were to be rewritten."""
    verdicts: Verdicts | None
    """Counts of verdicts; None if the judge gives rewards."""
    cut_for_judge: int
    """Comparisons that the judge gave no preference on, because a side was cut at its maximum length."""


class ValidationResult(HeldOutResult):
    """Evidence of the validation prompts for the finalists of a search."""

    results: tuple[Validation, ...]


class ConfirmationResult(HeldOutResult):
    """Evidence of the test prompts."""

    results: tuple[Confirmation, ...]
