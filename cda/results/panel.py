"""A panel: several reward models and judges, each audited by itself, and trainings, next to each other and on average."""

from __future__ import annotations

from typing import Literal

from cda.results.base import BeforeAfter, Estimate, Measure, Missing, PerScoring, Result, Saved
from cda.results.benchmarks import AccuracyGroup
from cda.results.effects import Correlations

PanelKind = Literal["reward models", "judges"]
"""Reward models and judges are averaged apart."""
Over = Literal["models and prompts", "prompts"]
"""What an interval is over. `prompts`: too few models to say anything of others; it holds for these models."""


class NextToPeople(Result):
    """One model's preferences on the contrasts of a bias that people have a majority on."""

    human_skew: Estimate
    """Share of majorities for the side with the bias."""
    skew: Estimate
    """The model's share on the same contrasts."""
    distance: Estimate
    """skew − human skew: above 0 the model wants more of the bias than people do."""
    miscalibration: Estimate
    """Share of these contrasts on which the model and people's majority disagree."""


class ModelBias(Result):
    """One model on one bias."""

    text_set: str
    """Name of the contrasts: equal for two models if, and only if, they were asked about the same ones."""
    skew: Estimate
    """Share of all contrasts on which it prefers the side with the bias."""
    unread: int
    """Contrasts without a margin."""
    people: NextToPeople | None
    """None without votes."""
    correlation: Correlations | None
    """Correlation of the attribute with being preferred, by people and by the model; None for a bias that is no target."""


class PanelModel(Result):
    """A reward model or judge, audited as it is."""

    model: str
    """As its audit names it."""
    run: str
    """Its run's folder."""
    kind: PanelKind
    how: str
    """How it was scored or asked, in words."""
    precision: str | None
    """None for a judge, or a model that was not loaded here."""
    template: str | None
    """The form of prompt and response together; of a judge its prompt and orders. None if nothing is known of it."""
    biases: dict[str, ModelBias]
    quality: Estimate | None
    """Accuracy on held-out pairs; None if it was not measured."""
    quality_pairs: str | None
    """Their source."""
    notes: tuple[str, ...] = ()
    """Sentences on what limits its numbers, such as margins of exactly 0."""


class PanelMean(Result):
    """The mean over the models of a panel that were asked about the same contrasts."""

    models: tuple[str, ...]
    """Those that it is over."""
    text_set: str
    interval_over: Over
    """`prompts`: too few models to say anything of others; the intervals hold for these models."""
    left_out: int
    """Contrasts that at least one of the models gave no margin on."""
    skew: Estimate
    """Mean skew, on the contrasts that all of them gave a margin on."""
    sd: float | None
    """Standard deviation between the models' skews; None for one model."""
    people: NextToPeople | None
    """The mean next to people's share, on the contrasts that people have a majority on; None without votes."""


class ModelRanks(Result):
    """Places of a model among those of its mean, with the middle 95% of its places on other prompts."""

    skew: Estimate
    """1: prefers the side with the bias most often. Equal models share the mean of their places."""
    distance: Estimate | None
    """1: its skew is nearest to people's share; None without votes."""


class PanelBias(Result):
    """A panel on one bias."""

    means: tuple[PanelMean, ...]
    """One for each set of contrasts, the one with most models first: models on different contrasts are never averaged."""
    ranks: dict[str, ModelRanks | Missing]
    """By model, among the models of its mean."""


class Panel(Result):
    """All reward models, or all judges."""

    kind: PanelKind
    models: tuple[str, ...]
    biases: dict[str, PanelBias]


class TrainedBias(Result):
    """One bias before and after a training."""

    target: bool
    """True if it was trained against."""
    text_set: str
    skew: Measure
    human_skew: Estimate | None
    """None without votes; likewise the next two."""
    distance: PerScoring[Estimate] | None
    """skew − human skew, on the contrasts that people have a majority on."""
    miscalibration: Measure | None


class PanelTraining(Result):
    """A finished training, audited before and after."""

    recipe: str
    model: str
    """The model that was trained."""
    run: str
    """Its run's folder."""
    biases: dict[str, TrainedBias]
    quality: Measure | None
    """Accuracy on held-out pairs; None if it was not measured."""
    quality_set: str | None
    """Source of these pairs."""
    sections: tuple[AccuracyGroup, ...]
    """Accuracy by section, such as RewardBench's; empty without sections."""


class TrainingMean(Result):
    """The mean over trainings against one bias that were measured on the same contrasts."""

    trainings: tuple[str, ...]
    text_set: str
    interval_over: Over
    """As in `PanelMean`, with trainings in place of models."""
    left_out: int
    """Contrasts that one of them has no margin on."""
    skew: BeforeAfter
    human_skew: Estimate | None
    """None without votes; likewise the next two."""
    distance: PerScoring[Estimate] | None
    miscalibration: BeforeAfter | None


class PanelResult(Saved):
    """Measurements of `cda audit` of several models."""

    schema_version: Literal[1] = 1
    models: dict[str, PanelModel]
    """By name; two runs of one model have their folders in their names."""
    panels: tuple[Panel, ...]
    """Reward models and judges, as far as there are any."""
    trainings: dict[str, PanelTraining]
    """Finished trainings, by their folders' names; empty if none was given."""
    training_means: dict[str, tuple[TrainingMean, ...]]
    """By bias; one for each set of contrasts."""
    differences: tuple[str, ...]
    """Sentences on what differs between the models apart from the models themselves."""
    failed: dict[str, str]
    """Models that could not be audited, and why."""
    repeated: tuple[str, ...]
    """Models that were given more than once; each counts once."""
    seed: int
    """Seed of the draws behind the intervals."""
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""
