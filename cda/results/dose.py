"""Corrections of a scorer and their effect on votes that did not choose them: the dose of an adapter, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, JsonValue

from cda.records import Exclusions
from cda.results.base import BeforeAfter, ByBias, Estimate, MadeBy, Missing, Result, Shown, of_room
from cda.results.facts import Scorer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cda.arrays import FloatArray


class TextMeasure(Result):
    """Measure of a bias in one text, complete: a calibration needs no bias file where it is applied."""

    feature: str
    """Name of the feature; it or its logarithm is the term of the slope."""
    logarithm: bool
    """The natural logarithm is taken, of 1 at least: the bias file compares ratios."""
    present_above: float | None
    """A text above it has the bias, which is the term of the offset; None if the bias file has no such threshold."""
    present_below: float | None
    """A text below it has the bias; None as for `present_above`."""
    markers: tuple[str, ...]
    """Phrases that the feature counts."""
    pattern: str | None
    """Regular expression that the feature counts."""


class BiasCorrection(Result):
    """Correction for one bias at strength 1, in the unit of the calibration: what is taken off a margin."""

    measure: TextMeasure
    offset: Estimate | Missing
    """For a first side that has the bias, if the second has not."""
    slope: Estimate | Missing
    """For each unit by which the first side's measure is larger."""


class OrderCorrection(Result):
    """Correction for the place in which a text is shown to a judge that is asked in one order."""

    offset: Estimate
    """What is taken off the margin of the text shown first, at strength 1, in the unit of the calibration."""
    prefers_first: BeforeAfter
    """Share of pairs in which the text shown first is preferred, out of fold."""


ByMeasure = dict[str, Estimate]
"""Numbers by the key of their measure, without those that the rows cannot give, such as an AUC if all majorities are for one side; of
rows with a majority of people, if it is not `accuracy`."""


class CalibratedBias(Result):
    """Contrasts of one bias that people voted on, by corrections that were fitted on other prompts; gaps as of a dose that was chosen."""

    base: ByMeasure
    """The scorer as it is, on the same halves."""
    calibrated: ByMeasure
    """At the corrections that the other half fitted, at the strength of the file."""
    change: ByMeasure
    """Calibrated minus as it is; `accuracy` is that of all quality pairs, if there are any."""


class CalibrationResult(Shown):
    """Corrections of one scorer's margins, ready to be applied, and their effect out of fold; called, it corrects margins of texts."""

    made_by = MadeBy("cda calibrate", "calibration.json", "cda.calibration.report:calibration_document")
    schema_version: Literal[5] = 5
    scorer: str
    """The model or judge."""
    scored_as: str | None
    """Fingerprint of the scorer and of all settings that decide its scores; None if it was in memory."""
    facts: Scorer
    """How it was scored."""
    unit: Literal["reward", "log odds"]
    """Unit of the corrections. Preferences from −1 to 1 are corrected as log odds, log((1 + p) / (1 − p))."""
    strength: float
    """Share of the fitted corrections to apply, chosen on all votes; 0: the scorer stays as it is."""
    following: Estimate
    """Log odds of people's preference per root mean square of the margins, with the terms held fixed: near 0 the scorer follows
    people in nothing but the biases, and a correction cannot make it."""
    corrections: ByBias[BiasCorrection]
    """By bias."""
    order: OrderCorrection | Missing
    biases: ByBias[CalibratedBias]
    """By bias that people voted on."""
    quality: BeforeAfter | None
    """Accuracy on quality pairs, out of fold; None without any."""
    strengths: dict[str, Estimate]
    """Strength to the fall of the squared error of held-out majorities, forecast by the scorer's share, against strength 0."""
    repeats: int
    """Splits in two."""
    max_quality_loss: float
    """Accuracy on quality pairs that a strength may lose where it is chosen, as a share."""
    ties: str
    """Treatment of people's ties: drop, half or as-released."""
    uncorrected: dict[str, str]
    """Bias without a correction of its own to the reason."""
    left_out: dict[str, Exclusions]
    """Rows without a say, by kind and reason."""
    sources: dict[str, str | None]
    """Files of contrasts, votes and quality pairs."""
    seed: int
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""

    @property
    def quality_change(self) -> Estimate | Missing | None:
        """Change of accuracy on quality pairs; None without any."""
        return None if self.quality is None else self.quality.change

    def __call__(
        self,
        prompts: Sequence[str | Sequence[Mapping[str, str]]],
        first: Sequence[str],
        second: Sequence[str],
        margins: ArrayLike,
        *,
        one_order: bool = False,
    ) -> FloatArray:
        """Corrected margins of first texts over second ones, shape (n,), in the scorer's unit: rewards, or preferences from −1
        to 1. `one_order`: the judge was asked once per pair, in the order that cda draws from the texts. NaN stays NaN.

        Raises:
            ValueError: Lengths differ.
        """
        corrected: FloatArray = of_room("cda.scorers.calibrated:corrected_margins")(
            self, prompts, first, second, margins, one_order
        )
        return corrected

    def __repr__(self) -> str:
        return f"<Calibration of {self.scorer} at strength {self.strength:g}>"


Aim = Literal["votes", "tie"]
"""The target of a dose: people's majorities, or as many preferences for one side as for the other."""


class DosePoint(Result):
    """One dose on all rows. Descriptive: the best of these is not how a chosen dose does on other rows."""

    dose: float
    """λ."""
    people: ByMeasure
    """Every measure against people at this dose, and `human_skew`."""
    quality: Estimate | None
    """Share of quality pairs whose chosen side scores higher; None without quality pairs."""
    quality_change: Estimate | None
    """Its change against dose 0, on the same pairs; None at dose 0 and without quality pairs."""


class HeldOutBias(Result):
    """One bias at a dose chosen on one half and measured on the other, next to the fixed doses 0 and 1. Each `gap` is that of the halves,
    averaged over them and over repeats: on half of the votes chance makes it larger than on all of them, at any dose."""

    people: ByMeasure
    """At the doses chosen on the other half."""
    base: ByMeasure
    """At dose 0, on the same halves."""
    plain: ByMeasure
    """At dose 1, on the same halves."""
    against_base: ByMeasure
    """Change from dose 0, with that of `accuracy` if there are quality pairs; of miscalibration or gap, below 0 is a gain."""
    against_plain: ByMeasure
    """Change from dose 1."""
    sizes: dict[str, BeforeAfter]
    """Sizes, such as the gap, of all held-out rows together: at dose 0, at the chosen doses, and the change. They can be 0, unlike means on halves."""
    plain_change: ByMeasure
    """Change of dose 1 against dose 0: nothing is chosen, so it is measured on all rows of a bias."""


class DoseMethod(Result):
    """One way of taking a bias out, at the strength that was chosen for it."""

    chosen: float
    barred: tuple[float, ...]
    """Doses that lose more quality than allowed."""
    shares: dict[str, float]
    """Each dose's share of the choices on halves."""
    quality: Estimate | None
    """Accuracy at the chosen doses, held out; None without quality pairs."""
    quality_kept: bool
    """No more than the allowed share is lost, held out."""
    plain_keeps_quality: bool
    """The same of dose 1."""
    held_out: ByBias[HeldOutBias]
    """By bias."""
    response: ByBias[tuple[DosePoint, ...]]
    """By bias, in ascending order of dose."""


class DoseResult(Shown):
    """The choice of a dose, for a training or by mixing two scorings."""

    made_by = MadeBy("cda dose", "dose.json", "cda.auditing.report_trainings:dose_document")
    schema_version: Literal[5] = 5
    doses: tuple[float, ...]
    """Those that were tried, in ascending order."""
    biases: tuple[str, ...]
    """Those with a say."""
    guards: tuple[str, ...] = ()
    """Biases that were not taught and that people voted on: a dose that moves one away from people by more than 5 points of
    miscalibration is not chosen."""
    aim: Aim
    repeats: int
    """Splits in two."""
    max_quality_loss: float
    """Accuracy on quality pairs that a dose may lose against the base model, as a share."""
    chosen: float
    methods: dict[str, DoseMethod]
    """`dose`, the adapter; `mixing`, scores before and after mixed; `direction` and `features`, taken off the base model."""
    losses: dict[str, float]
    """What each way leaves of the bias, held out, in the mean over biases, among those that keep quality: miscalibration + gap as
    shares; the gap alone if a tie is the aim."""
    quality_pairs: int
    left_out: dict[str, dict[str, int]]
    """Contrasts and quality pairs without a say, by reason."""
    seed: int
    too_few: dict[str, int]
    """Number of prompts of each bias that has too few to help choose the dose."""
    missing: dict[str, str]
    """Way that was not tried to the reason."""
    fitted: dict[str, dict[str, JsonValue]]
    """Values fitted for the ways without training."""
    available_quality: int
    """Quality pairs before a sample was drawn."""
    mixed: Annotated[tuple[str, str] | None, Field(exclude_if=lambda value: value is None)] = None
    """Scorers at doses 0 and 1, whose scores are mixed; None for an adapter."""

    @property
    def best(self) -> str:
        """The way that leaves least."""
        return min(self.losses, key=lambda name: self.losses[name])

    @property
    def own(self) -> DoseMethod:
        """The choice itself: the adapter's dose, or that of two scorings."""
        return self.methods["mixing" if self.mixed else "dose"]

    def __repr__(self) -> str:
        return f"<Dose {self.chosen:g}>"
