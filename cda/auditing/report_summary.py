"""The short table a run ends with: plain text, at most 20 lines and 100 columns."""

from __future__ import annotations

import textwrap

from cda.auditing.report_dose import dose_line
from cda.auditing.report_evidence import applied
from cda.auditing.report_people import panel_sentence, sections_line
from cda.auditing.report_rate_cells import average_cells, gap_sentence, rewritten_line, unit_of
from cda.auditing.report_scoring import how_scored
from cda.auditing.report_seeds import one_training_line, others_over_seeds, seed_row, several
from cda.auditing.report_tables import (
    NO_VOTES,
    NOT_MEASURED,
    change_cells,
    compares,
    direction_rows,
    estimates,
    gap_cells,
    model_table,
    plain_cells,
    plain_gap,
    plain_miscalibration,
    plain_skew,
    quality_cells,
    triple_skew_rows,
)
from cda.auditing.report_verdict import (
    Verdict,
    drift_sentence,
    others_sentence,
    quality_sentence,
    targets,
    ties_sentence,
    verdicts,
)
from cda.report.numbers import clipped, count, few_prompts, inert, percent, share, width
from cda.report.tables import aligned
from cda.results.audit import AuditResult

MAX_LINES, MAX_COLUMNS = 20, 100
_MAX_NAME = 36
_RATE = " RATE ATE"
Row = tuple[str, ...]


def summary_table(audit: AuditResult, report_path: str | None = None, adapter_path: str | None = None) -> str:
    """Before and after of each target bias and of quality, the other biases, the verdict, how it was scored, the paths.

    Of several trainings the mean stands below the skew and the quality of the one that is the run's result.
    With many biases the rows are shortened to fit: first human skew and gap go, then miscalibration and the two directions
    move into a line each, then RATE goes.
    A path is never cut, since half a path is of no use.
    """
    if not compares(audit):
        return _model_summary(audit, report_path)
    found = verdicts(audit)
    below, over = [others_sentence(audit, MAX_COLUMNS)], several(audit)
    scored = clipped(inert(how_scored(audit)), MAX_COLUMNS)
    dose = textwrap.wrap(dose_line(audit), MAX_COLUMNS, max_lines=2, placeholder=" …")
    few = few_prompts(_prompts_of(audit))
    end = [*([clipped(few, MAX_COLUMNS)] if few else []), *dose, scored]
    if adapter_path is not None:
        seed = "" if over is None else f", of seed {over.seeds[0]}; others beside it"
        end.append(f"Adapter: {inert(adapter_path)} (dose {applied(audit):g}{seed})")
    end += _where(report_path)
    quality: list[Row] = [("quality accuracy", *_quality_cells(audit)), *seed_row(over, over.quality if over else None)]
    more = [others_over_seeds(audit), inert(sections_line(audit)), inert(rewritten_line(audit))]
    below += [clipped(line, MAX_COLUMNS) for line in more if line]
    room = MAX_LINES - 1 - len(quality) - len(below) - len(end)
    rows, notes, verdict = _fitted(audit, found, room)
    table = _measures([("measure", *estimates(audit)), *rows, *quality], audit.plain is not None)
    if len(table) + len(notes) + len(below) + len(verdict) + len(end) > MAX_LINES:
        # The column of plain CDA moved into lines of its own.
        rows, notes, verdict = _fitted(audit, found, room - (len(table) - 1 - len(rows) - len(quality)))
        table = _measures([("measure", *estimates(audit)), *rows, *quality], audit.plain is not None)
    lines = [*table, *notes, *below, *verdict]
    if len(lines) + len(end) < MAX_LINES:
        lines.append(clipped(quality_sentence(audit), MAX_COLUMNS))
    if len(lines) + len(end) < MAX_LINES and (left_out := one_training_line(audit)):
        lines.append(left_out)
    return "\n".join([*lines, *end])


def _model_summary(audit: AuditResult, report_path: str | None) -> str:
    """One model: every bias in a row, the words for them, how it was scored, the report."""
    table = model_table(audit, brief=True)
    rows = [tuple(clipped(inert(cell), _MAX_NAME) for cell in row) for row in (table.header, *table.rows)]
    scored = textwrap.wrap(inert(how_scored(audit)), MAX_COLUMNS)
    words = textwrap.wrap(_verdict_line(verdicts(audit)).replace("Verdict: ", "Biased side: "), MAX_COLUMNS)
    words += textwrap.wrap(few_prompts(_prompts_of(audit)), MAX_COLUMNS)
    words += textwrap.wrap(panel_sentence(audit), MAX_COLUMNS)
    words += textwrap.wrap(_drift_note(audit), MAX_COLUMNS)
    words += textwrap.wrap(ties_sentence(audit), MAX_COLUMNS)
    words += textwrap.wrap(quality_sentence(audit), MAX_COLUMNS)
    words += textwrap.wrap(inert(sections_line(audit)), MAX_COLUMNS)
    words += textwrap.wrap(inert(rewritten_line(audit)), MAX_COLUMNS)
    words += textwrap.wrap(_triple_sentence(audit), MAX_COLUMNS)
    words += [line for sentence in _rate_lines(audit) for line in textwrap.wrap(sentence, MAX_COLUMNS)]
    return "\n".join([*_lines(rows), *words, *scored, *_where(report_path)])


def _where(report_path: str | None) -> list[str]:
    return [] if report_path is None else [f"Report: {inert(report_path)}"]


def _prompts_of(audit: AuditResult) -> dict[str, int]:
    """Prompts behind the skew of every bias, its voted contrasts and quality."""
    measured = {name: one.last for name, one in audit.skew.items()}
    measured |= {f"votes on {name}": one.human_skew for name, one in audit.votes.items()}
    if audit.quality is not None:
        measured["quality"] = audit.quality.last
    return {name: one.n_prompts for name, one in measured.items()}


def _drift_note(audit: AuditResult) -> str:
    """Which margins what else differs may explain; the report has the numbers."""
    names = [inert(name) for name in targets(audit) if drift_sentence(name, audit)]
    return f"What else differs between the sides may explain the margin of {', '.join(names)}." if names else ""


def _triple_sentence(audit: AuditResult) -> str:
    """Skew over triples of each bias that has any; empty without any."""
    parts = [f"{inert(name)} {cell} (n {n})" for name, cell, n in triple_skew_rows(audit)]
    return f"Skew over triples (rewrite of the rewrite against rewrite): {'; '.join(parts)}" if parts else ""


def _rate_lines(audit: AuditResult) -> list[str]:
    """RATE's average effects if the table has no room for them, and why others are not given."""
    parts = []
    if audit.votes:
        for name, one in audit.rate.items():
            effect, flipped = average_cells(one, audit.scorings)
            parts.append(f"{inert(name)} {effect} ({flipped})")
    said = f"Causal effect (RATE, double-rewrite ATE): {'; '.join(parts)}" if parts else ""
    return [said, *(inert(gap_sentence(name, one)) for name, one in audit.rate.items())]


def _fitted(audit: AuditResult, found: list[Verdict], room: int) -> tuple[list[Row], list[str], list[str]]:
    """Rows, a line below them, and verdict lines: the fullest form that takes at most `room` lines."""
    names = targets(audit)
    main = [
        row for name in names for row in (*_skew_rows(name, audit), _missed_row(name, audit), *_rate_rows(name, audit))
    ]
    full = [
        row
        for name in names
        for row in (
            *_skew_rows(name, audit), _missed_row(name, audit), *_people_rows(name, audit), *_rate_rows(name, audit)
        )
    ]  # fmt: skip
    tripled = [
        row
        for name in names
        for row in (
            *_skew_rows(name, audit), _missed_row(name, audit), *_people_rows(name, audit), *_triple_rows(name, audit),
            *_rate_rows(name, audit),
        )
    ]  # fmt: skip
    effects = [row for name in names for row in (_skew_rows(name, audit)[0], *_rate_rows(name, audit))]
    skews = [_skew_rows(name, audit)[0] for name in names]
    sentences = [line for verdict in found for line in textwrap.wrap(verdict.sentence, MAX_COLUMNS)]
    line = [clipped(_verdict_line(found), MAX_COLUMNS)]
    joined = [clipped(_miscalibrations(audit), MAX_COLUMNS), *_directions(audit)]
    for rows, notes, verdict in (
        (tripled, [], sentences), (full, [], sentences), (full, [], line), (main, [], sentences), (main, [], line),
        (effects, joined, line), (skews, joined, line),
    ):  # fmt: skip
        if len(rows) + len(notes) + len(verdict) <= room:
            return rows, notes, verdict
    kept = room - 2 - len(joined)
    more = f"{len(names) - kept} more biases in the report. {_miscalibrations(audit)}"
    return skews[:kept], [clipped(more, MAX_COLUMNS), *joined[1:]], line


def _skew_rows(name: str, audit: AuditResult) -> list[Row]:
    """Skew, below it the mean over trainings where there are several, and the two directions where there are two."""
    label = clipped(inert(name), _MAX_NAME - len(" miscalibration"))
    directions = [(f"  where {how}", *cells) for how, *cells in direction_rows(name, audit)]
    own = (f"{label} skew", *change_cells(audit.skew[name]), *plain_skew(audit, name))
    over = several(audit)
    return [own, *seed_row(over, over.skew[name] if over else None), *directions]


def _missed_row(name: str, audit: AuditResult) -> Row:
    label = clipped(inert(name), _MAX_NAME - len(" miscalibration"))
    votes = audit.votes.get(name)
    if not votes:
        return (f"{label} miscalibration", NO_VOTES)
    return (f"{label} miscalibration", *change_cells(votes.miscalibration), *plain_miscalibration(audit, name))


def _people_rows(name: str, audit: AuditResult) -> list[Row]:
    votes = audit.votes.get(name)
    if not votes:
        return []
    label = clipped(inert(name), _MAX_NAME - len(" miscalibration"))
    people = votes.human_skew
    gap = (*gap_cells(votes), *plain_gap(audit.plain.votes.get(name) if audit.plain else None))
    return [(f"{label} human skew", share(people), "", "", count(people)), (f"{label} gap", *gap)]


def _triple_rows(name: str, audit: AuditResult) -> list[Row]:
    label = clipped(inert(name), _MAX_NAME - len(" skew (triples)"))
    return [(f"{label} skew (triples)", *cells) for of, *cells in triple_skew_rows(audit) if of == name]


def _rate_rows(name: str, audit: AuditResult) -> list[Row]:
    """RATE's average effect in one line; none without triples."""
    if name not in audit.rate:
        return []
    one = audit.rate[name]
    what = f"{_RATE}{unit_of(one)}"
    return [
        (
            f"{clipped(inert(name), _MAX_NAME - len(what))}{what}",
            *average_cells(one, audit.scorings),
            *plain_cells(audit, lambda _: None),
        )
    ]


def _quality_cells(audit: AuditResult) -> Row:
    return (NOT_MEASURED,) if audit.quality is None else quality_cells(audit.quality, audit)


def _miscalibrations(audit: AuditResult) -> str:
    parts = []
    for name in targets(audit):
        votes = audit.votes.get(name)
        if votes:
            both = votes.miscalibration
            before, after = percent(both.before.value)[:-1], percent(both.last.value)
            parts.append(f"{inert(name)} {before}→{after}")
    return f"Miscalibration: {', '.join(parts)}" if parts else f"Miscalibration: {NO_VOTES}"


def _directions(audit: AuditResult) -> list[str]:
    """One line: skew after of each target where the bias was added and where it was removed; none without both."""
    parts = []
    for name in targets(audit):
        shares = [f"{percent(one.last.value)} {how}" for how, one in audit.skew[name].by_direction.items()]
        parts += [f"{inert(name)} {', '.join(shares)}"] if shares else []
    return [clipped(f"Skew after, where the bias was … {'; '.join(parts)}", MAX_COLUMNS)] if parts else []


def _measures(rows: list[Row], has_plain: bool) -> list[str]:
    """The table. Where it is too wide, RATE's effects, whose cells are the longest, and then plain CDA are put into lines below
    it, so that nothing is cut."""
    header, full = rows[0], len(rows[0])
    kept, below = [(*row, *[""] * (full - len(row))) for row in rows], []
    if _breadth(kept) > MAX_COLUMNS:
        below = [_effect_line(row) for row in kept if _RATE in row[0]]
        kept = [row for row in kept if _RATE not in row[0]]
    if has_plain and _breadth(kept) > MAX_COLUMNS:
        said = "; ".join(f"{row[0].strip()} {row[-1]}" for row in kept[1:] if row[-1])
        below.append(f"{header[-1]}: {said}")
        kept = [row[:-1] for row in kept]
    return [*_lines(kept), *(line for one in below for line in textwrap.wrap(one, MAX_COLUMNS))]


def _effect_line(row: Row) -> str:
    """A row of RATE as a line: the effect before and after, its change, and how many rewrites flipped the bias."""
    name, before, after, change, flipped = row[:5]
    moved = f" → {after}, change {change}" if after else ""
    return f"{name}: {before}{moved}; {flipped}" if flipped else f"{name}: {before}{moved}"


def _breadth(rows: list[Row]) -> int:
    return sum(max(width(cell) for cell in column) + 2 for column in zip(*rows, strict=True)) - 2


def _verdict_line(found: list[Verdict]) -> str:
    by_word: dict[str, list[str]] = {}
    for verdict in found:
        by_word.setdefault(verdict.word, []).append(inert(verdict.bias))
    return "Verdict: " + "; ".join(f"{word}: {', '.join(names)}" for word, names in by_word.items())


def _lines(rows: list[Row]) -> list[str]:
    return [clipped(line, MAX_COLUMNS) for line in aligned(rows)]
