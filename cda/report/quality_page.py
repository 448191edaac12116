"""The result of `cda quality` as one HTML file, drawn from quality.json alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cda.report.glossary import Entry
from cda.report.numbers import Json, clipped, count
from cda.report.page import Finding, Page, render_page
from cda.report.plots.plot import Plot
from cda.report.plots.quality import quality_plots
from cda.report.quality_tables import (
    FLAGS,
    FORMATS,
    MEANINGS,
    accuracy,
    compares_two,
    how_scored,
    labels_of,
    set_notes,
    set_tables,
    shown_groups,
    tenth_points,
)
from cda.report.sections import Section, plots_of

_TERMS = (
    Entry("accuracy", "items with the right answer on top / items", "By each benchmark's own rule, which stands with its numbers."),
    Entry("± 1 SE", "standard error by whole prompts", "What papers draw as bars; a 95% interval reaches about twice as far."),
)  # fmt: skip
_CHANGE_TERMS = (
    Entry("paired change", "second scoring − first, on the same items", "Its interval allows for items that both get right or wrong."),
    Entry("p, p (Holm)", "signs of whole prompts flipped; Holm over the sections of all files", "For the test that nothing changed."),
)  # fmt: skip


def quality_page(result: Json) -> str:
    """The whole result as a self-contained page; text from outside is escaped."""
    models = " and ".join(dict.fromkeys(_model(one) for one in result["scorings"]))
    names = ", ".join(one["name"] for one in result["sets"])
    return render_page(
        Page(
            f"Quality of {clipped(models, 120)}",
            f"Accuracy on {names}.",
            tuple(findings(result)),
            tuple(_sections(result)),
        )
    )


def quality_page_plots(result: Json) -> list[Plot]:
    """Every figure of the page."""
    return plots_of(_sections(result))


def _model(scoring: Json) -> str:
    adapter = f" with {scoring['adapter']} at dose {scoring['dose']:g}" if scoring.get("adapter") else ""
    return f"{scoring['model']}{adapter}"


def findings(result: Json) -> Iterator[Finding]:
    """Each set in a sentence: accuracy, change, and the sections that fell."""
    for one in result["sets"]:
        overall = one["overall"]
        n = count(overall["scores"][labels_of(result)[0]]["estimate"])
        shown = ", ".join(
            f"{accuracy(overall['scores'][label]['estimate'])}{f' {label}' if compares_two(result) else ''}"
            for label in labels_of(result)
        )
        if overall["shift"] is None:
            yield Finding(f"{one['name']}:", f"accuracy {shown} (n = {n}).")
            continue
        change = tenth_points(overall["shift"]["estimate"])
        yield Finding(
            f"{one['name']}:", f"accuracy {shown}; change {change} points (n = {n}). {_fallen(one)}", _kind(one)
        )


def _fallen(one: Json) -> str:
    """Which sections fell; the overall where it is the one section."""
    fell = [group for group in one["sections"] if group["shift"]["fell"]]
    if not fell:
        return f"None of {len(one['sections'])} sections fell by more than 1 point."
    told = ", ".join(
        f"{group['name']} {tenth_points(group['shift']['estimate'])}{'*' if group['shift']['excludes_0'] else ''}"
        for group in fell
    )
    star = " (*: and the 95% interval lies below 0)" if any(group["shift"]["excludes_0"] for group in fell) else ""
    return f"Fell by more than 1 point: {told}{star}."


def _kind(one: Json) -> Literal["good", "bad", "none"]:
    """Bad where a fall is shown, good where one is ruled out for every section, else neither."""
    shifts = [group["shift"] for group in shown_groups(one)]
    if any(shift["fell"] and shift["excludes_0"] for shift in shifts):
        return "bad"
    return "good" if all(shift["rules_out_fall"] for shift in shifts) else "none"


def _sections(result: Json) -> Iterator[Section]:
    for place, one in enumerate(result["sets"], 1):
        rule = f"Read as {FORMATS[one['format']]}. {MEANINGS[one['format']]}"
        notes = tuple(set_notes(one, result))
        yield Section(
            f"set-{place}",
            one["name"],
            (rule, *notes),
            tuple(set_tables(one, result)),
            tuple(quality_plots(one, result, place)),
        )
    yield Section("scoring", "How it was scored", tuple(how_scored(result)), facts=tuple(_facts(result)))
    two = compares_two(result)
    terms = (*_TERMS, *_CHANGE_TERMS) if two else _TERMS
    yield Section("meaning", "What the numbers mean", (FLAGS,) if two else (), entries=terms)


def _facts(result: Json) -> Iterator[tuple[str, str]]:
    yield "files", "; ".join(f"{one['name']}: {one['source']}" for one in result["sets"])
    if compares_two(result):
        yield "tests", f"{result['n_tests']} sections; Holm's p allows for all of them"
    if "seed" in result:
        yield "seed", str(result["seed"])
    if result.get("versions"):
        yield "versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())
