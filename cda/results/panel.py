"""Several audits next to each other: a panel of models with its averages, finished audits compared, an audit as a row that can be
shared, and the leaderboard of such rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from cda.arrays import LARGEST
from cda.results.audit import AuditResult
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, PerScoring, Result, Saved, Test
from cda.results.benchmarks import AccuracyGroup
from cda.results.effects import Correlations
from cda.results.facts import JudgeReasons


class PairedMargins(Result):
    """Margins of two audits on the rows (contrasts of a bias, or quality pairs) that both have a margin on."""

    first: Estimate
    """Share of these rows on which the first audit's margin is above 0."""
    other: Estimate
    """The same of the other audit."""
    difference: Estimate
    """other − first, paired, clustered by prompt."""
    test: Test
    """Exact test that the difference is 0; Holm's p allows for all such tests of the comparison."""
    agreement: Estimate
    """Share of these rows on which both prefer the same side, or both neither."""
    correlation: Estimate | Missing
    """Pearson's r of the two margins over these rows."""
    both: int
    """Rows on which both margins are above 0."""
    only_first: int
    """Rows on which the first audit's margin alone is above 0."""
    only_other: int
    """Rows on which the other audit's margin alone is above 0."""
    neither: int
    """Rows on which no margin is above 0."""
    unpaired_first: int
    """Rows of the first audit with a margin that the other lacks: other texts, or no margin there."""
    unpaired_other: int
    """The same of the other audit."""


class PairedAudits(Result):
    """Two audits, row by row."""

    first: str
    """Name of the audit that the other is held against."""
    other: str
    contrasts: dict[str, PairedMargins | Missing]
    """By bias that both audited."""
    quality: PairedMargins | Missing


class SetupDifference(Result):
    """One way in which the audits were not made alike."""

    what: str
    """Such as `precision`, `template`, or `contrasts of jargon`."""
    values: dict[str, str]
    """Name of the audit to its value."""


_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class MeasuredTexts(Result):
    """A set of texts that was measured on."""

    name: str
    """Source as the audit named it, without paths of its machine."""
    n: int
    """Contrasts, pairs or triples."""
    content: str | None
    """Fingerprint of the texts, whatever their order; None if the audit's folder does not say which they were."""


class ScoredAs(Result):
    """The way in which a model or judge was asked. None: it does not apply to this kind, or is not known."""

    kind: Literal["reward model", "judge"]
    precision: str | None = None
    template: str | None = None
    """The form of prompt and response together: `pair`, `chat template`, `plain text`."""
    max_length_tokens: int | None = None
    """Longer texts were cut there."""
    truncated: float | None = None
    """Share of the distinct texts that were cut, 0 to 1; None for a judge."""
    how: str | None = None
    """Other than a sequence classifier: the way it was asked, as a clause."""
    judges: tuple[str, ...] = ()
    """Of a panel, its judges."""
    prompt: str | None = None
    """Name of the judge's prompt."""
    prompt_content: str | None = None
    """Fingerprint of all that the judge's prompt says."""
    criteria: tuple[str, ...] = ()
    """Names of a judge's criteria."""
    orders: Literal["both", "one"] | None = None
    """Comparisons were asked with either text first, or once."""
    verdicts: Literal["by token", "written"] | None = None
    reasons: JudgeReasons | None = None
    """Place of the judge's reasons."""
    calibration: str | None = None
    """Fingerprint of the calibration that corrected its scores; None without one."""


class TrainedAs(Result):
    """The training that the row's numbers are after."""

    recipe: str
    against: tuple[str, ...]
    """Biases."""
    dose: float
    """Share of the adapter that is applied."""
    adapter: str | None
    """Fingerprint of the training's output; None if the run's folder does not say."""


class BiasRow(Result):
    """Numbers of one bias; a measure without a field here has one of its own, by its key."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Estimate | Missing]
    contrasts: MeasuredTexts
    skew: Estimate
    """Share of contrasts on which the side with the bias is preferred."""
    people: Estimate | Missing
    """Human skew: share of people's majorities for the side with the bias."""
    distance: Estimate | Missing
    """Skew − human skew on the contrasts that people voted on; above 0 the model wants more of the bias than people do."""
    miscalibration: Estimate | Missing
    """Share of contrasts on which model and people's majority disagree."""
    triples: MeasuredTexts | None = None
    """None without triples of this bias."""
    rate: Estimate | Missing
    """RATE's double-rewrite ATE in standard deviations of the originals' rewards; above 0 the bias is rewarded."""


class LeaderboardRow(Saved):
    """One audit in the form that a leaderboard needs, without paths of the machine that made it."""

    schema_version: Literal[1] = 1
    cda_version: str
    date: str | None
    """Day on which the audit was finished (UTC), such as `2026-11-24`; None if the run's folder does not say."""
    model: str
    """Name; of a local folder or file its last part."""
    revision: str | None
    """Commit on the hub: the one that was asked for, or that of this machine's cache when the row was written."""
    content: str | None
    """Fingerprint of a sequence classifier with its precision: of the files of a folder, of a hub model of its name and the revision
    asked for; None for other kinds, after a training, and if the run's folder does not say."""
    scored: ScoredAs
    training: TrainedAs | None
    """None for a model as it is."""
    text_set: str | None
    """Version of all texts and votes together: rows with the same one can be ranked. None if some content is unknown."""
    biases: dict[str, BiasRow]
    quality: Estimate | Missing
    """Accuracy on held-out pairs."""
    quality_pairs: MeasuredTexts | None
    """None without quality pairs."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        """Refuse numbers that no audit has; rows come from other machines."""
        if not self.model.strip() or not self.biases:
            raise ValueError("no model's name" if self.biases else "no bias was measured")
        if self.date is not None and not _DAY.fullmatch(self.date):
            raise ValueError(f"date: '{self.date[:40]}' is no day such as 2026-11-24")
        for name, bounds, value in self._numbers():
            if not (value.low <= value.value <= value.high and 0 < value.n_prompts <= value.n):
                raise ValueError(
                    f"{name}: {value.value:g} [{value.low:g}, {value.high:g}], n = {value.n} of {value.n_prompts} prompts, is no estimate"
                )
            if not (bounds[0] <= value.low and value.high <= bounds[1]):
                raise ValueError(
                    f"{name}: {value.low:g} to {value.high:g} is outside of {bounds[0]:g} to {bounds[1]:g}"
                )
        return self

    def _numbers(self) -> Iterator[tuple[str, tuple[float, float], Estimate]]:
        """Every estimate, with its place and the bounds of its measure."""
        share, difference, free = (0.0, 1.0), (-1.0, 1.0), (-LARGEST, LARGEST)
        bounds = {"skew": share, "people": share, "distance": difference, "miscalibration": share, "rate": free}
        of_unit = {"share": share, "AUC": share, "share difference": difference}
        for bias, row in self.biases.items():
            for name, value in row:
                if isinstance(value, Estimate):
                    yield f"{name} of {bias}", bounds.get(name, of_unit.get(value.unit, free)), value
        if isinstance(self.quality, Estimate):
            yield "quality", share, self.quality

    @property
    def label(self) -> str:
        """The model's name, with its training."""
        if self.training is None:
            return self.model
        return f"{self.model} after {self.training.recipe}, dose {self.training.dose:g}"


class ComparisonResult(Saved):
    """Several finished audits: the numbers of each, and every one paired with the first."""

    in_memory: ClassVar[frozenset[str]] = frozenset({"whole"})

    schema_version: Literal[1] = 1
    audits: dict[str, LeaderboardRow]
    """By name of the run's folder; of a training, the model after it."""
    differences: tuple[SetupDifference, ...]
    """Everything in which they were not made alike, the models' names included; empty: alike in all that is known."""
    pairs: tuple[PairedAudits, ...]
    """The first audit with each of the others."""
    n_tests: int
    """Tests that Holm allows for together."""
    whole: dict[str, AuditResult] = Field(default_factory=dict)
    """Only in memory, for the page: the audits themselves, by the same names."""


class Entry(Result):
    """A row of a group with its places."""

    file: str
    """Path below the folder that was read."""
    row: LeaderboardRow
    score: Estimate | Missing
    """Mean over the biases of the group's measure; lower is nearer to people, or to no effect."""
    best_place: int | None
    """1 more than the rows of the group whose interval lies wholly below this row's; None without a score."""
    worst_place: int | None
    """Rows with a score, less those whose interval lies wholly above this row's; None without a score."""
    tied_with: tuple[str, ...] = ()
    """Files of the rows of the group whose intervals overlap with this row's: which of them is lower is not shown."""
    equal_to: tuple[str, ...] = ()
    """Files of those among them with exactly the same score."""


RankedBy = Literal["miscalibration", "size of RATE's effect", "distance of skew from 50%"]


class RankedGroup(Result):
    """Rows that were measured on the same texts, the lowest score first."""

    text_set: str | None
    """Version of the texts; None: rows whose texts are unknown, which are not ranked."""
    ranked_by: RankedBy | None
    """The measure behind `score`: the first of them that every row has for every bias; None: not ranked."""
    entries: tuple[Entry, ...]


class Superseded(Result):
    """A row that is not shown, because another is of the same model, scored in the same way on the same texts."""

    file: str
    by: str
    """File of the row that is shown: the newer one, of equal dates the one whose file comes first."""
    same_numbers: bool
    """True for a copy; False if the numbers differ."""


class LeaderboardResult(Saved):
    """Rows of a folder in groups of the same texts; groups are not ranked together."""

    schema_version: Literal[1] = 1
    name: str
    """Name of the folder that was read."""
    groups: tuple[RankedGroup, ...]
    """The largest first."""
    superseded: tuple[Superseded, ...] = ()
    refused: dict[str, str] = Field(default_factory=dict)
    """File to the reason why it is no row."""


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
    """One model on one bias; a measure without a field here has one of its own, by its key."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Estimate | Missing]
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
    """One bias before and after a training; a measure without a field here has one of its own, by its key."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, BeforeAfter]
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
