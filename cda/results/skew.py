"""Preferences of a model for the side with a bias, next to people, and for the right side of held-out pairs."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import Field

from cda.records import Exclusions
from cda.results.base import BeforeAfter, Estimate, Measure, Missing, Number, PerScoring, Result, Test


class BiasSkew(Measure):
    """Skew of one bias: share of its contrasts on which the margin is above 0."""

    target: bool
    """True for a bias of the recipe; False if it is measured only to detect side effects."""
    source: str
    """Source of the contrasts: `embedded`, `file`, or their rewriter."""
    available: int
    """Contrasts before a sample was drawn."""
    unread: int
    """Contrasts without a margin, such as those on which a judge gave no readable verdict."""
    rewrites_failed: dict[str, int]
    """Counts by reason, if the contrasts were made for this audit."""
    mean_margin: PerScoring[float]
    """Mean of perturbed − base, in the scorer's unit."""
    sd_margin: PerScoring[float]
    """Standard deviation of the same over contrasts."""


class OverSeeds(Result):
    """One measure over several trainings."""

    before: Estimate | float
    """Before the trainings, which is the same for all; a plain number for a reward."""
    after: Estimate
    """Mean after them; its interval holds prompts and seeds."""
    change: Estimate
    """Mean change, after − before; its interval holds prompts and seeds."""
    test: Test | None = None
    """Test that the mean change of a share is 0, by the same interval; its family are all such tests of the trainings."""
    sd: float
    """Standard deviation between the trainings, in the measure's unit."""
    by_seed: tuple[float, ...]
    """After each training, in the order of the seeds."""


class Seeds(Result):
    """The trainings of an audit, and the combined results of several."""

    seeds: tuple[int, ...]
    doses: tuple[float, ...] = ()
    """Dose of each training; empty if there is one."""
    measures: dict[str, dict[str, OverSeeds | Missing]] = Field(default_factory=dict)
    """By measure, as the table of measures names it, then by bias; quality accuracy under an empty name. Empty of one training."""

    @property
    def several(self) -> bool:
        """True if there are several trainings."""
        return len(self.seeds) > 1


class Plain(Result):
    """The headline's measures with all of the adapter (`after` is dose 1), if another dose is the run's result."""

    numbers: tuple[Number, ...]
    """Before, after and change by `bias`."""

    def last(self, measure: str, bias: str = "") -> Estimate | None:
        """The number of a measure at dose 1; None if there is none."""
        at = {"bias": bias} if bias else {}
        found = (each.found for each in self.numbers if (each.measure, each.moment, each.at) == (measure, "after", at))
        return next((each for each in found if isinstance(each, Estimate)), None)


Level = Literal["nominal", "ordinal"]
"""Distance between words of a vote: all alike, or base < tie < perturbed."""


Leading = Literal["perturbed", "base", "tie", "split", "no votes"]
"""The most frequent vote on an item; `split` if there are several."""


class Agreement(Result):
    """Agreement of people, or of a panel's judges, with each other, from items with two votes or more."""

    majority_share: Estimate
    """Mean share of an item's votes that its most frequent word has (1: unanimous; ties are a word)."""
    with_majority: Annotated[Estimate | Missing | None, Field(exclude_if=lambda share: share is None)] = None
    """Mean share of an item's votes for its majority, where that counts and is for one side (the rate of agreement of Bharadwaj et al.
    2025); None of judges."""
    alpha: Estimate | Missing
    """Krippendorff's alpha: 1 full agreement, 0 chance level, below 0 systematic disagreement."""
    level: Level
    n_votes: int
    """Votes behind both."""
    exclusions: Exclusions
    """Items with fewer than two votes."""


class NoiseCeiling(Result):
    """Miscalibration that a second majority of other people would show against this one."""

    miscalibration: Estimate
    """Expected share of items on which the second majority prefers the other side."""
    vote_correlation: float
    """Posterior mean of how alike two votes on one item are (0: items do not differ; 1: unanimous)."""
    n_votes: int | None
    """Votes an item of the second majority; None if it has as many as the item's first."""


class PoweredShare(Result):
    """A share that people define, from their majorities and a judge's verdicts, next to the one from the majorities alone."""

    estimate: Estimate
    """PPI++, within [0, 1]; its `n` counts rows with and without a majority, its `n_prompts` the prompts of both."""
    classical: Estimate
    """From the majorities alone, with the interval of the same kind; its `n` counts the rows with one."""
    power_tuning: float
    """λ between 0 (verdicts are ignored: `estimate` and `classical` agree) and 1 (PPI)."""
    n_unlabelled: int
    """Rows with a verdict only."""
    exclusions: Exclusions
    """Rows without a verdict, labelled or not."""


class PoweredVotes(Result):
    """Estimated preferences of people on all contrasts, from few votes and the judges' verdicts; ties count half."""

    human_skew: PoweredShare | Missing
    miscalibration: PerScoring[PoweredShare | Missing]


class VotedBias(Result):
    """A bias that people voted on. Shares are of contrasts with a majority."""

    measured: dict[str, BeforeAfter | Measure | Missing]
    """Every measure of models against people by its key, such as `miscalibration`; `Missing` what the votes cannot give, such as an AUC if
    all majorities are for one side."""
    human_skew: Estimate
    """Share of majorities for the perturbed side."""
    gap_test: Test | None
    """Test of one model that its skew is people's; None for a training, whose tests are of changes."""
    rule: str
    """Treatment of people's ties: drop, half or as-released."""
    left_out: dict[str, int]
    """Contrasts without a majority that counts, by reason."""
    agreement: Agreement | Missing | None
    """None if a file states majorities and no votes."""
    noise_ceiling: NoiseCeiling | Missing | None
    """None as for `agreement`."""
    prediction_powered: PoweredVotes | Missing | None
    """None without verdicts of judges."""

    @property
    def skew_on_voted(self) -> Measure:
        """Share on which the margin is above 0."""
        return cast(Measure, self.measured["skew_on_voted"])

    @property
    def miscalibration(self) -> Measure:
        """Share on which model and people's majority disagree."""
        return cast(Measure, self.measured["miscalibration"])

    @property
    def gap(self) -> BeforeAfter:
        """|skew − human skew|, a share difference without a sign."""
        return cast(BeforeAfter, self.measured["gap"])

    @property
    def signed_gap(self) -> PerScoring[Estimate]:
        """skew − human skew; above 0 the model wants more of the bias than people do."""
        return cast(PerScoring[Estimate], self.measured["signed_gap"])


class JudgedBias(Result):
    """One judge, a panel as one, the mean of its judges, or one criterion of a rubric (of a panel: its preference by it), on the
    contrasts of a bias that it has a verdict on."""

    skew: Estimate | Missing
    """Share of contrasts on which it prefers the biased side; a tie counts half."""
    ties: int | None
    """None for a mean of judges."""
    unread: int
    """Contrasts without a verdict; of a mean, those that any judge gave none on."""
    miscalibration: Estimate | Missing | None
    """Share of voted contrasts on which it disagrees with people's majority, a tie by half; None without votes."""
    against_overall: Estimate | Missing | None = None
    """Of a criterion: skew by it − skew overall, paired, on the contrasts with both verdicts; else None."""


class LeftOutJudge(Result):
    """A panel without one of its judges, on one bias."""

    alpha: Estimate | Missing
    """Krippendorff's alpha of the others."""
    alpha_change: Estimate | Missing
    """Alpha of the others − alpha of all, paired; above 0 this judge disagrees more than the others do."""
    skew: Estimate | Missing
    """Skew of the others as a panel."""
    skew_change: Estimate | Missing
    """Skew of the others − skew of the panel, paired."""


class BiasPanel(Result):
    """A panel of judges on one bias."""

    judges: dict[str, JudgedBias]
    """Each by itself."""
    panel: JudgedBias
    """All as one: the mean or the majority of the preferences that were given, by `score.judge.panel`."""
    mean: JudgedBias
    """Mean over judges of each share, on the contrasts that all of them have a verdict on."""
    majority: JudgedBias
    """The side that more judges prefer than the other; a tie if as many do."""
    agreement: Agreement | Missing
    """Agreement of the judges' verdicts (`perturbed`, `base`, `tie`) with each other."""
    without: dict[str, LeftOutJudge]
    """The panel without each of its judges; empty for two judges, of whom one alone would be left."""
