"""The result of `cda quality` as one HTML file, drawn from its numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cda.report.glossary import Entry
from cda.report.numbers import clipped, count
from cda.report.page import Finding, Page, render_page
from cda.report.plots.plot import Plot
from cda.report.plots.quality import quality_plots
from cda.report.quality_tables import (
    FLAGS,
    FORMATS,
    MEANINGS,
    accuracy,
    how_scored,
    set_notes,
    set_tables,
    tenth_points,
    with_adapter,
)
from cda.report.sections import Section, plots_of
from cda.results.benchmarks import QualityResult, SetQuality

_TERMS = (
    Entry("accuracy", "items with the right answer on top / items", "By each benchmark's own rule, which stands with its numbers."),
    Entry("± 1 SE", "standard error by whole prompts", "What papers draw as bars; a 95% interval reaches about twice as far."),
)  # fmt: skip
_CHANGE_TERMS = (
    Entry("paired change", "second scoring − first, on the same items", "Its interval allows for items that both get right or wrong."),
    Entry("p, p (Holm)", "signs of whole prompts flipped; Holm over the sections of all files", "For the test that nothing changed."),
)  # fmt: skip


def quality_page(result: QualityResult) -> str:
    """The whole result as a self-contained page; text from outside is escaped."""
    models = " and ".join(dict.fromkeys(map(with_adapter, result.scorings)))
    names = ", ".join(one.name for one in result.sets)
    return render_page(
        Page(
            f"Quality of {clipped(models, 120)}",
            f"Accuracy on {names}.",
            tuple(findings(result)),
            tuple(_sections(result)),
        )
    )


def quality_page_plots(result: QualityResult) -> list[Plot]:
    """Every figure of the page."""
    return plots_of(_sections(result))


def findings(result: QualityResult) -> Iterator[Finding]:
    """Each set in a sentence: accuracy, change, and the sections that fell."""
    two = len(result.labels) > 1
    for one in result.sets:
        overall = one.overall
        n = count(overall.scores[result.labels[0]].estimate)
        shown = ", ".join(
            f"{accuracy(score.estimate)}{f' {label}' if two else ''}" for label, score in overall.scores.items()
        )
        if overall.shift is None:
            yield Finding(f"{one.name}:", f"accuracy {shown} (n = {n}).")
            continue
        change = tenth_points(overall.shift.estimate)
        yield Finding(f"{one.name}:", f"accuracy {shown}; change {change} points (n = {n}). {_fallen(one)}", _kind(one))


def _fallen(one: SetQuality) -> str:
    """Which sections fell; the overall where it is the one section."""
    fell = [(group.name, group.shift) for group in one.sections if group.shift is not None and group.shift.fell]
    if not fell:
        return f"None of {len(one.sections)} sections fell by more than 1 point."
    told = ", ".join(f"{name} {tenth_points(shift.estimate)}{'*' if shift.excludes_0 else ''}" for name, shift in fell)
    star = " (*: and the 95% interval lies below 0)" if any(shift.excludes_0 for _, shift in fell) else ""
    return f"Fell by more than 1 point: {told}{star}."


def _kind(one: SetQuality) -> Literal["good", "bad", "none"]:
    """Bad where a fall is shown, good where one is ruled out for every section, else neither."""
    shifts = [group.shift for group in one.shown if group.shift is not None]
    if any(shift.fell and shift.excludes_0 for shift in shifts):
        return "bad"
    return "good" if all(shift.rules_out_fall for shift in shifts) else "none"


def _sections(result: QualityResult) -> Iterator[Section]:
    for place, one in enumerate(result.sets, 1):
        rule = f"Read as {FORMATS[one.format]}. {MEANINGS[one.format]}"
        notes = tuple(set_notes(one, result.scorings[0].unit))
        yield Section(
            f"set-{place}",
            one.name,
            (rule, *notes),
            tuple(set_tables(one)),
            tuple(quality_plots(one, place)),
        )
    yield Section("scoring", "How it was scored", tuple(how_scored(result)), facts=tuple(_facts(result)))
    two = len(result.labels) > 1
    terms = (*_TERMS, *_CHANGE_TERMS) if two else _TERMS
    yield Section("meaning", "What the numbers mean", (FLAGS,) if two else (), entries=terms)


def _facts(result: QualityResult) -> Iterator[tuple[str, str]]:
    yield "files", "; ".join(f"{one.name}: {one.source}" for one in result.sets)
    if len(result.labels) > 1:
        yield "tests", f"{result.n_tests} sections; Holm's p allows for all of them"
    yield "seed", str(result.seed)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())
