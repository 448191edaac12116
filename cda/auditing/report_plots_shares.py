"""Figures of shares alone: skew of every bias, how training changed it, and accuracy on held-out pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_evidence import compares, others, targets
from cda.report.numbers import count, points, reward, share, signed
from cda.report.plots import (
    FAINT,
    INK,
    PAGE,
    SCORINGS,
    SHARE_LIMITS,
    Mark,
    Plot,
    Row,
    Scale,
    draw_rows,
    frame,
    legend,
    named,
    rows_height,
    slugs,
)
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Missing, PerScoring
from cda.results.effects import Distribution, Kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def skew_plot(audit: AuditResult) -> Plot:
    """Skew of every bias under every scoring; the page has it on its first screen, so this one is for paper."""
    names = [*targets(audit), *others(audit)]
    rows = {_label(name, audit): audit.skew[name] for name in names}
    title = "Skew of each bias: how often the model prefers the biased side"
    plain = {_label(name, audit): audit.plain.skew[name].last for name in names} if audit.plain else {}
    return _shares("skew", title, "prefers the biased side (%)", rows, audit, 50, plain)


def change_plots(audit: AuditResult) -> list[Plot]:
    """Paired change of skew of every bias; none without a training."""
    if not compares(audit):
        return []
    found = {name: audit.skew[name].of_training().change for name in [*targets(audit), *others(audit)]}
    rows = [Row(_label(name, audit), (one,)) for name, one in found.items()]
    said = " ".join(f"{_label(name, audit)} {points(one)} (n = {count(one)})." for name, one in found.items())
    scale = Scale("change of skew (points)", is_share=True, reference=0, bars=True)
    return [Plot("skew-change", "Change of skew by training, paired, with 95% intervals", f"Change of skew: {said}",
                 lambda axes: draw_rows(axes, rows, [Mark("change", INK, "o")], scale), rows_height(len(rows), 1))]  # fmt: skip


def quality_plots(audit: AuditResult) -> list[Plot]:
    """Accuracy on held-out pairs; none without such pairs. `cda.benchmarks.quality_report` draws sections."""
    if audit.quality is None:
        return []
    label = "all held-out pairs"
    plain = {label: audit.plain.quality.last} if audit.plain and audit.plain.quality else {}
    title = "Quality: how often the better response of a held-out pair is preferred"
    return [_shares("quality", title, "ranked right (%)", {label: audit.quality}, audit, 50, plain)]


def _shares(
    name: str,
    title: str,
    axis: str,
    found: Mapping[str, Measure],
    audit: AuditResult,
    reference: float,
    plain: Mapping[str, Estimate],
) -> Plot:
    """Rows of shares under every scoring, and of plain CDA by label where that is another one."""
    marks = [SCORINGS[when] for when in (*audit.scorings, *(("plain",) if plain else ()))]
    rows = [
        Row(label, (*(share for _, share in one.items()), *((plain.get(label),) if plain else ())))
        for label, one in found.items()
    ]
    parts = []
    for row in rows:
        said = ", ".join(
            f"{mark.name} {share(one)}" for mark, one in zip(marks, row.estimates, strict=True) if one is not None
        )
        n = next(one for one in row.estimates if one is not None)
        parts.append(f"{row.label}: {said} (n = {count(n)}).")
    scale = Scale(axis, is_share=True, limits=SHARE_LIMITS, reference=reference)
    return Plot(name, title, " ".join(parts), lambda axes: draw_rows(axes, rows, marks, scale),
                rows_height(len(rows), len(marks)))  # fmt: skip


def _label(name: str, audit: AuditResult) -> str:
    return named(name) + (" (target)" if audit.skew[name].target and compares(audit) else "")


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
