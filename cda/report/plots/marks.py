"""What the figures of discovery, quality and best-of-n share: marks with intervals, rows of names, keys outside the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cda.report.plots.plot import AFTER, BEFORE, FAINT, LINE, PAGE, PEOPLE, THIRD
from cda.results.base import Estimate
from cda.results.benchmarks import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours repeat after four; with the shapes no two of the first seven are alike.
KINDS = tuple(
    zip((AFTER, BEFORE, THIRD, PEOPLE, AFTER, BEFORE, THIRD), ("o", "s", "^", "D", "v", "P", "X"), strict=True)
)


def across(
    axes: Axes, y: float, found: Measured, color: str, shape: str = "o", filled: bool = True, factor: float = 1.0
) -> None:
    """A value with its interval where it has one, lying; in units of which the estimate's holds `factor`."""
    value, ends = _drawn(found)
    if ends:
        axes.plot([factor * end for end in ends], [y, y], color=color, linewidth=1.2, zorder=2)
    _mark(axes, factor * value, y, color, shape, filled)


def upright(axes: Axes, x: float, found: Measured, color: str, shape: str = "o", filled: bool = True) -> None:
    """A value with its interval where it has one, standing."""
    value, ends = _drawn(found)
    if ends:
        axes.plot([x, x], ends, color=color, linewidth=1.2, zorder=2)
    _mark(axes, x, value, color, shape, filled)


def _drawn(found: Measured) -> tuple[float, tuple[float, ...]]:
    """A value and the ends of its interval, none where it has none."""
    if isinstance(found, Estimate):
        return found.value, (found.low, found.high)
    return found.value, ()


def rows(axes: Axes, names: Sequence[str]) -> None:
    """Names down the side, the first one on top, with a line between each two."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for at in range(1, len(names)):
        axes.axhline(at - 0.5, color=LINE, linewidth=0.6, zorder=0)


def key(axes: Axes, entries: Sequence[tuple[str, str, str, bool]], columns: int = 2) -> None:
    """A key below the axes: text, colour, shape and whether it is filled; nothing where there are no entries."""
    from matplotlib.lines import Line2D

    figure = axes.figure
    handles = [
        Line2D([], [], color=color, marker=shape, linestyle="none", markersize=5,
               markerfacecolor=color if filled else PAGE, label=text)
        for text, color, shape, filled in entries
    ]  # fmt: skip
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, len(handles)), labelcolor=FAINT)


def percent_axis(axes: Axes, which: str = "x") -> None:
    """Shares from 0 to 1 as percentages."""
    from matplotlib.ticker import PercentFormatter

    one = axes.xaxis if which == "x" else axes.yaxis
    one.set_major_formatter(PercentFormatter(1.0, decimals=None))


def _mark(axes: Axes, x: float, y: float, color: str, shape: str, filled: bool) -> None:
    axes.plot([x], [y], shape, color=color, markerfacecolor=color if filled else PAGE, markersize=5, zorder=3)
