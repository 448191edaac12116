"""A leaderboard in a terminal, in Markdown, as a page whose tables can be sorted, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from cda.inert import guarded
from cda.report.numbers import NOT_ESTIMATED, cell, count, decimals, inert, listed, points, share, signed
from cda.report.page import Headline, Page, ReportSection, rendered
from cda.report.tables import Row, Table, escaped, markdown_table, plain_table
from cda.results.base import Estimate, Missing
from cda.results.leaderboard import (
    BiasRow,
    Entry,
    LeaderboardResult,
    LeaderboardRow,
    MeasuredTexts,
    RankedGroup,
    ScoredAs,
)

Form = Callable[[Estimate], str]
_NONE = "not measured"
_RANKS = (
    "Places go by the mean over the biases, each of the same weight; of them the first measure that all rows have: miscalibration "
    "against people's votes, the size of RATE's effect in standard deviations, or the distance of skew from 50%, which says how far the "
    "model leans and not whether people lean so too. A place such as 1–3 is the range that the intervals allow: rows whose "
    "intervals overlap are tied, and their order in the table says nothing. No interval is corrected for the number of rows: of many, some "
    "places are wrong by chance."
)
_GROUPS = (
    "Rows on other texts, or with other votes, stand in another group: their numbers differ for that reason alone."
)
_BLANK = MeasuredTexts(name="none", n=0, content=None)
_MEASURES: tuple[tuple[str, str, Callable[[BiasRow], Estimate | Missing], Form], ...] = (
    ("skew", "Skew: share of contrasts on which the side with the bias is preferred", lambda row: row.skew, share),
    ("distance", "Skew − people, in percentage points", lambda row: row.distance, lambda value: points(value, "")),
    ("miscalibration", "Miscalibration: share on which model and people's majority disagree", lambda row: row.miscalibration, share),
    ("rate", "RATE's ATE in standard deviations of the originals' rewards", lambda row: row.rate, signed),
)  # fmt: skip


def leaderboard_text(result: LeaderboardResult) -> str:
    """For a terminal: a table of places for each group, then the files that are not shown."""
    parts = [plain_table(_places(group, _title(at, group))) for at, group in enumerate(result.groups, 1)]
    return "\n\n".join([*parts, *(inert(note) for note in _notes(result))])


def leaderboard_markdown(result: LeaderboardResult) -> str:
    """A Markdown document with every table; text from outside is escaped."""
    lines = ["# Leaderboard", "", escaped(_RANKS), "", escaped(_GROUPS), ""]
    lines += [line for note in _notes(result) for line in (escaped(note), "")]
    for section in _sections(result):
        lines += [f"## {escaped(section.title)}", ""]
        for table in section.tables:
            lines += markdown_table(table)
    return "\n".join(lines).strip() + "\n"


def leaderboard_page(result: LeaderboardResult) -> str:
    """The leaderboard as a self-contained page; with a script, a column's name sorts its table."""
    n = sum(len(group.entries) for group in result.groups)
    headlines = [_headline(at, group) for at, group in enumerate(result.groups, 1)]
    headlines += [Headline("Not shown:", note, "none") for note in _notes(result)]
    subtitle = (
        f"{n} audits in {len(result.groups)} group{'s' * (len(result.groups) > 1)}, from the folder {result.name}."
    )
    page = Page("Leaderboard", subtitle, tuple(headlines), tuple(_sections(result)))
    styles = ("report.css", "sortable.css")
    return rendered("page.html.j2", "sortable.js", styles, page=page, sections=page.sections)


def _sections(result: LeaderboardResult) -> Iterator[ReportSection]:
    for at, group in enumerate(result.groups, 1):
        tables = [_places(group, "Places"), *_measures(group), _made(group)]
        yield ReportSection(f"group-{at}", _title(at, group), (_RANKS,) if at == 1 else (), tuple(tables))
    yield ReportSection("texts", "Measured on", (_GROUPS,), (_text_sets(result.groups),))


def _title(at: int, group: RankedGroup) -> str:
    if group.text_set is None:
        return f"Group {at}: rows whose texts are unknown, not ranked"
    return f"Group {at}: text set {group.text_set[:8]}"


def _headline(at: int, group: RankedGroup) -> Headline:
    if group.ranked_by is None:
        return Headline(f"Group {at}:", f"{len(group.entries)} rows that are not ranked; their texts are unknown.")
    first = group.entries[0]
    if len(group.entries) == 1:
        return Headline(f"Group {at}:", f"one row, {first.row.label}; nothing to rank it with.")
    equal = [entry.row.label for entry in group.entries[1:] if entry.file in first.equal_to]
    may_be = sum(entry.best_place == 1 for entry in group.entries[1:]) - len(equal)
    also = f"; exactly as low: {listed(equal)}" if equal else ""
    also += f"; {may_be} more may be as low" if may_be else ""
    said = cell(first.score, _form(group))
    return Headline(
        f"Group {at}:", f"{len(group.entries)} rows. Lowest {group.ranked_by}: {first.row.label}, {said}{also}."
    )


def _notes(result: LeaderboardResult) -> list[str]:
    notes = [f"{name}: {reason}" for name, reason in result.refused.items()]
    if notes:
        notes.insert(0, f"{len(notes)} of {len(notes) + _n_rows(result)} files could not be read as rows.")
    for each in result.superseded:
        why = (
            "a copy of"
            if each.same_numbers
            else "the same model, scored alike on the same texts, with other numbers, as"
        )
        notes.append(f"{each.file}: {why} {each.by}, which is shown.")
    return notes


def _n_rows(result: LeaderboardResult) -> int:
    return len(result.superseded) + sum(len(group.entries) for group in result.groups)


def _form(group: RankedGroup) -> Form:
    return decimals if group.ranked_by == "size of RATE's effect" else share


def _places(group: RankedGroup, caption: str) -> Table:
    score = () if group.ranked_by is None else (f"{group.ranked_by} (mean)",)
    header = ("model", "place", "tied with", *score, "quality", "n (quality)", "scored", "date")
    rows = []
    for entry in group.entries:
        cells = (cell(entry.score, _form(group)),) if score else ()
        rows.append(
            (
                entry.row.label,
                "only row" if len(group.entries) == 1 else place(entry),
                _tied(entry),
                *cells,
                *_quality(entry.row),
                scored_words(entry.row.scored),
                _date(entry),
            )
        )
    return Table(caption, header, tuple(rows))


def _date(entry: Entry) -> str:
    return entry.row.date or "unknown"


def _quality(row: LeaderboardRow) -> Row:
    if isinstance(row.quality, Missing):
        return (_NONE, "")
    return (share(row.quality), count(row.quality))


def place(entry: Entry) -> str:
    """The place of an entry, or the range of places that its interval allows."""
    if entry.best_place is None or entry.worst_place is None:
        return "not ranked"
    return str(entry.best_place) if entry.best_place == entry.worst_place else f"{entry.best_place}–{entry.worst_place}"


def _tied(entry: Entry) -> str:
    """The number of rows that an entry is not told apart from, and how many of them have exactly its score."""
    n, n_equal = len(entry.tied_with), len(entry.equal_to)
    return "" if n == 0 else f"{n} other{'s' * (n > 1)}{f', {n_equal} equal' if n_equal else ''}"


def scored_words(scored: ScoredAs) -> str:
    """How a model or judge was asked, in a few words."""
    if scored.kind == "judge":
        orders = {"both": "both orders", "one": "one order", None: None}[scored.orders]
        judges = f"panel of {len(scored.judges)}" if scored.judges else None
        parts = ["judge", judges, scored.prompt and f"prompt {scored.prompt}", orders, scored.verdicts]
    else:
        length = None if scored.max_length_tokens is None else f"{scored.max_length_tokens} tokens"
        parts = [scored.precision, scored.template, length, scored.how]
        if scored.truncated:
            parts.append(f"{100 * scored.truncated:.0f}% of texts cut")
    parts += [
        f"criteria {', '.join(scored.criteria)}" if scored.criteria else None,
        "calibrated" if scored.calibration else None,
    ]
    return ", ".join(part for part in parts if part)


def _measures(group: RankedGroup) -> Iterator[Table]:
    """A table for each measure that any row has, biases across."""
    biases = list(dict.fromkeys(bias for entry in group.entries for bias in entry.row.biases))
    for _, caption, part, form in _MEASURES:
        rows = []
        for entry in group.entries:
            found = [part(entry.row.biases[bias]) if bias in entry.row.biases else None for bias in biases]
            rows.append((entry.row.label, found))
        if any(isinstance(value, Estimate) for _, found in rows for value in found):
            cells = tuple((label, *(_with_n(value, form) for value in found)) for label, found in rows)
            yield Table(f"{caption}, with 95% intervals and n", ("model", *biases), cells)


def _with_n(value: Estimate | Missing | None, form: Form) -> str:
    if value is None:
        return _NONE
    return NOT_ESTIMATED if isinstance(value, Missing) else f"{form(value)}, n {count(value)}"


def _made(group: RankedGroup) -> Table:
    rows = tuple(
        (
            entry.row.label,
            entry.row.revision or "not stated",
            (entry.row.content or "")[:8],
            entry.row.cda_version,
            entry.file,
        )
        for entry in group.entries
    )
    return Table("What was audited", ("model", "revision", "weights", "cda", "file"), rows)


def _text_sets(groups: Sequence[RankedGroup]) -> Table:
    """The texts of each group: source, number and content."""
    names = list(dict.fromkeys(bias for group in groups for bias in group.entries[0].row.biases))
    firsts = [group.entries[0].row for group in groups]
    rows: list[Row] = []
    for name in names:
        own = [row.biases.get(name) for row in firsts]
        rows.append((f"contrasts of {name}", *(_texts(bias.contrasts if bias else None) for bias in own)))
        if any(bias and bias.triples for bias in own):
            rows.append((f"triples of {name}", *(_texts(bias.triples if bias else None) for bias in own)))
        if any(bias and isinstance(bias.people, Estimate) for bias in own):
            rows.append((f"majorities on {name}", *(_voted(bias) for bias in own)))
    rows.append(("quality pairs", *(_texts(row.quality_pairs) for row in firsts)))
    header = ("", *(f"group {at}" for at in range(1, len(groups) + 1)))
    return Table("Source, number and content of the texts of each group (of its first row)", header, tuple(rows))


def _texts(texts: MeasuredTexts | None) -> str:
    if texts is None:
        return "none"
    return f"{texts.name}, {texts.n} ({texts.content[:8] if texts.content else 'content unknown'})"


def _voted(bias: BiasRow | None) -> str:
    return str(bias.people.n) if bias and isinstance(bias.people, Estimate) else "none"


_FACTS = ("model", "training", "revision", "content", "kind", "precision", "template", "max_length_tokens", "how", "prompt",
          "date", "cda_version", "file")  # fmt: skip


def leaderboard_csv(result: LeaderboardResult) -> str:
    """One line for each row, with every number, its interval and n; cells that a spreadsheet would compute are guarded."""
    biases = list(
        dict.fromkeys(name for group in result.groups for entry in group.entries for name in entry.row.biases)
    )
    measures = ["score", "quality", *(f"{bias} {name}" for bias in biases for name, *_ in _MEASURES)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    ends = ("", " low", " high", " n")
    header = [
        "text_set",
        "ranked_by",
        "best_place",
        "worst_place",
        "tied_with",
        "equal_to",
        *_FACTS,
        *(f"{name}{end}" for name in measures for end in ends),
    ]
    writer.writerow([guarded(name) for name in header])
    for group in result.groups:
        for entry in group.entries:
            writer.writerow(_line(group, entry, biases))
    return out.getvalue()


def _line(group: RankedGroup, entry: Entry, biases: Sequence[str]) -> list[object]:
    row, scored = entry.row, entry.row.scored
    training = row.training and f"{row.training.recipe}, dose {row.training.dose:g}"
    facts = (row.model, training, row.revision, row.content, scored.kind, scored.precision, scored.template,
             scored.max_length_tokens, scored.how, scored.prompt, row.date, row.cda_version, entry.file)  # fmt: skip
    cells: list[object] = [
        group.text_set,
        group.ranked_by,
        entry.best_place,
        entry.worst_place,
        len(entry.tied_with),
        len(entry.equal_to),
        *facts,
    ]
    found: list[Estimate | Missing | None] = [entry.score, row.quality]
    found += [part(row.biases[bias]) if bias in row.biases else None for bias in biases for _, _, part, _ in _MEASURES]
    for value in found:
        cells += [value.value, value.low, value.high, value.n] if isinstance(value, Estimate) else [None] * 4
    return [guarded(inert(cell)) if isinstance(cell, str) else cell for cell in cells]
