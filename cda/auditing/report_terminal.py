"""The first screen of an audit in a terminal: at most 12 lines of the page's own verdicts, and where the rest lies."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from cda.auditing.report_cells import applied, compares
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.report_trainings import mean_line, several
from cda.auditing.verdicts import SHAPES, BiasVerdict, bias_verdicts, headline
from cda.report.numbers import clipped, few_prompts, inert, share, width
from cda.report.tables import Row, aligned
from cda.results.audit import AuditResult
from cda.results.base import Missing

MAX_LINES, MAX_COLUMNS = 12, 100
_MAX_NAME, _CLAUSE_LINES = 30, 2
_QUIET = ("no change shown", "unclear", "left as it is", "not rewarded")
"""Chips whose rows go first if there are too many."""


def audit_summary(audit: AuditResult, report_path: str | None = None, adapter_path: str | None = None) -> str:
    """The headline, a row for each bias and for quality, the mean over several trainings, paths, and the number of caveats. If rows
    do not fit, those of the quietest verdicts become one line; how it was scored is said if there is room; a path is never cut. A clause that
    is too long for its row stands there in short, or else below the table."""
    found = bias_verdicts(audit)
    opening = _wrapped(headline(audit), 3)
    end = [*_wrapped(mean_line(audit), 2), *_wrapped(few_prompts(_prompts_of(audit)), 2)]
    if adapter_path is not None:
        over = several(audit)
        seed = "" if over is None else f", of seed {over.seeds[0]}; others next to it"
        end.append(f"Adapter: {inert(adapter_path)} (dose {applied(audit):g}{seed})")
    end += _where(audit, report_path)
    room = MAX_LINES - len(opening) - len(end) - 2  # header and quality
    shown, table = _that_fit(found, audit, room)
    rest = [row for row in found if row not in shown]
    lines = [*opening, *table, *_wrapped(_rest_line(rest), 1)]
    scored = textwrap.wrap(inert(how_scored(audit)), MAX_COLUMNS)
    return "\n".join([*lines, *(scored if len(lines) + len(scored) + len(end) <= MAX_LINES else []), *end])


def _wrapped(text: str, most: int) -> list[str]:
    return textwrap.wrap(text, MAX_COLUMNS, max_lines=most, placeholder=" …", break_on_hyphens=False)


def _that_fit(found: Sequence[BiasVerdict], audit: AuditResult, room: int) -> tuple[list[BiasVerdict], list[str]]:
    """The rows that fit with their clauses, and the lines of their table; clauses below the table take the room of rows."""
    shown, lines, below = _kept(found, room), list[str](), list[str]()
    for taken in range(_CLAUSE_LINES + 1):
        shown = _kept(found, room - taken)
        lines, below = _table(shown, audit)
        if len(below) <= taken:
            break
    return shown, [*lines, *below]


def _kept(found: Sequence[BiasVerdict], room: int) -> list[BiasVerdict]:
    """The rows that fit, in their order; one line less if others are named below."""
    if len(found) <= room:
        return list(found)
    by_news = sorted(found, key=lambda row: (row.chip in _QUIET, not row.target))
    kept = by_news[: max(1, room - 1)]
    return [row for row in found if row in kept]


def _rest_line(rest: Sequence[BiasVerdict]) -> str:
    by_chip: dict[str, list[str]] = {}
    for row in rest:
        by_chip.setdefault(row.chip, []).append(inert(row.bias))
    parts = (f"{chip} ({', '.join(names)})" for chip, names in by_chip.items())
    return f"{len(rest)} more: {', '.join(parts)}" if rest else ""


def _table(shown: Sequence[BiasVerdict], audit: AuditResult) -> tuple[list[str], list[str]]:
    """Rows as lines, each with its clause, in full or in short, if that fits; and the lines of the clauses that do not."""
    voted = any(row.people for row in shown)
    when = ("before", "after") if compares(audit) else ("preferred",)
    rows: list[Row] = [("bias", "verdict", *when, *(("people",) if voted else ()), "n")]
    for row in shown:
        people = (share(row.people) if row.people else "no votes",) if voted else ()
        shares = (
            "no preference" if row.tied else share(row.before),
            *(() if row.after is None else (share(row.after),)),
        )
        verdict = f"{SHAPES[row.chip]} {row.chip}"
        rows.append((clipped(inert(row.bias), _MAX_NAME), verdict, *shares, *people, str(row.last.n)))
    rows.append(_quality_row(audit, len(when), ("",) if voted else ()))
    first, *lines, last = aligned(rows)
    most = max(map(width, (first, *lines, last)))
    below: dict[str, list[str]] = {}
    for at, row in enumerate(shown):
        clause = _beyond_shares(row.clause)
        fits = (text for text in (clause, clause.partition(": ")[0]) if most + 2 + width(text) <= MAX_COLUMNS)
        if (said := next(fits, None)) is None:
            below.setdefault(clause, []).append(inert(row.bias))
        elif said:
            lines[at] += f"{' ' * (most - width(lines[at]))}  {said}"
    clauses = "; ".join(f"{', '.join(names)}: {clause}" for clause, names in below.items())
    return [first, *lines, last], _wrapped(clauses, _CLAUSE_LINES)


def _quality_row(audit: AuditResult, n_shares: int, people: Row) -> Row:
    quality = audit.quality
    if quality is None:
        return ("quality", "", "not measured", *[""] * (n_shares - 1), *people, "")
    after = () if isinstance(quality.after, Missing) else (share(quality.after),)
    return ("quality", "(ranked right)", share(quality.before), *after, *people, str(quality.before.n))


def _beyond_shares(clause: str) -> str:
    """The part of a clause that the columns of shares do not say already."""
    first, _, rest = clause.partition("; ")
    return rest if first.startswith("preferred in ") else clause


def _where(audit: AuditResult, report_path: str | None) -> list[str]:
    n = len(caveats(audit))
    counted = f"{n} {'caveat' if n == 1 else 'caveats'}"
    if report_path is None:
        return [f"{counted} in the report"] if n else []
    return [f"Report: {inert(report_path)}{f' ({counted} there)' if n else ''}"]


def _prompts_of(audit: AuditResult) -> dict[str, int]:
    measured = {name: skew.last for name, skew in audit.skew.items()}
    measured |= {f"votes on {name}": votes.human_skew for name, votes in audit.votes.items()}
    measured |= {"quality": audit.quality.last} if audit.quality is not None else {}
    return {name: estimate.n_prompts for name, estimate in measured.items()}
