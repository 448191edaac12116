"""Tables of the model's preferences by people's majorities, and which biases people voted on."""

from __future__ import annotations

from cda.report.numbers import percent, share
from cda.report.tables import Table, compares
from cda.report.verdict import others, targets
from cda.results.audit import AuditResult
from cda.results.base import PerScoring
from cda.results.people import PreferenceTable

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
