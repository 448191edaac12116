"""Rewards of single texts: how they are spread over the sides of contrasts and the texts of triples."""

from __future__ import annotations

from cda.results.base import Estimate, Missing, PerScoring, Result


class Distribution(Result):
    """Values in few numbers."""

    mean: Estimate
    """In the unit of the values."""
    quantiles: tuple[float, ...]
    """At 5%, 25%, 50%, 75% and 95%."""
    counts: tuple[int, ...]
    """Values in each bin."""


Kinds = dict[str, Distribution | Missing]
"""Kind of text to the rewards of such texts. Texts without a reward (too long) are left out; n says how many are in."""


class ContrastRewards(Result):
    """Rewards of `base` and `perturbed` sides, all biases on the same bins."""

    edges: tuple[float, ...]
    """Of the bins; empty without any reward."""
    of: dict[str, PerScoring[Kinds]]
    """Bias to scoring to side."""


class TripleRewards(Result):
    """Rewards of the texts of one bias's triples, such as `with, rewrite`: of a rewrite whose original has the attribute."""

    edges: tuple[float, ...]
    """Of the bins; empty without any reward."""
    of: PerScoring[Kinds]
    """Scoring to text."""


class RewardSpread(Result):
    """Distributions of the rewards of single texts, on common bins."""

    contrasts: ContrastRewards
    triples: dict[str, TripleRewards]
    """By bias."""
