"""Figures of `cda inspect`: what rewrites change besides the bias, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import reward, signed
from cda.report.plots.plot import AFTER, BEFORE, LINE, Plot
from cda.report.plots.rows import Mark, Row, Scale, draw_rows, named, rows_height, slugs
from cda.results.base import Estimate, Missing
from cda.results.inspect import InspectResult, RewriteSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = {"add": Mark("bias added", AFTER, "o"), "remove": Mark("bias removed", BEFORE, "s", filled=False)}
_IMBALANCE = 0.1
_MOST_SDS = 3.0


def inspection_plots(inspection: InspectResult) -> list[Plot]:
    """For each bias: the standardized change of every feature that is not the bias itself and changes at all."""
    names = list(dict.fromkeys(one.bias for one in inspection.summaries))
    words = slugs(names)
    found = [_plot(name, [one for one in inspection.summaries if one.bias == name], words[name]) for name in names]
    return [plot for plot in found if plot is not None]


def _plot(name: str, groups: Sequence[RewriteSummary], word: str) -> Plot | None:
    changes = {one.direction: _changes(one) for one in groups}
    changes = {direction: own for direction, own in changes.items() if own}
    features = list(dict.fromkeys(feature for own in changes.values() for feature in own))
    if not features:
        return None
    rows = [
        Row(named(feature.replace("_", " "), 24), tuple(own.get(feature) for own in changes.values()))
        for feature in features
    ]
    marks = [_MARKS[direction] for direction in changes]
    told = [
        f"{_MARKS[direction].name}: "
        + ", ".join(f"{feature.replace('_', ' ')} {signed(one)}" for feature, one in own.items())
        for direction, own in changes.items()
    ]
    title = f"{name}: what else a rewrite changes, in standard deviations. Within the grey band a difference is usually called balanced"
    text = f"Rewrite − original of {name}, in standard deviations. {'. '.join(told)}."
    return Plot(f"changes-{word}", title, text, partial(_draw, rows, marks), rows_height(len(rows), len(marks)))


def _changes(one: RewriteSummary) -> dict[str, Estimate]:
    if isinstance(one.drift, Missing):
        return {}
    return {
        row.feature: row.standardised
        for row in one.drift
        if not row.is_treatment and row.standardised is not None and row.standardised.low < row.standardised.high
    }


def _draw(rows: Sequence[Row], marks: Sequence[Mark], axes: Axes) -> None:
    estimates = [found for row in rows for found in row.estimates if found is not None]
    low, high = min(one.low for one in estimates), max(one.high for one in estimates)
    limits = (max(-_MOST_SDS, min(low, -0.2) - 0.1), min(_MOST_SDS, max(high, 0.2) + 0.1))
    axes.axvspan(-_IMBALANCE, _IMBALANCE, color=LINE, alpha=0.6, linewidth=0, zorder=0)
    draw_rows(axes, rows, marks, Scale("rewrite − original (SDs)", limits=limits, reference=0))
    for y, row in enumerate(rows):
        for found in row.estimates:
            # Features that are nearly constant have huge standardized differences: the number stands at the edge.
            if found is not None and not limits[0] <= found.value <= limits[1]:
                right = found.value > 0
                axes.text(limits[right], y, f"{reward(found.value)} {'→' if right else '←'}", fontsize=6.5, va="center",
                          ha="right" if right else "left")  # fmt: skip
