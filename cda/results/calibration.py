"""Calibration of a scorer: corrections of its margins, and their effect on votes that did not fit them."""

from __future__ import annotations

from typing import Literal

from cda.records import Exclusions
from cda.results.base import BeforeAfter, Estimate, Missing, Result, Saved
from cda.results.dose import HeldOutChange, HeldOutPeople
from cda.results.facts import Scorer


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

    measure: TextMeasure | None
    """None if the calibration comes from score files, which say themselves which side has the bias."""
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


class CalibratedBias(Result):
    """Contrasts of one bias that people voted on, by corrections that were fitted on other prompts."""

    base: HeldOutPeople
    """The scorer as it is, on the same halves."""
    calibrated: HeldOutPeople
    """At the corrections that the other half fitted and chose."""
    change: HeldOutChange
    """Calibrated minus as it is; its quality is that of all quality pairs."""


class CalibrationResult(Saved):
    """Corrections of one scorer's margins, ready to be applied, and their effect out of fold."""

    schema_version: Literal[1] = 1
    scorer: str | None
    """The model or judge; None if the calibration comes from score files."""
    scored_as: str | None
    """Fingerprint of the scorer and of all settings that decide its scores; None without one, or if it was in memory."""
    facts: Scorer | None
    """How it was scored; None as for `scorer`."""
    unit: Literal["reward", "log odds"]
    """Unit of the corrections. Preferences from −1 to 1 are corrected as log odds, log((1 + p) / (1 − p))."""
    strength: float
    """Share of the fitted corrections to apply, chosen on all votes; 0: the scorer stays as it is."""
    following: Estimate
    """Log odds of people's preference per root mean square of the margins, with the terms held fixed: near 0 the scorer follows
    people in nothing but the biases, and a correction cannot make it."""
    corrections: dict[str, BiasCorrection]
    """By bias."""
    order: OrderCorrection | Missing
    biases: dict[str, CalibratedBias]
    """By bias that people voted on."""
    quality: BeforeAfter | None
    """Accuracy on quality pairs, out of fold; None without any."""
    strengths: dict[str, float]
    """Strength to its share of the choices on halves."""
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
    notes: tuple[str, ...]
    """Sentences on rows of score files that could not be matched."""
    sources: dict[str, str | None]
    """Files of contrasts or scores, votes and quality pairs."""
    seed: int
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""

    @property
    def quality_change(self) -> Estimate | Missing | None:
        """Change of accuracy on quality pairs; None without any."""
        return None if self.quality is None else self.quality.change
