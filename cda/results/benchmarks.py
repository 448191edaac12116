"""Results of `cda quality` and `cda best-of`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cda.records import Exclusions
from cda.results.base import Estimate, MadeBy, Missing, Result, Shown, Test
from cda.results.effects import Level
from cda.results.facts import Scorer


class AskedModel(Result):
    """A scorer that was asked, and which model it was."""

    model: str
    """Its name for readers; no path of the machine that it ran on."""
    adapter: str | None
    """Name of the adapter's folder; None without one."""
    adapter_content: str | None
    """Fingerprint of the content of the adapter's folder."""
    dose: float | None
    """Share of the adapter, 1 as trained."""
    facts: Scorer
    """Settings of the scoring, with counts."""


class AskedLLM(Result):
    """The LLM behind a judge."""

    model: str
    base_url: str | None
    """None: OpenAI's."""


class QualityScoring(AskedModel):
    """One of the scorings whose accuracy is measured."""

    label: str
    """`model`; `before` and `after` an adapter; `first` and `second` of two models."""
    unit: str
    """`reward`, or `preference` of a judge."""
    target: str
    """As it was named on the command line."""
    target_kind: str
    """Kind of scorer that the name stands for, such as `classifier` or `judge`."""
    revision: str | None
    llm: AskedLLM | None = None
    """The LLM of a judge."""
    served_model: str | None = None
    """The model that a server was asked for."""
    log_ratio: dict[str, str | float | None] | None = None
    """Settings `score.log_ratio` of causal models."""


class Accuracies(Result):
    """Accuracy by group: `accuracy` under each scoring and, of two, its change; the test of no change is adjusted (Holm) for all
    sections of the command."""

    overall: Level
    """Mean of the sections if subsets have weights, else of all items."""
    sections: tuple[Level, ...]
    """In order of appearance."""
    subsets: tuple[Level, ...]
    """In order of appearance."""
    cells: tuple[Level, ...]
    """RM-Bench's matrix: `1 over 2` is the concise chosen response over the detailed rejected one."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the scorings."""
        return tuple(label for label in self.overall.found["accuracy"] if label != "change")

    @property
    def shown(self) -> tuple[Level, ...]:
        """Sections, and overall if there are several sections."""
        return (*self.sections, self.overall) if len(self.sections) > 1 else self.sections


class WinRate(Result):
    """One set of outputs over another: the accuracy of their set is the win rate, wins and half of the ties."""

    wins: Estimate
    """Share of comparisons with a preference for the first."""
    ties: Estimate
    """Share with none."""
    losses: Estimate
    """Share with a preference for the second."""
    test: Test
    """Exact test that the win rate is one half; ties say nothing there."""


class SetQuality(Accuracies):
    """Accuracy on one set of preferences."""

    name: str
    source: str
    """Its file, without the folders of this machine, or its hub id."""
    format: str
    """`rewardbench`, `rewardbench-2`, `rm-bench`, `llmbar`, `pairs`, or `outputs` over others."""
    n_items: int
    """Items that every scoring has a margin of."""
    exclusions: Exclusions
    """Rows that could not be read."""
    left_out_rows: dict[str, tuple[int, ...]]
    """Reason to the first rows that it holds for."""
    unread: int
    """Items without a margin under one of the scorings."""
    unread_reasons: dict[str, int]
    n_expected: dict[str, int]
    """Items of each subset in the published benchmark; empty if it has no fixed number."""
    win_rates: dict[str, WinRate] = Field(default_factory=dict)
    """By label of the scoring, of outputs over others; empty else."""


class QualityResult(Shown):
    """Measurements of `cda quality`."""

    made_by = MadeBy("cda quality", "quality.json", "cda.benchmarks.quality:quality_document")
    schema_version: Literal[4] = 4
    scorings: tuple[QualityScoring, ...]
    """One, or two that are compared."""
    n_tests: int
    """Sections that Holm allows for together."""
    sets: tuple[SetQuality, ...]
    seed: int
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""
    files: dict[str, str]
    """Set to the fingerprint of its file."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the scorings."""
        return tuple(scoring.label for scoring in self.scorings)

    def __repr__(self) -> str:
        models = " and ".join(scoring.model for scoring in self.scorings)
        return f"<Quality of {models}: {', '.join(each.name for each in self.sets)}>"


class NoSpread(Result):
    """A value without an interval, because it is the same in every prompt."""

    value: float
    """The value of all prompts."""
    reason: str
    """Why there is no interval."""


Measured = Estimate | NoSpread
Followed = Literal["share", "mean"]


class AtSize(Result):
    """An attribute of the picks at one n."""

    n: int
    """Responses drawn, of which the one with the highest reward is picked."""
    kl_nats: float
    """Largest distance of best-of-n from the policy that was sampled: log n − (n − 1)/n."""
    n_prompts: int
    """Prompts with so many responses."""
    n_too_few: int
    """Prompts left out because they have fewer."""
    scorings: dict[str, Measured]
    """Expected share or mean under each scoring, over the prompts that reach this n."""
    complete: dict[str, Measured]
    """The same over the prompts that reach the largest n: along it, two n differ by n and not by their prompts."""
    change: Measured | None
    """Second scoring − first, paired by prompt. None with one scoring, and at n = 1, where rewards do not matter."""


class FollowedAttribute(Result):
    """One attribute under optimisation; the test is of no change between two scorings."""

    name: str
    """Name of the bias or the feature."""
    kind: Followed
    """`share` of responses that exhibit a bias, or `mean` of a feature or a quality."""
    unit: str
    """`share`, or the name of the feature."""
    p_value: float | None
    """At the largest n, or the strongest supported β (`Tilt.strongest`); None with one scoring."""
    p_holm: float | None
    """The same, adjusted for all attributes (the quality is not among them)."""
    p_method: str | None


class Curve(FollowedAttribute):
    """One attribute as n grows."""

    definition: str
    """The attribute in words."""
    at: tuple[AtSize, ...]
    """Sizes in ascending order; the first is 1."""
    slope: dict[str, Measured]
    """Least-squares slope in log2(n) of each scoring: the increase for each doubling of n, over all prompts that reach the largest
    n. Above 0, optimising the reward amplifies the attribute."""
    slope_change: Measured | None
    """Second scoring − first, paired by prompt; None with one scoring."""
    n_unknown: int
    """Prompts left out because the attribute of a response is not known."""


class Curves(Result):
    """Every attribute under one scoring, or under two and their change."""

    sizes: tuple[int, ...]
    """The n that were looked at."""
    n_prompts: int
    n_responses: int
    responses_per_prompt: tuple[int, float, int]
    """Fewest, median and most."""
    attributes: tuple[Curve, ...]
    """In the given order."""
    quality: Curve | Missing
    """The reference quality of the responses."""
    unvaried: tuple[str, ...]
    """Attributes that differ between the responses of no prompt: no reward can select on them."""

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Curves of the attributes, then of the quality if it was followed."""
        return self.attributes if isinstance(self.quality, Missing) else (*self.attributes, self.quality)


class TiltedPolicy(Result):
    """The policy that is tilted to one scoring's reward: π(y | x) · exp(reward / β), normalised within each prompt."""

    beta: float
    """β in reward units."""
    beta_sd: float
    """β over the standard deviation of this scoring's rewards within prompts."""
    effective: float
    """Mean over prompts of the effective number of responses, 1 / Σ w² with weights w that sum to 1."""
    kl_nats: Measured | Missing
    """KL divergence from the policy that was sampled, mean over prompts; Missing if the samples do not support this β."""
    reward_gained: Measured | Missing
    """Mean reward of the tilted policy − that of the samples, in `standard deviations` of rewards within prompts."""


class AtTilt(Result):
    """An attribute in the tilted policy, at one β."""

    scorings: dict[str, Measured | Missing]
    """Share or mean under the policy tilted to each scoring; Missing if the samples do not support this β."""
    change: Measured | Missing | None
    """Second scoring − first, paired by prompt. None with one scoring."""


class TiltedAttribute(FollowedAttribute):
    """One attribute as the policy is tilted more and more."""

    sampled: Measured
    """Share or mean of the samples of the same prompts, which is the policy as it is."""
    at: tuple[AtTilt, ...]
    """One for each β, in the order of `Tilt.policies`."""


class Tilt(Result):
    """The policy tilted to the reward at several β, estimated from the samples of the policy."""

    n_prompts: int
    """Prompts with as many responses as the largest n of `sizes`, as in `complete`."""
    n_responses: int
    fewest_effective: float
    """Smallest mean of the effective number of responses at which a β counts as supported by the samples."""
    reward_sd: dict[str, float]
    """Pooled standard deviation of each scoring's rewards within prompts, the unit of β."""
    policies: tuple[dict[str, TiltedPolicy], ...]
    """By scoring, for each β: the usual ones in standard deviations, from weak to strong, then those that were asked for."""
    n_asked: int
    """Number of β that were asked for, in reward units: the last ones."""
    strongest: int
    """Place of the strongest of the usual β that is supported under every scoring."""
    attributes: tuple[TiltedAttribute, ...]
    """In the order of the curves."""
    quality: TiltedAttribute | Missing
    """The reference quality of the responses."""

    @property
    def followed(self) -> tuple[TiltedAttribute, ...]:
        """The attributes, then the quality if it was followed."""
        return self.attributes if isinstance(self.quality, Missing) else (*self.attributes, self.quality)


class BestOfResult(Shown, Curves):
    """Measurements of `cda best-of`."""

    made_by = MadeBy("cda best-of", "best_of_n.json", "cda.benchmarks.best_of_n_report:best_of_n_document")
    schema_version: Literal[4] = 4
    tilt: Tilt | Missing
    """The same attributes in the policy that is tilted to the reward."""
    responses: str
    """The file of sampled responses."""
    scorings: tuple[str, ...]
    """`model`; `before` and `after` an adapter; `first` and `second` of two models."""
    models: dict[str, AskedModel]
    """By scoring."""
    n_repeated: int
    """Responses that repeat another of their prompt word for word; they stay."""
    excluded: dict[str, Exclusions]
    """Rows, responses, qualities and scored responses that were left out."""
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""

    def __repr__(self) -> str:
        return f"<BestOf {self.sizes[-1]} by {' and '.join(asked.model for asked in self.models.values())}>"
