"""Figures of shares alone: skew of every bias, how training changed it, and accuracy on held-out pairs."""

from __future__ import annotations

from cda.report.numbers import Json, count, points, share
from cda.report.plots.plot import INK, Plot
from cda.report.plots.rows import SCORINGS, SHARE_LIMITS, Mark, Row, Scale, draw_rows, named, rows_height
from cda.report.tables import compares
from cda.report.verdict import others, targets
from cda.results.audit import AuditResult


def skew_plot(audit: AuditResult) -> Plot:
    """Skew of every bias under every scoring; the page has it on its first screen, so this one is for paper."""
    rows = {_label(name, audit): audit["skew"][name] for name in [*targets(audit), *others(audit)]}
    title = "Skew of each bias: how often the model prefers the biased side"
    plain = {_label(name, audit): one["after"] for name, one in _plain(audit, "skew").items()}
    return _shares("skew", title, "prefers the biased side (%)", rows, audit, 50, plain)


def change_plots(audit: AuditResult) -> list[Plot]:
    """Paired change of skew of every bias; none without a training."""
    if not compares(audit):
        return []
    found = {name: audit["skew"][name]["change"] for name in [*targets(audit), *others(audit)]}
    rows = [Row(_label(name, audit), (one,)) for name, one in found.items()]
    said = " ".join(f"{_label(name, audit)} {points(one)} (n = {count(one)})." for name, one in found.items())
    scale = Scale("change of skew (points)", is_share=True, reference=0, bars=True)
    return [Plot("skew-change", "Change of skew by training, paired, with 95% intervals", f"Change of skew: {said}",
                 lambda axes: draw_rows(axes, rows, [Mark("change", INK, "o")], scale), rows_height(len(rows), 1))]  # fmt: skip


def quality_plots(audit: AuditResult) -> list[Plot]:
    """Accuracy on held-out pairs, overall and by section where there are sections; none without such pairs."""
    quality = audit["quality"]
    if quality is None:
        return []
    rows = {"all held-out pairs": quality} | {named(name, 24): one for name, one in quality.get("sections", {}).items()}
    title = "Quality: how often the better response of a held-out pair is preferred"
    whole = _plain(audit, "quality")
    plain = {"all held-out pairs": whole["after"]} if whole else {}
    return [_shares("quality", title, "ranked right (%)", rows, audit, 50, plain)]


def _plain(audit: AuditResult, part: str) -> Json:
    """A part of what plain CDA does; empty where it is the result itself."""
    found: Json = (audit.get("plain") or {}).get(part) or {}
    return found


def _shares(
    name: str, title: str, axis: str, found: dict[str, Json], audit: AuditResult, reference: float, plain: Json
) -> Plot:
    """Rows of shares under every scoring, and of plain CDA by label where that is another one."""
    marks = [SCORINGS[when] for when in (*audit["scorings"], *(("plain",) if plain else ()))]
    rows = [
        Row(label, (*(one[when] for when in audit["scorings"]), *((plain.get(label),) if plain else ())))
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
    return named(name) + (" (target)" if audit["skew"][name]["target"] and compares(audit) else "")
