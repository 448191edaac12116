"""The result of `cda best-of` as one HTML file, drawn from its numbers alone."""

from __future__ import annotations

from collections.abc import Iterator

from cda.report.best_of_n_tables import best_of_n_sentences, best_of_n_tables, change_of, curve_name, level
from cda.report.glossary import Entry
from cda.report.numbers import clipped, p_value
from cda.report.page import Finding, Page, render_page
from cda.report.plots.best_of_n import curve_plots, overview_plot, slope_plot
from cda.report.plots.plot import Plot
from cda.report.sections import Section, plots_of
from cda.results.benchmarks import Asked, BestOfResult

_TEXT = (
    "For each n: what the response of highest reward shows, among n responses to a prompt, with 95% intervals over prompts. "
    "Where a line rises, picking by this reward makes the attribute more frequent or larger."
)
_TWO = "Where one line is flatter than the other, its reward amplifies the attribute less; the slopes below say by how much."
_TERMS = (
    Entry("share or mean of picks", "mean over prompts of E[attribute of the best of n]", "Exact over all ways to draw n of a prompt's responses."),
    Entry("slope", "least squares in log2(n)", "What each doubling of n adds, over the prompts that reach the largest n."),
    Entry("KL", "log n − (n − 1)/n", "How far best-of-n can be from the policy that was sampled, in nats, at most."),
    Entry("p, p (Holm)", "paired t over prompts at the largest n", "Of no change; Holm's adjusted over the attributes."),
)  # fmt: skip


def best_of_n_page(result: BestOfResult) -> str:
    """The whole result as a self-contained page; text from outside is escaped."""
    models = dict.fromkeys(_model(result.models[label]) for label in result.scorings)
    title = f"Best-of-n: what {clipped(' and '.join(models), 120)} picks"
    subtitle = f"{result.n_responses} responses to {result.n_prompts} prompts, from {result.responses}."
    return render_page(Page(title, subtitle, tuple(_findings(result)), tuple(_sections(result))))


def best_of_n_plots(result: BestOfResult) -> list[Plot]:
    """What is written for paper: all curves in one figure, then those of the page."""
    return [overview_plot(result), *plots_of(_sections(result))]


def _model(one: Asked) -> str:
    return f"{one.model} with {one.adapter}" if one.adapter else one.model


def _findings(result: BestOfResult) -> Iterator[Finding]:
    """Each attribute at the largest n beside n = 1, and its change."""
    n, labels = result.sizes[-1], result.scorings
    for one in result.curves:
        last = one.at[-1]
        sampled = level(one, one.at[0].complete[labels[0]])
        picked = ", ".join(
            f"{level(one, last.scorings[label])}{f' {label}' if len(labels) == 2 else ''}" for label in labels
        )
        text = f"{sampled} at n = 1; at n = {n}: {picked}"
        if last.change is not None and one.p_value is not None:
            adjusted = "" if one.p_holm is None else f", Holm {p_value(one.p_holm)}"
            text += f"; change {change_of(one, last.change)} (p {p_value(one.p_value)}{adjusted})"
        yield Finding(f"{curve_name(one)}:", f"{text}; {last.n_prompts} prompts.")


def _sections(result: BestOfResult) -> Iterator[Section]:
    first, slopes, *curves = best_of_n_tables(result)
    yield Section(
        "curves",
        "As n grows",
        (_TEXT, _TWO) if len(result.scorings) == 2 else (_TEXT,),
        (first,),
        tuple(curve_plots(result)),
    )
    plot = slope_plot(result)
    yield Section("slopes", "What each doubling adds", (), (slopes,), () if plot is None else (plot,))
    yield Section(
        "by-n", "Every n", ("All prompts that reach an n, so that two n may differ by their prompts.",), tuple(curves)
    )
    definitions = [(curve_name(one), one.definition) for one in result.curves]
    yield Section(
        "scoring", "How it was made", tuple(best_of_n_sentences(result)), facts=(*definitions, *_facts(result))
    )
    yield Section("meaning", "What the numbers mean", entries=_TERMS)


def _facts(result: BestOfResult) -> Iterator[tuple[str, str]]:
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())
