"""Figures of the dose: miscalibration, gap and quality against how much of the adapter is applied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import count, distance, share
from cda.report.plots.plot import AFTER, BEFORE, INK, PAGE, THIRD, Plot
from cda.report.plots.rows import Mark, frame, legend, slugs
from cda.results.audit import AuditResult
from cda.results.base import Estimate
from cda.results.dose import DosePoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVES = {
    "miscalibration": (Mark("miscalibration", BEFORE, "o"), "-"),
    "gap": (Mark("gap", THIRD, "s", filled=False), "--"),
    "quality": (Mark("quality accuracy", AFTER, "D"), ":"),
}
_NAMED = {0.0: "0\nno training", 1.0: "1\nplain CDA"}


def dose_plots(audit: AuditResult) -> list[Plot]:
    """The curve of each bias whose contrasts chose the dose; none without a dose."""
    dose = audit.dose
    if dose is None:
        return []
    words = slugs(dose.biases)
    response = dose.methods["dose"].response
    # Where a tie is aimed at there is no vote to miss.
    curves = [key for key in _CURVES if key != "miscalibration" or dose.aim == "votes"]
    return [_curve(name, response[name], dose.chosen, curves, words[name]) for name in dose.biases]


def _curve(name: str, response: Sequence[DosePoint], chosen: float, curves: Sequence[str], word: str) -> Plot:
    parts = [_said(one, curves) for one in response]
    votes = " with votes" if "miscalibration" in curves else ", where a tie is aimed at"
    first = response[0]
    pairs = "" if first.quality is None else f", quality on {count(first.quality)} pairs"
    text = (
        f"{name}: dose chosen {chosen:g}; dose 0 is no training, dose 1 plain CDA; on {count(first.people.human_skew)} "
        f"contrasts{votes}{pairs}. {' '.join(parts)}"
    )
    title = f"{name}: what each dose leaves of the bias, and of quality; bars are 95% intervals"
    return Plot(f"dose-{word}", title, text, partial(_draw, response, chosen, curves), 2.6)


def _said(one: DosePoint, curves: Sequence[str]) -> str:
    quality = "" if one.quality is None else f", quality {share(one.quality)}"
    people = one.people
    missed = f"miscalibration {share(people.miscalibration)}, " if "miscalibration" in curves else ""
    return f"Dose {one.dose:g}: {missed}gap {distance(people.gap)}{quality}."


def _draw(response: Sequence[DosePoint], chosen: float, curves: Sequence[str], axes: Axes) -> None:
    drawn = 0
    doses = [one.dose for one in response]
    width = (max(doses) - min(doses)) or 1.0
    for at, key in enumerate(curves):
        mark, line = _CURVES[key]
        points = [(one.dose, one.quality if key == "quality" else getattr(one.people, key)) for one in response]
        there = [(dose, one) for dose, one in points if one is not None]
        if there:
            # Moved aside a little, so that intervals at one dose do not hide each other.
            _line(axes, [(dose + (at - 1) * 0.008 * width, one) for dose, one in there], mark, line)
            drawn += 1
    axes.axvline(chosen, color=INK, linewidth=0.8, zorder=1)
    right = chosen - min(doses) > 0.6 * width
    axes.annotate(f"chosen: {chosen:g}", (chosen, 0.97), (-3 if right else 3, 0), xycoords=("data", "axes fraction"),
                  textcoords="offset points", ha="right" if right else "left", va="top", fontsize=7)  # fmt: skip
    ticks = sorted({*(dose for dose in _NAMED if min(doses) <= dose <= max(doses)), max(doses)})
    axes.set_xticks(ticks, [_NAMED.get(dose, f"{dose:g}") for dose in ticks])
    axes.set_xticks(doses, minor=True)
    axes.set_ylim(-2, 104)
    frame(axes, "dose of the adapter (λ)", "y")
    axes.set_ylabel("% (gap: points)")
    legend(axes, drawn)


def _line(axes: Axes, points: Sequence[tuple[float, Estimate]], mark: Mark, line: str) -> None:
    values = [100 * one.value for _, one in points]
    below = [max(0.0, 100 * (one.value - one.low)) for _, one in points]
    above = [max(0.0, 100 * (one.high - one.value)) for _, one in points]
    axes.errorbar(
        [dose for dose, _ in points], values, yerr=[below, above], fmt=mark.shape, linestyle=line, color=mark.color,
        label=mark.name, markersize=3.5, elinewidth=0.8, markerfacecolor=mark.color if mark.filled else PAGE, zorder=3,
    )  # fmt: skip
