"""Figures of quality: accuracy by section before and after, the paired change, and RM-Bench's style matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import Json, share
from cda.report.plots.marks import across, key, percent_axis, rows
from cda.report.plots.plot import AFTER, BEFORE, FAINT, INK, LINE, PAGE, Plot
from cda.report.plots.rows import named
from cda.report.quality_tables import flag, labels_of, shown_groups, tenth_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 24
_NAME = 18
_COLORS = (BEFORE, AFTER)
_FALL = -1.0
_STYLES = ("concise", "detailed", "Markdown")


def quality_plots(one: Json, result: Json, place: int) -> Iterator[Plot]:
    """Figures of one set; `place` is its number on the page, for the anchors."""
    groups, labels = shown_groups(one)[:MOST_ROWS], labels_of(result)
    height = 0.8 + len(groups) * (0.2 + 0.14 * len(labels))
    words = " ".join(
        f"{group['name']}: "
        + ", ".join(f"{share(group['scores'][label]['estimate'])} {label}" for label in labels)
        + "."
        for group in groups
    )
    cut = f" (the first {len(groups)} of {len(shown_groups(one))})" if len(groups) < len(shown_groups(one)) else ""
    title = f"{named(one['name'], 40)}: accuracy by section{cut}; thin 95% intervals, thick ± 1 standard error"
    yield Plot(f"accuracy-{place}", title, words, partial(_accuracy, groups, labels), height)
    if all(group["shift"] for group in groups):
        words = " ".join(
            f"{group['name']}: {tenth_points(group['shift']['estimate'])} {flag(group['shift'])}." for group in groups
        )
        title = f"{named(one['name'], 40)}: paired change; flagged where it falls by more than 1 point (dashed)"
        yield Plot(f"change-{place}", title, words, partial(_change, groups), height)
    if one["cells"]:
        for at, label in enumerate(labels):
            shown = {group["name"]: group["scores"][label]["estimate"] for group in one["cells"]}
            words = " ".join(f"style {name}: {share(estimate)}." for name, estimate in shown.items())
            title = f"{named(one['name'], 40)}: styles, {named(label, 30)} (intervals in the table)"
            yield Plot(f"styles-{place}-{at + 1}", title, words, partial(_matrix, shown), 2.6)


def _accuracy(groups: Sequence[Json], labels: Sequence[str], axes: Axes) -> None:
    for row, group in enumerate(groups):
        for place, label in enumerate(labels):
            y = row if len(labels) == 1 else row + (-0.18, 0.18)[place]
            score, color = group["scores"][label], _COLORS[place]
            _error(axes, y, score["estimate"]["value"], score["standard_error"], color)
            across(axes, y, score["estimate"], color, "os"[place], bool(place) or len(labels) == 1)
    marked = [f"{named(group['name'], _NAME)}{_marked(group)}" for group in groups]
    rows(axes, marked)
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("accuracy")
    percent_axis(axes)
    if len(labels) > 1:
        key(axes, [(named(label, 20), _COLORS[place], "os"[place], bool(place)) for place, label in enumerate(labels)])


def _change(groups: Sequence[Json], axes: Axes) -> None:
    axes.axvline(0, color=FAINT, linewidth=0.8)
    axes.axvline(_FALL, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    for row, group in enumerate(groups):
        shift = group["shift"]
        points = {name: 100 * shift["estimate"][name] for name in ("value", "low", "high")}
        color = BEFORE if shift["fell"] else AFTER
        _error(axes, row, points["value"], 100 * shift["standard_error"], color)
        across(axes, row, points, color, "v" if shift["fell"] else "s", shift["excludes_0"] or not shift["fell"])
    rows(axes, [f"{named(group['name'], _NAME)}{_marked(group)}" for group in groups])
    axes.grid(axis="x", color=LINE)
    axes.set_xlabel("change in points")
    fell = [group["shift"] for group in groups if group["shift"]["fell"]]
    key(axes, [
        *([("no fall of a point", AFTER, "s", True)] if len(fell) < len(groups) else []),
        *([("fell*", BEFORE, "v", True)] if any(one["excludes_0"] for one in fell) else []),
        *([("fell", BEFORE, "v", False)] if not all(one["excludes_0"] for one in fell) else []),
    ], 3)  # fmt: skip


def _error(axes: Axes, y: float, value: float, error: float, color: str) -> None:
    axes.plot(
        [value - error, value + error], [y, y], color=color, linewidth=4, alpha=0.35, zorder=1, solid_capstyle="butt"
    )


def _marked(group: Json) -> str:
    return f" ({flag(group['shift'])})" if group["shift"] and group["shift"]["fell"] else ""


def _matrix(shown: Json, axes: Axes) -> None:
    """Chosen style down, rejected style across; the fuller a cell, the more often the chosen one wins."""
    from matplotlib.patches import Rectangle

    for i in (1, 2, 3):
        for j in (1, 2, 3):
            value = shown[f"{i} over {j}"]["value"]
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
