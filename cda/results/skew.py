"""How often a model prefers the side with a bias, and the right side of held-out pairs."""

from __future__ import annotations

from pydantic import Field

from cda.results.base import Estimate, Measure, Missing, PerScoring, Result
from cda.results.benchmarks import SetQuality
from cda.results.people import VotesMoved


class BiasSkew(Measure):
    """Skew of one bias: share of its contrasts on which the margin is above 0."""

    target: bool
    """It is one of the recipe's, and not only measured to see what else moves."""
    source: str
    """Where the contrasts are from: `embedded`, `file`, the paper's release, or who rewrote them."""
    available: int
    """Contrasts before a sample was drawn."""
    unread: int
    """Contrasts without a margin, such as those on which a judge gave no readable verdict."""
    rewrites_failed: dict[str, int]
    """Reason to count, where the contrasts were made for this audit."""
    by_direction: dict[str, Measure]
    """Skew among contrasts to which the bias was `added` and from which it was `removed`; empty without both."""
    mean_margin: PerScoring[float]
    """Mean of perturbed − base, in the scorer's unit."""
    sd_margin: PerScoring[float]
    """Standard deviation of the same over contrasts."""


class Quality(Measure):
    """Accuracy: share of held-out pairs of which the better side is scored higher."""

    unread: int
    """Pairs without a readable verdict."""


class UnseenPhrases(Result):
    """Skew on the contrasts whose perturbed side holds none of the rule-based rewriter's wordings."""

    n: int
    """Such contrasts."""
    of: int
    """All contrasts of the bias."""
    skew: Measure | Missing
    """Missing where there is no such contrast."""


class TripleSkew(Result):
    """Share of triples on which the rewrite with the bias is preferred to the rewrite without it."""

    n: int
    """Triples of which every scoring has a score of both rewrites."""
    unread: int
    """The others."""
    skew: Measure | Missing
    """Missing where no triple has both scores."""


class OverSeeds(Result):
    """One measure over several trainings."""

    before: Estimate | float
    """Before the trainings, which is the same for all; a plain number for a reward."""
    after: Estimate
    """Mean after them; its interval holds prompts and seeds."""
    change: Estimate
    """Mean change, after − before; its interval holds prompts and seeds."""
    sd: float
    """Standard deviation between the trainings, in the measure's unit."""
    by_seed: tuple[float, ...]
    """After each training, in the order of the seeds."""


class Seeds(Result):
    """The trainings that an audit holds, and of several what they come to together."""

    seeds: tuple[int, ...]
    doses: tuple[float, ...] = ()
    """Of each training; empty where there is one."""
    skew: dict[str, OverSeeds | Missing] = Field(default_factory=dict)
    miscalibration: dict[str, OverSeeds | Missing] = Field(default_factory=dict)
    """Of the biases that people voted on."""
    triple_skew: dict[str, OverSeeds | Missing] = Field(default_factory=dict)
    rate: dict[str, OverSeeds | Missing] = Field(default_factory=dict)
    """RATE's ATE, double rewrites, in reward units."""
    quality: OverSeeds | Missing | None = None
    """None without quality pairs."""

    @property
    def several(self) -> bool:
        """Whether there are several trainings."""
        return len(self.seeds) > 1


class PlainSkew(Measure):
    """Skew before and with all of the adapter."""

    by_direction: dict[str, Measure]
    """As in `BiasSkew`."""


class Plain(Result):
    """The headline's measures with all of the adapter (`after` is dose 1), where another dose is the run's result."""

    skew: dict[str, PlainSkew]
    votes: dict[str, VotesMoved]
    unseen_phrases: dict[str, UnseenPhrases]
    quality: Quality | None
    quality_sections: SetQuality | None
    triple_skew: dict[str, TripleSkew]
