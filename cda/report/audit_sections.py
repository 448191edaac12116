"""Accuracy by section in the report of an audit, drawn as `cda quality` draws it."""

from __future__ import annotations

from cda.report.numbers import Json
from cda.report.quality_tables import FLAGS, MEANINGS, flag, set_notes, set_tables, shown_groups, tenths
from cda.report.tables import Table, compares
from cda.results.audit import AuditResult


def section_tables(audit: AuditResult) -> list[Table]:
    """Sections and subsets of the quality pairs; none where these name no sections."""
    found = audit.get("quality_sections")
    return set_tables(found, _result(audit)) if found else []


def section_sentences(audit: AuditResult) -> list[str]:
    """How sections are made up, what flags mean, and what was left out."""
    found = audit.get("quality_sections")
    if not found:
        return []
    flags = [FLAGS.replace("of all files", "of this set")] if compares(audit) else []
    return [MEANINGS[found["format"]], *flags, *set_notes(found, _result(audit))]


def sections_line(audit: AuditResult) -> str:
    """Accuracy of each section on one line, for the terminal; empty without sections."""
    found = audit.get("quality_sections")
    if not found:
        return ""
    parts = []
    for group in shown_groups(found):
        values = [tenths(group["scores"][when]["estimate"]["value"]) for when in audit.scorings]
        marked = f" {flag(group['shift'])}" if group["shift"] and group["shift"]["fell"] else ""
        parts.append(f"{group['name']} {'→'.join(values)}{marked}")
    return f"{found['name']}, %: {', '.join(parts)}"


def _result(audit: AuditResult) -> Json:
    unit = next(iter(audit.effects.values())).unit
    return {"scorings": [{"label": when, "unit": unit} for when in audit.scorings]}
