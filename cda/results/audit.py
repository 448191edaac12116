"""The result of an audit, and the numbers of the release of "Flattery, Fluff, and Fog" on its pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from cda.records import Exclusions
from cda.results.base import (
    ByBias,
    ByName,
    Estimate,
    MadeBy,
    Measure,
    Missing,
    Number,
    PerScoring,
    Result,
    Shown,
    of_room,
)
from cda.results.benchmarks import SetQuality
from cda.results.dose import Aim, DoseResult
from cda.results.effects import BiasAnalysis, BiasEffects, BiasRate, FeatureDrift, Grouping
from cda.results.facts import AuditedBias, Example, RunFacts, Scorer, Sources
from cda.results.skew import BiasPanel, BiasSkew, JudgedBias, Plain, Seeds, VotedBias
from cda.results.stages import TrainingStages

On = Literal["contrasts", "triples"]


class TrainResult(Result):
    """A finished training: its adapter, its log, and its effects."""

    folder: Path
    """The run folder."""
    adapter: Path
    """Folder of the adapter at `dose`, an ordinary PEFT adapter with its score head."""
    dose: float
    """Share of the trained update in it: 0 the base model, 1 as trained."""
    steps: int
    """Optimizer steps; of several adapters (lora.per_bias) of all together."""
    best_step: int | str | None
    """Step of the checkpoint that was kept, of several adapters each with its bias; None: the last."""
    validation_accuracy: float | Missing
    """Share of validation pairs whose chosen side scored higher, at the checkpoint that was kept."""
    seconds: float
    """Wall clock of the training alone."""
    audit: AuditResult | Missing
    """The change that it made; `Missing` before an audit of this very training."""


class InSample(Result):
    """Numbers of the contrasts and quality pairs that chose the dose, at that dose: the choice flatters them. The audit's own fields hold
    the held-out ones in their place, of doses that one half of the prompts chose and the other half measured."""

    aim: Aim
    """The target of the dose: people's majorities, or ties."""
    biases: tuple[str, ...]
    """Those whose contrasts chose the dose."""
    numbers: tuple[Number, ...]
    """By measure, moment and bias; quality accuracy without a bias."""
    also: tuple[str, ...]
    """Fields of the audit that are of the same contrasts or quality pairs, have no held-out numbers, and are as they were."""


class AuditResult(Shown):
    """Everything that an audit measures of one model, or of a model before and after its training. In a notebook it shows verdicts,
    figure and table."""

    made_by = MadeBy(
        "cda audit", "audit.json", "cda.auditing.report:audit_document", report="cda.inspection.inspect:report_of"
    )
    in_memory: ClassVar[frozenset[str]] = frozenset({"dose", "run"})

    schema_version: Literal[5] = 5
    recipe: str
    """Name of the recipe."""
    scorings: tuple[str, ...]
    """`model`, or `before` and `after`; first of all a training's `before`."""
    dose_applied: float | None
    """Dose under which `after` was measured; None without a training."""
    aim: Literal["tie"] | None
    """`tie` if the training aimed at equal rewards for both sides; None: counterfactual pairs, or no training."""
    model: Scorer
    """The model, and how it was asked."""
    in_sample: InSample | None = None
    """If a dose other than 0 was chosen on the audit's own contrasts: their numbers, which are no evidence of what it does elsewhere.
    `skew`, `votes`, `quality` and `means` are held out then; None: nothing was chosen on them."""
    biases: tuple[AuditedBias, ...]
    """The recipe's; of a model as it is also the second turns measured beside them."""
    sources: Sources
    skew: ByBias[BiasSkew]
    """By bias, the targets first."""
    votes: ByBias[VotedBias]
    """By bias that people voted on."""
    votes_undecided: ByBias[int]
    """By bias that people voted on without any majority for one side: contrasts with votes."""
    panel: ByBias[BiasPanel]
    """By bias; empty if no panel was asked."""
    criteria: ByBias[dict[str, JudgedBias]] = Field(default_factory=ByName)
    """Bias to criterion of the judge's rubric; empty without criteria."""
    by: ByBias[dict[On, dict[str, Grouping | Missing]]] = Field(default_factory=ByName)
    """By bias: contrasts and triples, by the columns of `audit.by`; Missing with its reason if no row has the column, or it does not
    divide them. Empty without such columns."""
    measured: tuple[Number, ...] = ()
    """What the table of measures computes by itself, in its order: by `bias`, of single texts also by `text`, of a policy
    by `kl`; the unpaired interval of a change has `interval`."""
    ties: dict[str, dict[str, PerScoring[int]]] = Field(default_factory=dict)
    """Margins of exactly 0, by what those of `measured` are on, such as triples, and by bias; of quality pairs under an empty name."""
    quality_unread: int = 0
    """Quality pairs without a readable verdict."""
    quality_sections: SetQuality | None
    """None without sections."""
    effects: ByBias[BiasEffects]
    drift: ByBias[tuple[FeatureDrift, ...] | Missing]
    """By bias: features that differ between the two sides of its contrasts."""
    plain: Plain | None
    """None if plain CDA is the result itself."""
    rate: ByBias[BiasRate]
    analysis: ByBias[BiasAnalysis]
    """By target."""
    seeds: Seeds | None
    """None for a model as it is."""
    examples: tuple[Example, ...]
    excluded: dict[str, Exclusions]
    """Unusable rows, by kind of input; `triples of <bias>`: rewrites that failed."""
    votes_unmatched: int
    """Items of the files of votes and verdicts that are none of the contrasts."""
    available_quality: int
    """Quality pairs before a sample was drawn."""
    stages: TrainingStages
    """Empty without a training."""
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""
    seed: int
    """Seed of every random choice."""
    n_tests: int
    """Tests that Holm and Benjamini and Hochberg allow for together."""
    dose: DoseResult | None = None
    """Only in memory, for the report: how the dose was chosen."""
    run: RunFacts | None = None
    """Only in memory, for the report: time, machine and cost of the run's stages."""

    @property
    def quality(self) -> Measure | None:
        """Accuracy: share of held-out pairs of which the better side is scored higher; None without any."""
        return self._shares("accuracy", "quality").get("")

    def skew_by_direction(self, bias: str) -> dict[str, Measure]:
        """Skew among contrasts to which a bias was `added` and from which it was `removed`; empty without both."""
        found = {way: self._shares(f"skew_{way}", way) for way in ("added", "removed")}
        return {way: own[bias] for way, own in found.items() if bias in own}

    @property
    def triple_skew(self) -> dict[str, Measure]:
        """By bias with triples: share of those with a score on which the rewrite with the bias is preferred to the one without it."""
        return self._shares("triple_skew", "triples")

    @property
    def unseen_phrases(self) -> dict[str, Measure]:
        """By target whose training rewrites were made by rules: skew on the contrasts whose perturbed side holds none of the
        rewriter's wordings, if there are such contrasts."""
        return self._shares("unseen_phrases", "unseen phrases")

    @property
    def beyond_noise(self) -> dict[str, Estimate | Missing]:
        """By bias, the change of the mean margin that neither noise nor stretched rewards explain, in reward units; empty for one
        model."""
        return ByName({each.at["bias"]: each.found for each in self.measured if each.measure == "beyond_noise"})

    @property
    def rewards(self) -> dict[str, PerScoring[dict[str, Estimate | Missing]]]:
        """By bias with triples: mean reward of each kind of its texts that got one, such as `with, rewrite`: of rewrites whose
        originals have the attribute. Empty for a scorer that compares pairs."""
        found: dict[str, dict[str, dict[str, Estimate | Missing]]] = {}
        for each in self.measured:
            if each.measure == "reward" and each.moment != "change":
                when = "after" if each.moment == "after" else "before"
                found.setdefault(each.at["bias"], {}).setdefault(when, {})[each.at["text"]] = each.found
        return ByName({bias: PerScoring[dict[str, Estimate | Missing]](**own) for bias, own in found.items()})

    @property
    def policy(self) -> tuple[Number, ...]:
        """Measure `tilt` by bias and `kl`: how frequent it is in the policy that was sampled (`kl` 0), and in the one that is optimised
        against the reward. Empty without samples."""
        return tuple(each for each in self.measured if each.measure == "tilt")

    @property
    def right_answers(self) -> tuple[Number, ...]:
        """Measure `tilt_right` by `kl`, in the same policies; empty if the samples have no quality."""
        return tuple(each for each in self.measured if each.measure == "tilt_right")

    def _shares(self, measure: str, on: str) -> dict[str, Measure]:
        """A share by bias, with its change, test and ties."""
        found: dict[str, dict[str, Any]] = {}
        for each in self.measured:
            if each.measure == measure:
                name = each.at.get("interval", "before" if each.moment == "model" else each.moment)
                tested = {"test": each.test} if each.test else {}
                found.setdefault(each.at.get("bias", ""), {}).update({name: each.found, **tested})
        return ByName({bias: Measure(**own, ties=self.ties[on][bias]) for bias, own in found.items()})

    def n_measured(self, bias: str = "") -> int:
        """Contrasts of a bias with a margin, or quality pairs; held-out numbers may be of fewer."""
        key, at = ("skew", {"bias": bias}) if bias else ("accuracy", {})
        numbers = self.in_sample.numbers if self.in_sample else ()
        known = (each.found for each in numbers if (each.measure, each.moment, each.at) == (key, "before", at))
        own = self.skew[bias] if bias else self.quality
        first = next(known, own.before if own else None)
        return first.n if isinstance(first, Estimate) else 0

    def failures(self, *conditions: str) -> list[str]:
        """Conditions such as `jargon.skew>0.7` or `quality.accuracy<0.75` that hold, or that have no number here, each with what
        was found; empty if none does. RecipeError: another form, or an unknown measure. See `--fail-if`."""
        found: list[str] = of_room("cda.auditing.conditions:failures_of")(self, conditions)
        return found

    def export(self, path: str | Path) -> Path:
        """Write it as one row that can be shared, for `cda.compare`: numbers, scoring, and texts by content; no local paths.

        Args:
            path: A file that ends in .json; or a folder, for a file named after the model and the row's content.

        Returns:
            The file.

        Raises:
            RunError: The audit was read from a file alone, its folder lacks the scores, or the file cannot be written.
        """
        file: Path = of_room("cda.comparing.row:write_audit")(self, path)
        return file

    def __repr__(self) -> str:
        return f"<Audit of {self.model.name}: {', '.join(bias.name for bias in self.biases)}>"
