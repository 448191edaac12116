"""Best-of-n in words and tables, from its numbers alone; its figures are in plots/best_of_n.py."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from math import log2
from typing import TYPE_CHECKING

from cda.report.numbers import MINUS, clipped, inert, p_value, percent, share
from cda.report.page import Entry, Headline, Page, Section, plots_of, render_page
from cda.report.plots import (
    AFTER,
    BEFORE,
    COLUMN_INCHES,
    FAINT,
    LINE,
    PAGE_INCHES,
    Plot,
    across,
    key,
    named,
    percent_axis,
    rows,
    upright,
)
from cda.report.tables import Table, escaped, markdown_table, plain_table
from cda.results.base import Missing
from cda.results.benchmarks import Asked, AtSize, BestOfResult, Curve, Measured, NoSpread
from cda.results.facts import RewardModelFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ALIKE = " (all alike)"  # the same in every prompt, so that there is no interval


def best_of_n_text(result: BestOfResult) -> str:
    """For a terminal: the largest n beside n = 1, slopes, and what was counted."""
    tables = [plain_table(table) for table in (_largest(result), _slopes(result))]
    return "\n\n".join([*tables, "\n".join(inert(line) for line in best_of_n_sentences(result))])


def best_of_n_markdown(result: BestOfResult) -> str:
    """A Markdown document with every table; text from outside is escaped."""
    lines = ["# Best-of-n: what the reward picks as n grows", ""]
    lines += [line for sentence in best_of_n_sentences(result) for line in (escaped(sentence), "")]
    for table in best_of_n_tables(result):
        lines += markdown_table(table)
    lines += [f"- {escaped(one.name)}: {escaped(one.definition)}" for one in result.curves]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def best_of_n_tables(result: BestOfResult) -> list[Table]:
    """The largest n, the slopes, then the whole curve of every attribute and of the quality."""
    return [_largest(result), _slopes(result), *(_curve_table(one, result) for one in result.curves)]


def best_of_n_sentences(result: BestOfResult) -> list[str]:
    """How it was made, what was left out, and what the numbers do not say."""
    fewest, median, most = result.responses_per_prompt
    per_prompt = f"{fewest}" if fewest == most else f"{fewest} to {most} (median {median:g})"
    found = [
        f"{result.n_responses} responses to {result.n_prompts} prompts, {per_prompt} each, from {result.responses}.",
        "At each n: the response of highest reward among n of a prompt's, in expectation over all ways to draw them without "
        "replacement (exact; equal rewards share alike), then the mean over prompts. n = 1 is the policy that was sampled, "
        "whatever the reward.",
        "KL: log n − (n − 1)/n nats at most between best-of-n and that policy (Stiennon et al., 2020; an upper bound where "
        "rewards can be equal: Beirami et al., 2024).",
    ]
    found += [_scored(label, result.models[label]) for label in result.scorings]
    for what, one in result.excluded.items():
        if dropped := ", ".join(f"{count} {reason}" for reason, count in one.reasons.items()):
            found.append(f"Left out of {one.seen} {what}: {dropped}.")
    if result.n_repeated:
        found.append(
            f"{result.n_repeated} responses repeat another of their prompt word for word; they stay, as they were sampled."
        )
    if fewest < result.sizes[-1]:
        found.append(
            "The first two tables and the figure keep to the prompts that reach the largest n. In the tables by n, every n "
            "has the prompts that reach it, so that two n may differ by their prompts as well."
        )
    if result.unvaried:
        found.append(f"Not followed, because no prompt has responses that differ in it: {', '.join(result.unvaried)}.")
    if isinstance(result.quality, Missing) and result.excluded["quality"].seen:
        found.append(f"Quality is not followed: {result.quality.reason}.")
    return found


def _scored(label: str, one: Asked) -> str:
    name, facts = one.model + (f" with {one.adapter}" if one.adapter else ""), one.facts
    said, cut = [], ""
    if isinstance(facts, RewardModelFacts):
        known = {"precision": facts.precision, "form": facts.form, "max length tokens": facts.max_length_tokens}
        said = [f"{what} {value}" for what, value in known.items() if value is not None]
        cut = f"; {facts.truncated} of {facts.texts} texts were cut" if facts.truncated else ""
        said = said or [str(facts.how)]
    return f"Rewards {label}: {name} ({', '.join(said)}){cut}."


def _largest(result: BestOfResult) -> Table:
    n, labels = result.sizes[-1], result.scorings
    tested = ("change", "p", "p (Holm)") if len(labels) == 2 else ()
    header = ("picks", "n = 1", *(f"{label}, n = {n}" for label in labels), *tested, "prompts")
    rows = []
    for one in result.curves:
        last = one.at[-1]
        cells = [curve_name(one), level(one, one.at[0].complete[labels[0]])]
        cells += [level(one, last.scorings[label]) for label in labels]
        if tested:
            cells += [_change_cell(one, last), *("" if p is None else p_value(p) for p in (one.p_value, one.p_holm))]
        rows.append((*cells, str(last.n_prompts)))
    noted = "; p is for the test that nothing changed, Holm over the attributes" if tested else ""
    return Table(f"What best-of-{n} picks, with 95% intervals{noted}", header, tuple(rows))


def _slopes(result: BestOfResult) -> Table:
    labels = result.scorings
    header = ("added by each doubling of n", *labels, *(("change",) if len(labels) == 2 else ()), "prompts")
    rows = []
    for one in result.curves:
        cells = [change_of(one, one.slope[label]) for label in labels]
        cells += [change_of(one, one.slope_change)] if one.slope_change is not None else []
        rows.append((curve_name(one), *cells, str(one.at[-1].n_prompts)))
    return Table(
        f"How much optimising the reward amplifies it: slope in log2(n), n = 1 to {result.sizes[-1]}, with 95% intervals",
        header,
        tuple(rows),
    )


def _curve_table(one: Curve, result: BestOfResult) -> Table:
    labels, two = result.scorings, len(result.scorings) == 2
    rows = []
    for at in one.at:
        cells = [level(one, at.scorings[label]) for label in labels]
        cells += [_change_cell(one, at)] if two else []
        rows.append((str(at.n), f"{at.kl_nats:.2f}", *cells, str(at.n_prompts), str(at.n_too_few)))
    header = ("n", "KL ≤ (nats)", *labels, *(("change",) if two else ()), "prompts", "with fewer responses")
    unknown = f"; unknown in {one.n_unknown} prompts, left out" if one.n_unknown else ""
    return Table(f"{curve_name(one)}, by n, with 95% intervals{unknown}", header, tuple(rows))


def _change_cell(one: Curve, at: AtSize) -> str:
    return "none by construction" if at.change is None else change_of(one, at.change)


def curve_name(one: Curve) -> str:
    """What is followed, and whether it is a share or a mean."""
    return f"{one.name} ({one.kind})"


def level(one: Curve, measured: Measured) -> str:
    """A share or mean with its interval; one without says why."""
    if one.kind == "mean":
        return _interval(measured)
    return f"{percent(measured.value)}{_ALIKE}" if isinstance(measured, NoSpread) else share(measured)


def change_of(one: Curve, measured: Measured) -> str:
    """A change or slope, signed; shares in points."""
    return _interval(measured, 100.0, "+", " points") if one.kind == "share" else _interval(measured, sign="+")


def _interval(measured: Measured, scale: float = 1.0, sign: str = "", unit: str = "") -> str:
    """A value with its interval, to two digits of the interval's half-width."""
    if isinstance(measured, NoSpread):
        alike = scale * measured.value
        return f"{alike:{sign if alike else ''}.4g}{unit}{_ALIKE}".replace("-", MINUS)
    half = scale * (measured.high - measured.low) / 2
    digits = min(max(1 - math.floor(math.log10(half)), 0), 4) if half > 0 else 4
    value, low, high = (_rounded(scale * end, digits, sign) for end in (measured.value, measured.low, measured.high))
    return f"{value} [{low}, {high}]{unit}".replace("-", MINUS)


def _rounded(value: float, digits: int, sign: str) -> str:
    """So many decimals; one that is not 0, where rounding would hide on which side of 0 a value lies."""
    if value and round(value, digits) == 0:
        digits = -math.floor(math.log10(abs(value)))
    return f"{value:{sign if value else ''}.{digits}f}"


_COLORS, _SHAPES = (BEFORE, AFTER), "os"
_APART = 0.06
"""Half the distance of two scorings at one n, so that no interval hides another; n is drawn by its logarithm."""
_TICKS, _PANEL_TICKS = 12, 7
"""How many sizes can be labelled below a figure, and below a panel."""
_PANELS, _PANEL_INCHES = 3, 1.75
"""Panels beside each other on a page, and the height of one."""


def overview_plot(result: BestOfResult) -> Plot:
    """Every curve in a panel of its own, with one key: the figure that stands as a file beside the tables."""
    found, labels = result.curves, result.scorings
    across_page = min(len(found), _PANELS)
    words = " ".join(f"{curve_name(one)}: {_numbers(one, labels)}" for one in found)
    title = "What the reward picks among n responses, as n grows, with 95% intervals; every panel has its own scale"
    height = 0.4 + _PANEL_INCHES * -(-len(found) // _PANELS)
    width = COLUMN_INCHES if across_page == 1 else PAGE_INCHES
    return Plot("best_of_n", title, words, partial(_overview, found, labels), height, width)


def curve_plots(result: BestOfResult) -> Iterator[Plot]:
    """A figure an attribute, and one for the quality where it was followed."""
    labels = result.scorings
    for place, one in enumerate(result.curves, 1):
        yield Plot(f"curve-{place}", named(curve_name(one), 60), _numbers(one, labels), partial(_curve, one, labels))


def slope_plot(result: BestOfResult) -> Plot | None:
    """What each doubling of n adds to the share of every bias; None where no share is followed."""
    found = [one for one in result.attributes if one.kind == "share"]
    if not found:
        return None
    labels = result.scorings
    words = " ".join(
        f"{one.name}: " + ", ".join(f"{change_of(one, one.slope[label])} {label}" for label in labels) + "."
        for one in found
    )
    height = 0.9 + len(found) * (0.2 + 0.12 * len(labels))
    title = "How much each doubling of n adds to the share of a bias"
    return Plot("slopes", title, words, partial(_slope_plot, found, labels), height)


def _numbers(one: Curve, labels: Sequence[str]) -> str:
    """A curve in words."""
    return " ".join(
        f"n = {at.n}: " + ", ".join(f"{level(one, at.complete[label])} {label}" for label in labels) + "."
        for at in one.at
    )


def _overview(found: Sequence[Curve], labels: Sequence[str], axes: Axes) -> None:
    """Panels in place of the axes, as many beside each other as the page holds."""
    figure, place = axes.get_figure(), axes.get_subplotspec()
    if figure is None or place is None:
        raise ValueError("panels take the place of axes that stand in a figure's grid")
    across_page = min(len(found), _PANELS)
    grid = place.subgridspec(-(-len(found) // across_page), across_page)
    axes.remove()
    for at, one in enumerate(found):
        panel = figure.add_subplot(grid[at // across_page, at % across_page])
        _lines(one, labels, panel, _PANEL_TICKS)
        panel.set_title(f"{named(one.name)} ({one.kind})", loc="left")
        panel.set_ylabel("")
    _key(labels, panel)


def _curve(one: Curve, labels: Sequence[str], axes: Axes) -> None:
    _lines(one, labels, axes)
    _key(labels, axes)


def _lines(one: Curve, labels: Sequence[str], axes: Axes, most_ticks: int = _TICKS) -> None:
    apart = _APART if len(labels) == 2 else 0.0
    for place, label in enumerate(labels):
        x = [log2(at.n) + apart * (2 * place - 1) for at in one.at]
        measured = [at.complete[label] for at in one.at]
        color = _COLORS[place]
        dashes = (0, (4, 2)) if len(labels) == 2 and not place else "solid"
        axes.plot(x, [value.value for value in measured], color=color, linestyle=dashes, zorder=2)
        for at, value in zip(x, measured, strict=True):
            upright(axes, at, value, color, _SHAPES[place], bool(place) or len(labels) == 1)
    shown = spaced([at.n for at in one.at], most_ticks)
    axes.set_xticks([log2(n) for n in shown], [str(n) for n in shown])
    axes.set_xlabel("n")
    axes.grid(axis="y", color=LINE)
    if one.kind == "share":
        axes.set_ylabel("share of picks")
        percent_axis(axes, "y")
    else:
        axes.set_ylabel("mean of picks")


def spaced(sizes: Sequence[int], most: int) -> list[int]:
    """The sizes that are labelled on a logarithmic axis with room for so many labels: from the largest down, none too close."""
    gap = log2(sizes[-1]) / (most - 1)
    kept = [sizes[-1]]
    for n in reversed(sizes[:-1]):
        if log2(kept[-1] / n) >= gap * (1 - 1e-9):
            kept.append(n)
    return kept[::-1]


def _slope_plot(found: Sequence[Curve], labels: Sequence[str], axes: Axes) -> None:
    axes.axvline(0, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    for row, one in enumerate(found):
        for place, label in enumerate(labels):
            y = row if len(labels) == 1 else row + (-0.18, 0.18)[place]
            filled = bool(place) or len(labels) == 1
            across(axes, y, one.slope[label], _COLORS[place], _SHAPES[place], filled, factor=100)
    rows(axes, [named(one.name, 18) for one in found])
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("points added by each doubling")
    _key(labels, axes)


def _key(labels: Sequence[str], axes: Axes) -> None:
    if len(labels) == 2:
        key(
            axes,
            [(named(label, 20), _COLORS[place], _SHAPES[place], bool(place)) for place, label in enumerate(labels)],
        )


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


def _findings(result: BestOfResult) -> Iterator[Headline]:
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
        yield Headline(f"{curve_name(one)}:", f"{text}; {last.n_prompts} prompts.")


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
