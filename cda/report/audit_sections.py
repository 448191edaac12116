"""Accuracy by section in the report of an audit, drawn as `cda quality` draws it."""

from __future__ import annotations

from cda.report.quality_tables import FLAGS, MEANINGS, flag, set_notes, set_tables, tenths
from cda.report.tables import Table, compares
from cda.results.audit import AuditResult


def section_tables(audit: AuditResult) -> list[Table]:
    """Sections and subsets of the quality pairs; none where these name no sections."""
    return set_tables(audit.quality_sections) if audit.quality_sections is not None else []


def section_sentences(audit: AuditResult) -> list[str]:
    """How sections are made up, what flags mean, and what was left out."""
    found = audit.quality_sections
    if found is None:
        return []
    unit = next(iter(audit.effects.values())).unit
    flags = [FLAGS.replace("of all files", "of this set")] if compares(audit) else []
    return [MEANINGS[found.format], *flags, *set_notes(found, unit)]


def sections_line(audit: AuditResult) -> str:
    """Accuracy of each section on one line, for the terminal; empty without sections."""
    found = audit.quality_sections
    if found is None:
        return ""
    parts = []
    for group in found.shown:
        values = [tenths(score.estimate.value) for score in group.scores.values()]
        marked = f" {flag(group.shift)}" if group.shift is not None and group.shift.fell else ""
        parts.append(f"{group.name} {'→'.join(values)}{marked}")
    return f"{found.name}, %: {', '.join(parts)}"
