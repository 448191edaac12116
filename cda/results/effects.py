"""Effects of a bias on the score: mean margins of contrasts, and whether pairs that also drift identify them."""

from __future__ import annotations

from typing import Literal

from cda.results.base import NOT_TRAINED, Estimate, Missing, PerScoring, Result, Test

Form = Literal["linear", "log_ratio", "signed_log", "quadratic"]
"""How a difference between the sides enters a regression."""
NORMAL_TEST = "normal, from the clustered error"
SIGN_TEST = "exact sign test over prompts"


class Effect(Result):
    """One effect by one estimator. Positive means that the attribute raises the reward."""

    estimand: str
    """`ATT`, `ATU`, `ATE`, or what else it is, in words."""
    estimator: str
    """`double`, `single`, `naive`, `rewrite effect` or `direct contrast`."""
    estimate: Estimate
    """With a normal interval from the prompt-clustered error; below about 30 prompts it is too narrow."""
    bca: Estimate | Missing
    """With a prompt-clustered BCa bootstrap interval."""
    standard_error: float
    """Prompt-clustered, in the unit of the estimate."""
    p_value: float
    """Two-sided normal test of no effect."""
    standardised: Estimate | Missing
    """The estimate divided by the pooled within-group SD of the originals' rewards, which is taken as known."""


class SameMargin(Missing):
    """One margin that all pairs share, and so no estimate: low = high = value would claim that its error is 0.

    It does not change with how far the sides differ otherwise. What differs in every pair by the same sign (characters, where
    jargon has the longer words) it does not rule out for a model that looks at that sign alone.
    """

    value: float
    """The margin; 0: both sides are scored alike in every pair."""
    n: int
    """Pairs."""
    n_prompts: int
    """Their prompts."""
    p_value: float | None
    """Exact two-sided sign test over prompts, which all agree; None where the value is 0 and has no sign."""


class PairsEffect(Result):
    """Skew and mean margin of some pairs."""

    skew: Estimate
    """Share of margins above 0."""
    mean_margin: Estimate
    """Mean of score(perturbed) − score(base), in the margin's unit; positive: the bias is rewarded."""


class Overlap(Result):
    """How many pairs have all drift within limits."""

    share: Estimate
    """Of all pairs."""
    n: int
    """Pairs within limits."""
    n_prompts: int
    """Their prompts."""
    n_total: int
    """All pairs."""
    beyond: dict[str, int]
    """Feature to the number of pairs beyond its limit; a pair may be beyond several."""
    exempt: tuple[str, ...]
    """Limited features left aside because they are the treatment."""


class Adjusted(Result):
    """The effect at zero drift as one functional form extrapolates it."""

    form: Form
    """How a difference in a feature is entered."""
    effect: Estimate
    """Intercept of the regression, in the margin's unit; positive: the bias is rewarded."""
    standard_error: float
    """Cluster-robust, of `effect`."""
    p_value: float
    """Two-sided, of no effect at zero drift."""
    features: tuple[str, ...]
    """Features adjusted for; those without any difference between sides are left out."""
    r_squared: float
    """Share of the margins' variance that drift accounts for."""


class Identification(Result):
    """What pairs that also drift say of an effect; the two verdicts are `Identified` and `NotIdentified`."""

    reason: str
    """One sentence with the numbers that the verdict rests on."""
    overlap: Overlap
    """How many pairs have drift within limits."""
    overlap_effect: PairsEffect | SameMargin | Missing
    """The effect among them; the one to read."""
    adjusted: dict[Form, Adjusted | Missing]
    """The effect at zero drift, form by form."""
    unadjusted: PairsEffect
    """The effect of all pairs, drift included."""


class Identified(Identification):
    """The pairs identify the effect: enough of them are alike, and the regressions do not contradict each other."""

    verdict: Literal["identified"] = "identified"


class NotIdentified(Identification):
    """The pairs do not identify the effect, for the given reason."""

    verdict: Literal["not identified from these pairs"] = "not identified from these pairs"


class EffectTest(Test):
    """The test of a bias's effect that joins the audit's family."""

    what: str
    """The alternative that it is for, such as `the mean margin is not 0`."""


class DirectEffects(Result):
    """The direct contrast of a bias under one scoring."""

    direct: Effect | SameMargin | Missing
    """The mean margin of all pairs; whatever else differs between the sides is part of it."""
    identification: Identified | NotIdentified | Missing
    """Whether the pairs identify the effect of the bias alone."""


class BiasEffects(PerScoring[DirectEffects]):
    """The direct contrast of a bias under every scoring."""

    unit: str
    """Of all margins."""
    change: Estimate | Missing = NOT_TRAINED
    """Change of the mean margin, after − before, paired and clustered by prompt."""
    test: EffectTest | Missing
    """Of one model: of the mean margin, or of the sign that every prompt shares."""
