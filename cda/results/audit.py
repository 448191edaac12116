"""The result of an audit."""

from __future__ import annotations

from typing import ClassVar, Literal

from cda.records import Exclusions
from cda.results.base import Estimate, Missing, Saved
from cda.results.benchmarks import SetQuality
from cda.results.data import BiasAnalysis
from cda.results.dose import DoseResult
from cda.results.drift import BiasDrift
from cda.results.effects import BiasEffects
from cda.results.facts import AuditedBias, Example, RunFacts, Scorer, Sources, TrainingStages
from cda.results.paper import PaperOutcome
from cda.results.people import BiasPanel, VotedBias
from cda.results.rate import BiasRate
from cda.results.rewards import RewardSpread
from cda.results.skew import BiasSkew, Plain, Quality, Seeds, TripleSkew, UnseenPhrases


class AuditResult(Saved):
    """Everything that an audit measures of one model, or of a model before and after its training."""

    in_memory: ClassVar[frozenset[str]] = frozenset({"dose", "run"})

    schema_version: Literal[2] = 2
    recipe: str
    """Name of the recipe."""
    scorings: tuple[str, ...]
    """`model`, or `before` and `after`; first of all a training's `before`."""
    dose_applied: float | None
    """Dose under which `after` was measured; None without a training."""
    aim: Literal["tie"] | None
    """`tie` where both sides were to be liked equally; None: counterfactual pairs, or no training."""
    model: Scorer
    """What was scored, and how."""
    biases: tuple[AuditedBias, ...]
    """The recipe's."""
    sources: Sources
    skew: dict[str, BiasSkew]
    """By bias, the targets first."""
    votes: dict[str, VotedBias]
    """By bias that people voted on."""
    votes_undecided: dict[str, int]
    """By bias that people voted on without any majority for one side: contrasts with votes."""
    panel: dict[str, BiasPanel]
    """By bias; empty where no panel was asked."""
    quality: Quality | None
    """None without quality pairs."""
    beyond_noise: dict[str, Estimate | Missing]
    """By bias, the change of the mean margin that neither noise nor stretched rewards explain, in reward units; empty for one
    model."""
    quality_sections: SetQuality | None
    """None without sections."""
    triple_skew: dict[str, TripleSkew]
    """By bias with triples."""
    paper: PaperOutcome | None
    """None without the release."""
    effects: dict[str, BiasEffects]
    drift: dict[str, BiasDrift]
    plain: Plain | None
    """None where plain CDA is the result itself."""
    rate: dict[str, BiasRate]
    rewards: RewardSpread | Missing
    analysis: dict[str, BiasAnalysis]
    """By target."""
    seeds: Seeds | None
    """None for a model as it is."""
    unseen_phrases: dict[str, UnseenPhrases]
    """By target whose training rewrites were made by rules."""
    examples: tuple[Example, ...]
    excluded: dict[str, Exclusions]
    """Rows that could not be used, by what was read; `triples of <bias>`: rewrites that failed."""
    votes_unmatched: int
    """Items of the files of votes and verdicts that are none of the contrasts."""
    available_quality: int
    """Quality pairs before a sample was drawn."""
    stages: TrainingStages
    """Empty without a training."""
    versions: dict[str, str]
    """Of the packages that a result depends on."""
    seed: int
    """Of every random choice."""
    n_tests: int
    """Tests that Holm and Benjamini and Hochberg allow for together."""
    dose: DoseResult | None = None
    """Only in memory, for the report: how the dose was chosen."""
    run: RunFacts | None = None
    """Only in memory, for the report: when, where and for how much the run's stages were made."""
