"""The share of an adapter to apply, and the remaining bias on rows that did not choose it."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from cda.results.base import Estimate, Result, Saved
from cda.results.skew import AgainstPeople

Aim = Literal["votes", "tie"]
"""The target of a dose: people's majorities, or as many preferences for one side as for the other."""


class DosePoint(Result):
    """One dose on all rows. Descriptive: the best of these is not how a chosen dose does on other rows."""

    dose: float
    """λ."""
    people: AgainstPeople
    """Skew, miscalibration, gap and AUC at this dose."""
    quality: Estimate | None
    """Share of quality pairs whose chosen side scores higher; None without quality pairs."""
    quality_change: Estimate | None
    """Its change against dose 0, on the same pairs; None at dose 0 and without quality pairs."""


class HeldOutPeople(Result):
    """One procedure compared with people, on the halves that did not choose its dose."""

    skew: Estimate
    """Share of margins above 0, each row at the doses chosen without it, averaged over repeats."""
    human_skew: Estimate
    """Share of majorities for the perturbed side."""
    miscalibration: Estimate
    """Share of rows on which the two disagree, averaged likewise."""
    gap: Estimate
    """|skew − human skew| on each half alone, averaged over halves and repeats. On half of the votes chance makes it larger than
    on all of them, at any dose."""
    mean_signed_gap: Estimate
    """Skew − human skew of all rows and repeats together: what choosing leaves on average, in which choices to either side
    cancel. It decides nothing."""
    n_ties: int
    """Margins of exactly 0; at a chosen dose those of every repeat."""


class HeldOutChange(Result):
    """The chosen dose, held out, minus a fixed dose on the same rows and halves; of miscalibration or gap, below 0 is a gain."""

    skew: Estimate
    miscalibration: Estimate
    gap: Estimate
    quality: Estimate | None
    """None without quality pairs."""


class PlainChange(Result):
    """Change of dose 1 against dose 0: nothing is chosen, so it is measured on all rows of a bias."""

    skew: Estimate
    miscalibration: Estimate


class HeldOutChoice(Result):
    """A dose chosen on one half and measured on the other, next to the fixed doses 0 and 1."""

    people: HeldOutPeople
    """At the doses chosen on the other half."""
    base: HeldOutPeople
    """At dose 0, on the same halves."""
    plain: HeldOutPeople
    """At dose 1, on the same halves."""
    against_base: HeldOutChange
    """Change from dose 0."""
    against_plain: HeldOutChange
    """Change from dose 1."""


class HeldOutBias(HeldOutChoice):
    """One bias at a chosen dose, held out, next to the fixed doses 0 and 1."""

    plain_change: PlainChange


class HeldOutDose(HeldOutChoice):
    """The choice of the dose, measured on held-out rows, and the dose to export."""

    quality: Estimate | None
    """Accuracy on quality pairs at the chosen doses; None without any."""
    chosen: dict[float, float]
    """Each dose's share of the 2 × `repeats` choices, in order of dose."""
    dose: float
    """λ chosen on all rows, for export. Its own numbers on these rows would flatter it."""
    barred: tuple[float, ...]
    """Doses that lose more quality than allowed on all rows."""
    repeats: int
    """Splits in two."""


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
    held_out: dict[str, HeldOutBias]
    """By bias."""
    response: dict[str, tuple[DosePoint, ...]]
    """By bias, in ascending order of dose."""


class MixingDiffers(Result):
    """Distance of mixed scores from the adapter's own at one dose."""

    preferences: float
    """Share of contrasts on which they prefer another side."""
    distance: float
    """Mean distance of the margins, as a share of the spread of the change from dose 0 to 1."""
    n: int


class BestWay(Result):
    """The way that leaves least, held out, in the mean over biases, among those that keep quality."""

    name: str
    losses: dict[str, float]
    """Method to its remaining bias: miscalibration + gap as shares; the gap alone if a tie is the aim."""


class DoseResult(Saved):
    """The choice of a dose for a training."""

    schema_version: Literal[2] = 2
    doses: tuple[float, ...]
    """Those that were tried, in ascending order."""
    biases: tuple[str, ...]
    """Those with a say."""
    aim: Aim
    repeats: int
    """Splits in two."""
    max_quality_loss: float
    """Accuracy on quality pairs that a dose may lose against the base model, as a share."""
    chosen: float
    methods: dict[str, DoseMethod]
    """`dose`, the adapter; `mixing`, scores before and after mixed; `direction` and `features`, taken off the base model."""
    mixing_differs: dict[str, MixingDiffers]
    """By dose."""
    best: BestWay
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


class DoseFilesResult(Saved):
    """A dose chosen from score files alone, by mixing two scorings."""

    schema_version: Literal[2] = 2
    curve: Literal["scores mixed"] = "scores mixed"
    note: str
    """Warning on the limits of mixing scores."""
    files: dict[str, str | tuple[str, ...] | None]
    ties: str
    """Treatment of people's ties: drop, half or as-released."""
    seed: int
    max_quality_loss: float | None
    """None without quality pairs."""
    left_out: tuple[str, ...]
    """Sentences on rows that could not be used."""
    response: tuple[DosePoint, ...]
    held_out: HeldOutDose
