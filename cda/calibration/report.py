"""The report of a calibration: its sentences, tables and figure, in a terminal, in Markdown and as a page; and its files."""

from __future__ import annotations

from functools import partial

from cda.calibration.fit import LEAST_FOLLOWING
from cda.numbers.measures import MEASURES, of_place
from cda.records import PERCENT
from cda.report.document import Document, how_made, meaning
from cda.report.glance import (
    FURTHER,
    NEARER,
    NOT_SHOWN,
    Cell,
    Chip,
    Glance,
    GlanceRow,
    Series,
    marked,
    moved,
    percent_axis,
)
from cda.report.names import called, capital, some
from cda.report.next_step import after_calibration
from cda.report.numbers import cell, counted, percent, plain, points, printed, share, signed
from cda.report.page import Entry, Headline, ReportSection
from cda.report.plots import PEOPLE_MARK, SCORINGS, Plot, in_words, named, percent_scale, rows_plot
from cda.report.tables import Table
from cda.results.base import BeforeAfter, Estimate, Missing
from cda.results.dose import BiasCorrection, CalibratedBias, CalibrationResult, OrderCorrection

_MARKS = {"before": SCORINGS["before"], "after": SCORINGS["after"], "people": PEOPLE_MARK}
_TERMS = (
    Entry("offset", "bias of the first side only", "What is taken off a margin if the first side has the bias and the second has not."),
    Entry("slope", "measure of the first side − of the second", "What is taken off for each unit of the difference."),
    Entry("strength", "0 to 1", "Share of the fitted corrections that is applied, chosen by cross-validation; 0 leaves the scorer as it is."),
    Entry("gap", "|skew − people's skew|", "On each half of the prompts alone, then averaged: chance makes it larger than on all of them, before and after alike."),
    Entry("miscalibration", "share of contrasts", "On which the scorer's preference and people's majority differ."),
)  # fmt: skip


def calibration_document(result: CalibrationResult) -> Document:
    """The verdict, the tables, and what they rest on."""
    sentences = (*calibration_sentences(result), *result.facts.notes)
    sections = (
        ReportSection("effect", "Effect on votes that did not fit it", (), (effect_table(result),), (_plot(result),)),
        ReportSection("corrections", "What is taken off", (), (corrections_table(result),)),
        how_made(result.versions, sentences, result.sources | {"people's ties": result.ties, "seed": str(result.seed)}),
        meaning(*_TERMS),
    )
    return Document(
        f"Calibration of {called(result.scorer)}", "", (Headline("", calibration_verdict(result)),), sections, headline=_headline(result),
        glance=_glance(result), notes=(Headline("", f"{_HARDLY}.", more="made"),) if _hardly(result) else (),
        next=after_calibration(result),
    )  # fmt: skip


_BEFORE, _AFTER, _PEOPLE = Series("before", "as it is"), Series("after", "calibrated"), Series("people", "people")


_HARDLY = "The margins hardly follow people's votes"


def _hardly(result: CalibrationResult) -> bool:
    return result.following.low <= LEAST_FOLLOWING


def _headline(result: CalibrationResult) -> str:
    """What the calibration does on votes that did not fit it, in one sentence."""
    who = called(result.scorer)
    if result.strength == 0:
        return f"No calibration is shown to bring {who} nearer to people; it stays as it is."
    did = {NEARER: "disagrees with people less on {}", FURTHER: "more on {}", NOT_SHOWN: "shows no change on {}"}
    parts = []
    for chip, said in did.items():
        names = [name for name, own in result.biases.items() if _chip(result, name) == chip]
        only = result.biases[names[0]] if len(names) == 1 and len(result.biases) == 1 else None
        parts += [said.format(some(names)) + (f" ({_from_to(only)})" if only else "")] if names else []
    return capital(f"{who}, calibrated, {'; '.join(parts)}, on votes that did not fit it.")


def _from_to(own: CalibratedBias) -> str:
    before, after = own.base["miscalibration"].value, own.calibrated["miscalibration"].value
    return f"{percent(before)[:-1]} → {percent(after)}"


def _chip(result: CalibrationResult, name: str) -> Chip:
    return moved(result.biases[name].change.get("miscalibration"), NEARER, FURTHER) if result.strength else NOT_SHOWN


def _glance(result: CalibrationResult) -> Glance:
    key, on = "skew_on_voted", bool(result.strength)
    rows = []
    for name, own in result.biases.items():
        marks = (*marked(_BEFORE, own.base[key]), *(marked(_AFTER, own.calibrated[key]) if on else ()))
        marks += marked(_PEOPLE, own.base.get(MEASURES[key].people))
        clause = f"disagrees with people in {_from_to(own) if on else percent(own.base['miscalibration'].value)}"
        rows.append(GlanceRow(name, (Cell(_chip(result, name), marks),), clause))
    if result.quality and isinstance(result.quality.before, Estimate):
        marks = (*marked(_BEFORE, result.quality.before), *(marked(_AFTER, result.quality.after) if on else ()))
        chip = moved(result.quality.change, Chip("fell", "bad", "✗"), Chip("rose", "good", "✓")) if on else NOT_SHOWN
        rows.append(GlanceRow("quality", (Cell(chip, marks),), f"pairs ranked right, n = {result.quality.before.n}"))
    ns = sorted({own.base[key].n for own in result.biases.values()})
    return Glance(
        caption="How often the side with the bias is preferred, on votes that did not fit the calibration.", heading="bias",
        axis=percent_axis("share of contrasts"), end=f"n = {' to '.join(map(str, dict.fromkeys((ns[0], ns[-1]))))}" if ns else "",
        rows=tuple(rows),
        reading=("Nearer to people: the 95% interval of the change of disagreement lies below 0. The dashed line is 50%, no preference.",),
    )  # fmt: skip


def calibration_verdict(result: CalibrationResult) -> str:
    """A sentence that says if a calibration is worth applying."""
    if result.strength == 0:
        return (
            "No calibration is shown to help: by cross-validation, none brings the scorer nearer to people by more than chance would "
            f"without losing more than {percent(result.max_quality_loss)} of accuracy. Applied, the file changes nothing."
        )
    return f"A calibration at strength {result.strength:g} was chosen; apply it with score.calibration={result.made_by.file}."


def effect_table(result: CalibrationResult) -> Table:
    """The scorer as it is and calibrated, out of fold, measure by measure."""
    parts: list[tuple[str, str, str, BeforeAfter, Estimate | None]] = [
        (name, measure.shown_as.get("dose", measure.title), key,
         BeforeAfter(before=own.base[key], after=own.calibrated[key], change=own.change[key]), own.base.get(measure.people))
        for name, own in result.biases.items() for key, measure in of_place("dose").items() if key in own.change
    ]  # fmt: skip
    parts += [("all", "accuracy on quality pairs", "accuracy", result.quality, None)] if result.quality else []
    if isinstance(result.order, OrderCorrection):
        parts.append(("all", "first place preferred", "accuracy", result.order.prefers_first, None))
    rows = []
    for name, title, key, found, people in parts:
        form, moved = partial(printed, key, ""), points if "share" in MEASURES[key].unit else signed
        cells = (cell(found.before, form), cell(found.after, form), cell(people, share), cell(found.change, moved))
        rows.append((name, title, *cells, str(found.before.n) if isinstance(found.before, Estimate) else ""))
    caption = f"The scorer as it is and calibrated, out of fold, with {PERCENT} intervals"
    header = ("bias", "measure", "as it is", "calibrated", "people", "change", "n")
    if result.strength:
        return Table(caption, header, tuple(rows))
    kept = (0, 1, 2, 4, 6)
    as_it_is = [tuple(row[at] for at in kept) for row in (header, *rows)]
    return Table(f"The scorer as it is, with {PERCENT} intervals", as_it_is[0], tuple(as_it_is[1:]))


def corrections_table(result: CalibrationResult) -> Table:
    """What each correction takes off."""
    rows = [
        (name, cell(own.offset, _number, "none"), cell(own.slope, _number, "none"), _measure(own))
        for name, own in result.corrections.items()
    ]
    order = result.order
    if isinstance(order, OrderCorrection):
        rows.append(("first place", _number(order.offset), "", "shown first"))
    unit = "log odds of the preference" if result.unit == "log odds" else "units of the reward"
    caption = f"Corrections at strength 1, taken off the margin, in {unit}, with {PERCENT} intervals"
    return Table(caption, ("bias", "offset", "slope", "measure"), tuple(rows))


def _number(estimate: Estimate) -> str:
    """A correction with its interval, each to two digits."""
    low, value, high = (plain(end, 2) for end in (estimate.low, estimate.value, estimate.high))
    return f"{value} [{low}, {high}]"


def _measure(own: BiasCorrection) -> str:
    name = own.measure.feature.replace("_", " ")
    return f"log of {name}" if own.measure.logarithm else name


def calibration_sentences(result: CalibrationResult) -> list[str]:
    """Notes on the method, the choice, what was left out, and the limits of the numbers."""
    tried = ", ".join(f"{strength} {_number(gain)}" for strength, gain in result.strengths.items())
    lines = [
        "The strength was chosen by five-fold cross-validation on all votes: squared error of people's majorities, forecast by the "
        f"scorer's share for the side with the bias; what each strength gains over 0: {tried}. One must gain at the 5% level, one-sided.",
    ]
    if result.strength:
        lines.append(
            f"Out of fold: the prompts were split in two {result.repeats} times; each half fitted a logistic regression on people's "
            "majorities and corrected the other half, at the strength of the file. The corrections in the file were fitted on all "
            "votes: applied to these same contrasts they look better than they are; the numbers above do not."
        )
    if _hardly(result):
        lines.append(
            f"{_HARDLY}, with the terms held fixed (log odds of {_number(result.following)} per root mean square of the margins): a "
            "correction moves how often the side with the bias is preferred, and says little about which pairs people prefer."
        )
    lines += [
        f"{name} has no {part}: {found.reason}."
        for name, own in result.corrections.items()
        for part, found in (("offset", own.offset), ("slope", own.slope))
        if isinstance(found, Missing)
    ]
    if isinstance(result.order, Missing):
        lines.append(f"No correction of the order: {result.order.reason}.")
    if result.quality is None:
        lines.append("Accuracy was not watched: there are no quality pairs.")
    lines += [f"{name} is not corrected: {why}." for name, why in result.uncorrected.items()]
    lines += [f"Left out of {own.seen} {what}: {counted(own.reasons)}." for what, own in result.left_out.items()]
    return lines


def _plot(result: CalibrationResult) -> Plot:
    key = "skew_on_voted"
    of_people = MEASURES[key].people
    shown = {
        name: dict(zip(_MARKS, (own.base[key], own.calibrated[key], own.base[of_people]), strict=True))
        for name, own in result.biases.items()
    }
    title = "Share preferred with the bias, before and after calibration (out of fold), next to people's"
    words = " ".join(in_words(name, own, share, True) for name, own in shown.items())
    rows = [(named(name), own) for name, own in shown.items()]
    return rows_plot("calibration", title, words, rows, _MARKS, percent_scale("preferred with the bias (%)", 50))
