"""Figures of quality: accuracy by section before and after, the paired change, and RM-Bench's style matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import share
from cda.report.plots.marks import across, key, percent_axis, rows
from cda.report.plots.plot import AFTER, BEFORE, FAINT, INK, LINE, PAGE, Plot
from cda.report.plots.rows import named
from cda.report.quality_tables import flag, tenth_points
from cda.results.base import Estimate
from cda.results.benchmarks import AccuracyGroup, AccuracyShift, SetQuality

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 24
_NAME = 18
_COLORS = (BEFORE, AFTER)
_FALL = -1.0
_STYLES = ("concise", "detailed", "Markdown")


def quality_plots(one: SetQuality, place: int) -> Iterator[Plot]:
    """Figures of one set; `place` is its number on the page, for the anchors."""
    groups, labels = one.shown[:MOST_ROWS], one.labels
    height = 0.8 + len(groups) * (0.2 + 0.14 * len(labels))
    words = " ".join(
        f"{group.name}: " + ", ".join(f"{share(score.estimate)} {label}" for label, score in group.scores.items()) + "."
        for group in groups
    )
    cut = f" (the first {len(groups)} of {len(one.shown)})" if len(groups) < len(one.shown) else ""
    title = f"{named(one.name, 40)}: accuracy by section{cut}; thin 95% intervals, thick ± 1 standard error"
    yield Plot(f"accuracy-{place}", title, words, partial(_accuracy, groups, labels), height)
    moved = [(group.name, group.shift) for group in groups if group.shift is not None]
    if len(moved) == len(groups):
        words = " ".join(f"{name}: {tenth_points(shift.estimate)} {flag(shift)}." for name, shift in moved)
        title = f"{named(one.name, 40)}: paired change; flagged where it falls by more than 1 point (dashed)"
        yield Plot(f"change-{place}", title, words, partial(_change, moved), height)
    if one.cells:
        for at, label in enumerate(labels):
            shown = {group.name: group.scores[label].estimate for group in one.cells}
            words = " ".join(f"style {name}: {share(estimate)}." for name, estimate in shown.items())
            title = f"{named(one.name, 40)}: styles, {named(label, 30)} (intervals in the table)"
            yield Plot(f"styles-{place}-{at + 1}", title, words, partial(_matrix, shown), 2.6)


def _accuracy(groups: Sequence[AccuracyGroup], labels: Sequence[str], axes: Axes) -> None:
    for row, group in enumerate(groups):
        for place, label in enumerate(labels):
            y = row if len(labels) == 1 else row + (-0.18, 0.18)[place]
            score, color = group.scores[label], _COLORS[place]
            _error(axes, y, score.estimate.value, score.standard_error, color)
            across(axes, y, score.estimate, color, "os"[place], bool(place) or len(labels) == 1)
    rows(axes, [_marked(group.name, group.shift) for group in groups])
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("accuracy")
    percent_axis(axes)
    if len(labels) > 1:
        key(axes, [(named(label, 20), _COLORS[place], "os"[place], bool(place)) for place, label in enumerate(labels)])


def _change(moved: Sequence[tuple[str, AccuracyShift]], axes: Axes) -> None:
    axes.axvline(0, color=FAINT, linewidth=0.8)
    axes.axvline(_FALL, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    for row, (_, shift) in enumerate(moved):
        color = BEFORE if shift.fell else AFTER
        _error(axes, row, 100 * shift.estimate.value, 100 * shift.standard_error, color)
        filled = shift.excludes_0 or not shift.fell
        across(axes, row, shift.estimate, color, "v" if shift.fell else "s", filled, factor=100)
    rows(axes, [_marked(name, shift) for name, shift in moved])
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("change in points")
    fell = [shift for _, shift in moved if shift.fell]
    key(axes, [
        *([("no fall of a point", AFTER, "s", True)] if len(fell) < len(moved) else []),
        *([("fell*", BEFORE, "v", True)] if any(one.excludes_0 for one in fell) else []),
        *([("fell", BEFORE, "v", False)] if not all(one.excludes_0 for one in fell) else []),
    ], 3)  # fmt: skip


def _error(axes: Axes, y: float, value: float, error: float, color: str) -> None:
    axes.plot(
        [value - error, value + error], [y, y], color=color, linewidth=4, alpha=0.35, zorder=1, solid_capstyle="butt"
    )


def _marked(name: str, shift: AccuracyShift | None) -> str:
    return f"{named(name, _NAME)}{f' ({flag(shift)})' if shift is not None and shift.fell else ''}"


def _matrix(shown: Mapping[str, Estimate], axes: Axes) -> None:
    """Chosen style down, rejected style across; the fuller a cell, the more often the chosen one wins."""
    from matplotlib.patches import Rectangle

    for i in (1, 2, 3):
        for j in (1, 2, 3):
            value = shown[f"{i} over {j}"].value
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=AFTER, alpha=0.45 * value, edgecolor="none"))
            axes.text(j, i, f"{100 * value:.1f}%", ha="center", va="center", color=INK)
    for edge in (1.5, 2.5):
        axes.axhline(edge, color=PAGE)
        axes.axvline(edge, color=PAGE)
    axes.set_xlim(0.5, 3.5)
    axes.set_ylim(3.5, 0.5)
    axes.set_xticks([1, 2, 3], _STYLES)
    axes.set_yticks([1, 2, 3], _STYLES)
    axes.set_xlabel("rejected response")
    axes.set_ylabel("chosen response")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
