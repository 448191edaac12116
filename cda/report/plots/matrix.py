"""The cross-bias matrix as a heat map: trainings by biases, with the change of skew in every cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.metrics.cross_bias import Cell
from cda.metrics.verdict import SIGNIFICANT
from cda.report.numbers import clipped, count, points, visible
from cda.report.plots.plot import AFTER, BEFORE, COLUMN_INCHES, FAINT, INK, LINE, PAGE_INCHES, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRONGEST = 0.5
"""Change of skew that has the full colour; a larger one has no more."""
_FULL = 0.5
"""Opacity of the full colour, through which the numbers stay readable."""
_MOST_IN_A_COLUMN = 4


def matrix_plot(cells: Sequence[Cell]) -> Plot:
    """Change of skew in percentage points: blue fell, orange rose; a frame is a target, a star a change that is shown.

    Args:
        cells: Of `cda.metrics.cross_bias.cross_bias`.
    """
    trainings = list(dict.fromkeys(cell.training for cell in cells))
    biases = list(dict.fromkeys(cell.bias for cell in cells))
    width = COLUMN_INCHES if len(biases) <= _MOST_IN_A_COLUMN else PAGE_INCHES
    height = 1.0 + 0.42 * len(trainings)
    title = (
        "Change of skew in percentage points with 95% intervals, by training (rows) and bias (columns). Blue fell, orange "
        f"rose; framed: trained against; *: interval excludes 0 and Holm-adjusted p over all {len(cells)} cells below {SIGNIFICANT}"
    )
    draw = partial(_draw, {(cell.training, cell.bias): cell for cell in cells}, trainings, biases)
    return Plot("cross-bias", title, _description(cells), draw, height, width)


def short_names(names: Sequence[str], most: int = 20) -> list[str]:
    """The last part of each path where that tells them apart, cut to so many columns where that still does.

    >>> short_names(["runs/jargon", "runs/length/"])
    ['jargon', 'length']
    """
    ends = [name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name for name in names]
    chosen = [_lined(name) for name in (ends if len(set(ends)) == len(names) else names)]
    cut = [clipped(name, most) for name in chosen]
    return cut if len(set(cut)) == len(names) else chosen


def _draw(cells: dict[tuple[str, str], Cell], trainings: list[str], biases: list[str], axes: Axes) -> None:
    for y, training in enumerate(trainings):
        for x, bias in enumerate(biases):
            _draw_cell(cells.get((training, bias)), x, y, axes)
    # Frames last, so that no neighbour covers them.
    for y, training in enumerate(trainings):
        for x, bias in enumerate(biases):
            cell = cells.get((training, bias))
            if cell is not None and cell.is_target:
                axes.add_patch(_rectangle(x, y, 0.46, facecolor="none", edgecolor=INK, linewidth=1.6))
    axes.set_xlim(-0.5, len(biases) - 0.5)
    axes.set_ylim(len(trainings) - 0.5, -0.5)
    axes.set_xticks(range(len(biases)), [clipped(_lined(name), 14) for name in biases], rotation=30, ha="left")
    axes.set_yticks(range(len(trainings)), short_names(trainings))
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_cell(cell: Cell | None, x: int, y: int, axes: Axes) -> None:
    if cell is None:
        axes.add_patch(_rectangle(x, y, 0.48, facecolor="none", edgecolor=LINE, linewidth=0.6))
        axes.text(x, y, "not\nmeasured", ha="center", va="center", fontsize=6, color=FAINT)
        return
    change = cell.change
    value = float(change.value)
    strength = _FULL * min(abs(value) / STRONGEST, 1.0)
    axes.add_patch(_rectangle(x, y, 0.48, facecolor=AFTER if value < 0 else BEFORE, alpha=strength, linewidth=0))
    axes.add_patch(_rectangle(x, y, 0.48, facecolor="none", edgecolor=LINE, linewidth=0.6))
    number, _, interval = points(change, "").partition(" ")
    star = cell.is_shown
    weight = "bold" if star else "normal"
    axes.text(x, y - 0.16, number + "*" * star, ha="center", va="center", fontsize=9, fontweight=weight)
    axes.text(x, y + 0.24, interval, ha="center", va="center", fontsize=6)


def _rectangle(x: int, y: int, half: float, **style: object):  # type: ignore[no-untyped-def]  # Matplotlib comes late
    from matplotlib.patches import Rectangle

    return Rectangle((x - half, y - half), 2 * half, 2 * half, **style)  # type: ignore[arg-type]


def _description(cells: Sequence[Cell]) -> str:
    """The matrix in words, training by training."""
    parts: dict[str, list[str]] = {}
    for cell in cells:
        change = cell.change
        marks = (", trained against" if cell.is_target else "") + (", significant" if cell.is_shown else "")
        parts.setdefault(cell.training, []).append(f"{cell.bias} {points(change)} (n = {count(change)}{marks})")
    return " ".join(f"{training}: {'; '.join(found)}." for training, found in parts.items())


def _lined(text: str) -> str:
    return visible(text).replace("\n", " ")
