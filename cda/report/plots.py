"""Figures as values: what they show, in this module's colours and marks; `cda.report.drawing` draws them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from cda.report.numbers import count, plain, share, signed, visible
from cda.results.base import Estimate
from cda.results.benchmarks import Measured
from cda.results.effects import Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The palette of Okabe and Ito, whose colours differ for every common form of colour blindness; marks differ in shape as well. Those with
# a custom property of report.css have other values on a page.
INK, FAINT, LINE, PAGE = "#1b1f24", "#59616b", "#d5d9df", "#fffffe"
BEFORE, AFTER, PEOPLE, THIRD = "#d55e00", "#0072b2", "#000001", "#cc79a7"
_GREEN, _ORANGE, _SKY = "#009e73", "#e69f00", "#56b4e9"
PROPERTIES = {
    INK: "--ink", FAINT: "--faint", LINE: "--line", PAGE: "--page",
    BEFORE: "--before", AFTER: "--after", PEOPLE: "--people", THIRD: "--third",
}  # fmt: skip

Column = Literal["single", "double"]
WIDTHS: Mapping[str, float] = {"single": 3.3, "double": 6.8}
"""Widths of a paper's columns, in inches; on a page a figure of a single one reads well on a phone too."""
SHARE_LIMITS = (-2.0, 102.0)
_MOST_ROWS = 24
"""Levels that a figure shows."""
_LANE, _ROW_GAP = 0.11, 0.15  # inches between the marks of a row, and between rows
_FRAME, _TITLE = 0.75, 0.35  # inches for legend, ticks and the axis' name, and for a panel's title

Draw = Callable[["Axes"], None]


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure not yet drawn, in this module's colours; inches. `id` is anchor and file name (lower case, digits, hyphens,
    underscores), `title` the caption on the page, `description` the numbers in words, for readers who cannot see it."""

    id: str
    title: str
    description: str
    draw: Draw
    height: float = 2.4
    """Of each panel."""
    estimates: tuple[Estimate, ...] = ()
    """All that it shows: n and methods of its caption."""
    more: tuple[Draw, ...] = ()
    """Further panels."""
    least: float = 1.6
    """Least width of one of several panels."""

    @property
    def is_wide(self) -> bool:
        """True if it takes the page's width; a phone scrolls it sideways, within its frame."""
        return bool(self.more)

    @property
    def panels(self) -> tuple[Draw, ...]:
        return (self.draw, *self.more)

    def grid(self, column: Column) -> tuple[int, int]:
        """Rows and columns of panels."""
        columns = min(len(self.panels), int(WIDTHS[column] / self.least))
        return -(-len(self.panels) // columns), columns

    def size(self, column: Column) -> tuple[float, float]:
        """Width and height."""
        return WIDTHS[column], self.height * self.grid(column)[0]


@dataclass(frozen=True, slots=True)
class Mark:
    """The marker of one kind of estimate: shapes distinguish kinds if colours cannot."""

    name: str
    color: str
    shape: str
    filled: bool = True


SCORINGS = {
    "before": Mark("before", BEFORE, "o", filled=False),
    "after": Mark("after", AFTER, "o"),
    "plain": Mark("plain CDA (dose 1)", THIRD, "s", filled=False),
    "model": Mark("model", BEFORE, "o", filled=False),  # one scoring is the model as it came
}
PEOPLE_MARK = Mark("people", PEOPLE, "D")


Drawn = Estimate | tuple[Estimate, ...] | None


@dataclass(frozen=True, slots=True)
class PlotRow:
    """One row of a figure; an estimate for each mark, or several that have no mean; None if there is none."""

    label: str
    estimates: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """The horizontal axis, by its quantity and unit; shares are percentages. `limits` are in the axis' own unit, None fits
    them; `reference` is a dashed line, such as no effect; `bars` from 0 are drawn behind the marks."""

    name: str
    is_share: bool = False
    limits: tuple[float, float] | None = None
    reference: float | None = None
    bars: bool = False


def draw_rows(
    axes: Axes, rows: Sequence[PlotRow], marks: Sequence[Mark], scale: Scale, title: str = "", has_key: bool = True
) -> None:
    """Rows from the top down, the marks of a row below each other in the order given."""
    n_lanes = _lanes(rows, len(marks))
    lane = _LANE / _row_inches(n_lanes)
    factor = 100.0 if scale.is_share else 1.0
    for at, mark in enumerate(marks):
        shift = (at - (len(marks) - 1) / 2) * lane if n_lanes > 1 else 0.0
        lanes = [(y + shift, row.estimates[at]) for y, row in enumerate(rows)]
        own = [(y, each) for y, each in lanes if isinstance(each, Estimate)]
        _draw_mark(axes, mark, own, factor, scale.bars * lane)
        for y, each in lanes:
            if isinstance(each, tuple):
                values = [factor * one.value for one in each]
                axes.plot(
                    values, [y] * len(each), mark.shape, color=mark.color, markersize=3, fillstyle="none", zorder=3
                )
    if scale.reference is not None:
        axes.axvline(scale.reference, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if scale.limits is not None:
        axes.set_xlim(*scale.limits)
    axes.locator_params(axis="x", nbins=6)
    draw_frame(axes, scale.name, "x")
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    axes.set_title(title, loc="left")
    if has_key and len(marks) > 1:
        legend(axes, len(marks))


def _draw_mark(axes: Axes, mark: Mark, lanes: list[tuple[float, Estimate]], factor: float, bar: float) -> None:
    ys, estimates = [y for y, _ in lanes], [estimate for _, estimate in lanes]
    values = [factor * estimate.value for estimate in estimates]
    if bar:
        axes.barh(ys, values, height=0.9 * bar, color=mark.color, alpha=0.25, zorder=2)
    draw_points(axes, mark, values, ys, xerr=errors(estimates, factor))


def draw_points(axes: Axes, mark: Mark, xs: Sequence[float], ys: Sequence[float], **intervals: Any) -> None:
    """Points with their intervals (`xerr`, `yerr`: as of `errors`), with the mark's name for the legend."""
    axes.errorbar(
        xs, ys, fmt=mark.shape, color=mark.color, label=mark.name, markersize=4, elinewidth=1.2,
        markerfacecolor=mark.color if mark.filled else PAGE, markeredgewidth=1.0, zorder=3, **intervals,
    )  # fmt: skip


def errors(estimates: Sequence[Measured], factor: float = 1.0) -> list[list[float]]:
    """Lengths of the intervals below and above their values; 0 of a value without one."""
    # Rounding may put an end of an interval on the other side of its value.
    return [
        [max(0.0, factor * (one.value - one.low)) if isinstance(one, Estimate) else 0.0 for one in estimates],
        [max(0.0, factor * (one.high - one.value)) if isinstance(one, Estimate) else 0.0 for one in estimates],
    ]


def draw_frame(axes: Axes, name: str, grid: Literal["x", "y", "both"]) -> None:
    """Name the horizontal axis and draw faint lines across the one that is read."""
    axes.set_xlabel(name)
    axes.grid(axis=grid, color=LINE)
    axes.set_axisbelow(True)


def legend(axes: Axes, n: int) -> None:
    """Draw the key above all axes, in one line, which is broken if it is wider than the figure."""
    figure = axes.get_figure()
    if figure is not None:
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside upper center", ncols=n, borderaxespad=0.2, handletextpad=0.4,
            columnspacing=1.2,
        )  # fmt: skip


def _lanes(rows: Sequence[PlotRow], n_marks: int) -> int:
    """Lanes of a row: one for each mark, or one for all if no row has two."""
    return n_marks if any(sum(map(bool, row.estimates)) > 1 for row in rows) else 1


def _row_inches(n_lanes: int) -> float:
    return _LANE * n_lanes + _ROW_GAP


def rows_height(rows: Sequence[PlotRow], n_marks: int) -> float:
    """Height of a figure of rows, in inches."""
    return _FRAME + len(rows) * _row_inches(_lanes(rows, n_marks))


def named(name: object) -> str:
    """A name from outside as Matplotlib gets it: one line without control characters, which is broken where it has no room."""
    return " ".join(visible(name).split())


def slugs(names: Iterable[str]) -> dict[str, str]:
    """For each name a word of lower-case letters, digits and hyphens, no two the same: parts of identifiers and file names."""
    words: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "bias"
        word, at = plain, 2
        while word in words.values():
            word, at = f"{plain}-{at}", at + 1
        words[name] = word
    return words


SERIES = ((BEFORE, "o"), (AFTER, "s"), (_GREEN, "^"), (THIRD, "v"), (_ORANGE, "P"), (_SKY, "X"))
"""Colour and shape of as many things as one figure tells apart."""
SCORING_MARKS = ((BEFORE, "o", False), (AFTER, "s", True))
"""Colour, shape and filling of two scorings, first and second."""


def series_marks(names: Iterable[str]) -> dict[str, Mark]:
    """Marks of up to six things of one kind; of more the first."""
    return {name: Mark(textwrap.fill(named(name), 40), *form) for name, form in zip(names, SERIES, strict=False)}


def scoring_marks(labels: Sequence[str]) -> dict[str, Mark]:
    """Marks of one scoring, or of two, first and second."""
    alone = len(labels) == 1
    return {
        label: Mark(named(label), color, shape, filled or alone)
        for label, (color, shape, filled) in zip(labels, SCORING_MARKS, strict=False)
    }


Shown = Mapping[str, Drawn]
"""Word for a kind of estimate to the estimate; None if there is none."""


def rows_plot(
    id: str, title: str, text: str, shown: Iterable[tuple[str, Shown]], marks: Mapping[str, Mark], scale: Scale
) -> Plot:
    """A row for each label, with the marks of the words it has an estimate for."""
    return panels_plot(id, title, text, {"": (shown, scale)}, marks)


def panels_plot(
    id: str,
    title: str,
    text: str,
    panels: Mapping[str, tuple[Iterable[tuple[str, Shown]], Scale]],
    marks: Mapping[str, Mark],
) -> Plot:
    """Panels by their titles, each with rows as of `rows_plot`, under one key."""
    draws: list[Draw] = []
    known: list[Estimate] = []
    height = 0.0
    for name, (shown, scale) in panels.items():
        rows = [PlotRow(label, tuple(own.get(word) for word in marks)) for label, own in shown]
        known += (each for row in rows for each in estimates_of(row))
        draws.append(partial(draw_rows, rows=rows, marks=[*marks.values()], scale=scale, title=name, has_key=not draws))
        height = max(height, rows_height(rows, len(marks)) + (_TITLE if name else 0.0))
    return Plot(id, title, text, draws[0], height, tuple(known), tuple(draws[1:]))


def estimates_of(row: PlotRow) -> Iterator[Estimate]:
    """All estimates of a row."""
    for each in row.estimates:
        yield from each if isinstance(each, tuple) else (each,) if each else ()


def in_words(label: str, shown: Shown, form: Callable[[Estimate], str], once: bool = False) -> str:
    """A row in words, with n behind each number, or once behind all."""
    known = {f"{word} {at}" if at else word: each for word, own in shown.items() for at, each in _numbered(own)}
    ns = [f" (n = {count(estimate)})" for estimate in known.values()]
    words = (f"{word} {form(known[word])}{'' if once else n}" for word, n in zip(known, ns, strict=True))
    return f"{label}: {', '.join(words)}{ns[0] if once else ''}."


def _numbered(own: Drawn) -> Iterable[tuple[int, Estimate]]:
    """An estimate, or several that have no mean with their numbers from 1 on."""
    return enumerate(own, 1) if isinstance(own, tuple) else [(0, own)] if own else []


def percent_scale(name: str, reference: float | None = None) -> Scale:
    """The scale of shares, from none to all."""
    return Scale(name, is_share=True, limits=SHARE_LIMITS, reference=reference)


def percent_axis(axes: Axes, which: Literal["x", "y"] = "x") -> None:
    """Print shares from 0 to 1 as percentages, with decimals only where a tick has some."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(lambda share, _: f"{plain(round(100 * share, 6), 3)}%")


def levels_plot(
    id: str, title: str, levels: Iterable[tuple[str, Level]], measure: str, scorings: Sequence[str], scale: Scale
) -> Plot | None:
    """One number of the first levels in rows, under one or two scorings; None without any."""
    found = ((name, {label: level.of(measure, label) for label in scorings}) for name, level in levels)
    rows = [(name, own) for name, own in found if any(own.values())]
    cut = f" (the first {_MOST_ROWS} of {len(rows)})" if len(rows) > _MOST_ROWS else ""
    rows, form = rows[:_MOST_ROWS], share if scale.is_share else signed
    said = ((name, (f"{form(found)} {label}" for label, found in own.items() if found)) for name, own in rows)
    words = " ".join(f"{name}: {', '.join(each)}." for name, each in said)
    drawn = [(named(name), own) for name, own in rows]
    return rows_plot(id, f"{title}{cut}", words, drawn, scoring_marks(scorings), scale) if drawn else None
