"""Estimates in rows with their 95% intervals: the form of most figures of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cda.report.numbers import clipped, visible
from cda.report.plots.plot import AFTER, BEFORE, FAINT, LINE, PAGE, PEOPLE, THIRD
from cda.results.base import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_COLUMNS = 20
_LANE = 0.11  # inches between the marks of a row
_ROW_GAP = 0.15
_FRAME = 0.75  # legend, ticks and the axis' name


@dataclass(frozen=True, slots=True)
class Mark:
    """How one kind of estimate is drawn: shapes tell kinds apart where colours do not."""

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


@dataclass(frozen=True, slots=True)
class Row:
    """One row; an estimate for each mark, None where there is none."""

    label: str
    estimates: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """The horizontal axis.

    Attributes:
        name: What it measures, with its unit.
        is_share: Values are shares, drawn as percentages.
        limits: Of the axis, in its own unit; None: as the estimates need.
        reference: Where a dashed line stands, such as no effect.
        bars: Draw bars from 0 behind the marks.
    """

    name: str
    is_share: bool = False
    limits: tuple[float, float] | None = None
    reference: float | None = None
    bars: bool = False


SHARE_LIMITS = (-2.0, 102.0)


def draw_rows(axes: Axes, rows: Sequence[Row], marks: Sequence[Mark], scale: Scale) -> None:
    """Rows from the top down, the marks of a row below each other in the order given."""
    step = _LANE / row_inches(len(marks))
    factor = 100.0 if scale.is_share else 1.0
    for at, mark in enumerate(marks):
        shift = (at - (len(marks) - 1) / 2) * step
        found = [(y + shift, row.estimates[at]) for y, row in enumerate(rows)]
        there = [(y, one) for y, one in found if one is not None]
        _draw_mark(axes, mark, there, factor, scale.bars * step)
    if scale.reference is not None:
        axes.axvline(scale.reference, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if scale.limits is not None:
        axes.set_xlim(*scale.limits)
    axes.locator_params(axis="x", nbins=6)
    frame(axes, scale.name, "x")
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    if len(marks) > 1:
        legend(axes, len(marks))


def _draw_mark(axes: Axes, mark: Mark, there: list[tuple[float, Estimate]], factor: float, bar: float) -> None:
    ys = [y for y, _ in there]
    values = [factor * one.value for _, one in there]
    # Rounding may put an end of an interval on the other side of its value.
    below = [max(0.0, factor * (one.value - one.low)) for _, one in there]
    above = [max(0.0, factor * (one.high - one.value)) for _, one in there]
    if bar:
        axes.barh(ys, values, height=0.9 * bar, color=mark.color, alpha=0.25, zorder=2)
    axes.errorbar(
        values, ys, xerr=[below, above], fmt=mark.shape, color=mark.color, label=mark.name, markersize=4, elinewidth=1.2,
        markerfacecolor=mark.color if mark.filled else PAGE, markeredgewidth=1.0, zorder=3,
    )  # fmt: skip


def frame(axes: Axes, name: str, grid: str) -> None:
    """Name of the horizontal axis and faint lines across the one that is read."""
    axes.set_xlabel(name)
    axes.grid(axis=grid, color=LINE)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def legend(axes: Axes, n: int) -> None:
    """Above the axes, as wide as the figure: in lines of three at most; four stand two by two."""
    figure = axes.get_figure()
    if figure is not None:
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside upper center", ncols=n if n <= 3 else 2, borderaxespad=0.2,
            handletextpad=0.4, columnspacing=1.2,
        )  # fmt: skip


def row_inches(n_marks: int) -> float:
    """Height of a row."""
    return _LANE * n_marks + _ROW_GAP


def rows_height(n_rows: int, n_marks: int) -> float:
    """Height of a figure of so many rows, in inches."""
    return _FRAME + n_rows * row_inches(n_marks) + (0.15 if n_marks > 3 else 0.0)


def named(name: object, most: int = NAME_COLUMNS) -> str:
    """A name from outside as Matplotlib gets it: one line without control characters, cut where it is long."""
    return clipped(" ".join(visible(name).split()), most)


def slugs(names: Iterable[str]) -> dict[str, str]:
    """For each name a word of lower-case letters, digits and hyphens, no two the same: parts of identifiers and file names."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "bias"
        word, at = plain, 2
        while word in found.values():
            word, at = f"{plain}-{at}", at + 1
        found[name] = word
    return found
