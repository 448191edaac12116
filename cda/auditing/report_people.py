"""Tables of the model's preferences by people's majorities, and which biases people voted on."""

from __future__ import annotations

from collections.abc import Iterator

from cda.auditing.report_tables import compares
from cda.auditing.report_verdict import others, targets
from cda.report.accuracy import FLAGS, MEANINGS, flag, set_notes, set_tables, tenths
from cda.report.numbers import NOT_ESTIMATED, count, inert, percent, share
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, PerScoring
from cda.results.skew import BiasPanel, JudgedBias, PreferenceTable

SIDES = {"perturbed": "biased side", "base": "other side", "tie": "tie"}


def voted_names(audit: AuditResult) -> list[str]:
    """Biases with votes, targets first."""
    return [name for name in [*targets(audit), *others(audit)] if name in audit.votes]


def preference_tables(audit: AuditResult) -> list[Table]:
    """For each bias with votes: people's majority by the model's preference, under every scoring; counts and shares."""
    return [_table(name, audit.votes[name].by_majority, audit) for name in voted_names(audit)]


def _table(name: str, found: PerScoring[PreferenceTable], audit: AuditResult) -> Table:
    rows: list[tuple[str, ...]] = []
    total = 0
    for when, one in found.items():
        counts, given = one.counts, one.skew_given
        total = sum(sum(row.values()) for row in counts.values())
        stage = f", {when}" if compares(audit) else ""
        for side, word in SIDES.items():
            cells = [_part(counts[side][own], total) for own in SIDES]
            skew = share(given[side]) if side in given else ""
            rows.append((f"people: {word}{stage}", *cells, str(sum(counts[side].values())), skew))
        sums = [_part(sum(counts[side][own] for side in SIDES), total) for own in SIDES]
        rows.append((f"sum{stage}", *sums, str(total), ""))
    header = (
        "people's majority",
        *(f"model: {word}" for word in SIDES.values()),
        "n",
        "model for the biased side, of the row",
    )
    caption = (
        f"{name}: the model's preferences by people's majority, on {total} contrasts with votes; in brackets the share of "
        "all of them, last the share of the row with its 95% interval"
    )
    return Table(caption, header, tuple(rows))


def _part(number: int, total: int) -> str:
    return f"{number} ({percent(number / total)})" if total else str(number)


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
