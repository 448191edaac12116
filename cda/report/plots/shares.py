"""Figures of shares alone: skew of every bias, how training changed it, and accuracy on held-out pairs."""

from __future__ import annotations

from collections.abc import Mapping

from cda.report.numbers import count, points, share
from cda.report.plots.plot import INK, Plot
from cda.report.plots.rows import SCORINGS, SHARE_LIMITS, Mark, Row, Scale, draw_rows, named, rows_height
from cda.report.tables import compares
from cda.report.verdict import others, targets
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure


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
    """Accuracy on held-out pairs; none without such pairs. `cda.report.plots.quality` draws sections."""
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
