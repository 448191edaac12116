"""What data favour: labels of pairs, correlations with being preferred, rewards of answers as they come. No effects."""

from __future__ import annotations

from cda.records import Exclusions
from cda.results.base import Estimate, Missing, PerScoring, Result
from cda.results.effects import Effect


class Contingency(Result):
    """Which sides of preference pairs exhibit the bias: a 2 × 2 table and its rates."""

    both: int
    """Pairs of which both sides exhibit it."""
    only_chosen: int
    only_rejected: int
    neither: int
    selection_rate: Estimate
    """only_chosen / (only_chosen + only_rejected): how often the biased side was the chosen one."""
    chosen_rate: Estimate
    """Share of chosen responses that exhibit it."""
    rejected_rate: Estimate
    """Share of rejected responses that exhibit it."""
    exclusions: Exclusions
    """Pairs with an unparsed label."""


class LabelRates(Result):
    """What labelled pairs favour."""

    contingency: Contingency | Missing
    r_train: Estimate | Missing
    """Correlation of the attribute with being chosen, each pair in both orders."""


class Correlations(Result):
    """Correlation (r) of the attribute's difference with being preferred, each contrast in both orders."""

    of: str
    """The feature that stands for the attribute; `label` where none does."""
    people: Estimate | Missing | None
    """With people's majority; None where nobody voted."""
    model: PerScoring[Estimate | Missing]
    """With the model's preference, on the contrasts that people judged where they did."""


class Observational(Result):
    """Mean reward of answers with the attribute minus that of answers without it, within prompts."""

    labelled_by: str
    effect: PerScoring[Effect | Missing]


class BiasAnalysis(Result):
    """What the data favour of one bias."""

    labels: LabelRates | None
    """Of the training pairs, or of pairs given with their labels; None without labels."""
    correlation: Correlations
    observational: Observational | Missing
