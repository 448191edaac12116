"""Figures of how rewards are spread: over the two sides of contrasts, and over originals, rewrites and their rewrites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.report.numbers import count, reward, signed
from cda.report.plots.plot import FAINT, PAGE, Plot
from cda.report.plots.rows import SCORINGS, frame, legend, named, slugs
from cda.results.audit import AuditResult
from cda.results.base import Missing, PerScoring
from cda.results.rewards import Distribution, Kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEXTS = {"original": "original", "rewrite": "rewrite", "rewrite_of_rewrite": "rewrite of it"}
_SIDES = {"base": "other side", "perturbed": "biased side"}
_STARTS = {"with": "had it", "without": "had it not"}
_ROW_INCHES = 0.36
_TALLEST = 0.85  # of a row
_MEDIAN = 2  # its place among the quantiles

Ridges = Sequence[tuple[str, Mapping[str, Distribution]]]
"""Label of a row and its distribution under each scoring."""


def contrast_rewards(audit: AuditResult) -> list[Plot]:
    """Rewards of both sides of every bias's contrasts, on common bins; none of a judge, which rewards no single text."""
    if isinstance(audit.rewards, Missing):
        return []
    found = audit.rewards.contrasts
    rows = [
        (f"{named(name, 14)}:\n{word}", _known(of, side))
        for name, of in found.of.items()
        for side, word in _SIDES.items()
    ]
    title = "Rewards of the two sides of each bias's contrasts; the line through each is the median"
    return _ridges("rewards", title, "Rewards of the two sides of contrasts.", rows, found.edges, audit)


def triple_rewards(audit: AuditResult) -> list[Plot]:
    """For each bias with triples: rewards of originals, rewrites and rewrites of rewrites."""
    triples = {} if isinstance(audit.rewards, Missing) else audit.rewards.triples
    words = slugs(triples)
    plots: list[Plot] = []
    for name, found in triples.items():
        kinds = {kind for _, of in found.of.items() for kind in of}
        rows = [
            (f"{text_word}\n({start_word})", _known(found.of, f"{start}, {text}"))
            for start, start_word in _STARTS.items()
            for text, text_word in _TEXTS.items()
            if f"{start}, {text}" in kinds
        ]
        title = f"{name}: rewards of originals that had the attribute or had it not, of their rewrites, and of the rewrites of these"
        plots += _ridges(
            f"rewards-{words[name]}", title, f"Rewards of texts of triples of {name}.", rows, found.edges, audit
        )
    return plots


def _known(of: PerScoring[Kinds], kind: str) -> dict[str, Distribution]:
    found = {when: kinds.get(kind) for when, kinds in of.items()}
    return {when: one for when, one in found.items() if isinstance(one, Distribution)}


def _ridges(
    name: str, title: str, opening: str, rows: Ridges, edges: Sequence[float], audit: AuditResult
) -> list[Plot]:
    kept = [(label, by_scoring) for label, by_scoring in rows if by_scoring]
    if not kept:
        return []
    parts = [f"{' '.join(label.split())}: {_said(by_scoring)}." for label, by_scoring in kept]
    draw = partial(_draw, kept, edges, audit.scorings)
    return [Plot(name, title, f"{opening} {' '.join(parts)}", draw, 0.75 + _ROW_INCHES * len(kept))]


def _said(by_scoring: Mapping[str, Distribution]) -> str:
    return "; ".join(
        f"{when} mean {signed(one.mean)}, median {reward(one.quantiles[_MEDIAN])}, middle half {reward(one.quantiles[1])} "
        f"to {reward(one.quantiles[3])} (n = {count(one.mean)})"
        for when, one in by_scoring.items()
    )


def _draw(rows: Ridges, edges: Sequence[float], scorings: Sequence[str], axes: Axes) -> None:
    """Histograms as hills, one row each; a scoring's are as high as its largest share of texts in a bin."""
    from matplotlib.lines import Line2D

    for when in scorings:
        mark = SCORINGS[when]
        highest = max(
            (_largest_share(one) for _, found in rows for key, one in found.items() if key == when), default=1.0
        )
        for y, (_, found) in enumerate(rows):
            if when in found:
                _hill(axes, found[when], edges, len(rows) - 1 - y, highest, mark.color, mark.filled)
    axes.set_yticks([len(rows) - 0.6 - y for y in range(len(rows))], [label for label, _ in rows])
    axes.set_ylim(-0.1, len(rows))
    axes.tick_params(axis="y", length=0, labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    frame(axes, "reward", "x")
    if len(scorings) > 1:
        for when in scorings:
            axes.add_line(Line2D([], [], color=SCORINGS[when].color, label=when))
        legend(axes, len(scorings))


def _largest_share(one: Distribution) -> float:
    return float(max(one.counts)) / max(1, sum(one.counts))


def _hill(
    axes: Axes, one: Distribution, edges: Sequence[float], bottom: int, highest: float, color: str, filled: bool
) -> None:
    total = max(1, sum(one.counts))
    heights = [bottom + _TALLEST * number / total / highest for number in one.counts]
    axes.stairs(heights, edges, baseline=bottom, color=color, linewidth=1.0, zorder=3)
    axes.stairs(
        heights, edges, baseline=bottom, color=color, fill=True, alpha=0.3 if filled else 0.12, linewidth=0, zorder=2
    )
    median = one.quantiles[_MEDIAN]
    axes.plot([median, median], [bottom, bottom + _TALLEST], color=PAGE, linewidth=2.4, zorder=4)
    axes.plot([median, median], [bottom, bottom + _TALLEST], color=color, linewidth=1.2, zorder=5)
