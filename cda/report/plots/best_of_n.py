"""Figures of best-of-n: each attribute among the picks as n grows, before and after, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import log2
from typing import TYPE_CHECKING

from cda.report.best_of_n_tables import change_of, curve_name, level
from cda.report.plots.marks import across, key, percent_axis, rows, upright
from cda.report.plots.plot import AFTER, BEFORE, COLUMN_INCHES, FAINT, LINE, PAGE_INCHES, Plot
from cda.report.plots.rows import named
from cda.results.benchmarks import BestOfResult, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    return Plot("slopes", title, words, partial(_slopes, found, labels), height)


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


def _slopes(found: Sequence[Curve], labels: Sequence[str], axes: Axes) -> None:
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
