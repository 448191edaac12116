"""A panel of judges: each judge by itself beside the panel, as a table and as a line for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from cda.report.numbers import NOT_ESTIMATED, count, inert, share
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.results.people import BiasPanel, JudgedBias


def panel_table(audit: AuditResult) -> Table | None:
    """Skew and miscalibration of every judge, of the panel and in the mean of the judges; None where no panel was asked."""
    panels = audit.panel
    if not panels:
        return None
    voted = any(one.panel.miscalibration is not None for one in panels.values())
    rows = []
    for bias, one in panels.items():
        for name, found in _rows(one):
            people = (_share(found.miscalibration), _count(found.miscalibration)) if voted else ()
            ties = "" if found.ties is None else str(found.ties)
            cells = (_share(found.skew), _count(found.skew), ties, str(found.unread), *people)
            rows.append((f"{bias}, {name}", *cells))
    header = (
        "bias, judge",
        "skew",
        "n",
        "ties",
        "without a verdict",
        *(("miscalibration", "n voted") if voted else ()),
    )
    return Table("Each judge by itself and the panel, with 95% intervals", header, tuple(rows))


def panel_sentence(audit: AuditResult) -> str:
    """The skew of every judge beside the panel's, for the terminal; empty where no panel was asked."""
    parts = []
    for bias, one in audit.panel.items():
        said = ", ".join(f"{inert(name)} {_share(found.skew)}" for name, found in one.judges.items())
        parts.append(f"{inert(bias)}: {said}; the panel {_share(one.panel.skew)}")
    return f"Skew by judge: {'. '.join(parts)}." if parts else ""


def _rows(one: BiasPanel) -> Iterator[tuple[str, JudgedBias]]:
    yield from one.judges.items()
    yield "the panel", one.panel
    yield "mean of the judges", one.mean


def _share(found: Estimate | Missing | None) -> str:
    if found is None:
        return ""
    return NOT_ESTIMATED if isinstance(found, Missing) else share(found)


def _count(found: Estimate | Missing | None) -> str:
    return count(found) if isinstance(found, Estimate) else ""
