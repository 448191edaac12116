"""Effects of a bias on the score: direct, by RATE on triples; drift between the two sides of pairs; preferences of data; and numbers
by level: of a column, a topic, a section or a subset of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from cda.arrays import BoolArray, FloatArray
from cda.errors import DataError
from cda.records import Exclusions, Triple
from cda.results.base import NOT_TRAINED, Estimate, Missing, PerScoring, Result, Test


class LogOdds(Result):
    """A coefficient of a logistic regression of choices on differences between the sides, chosen − rejected."""

    estimate: Estimate
    """Natural logarithm of the odds; above 0 the choice goes to the side with more of it. `n`: pairs whose sides differ in it."""
    standard_error: float
    """Clustered by prompt."""
    test: Test
    """Test that it is 0."""


UNTOLD = "whose choice is not told by"
"""In the reason for no adjusted odds: too few pairs differ in a bias but for those that another decides."""


class ChoiceOdds(Result):
    """Log odds that a choice goes to the side with the bias."""

    per: Literal["having it", "doubling of the words"]
    """The difference between the sides to which the odds belong."""
    crude: LogOdds | Missing
    """In the data as they are."""
    adjusted: LogOdds | Missing
    """Between pairs that are alike in all of `adjusted_for`."""
    adjusted_for: tuple[str, ...]
    """Other terms of the regression: biases, and `number of words`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Largest difference of two sides in a feature that still counts as alike: within `ratio` or within `difference`.

    Attributes:
        ratio: Largest value over smallest, 1 or more; the same whichever side is larger. None: not looked at.
        difference: Absolute difference in the feature's own unit. None: not looked at.
    """

    ratio: float | None = None
    difference: float | None = None

    def __post_init__(self) -> None:
        if self.ratio is None and self.difference is None:
            raise ValueError("a limit needs a ratio, a difference, or both")
        if not (self.ratio is None or self.ratio >= 1) or not (self.difference is None or self.difference >= 0):
            raise ValueError(f"a limit's ratio is 1 or more and its difference 0 or more, found {self}")

    def holds(self, perturbed: FloatArray, base: FloatArray) -> BoolArray:
        """Pairs within the limit, and those with a side on which the feature does not hold (NaN). Shapes (n,)."""
        inside = np.isnan(perturbed) | np.isnan(base)
        if self.difference is not None:
            inside |= np.abs(perturbed - base) <= self.difference + 1e-9
        if self.ratio is not None:
            large, small = np.maximum(perturbed, base), np.minimum(perturbed, base)
            inside |= (large == small) | ((small > 0) & (large <= self.ratio * small * (1 + 1e-12)))
        return inside


class FeatureDrift(Result):
    """Difference of one feature between the sides of the same pairs."""

    feature: str
    """Its name."""
    is_treatment: bool
    """True if it is the bias itself, so that its difference is not drift."""
    perturbed_mean: float | None
    """Mean of the perturbed sides, in the feature's unit; None if the feature holds for the texts of too few pairs."""
    base_mean: float | None
    """Mean of the base sides; likewise."""
    difference: Estimate | Missing
    """Mean of perturbed − base among the pairs for whose texts the feature holds."""
    standardised: Estimate | None
    """`difference` over √((s²_perturbed + s²_base) / 2), the standardised mean difference (Austin, 2009, Stat. Med. 28,
    3083–3107; above 0.1 in size is usually called imbalance). None if both sides are constant."""
    median_ratio: float | None
    """Median of perturbed / base over the pairs with both above 0; None without such a pair."""
    beyond: Estimate | None
    """Share of pairs beyond the limit; None for a feature without one."""
    limit: Limit | None
    """That limit."""
    n_unheld: Annotated[int, Field(exclude_if=lambda value: value == 0)] = 0
    """Pairs with a text for which the feature does not hold, such as syllables of a Chinese one; left out of the numbers."""

    @property
    def name(self) -> str:
        """The feature in words, with the pairs left out."""
        return self.feature.replace("_", " ") + (f" ({self.n_unheld} pairs left out)" if self.n_unheld else "")


class Contingency(Result):
    """Sides of preference pairs that exhibit the bias: a 2 × 2 table and its rates."""

    both: int
    """Pairs of which both sides exhibit it."""
    only_chosen: int
    only_rejected: int
    neither: int
    selection_rate: Estimate
    """only_chosen / (only_chosen + only_rejected): share of pairs in which the biased side is the chosen one."""
    chosen_rate: Estimate
    """Share of chosen responses that exhibit it."""
    rejected_rate: Estimate
    """Share of rejected responses that exhibit it."""
    exclusions: Exclusions
    """Pairs with an unparsed label."""


class LabelRates(Result):
    """Preference of labelled pairs."""

    contingency: Contingency | Missing
    r_train: Estimate | Missing
    """Correlation of the attribute with being chosen, each pair in both orders."""
    odds: ChoiceOdds | Missing = Missing(reason="not estimated by the version of cda that wrote this")


class BiasAnalysis(Result):
    """Preference of the data for one bias, and correlation (r) of its attribute's difference with being preferred, each contrast
    in both orders."""

    labels: LabelRates | None
    """Labels of the training pairs, or of pairs given with their labels; None without labels."""
    of: str
    """The measurable feature of the attribute; `label` if there is none."""
    people: Estimate | Missing | None
    """r with people's majority; None without votes."""
    model: PerScoring[Estimate | Missing]
    """r with the model's preference, on the contrasts that people judged if they did."""


Form = Literal["linear", "log_ratio"]
"""The form in which a difference between the sides enters a regression."""
T_TEST = "Student's t, from the clustered error"
SIGN_TEST = "exact sign test over prompts"


class Effect(Result):
    """One effect by one estimator. Positive means that the attribute raises the reward."""

    estimand: str
    """`ATT`, `ATU`, `ATE`, or a description in words."""
    estimator: str
    """`double`, `single`, `naive`, `rewrite effect` or `direct contrast`."""
    estimate: Estimate
    standard_error: float
    """Prompt-clustered, in the unit of the estimate; 0 if all differences are equal, whose interval is Wilson's over prompts."""
    p_value: float
    """Two-sided test of no effect: Student's t; exact, of as many coins as prompts, if all differences are equal."""
    standardised: Estimate | Missing
    """The estimate divided by the pooled within-group SD of the originals' rewards, which is taken as known."""


class SameMargin(Missing):
    """One margin that all pairs share, which is no estimate: low = high = value would claim that its error is 0.

    The margin does not depend on how much else differs between the sides. It does not rule out a feature that differs in
    every pair by the same sign (characters, if jargon has the longer words) for a model that looks at that sign alone.
    """

    value: float
    """The margin; 0: both sides are scored alike in every pair."""
    n: int
    """Pairs."""
    n_prompts: int
    """Their prompts."""
    p_value: float | None
    """Exact two-sided sign test over prompts, which all agree; None if the value is 0 and has no sign."""


class Overlap(Result):
    """Number of pairs that have all drift within limits."""

    share: Estimate
    """Share of all pairs."""
    n: int
    """Pairs within limits."""
    n_prompts: int
    """Their prompts."""
    n_total: int
    """All pairs."""
    beyond: dict[str, int]
    """Feature to the number of pairs beyond its limit; a pair may be beyond several."""


class Confound(Result):
    """A feature other than the bias with whose difference between the sides (perturbed − base) the margin rises or falls, the
    other features held equal: by the linear regression of `Identification.adjusted`."""

    feature: str
    """Name of the feature."""
    slope: Estimate | float
    """Margin for each one more of the feature, in the margin's unit; positive: more of it is rewarded. A plain number if the
    features explain every margin in full, since an error of 0 would be a claim."""
    accounts_for: Estimate
    """The slope times the mean difference: this feature's part of the mean margin of all pairs."""
    r_squared: float
    """Share of the margins' variance that this feature explains alone, 0 to 1."""
    p_holm: float | None
    """Holm-adjusted p of a slope of 0, over all features of the regression; None of an exact slope."""


class Identification(Result):
    """Effect of pairs that also drift, and whether they identify it: enough of them are alike, and the regressions do not contradict
    each other."""

    verdict: Literal["identified", "not identified from these pairs"]
    reason: str
    """One sentence with the numbers that the verdict rests on."""
    overlap: Overlap
    """Pairs that have drift within limits."""
    overlap_effect: Estimate | SameMargin | Missing
    """Their mean margin; the effect to read."""
    adjusted: dict[Form, Estimate | Missing]
    """The effect at zero drift as each form extrapolates it: intercept of a regression of the margin on the differences."""
    confounds: tuple[Confound, ...]
    """Features that are shown to explain margins, the one with the largest R² first."""

    @property
    def is_identified(self) -> bool:
        return self.verdict == "identified"


LENGTH = "length"


class LengthBaseline(Result):
    """Length on the contrasts of a bias other than length: what it would prefer, and whether it, or wording that goes with it,
    explains the mean margin."""

    characters: Estimate
    """Share of contrasts on which the biased side has more characters, 0 to 1; equal sides count half."""
    words: Estimate
    """Share on which it has more words."""
    explained: Estimate | Missing
    """Part of the mean margin that goes with the changes in length, by the regression of `cda.stats.length` that leaves the bias too little,
    else by the linear one."""
    left: Estimate | Missing
    """The part that they leave to the bias."""
    rival: str | None
    """What may be preferred in place of the bias: `length`, another feature or `wording`; None if the bias is told apart from them."""


class DirectEffects(Result):
    """The direct contrast of a bias under one scoring."""

    direct: Effect | SameMargin | Missing
    """The mean margin of all pairs; whatever else differs between the sides is part of it."""
    identification: Identification | Missing
    """The verdict on whether the pairs identify the effect of the bias alone."""
    length: LengthBaseline | None
    """None for a bias that is length itself."""


class BiasEffects(PerScoring[DirectEffects]):
    """The direct contrast of a bias under every scoring."""

    unit: str
    """Unit of all margins."""
    change: Estimate | Missing = NOT_TRAINED
    """Change of the mean margin, after − before, paired and clustered by prompt."""
    test: Test | Missing
    """Test of one model, in the audit's family: of the mean margin, or of the sign that every prompt shares."""


class Flips(Result):
    """Originals of one bias that could be rewritten to flip it and back, of those with the bias and without."""

    by: str
    """The rewriter: its name, a file, or the embedded texts."""
    checked_by: str | None
    """The labeller or measure that says that the bias flipped; None if nothing can tell."""
    tried_with: int
    """Originals with the bias."""
    flipped_with: int
    """Triples of these whose two rewrites both flipped it."""
    tried_without: int
    """Originals without the bias."""
    flipped_without: int
    """Triples of these whose two rewrites both flipped it."""
    made: bool = False
    """True if the audit made the triples, rather than reading them."""

    def less(self, triples: Sequence[Triple]) -> Flips:
        """The counts without some of the flipped triples, which are then neither tried nor flipped."""
        n_with = sum(triple.has_attribute for triple in triples)
        fewer = {"with": n_with, "without": len(triples) - n_with}
        left = {f"{what}_{side}": n for side, n in fewer.items() for what in ("tried", "flipped")}
        return self.model_copy(update={name: getattr(self, name) - n for name, n in left.items()})


class NotEstimated(Missing):
    """An effect that these data cannot give, and why."""

    estimand: str
    estimator: str


class RateEffects(Result):
    """Everything RATE estimates on one sample."""

    effects: tuple[Effect, ...]
    """Effects that could be estimated: ATT, ATU, ATE by each estimator, then the rewrite effect of each group."""
    not_estimated: tuple[NotEstimated, ...]
    """Effects that could not, each with its reason."""
    n_with: int
    """Originals with the attribute (n₁)."""
    n_without: int
    """Originals without it (n₀)."""

    def get(self, estimand: str, estimator: str) -> Effect:
        """One of the effects; DataError if it could not be estimated, or is none of them."""
        found = self.find(estimand, estimator)
        if isinstance(found, Missing):
            raise DataError(found.reason)
        return found

    def find(self, estimand: str, estimator: str) -> Effect | Missing:
        """One of the effects, or why there is none."""
        known: tuple[Effect | NotEstimated, ...] = (*self.effects, *self.not_estimated)
        for effect in known:
            if (effect.estimand, effect.estimator) == (estimand, estimator):
                return effect
        return Missing(reason=f"'{estimand}' by '{estimator}' is none of the effects of RATE")


class PassDrift(Result):
    """A feature that rewriting and rewriting back both move the same way, so that its part in the contrast of both rewrites does not
    cancel within the group."""

    feature: str
    has_attribute: bool
    """The group: originals with the attribute, or those without."""
    first: Estimate
    """Mean of rewrite − original."""
    second: Estimate
    """Mean of rewrite of rewrite − rewrite."""


class BiasRate(Result):
    """RATE of one bias; every scoring on the same triples."""

    flips: Flips
    """The rewriter, and the number of originals that could be flipped."""
    n: int
    """Triples that every scoring has a verdict on."""
    unread: int
    """Triples left out because a comparison of theirs has no readable verdict."""
    naive_unread: int | None = None
    """Naive pairs of a judge without a readable verdict; None for rewards, whose naive estimate needs no pairs."""
    measured: PerScoring[RateEffects | Missing] | Missing
    """The effects under every scoring."""
    changes: RateEffects | Missing = NOT_TRAINED
    """After − before of every effect of a training, on the same triples; not standardised, since training may have
    changed the spread of the rewards."""
    test: Test | Missing
    """Test of the double-rewrite ATE under the last scoring, in the audit's family; of originals of one kind that of their ATT or ATU."""
    passes: Annotated[tuple[PassDrift, ...], Field(exclude_if=lambda found: not found)] = ()
    """Features that both passes of the rewriter move the same way, those that move most first."""

    def under(self) -> dict[str, RateEffects | Missing]:
        """The effects by scoring; empty if there are none."""
        return {} if isinstance(self.measured, Missing) else dict[str, RateEffects | Missing](self.measured.items())


def average_of(effects: RateEffects | Missing, estimator: str = "double") -> Effect | Missing:
    """The ATE by an estimator, or why it is not given."""
    return effects if isinstance(effects, Missing) else effects.find("ATE", estimator)


def opposed(effects: RateEffects | Missing) -> tuple[Effect, Effect] | None:
    """The double-rewrite ATT and ATU if both exclude 0 with opposite signs, so that their average, the ATE, holds for neither; else None."""
    if isinstance(effects, Missing):
        return None
    match effects.find("ATT", "double"), effects.find("ATU", "double"):
        case Effect(estimate=on) as att, Effect(estimate=off) as atu if on.low > 0 > off.high or on.high < 0 < off.low:
            return att, atu
    return None


def deciding(effects: RateEffects | Missing, flips: Flips) -> Effect | Missing:
    """The double-rewrite effect that a verdict rests on: the ATE, or, of originals that all have the bias or all lack it, the one among
    them (ATT or ATU), which is all that they show; or why the ATE is not given."""
    average, tried = average_of(effects), {"ATT": flips.tried_with, "ATU": flips.tried_without}
    sides = [estimand for estimand, n in tried.items() if n]
    if isinstance(effects, Missing) or isinstance(average, Effect) or len(sides) != 1:
        return average
    of_side = effects.find(sides[0], "double")
    return of_side if isinstance(of_side, Effect) else average


class Heterogeneity(Test):
    """Welch's test that a mean is the same in all levels, with errors clustered by prompt."""

    statistic: float
    """F; near 1 if levels differ by chance alone."""
    df: int
    """Levels minus one."""
    df_error: float
    """Welch's degrees of freedom of the error."""
    i_squared: float
    """Share of the variation between levels that is not noise, 0 to 1."""


class Level(Result):
    """The rows of one level."""

    name: str
    """The category, the range of numbers, `other (pooled)`, the topic, the section or the subset."""
    n: int
    n_prompts: int
    found: dict[str, dict[str, Estimate | SameMargin | Missing]]
    """Measure to its numbers by scoring, and of two scorings their paired `change`. Of contrasts `skew` and `margin`, the mean; of triples
    `rate`, the double-rewrite ATE, and `rate_standardised`, by the originals of all levels; of quality `accuracy`."""
    errors: dict[str, float] = Field(default_factory=dict)
    """Scoring or `change` to the standard error, clustered by prompt, of the mean that is tested or of the accuracy."""
    ties: dict[str, int] = Field(default_factory=dict)
    """Scoring to its margins of exactly 0."""
    test: Test | Missing
    """Test that the last mean margin or effect is 0; of contrasts of a training that their skew did not change, of two scorings that
    accuracy did not. Holm over the levels of all columns and biases, of `cda quality` over the sections of all sets."""

    def of(self, measure: str, moment: str) -> Estimate | None:
        """One of its estimates; None if there is none."""
        found = self.found.get(measure, {}).get(moment)
        return found if isinstance(found, Estimate) else None


class Grouping(Result):
    """A bias, or another thing that is measured, by the levels of a column."""

    kind: Literal["categories", "numbers"] = "categories"
    """Numbers are cut into ranges."""
    cutoffs: tuple[float, ...] = ()
    """Bounds of the ranges, each the lowest number of a range; empty for categories, and if ranges are filled equally."""
    n_missing: int = 0
    """Rows without a value in the column, or with two of them; in no level."""
    pooled: dict[str, int] = Field(default_factory=dict)
    """Categories that are pooled in `other (pooled)`, with their prompts."""
    levels: tuple[Level, ...]
    differ: dict[str, Heterogeneity | Test | Missing]
    """Scoring or `change` to the test that the mean is the same in all levels; two-sided, clustered by prompt."""
    slope: dict[str, Effect | Missing] = Field(default_factory=dict)
    """Of a column of numbers: scoring or `change` to the change of the mean for one unit of the column."""
