"""A leaderboard: rows of a folder, each checked, grouped by the texts that they were measured on and ranked within a group; in a
terminal, in Markdown, as a page whose tables can be sorted, and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from cda.errors import DataError, refuse
from cda.files.jsonl import read_json
from cda.files.paths import is_a_file, is_a_folder, user_path
from cda.inert import guarded
from cda.numbers.measures import MEASURES, AuditMeasure
from cda.numbers.views import numbers_in
from cda.records import content_id
from cda.report.document import Document, headings
from cda.report.numbers import NOT_MEASURED, cell, count, decimals, inert, listed, share
from cda.report.page import Headline, ReportSection
from cda.report.tables import Row, Table, tables_by_bias
from cda.results.base import Estimate, Missing, load
from cda.results.panel import (
    BiasRow,
    Entry,
    LeaderboardResult,
    LeaderboardRow,
    MeasuredTexts,
    RankedBy,
    RankedGroup,
    ScoredAs,
    Superseded,
)
from cda.stats.estimators import ROUNDING

AGAIN = "cda audit --export"
_MARK = "text_set"
"""A field that no other file of cda has."""
Rows = dict[str, LeaderboardRow]


def read_leaderboard(folder: str | Path) -> LeaderboardResult:
    """The leaderboard of a folder's rows, in folders below it too. Files of JSON that are no row are refused with a reason each.

    Raises:
        DataError: No such folder, or no row in it; with the reasons of the files that were refused.
    """
    place = user_path(folder)
    if not is_a_folder(place):
        other = "a file; give the folder that it lies in" if is_a_file(place) else "no such folder"
        raise DataError(f"{folder}: {other}")
    rows: Rows = {}
    refused: dict[str, str] = {}
    for file in sorted(place.rglob("*.json")):
        name = file.relative_to(place).as_posix()
        try:
            content = read_json(file)
            if _is_own(content):
                continue
            if isinstance(content, dict) and _MARK not in content:
                raise DataError(f"no row: a row has the field {_MARK}")
            rows[name] = load(LeaderboardRow, file, AGAIN)
        except DataError as error:
            # The page is shared: it says nothing of folders on this machine.
            reason = str(error).replace(str(file), "", 1).removeprefix(": ")
            refused[name] = re.sub(r"^:(\d+): ", r"line \1: ", reason)
    if not rows:
        problems = [f"{name}: {reason}" for name, reason in refused.items()]
        refuse([f"{folder}: no row that `{AGAIN} {Path(folder) / 'NAME.json'}` wrote", *problems], "more files")
    kept, superseded = newest(rows)
    return LeaderboardResult(
        name=place.resolve().name, groups=tuple(_groups(kept)), superseded=tuple(superseded), refused=refused
    )


def _is_own(content: object) -> bool:
    """True for the leaderboard's own numbers, which lie in the same folder."""
    return isinstance(content, dict) and "superseded" in content and "groups" in content and _MARK not in content


def newest(rows: Mapping[str, LeaderboardRow]) -> tuple[Rows, list[Superseded]]:
    """Of rows on one model, scored alike on the same texts, the newest (of equal dates the first file); and the others."""
    by_subject: dict[str, list[str]] = {}
    for name, row in rows.items():
        by_subject.setdefault(_subject(row), []).append(name)
    kept: Rows = {}
    superseded = []
    for names in by_subject.values():
        first = max(names, key=lambda name: (rows[name].date or "", -names.index(name)))
        kept[first] = rows[first]
        superseded += [
            Superseded(file=name, by=first, same_numbers=_numbers(rows[name]) == _numbers(rows[first]))
            for name in names
            if name != first
        ]
    return {name: kept[name] for name in rows if name in kept}, superseded


def _subject(row: LeaderboardRow) -> str:
    scored = row.scored.model_dump(exclude={"truncated"})
    training = row.training.model_dump() if row.training else None
    return content_id(row.model, row.revision, row.content, scored, training, row.text_set)


def _numbers(row: LeaderboardRow) -> object:
    return {name: bias.model_dump() for name, bias in row.biases.items()}, row.quality.model_dump()


def _groups(rows: Mapping[str, LeaderboardRow]) -> Iterator[RankedGroup]:
    """The rows of each text set and its biases, the largest set first; those of unknown texts last."""
    sets: dict[tuple[str | None, tuple[str, ...]], Rows] = {}
    for name, row in rows.items():
        # Of one text set the biases are the same, unless a row was changed by hand.
        biases = () if row.text_set is None else tuple(sorted(row.biases))
        sets.setdefault((row.text_set, biases), {})[name] = row
    order = sorted(sets, key=lambda key: (key[0] is None, -len(sets[key]), key[0] or "", key[1]))
    yield from (ranked(key[0], sets[key]) for key in order)


_MEASURES: dict[RankedBy, Callable[[BiasRow], Estimate | Missing]] = {
    "miscalibration": lambda row: row.miscalibration,
    "size of RATE's effect": lambda row: _size(row.rate, 0.0),
    "distance of skew from 50%": lambda row: _size(row.skew, 0.5),
}
"""Measures in the order of preference; lower is better, or at least less of an effect."""


def _size(value: Estimate | Missing, null: float) -> Estimate | Missing:
    """Distance from `null`, with the interval of the distances of all values in the interval."""
    if isinstance(value, Missing):
        return value
    ends = sorted((abs(value.low - null), abs(value.high - null)))
    low = 0.0 if value.low <= null <= value.high else ends[0]
    return value.model_copy(update={"value": abs(value.value - null), "low": low, "high": ends[1]})


def ranked(text_set: str | None, rows: Mapping[str, LeaderboardRow]) -> RankedGroup:
    """Rows of one text set, the lowest score first, each with the range of places that its interval allows; rows of unknown texts
    are listed by name, without places."""
    measure = None if text_set is None else _measure_of(list(rows.values()))
    if measure is None:
        missing = Missing(reason="the texts behind the row are unknown" if text_set is None else "no bias was measured")
        unranked = sorted(rows.items(), key=lambda item: (item[1].label, item[0]))
        entries = [
            Entry(file=name, row=row, score=missing, best_place=None, worst_place=None) for name, row in unranked
        ]
        return RankedGroup(text_set=text_set, ranked_by=None, entries=tuple(entries))
    scores = {
        name: mean_of_biases([_MEASURES[measure](bias) for bias in row.biases.values()]) for name, row in rows.items()
    }
    order = sorted(rows, key=lambda name: (scores[name].value, rows[name].label, name))
    return RankedGroup(
        text_set=text_set, ranked_by=measure, entries=tuple(_entry(name, rows, scores) for name in order)
    )


def _entry(name: str, rows: Mapping[str, LeaderboardRow], scores: Mapping[str, Estimate]) -> Entry:
    own = scores[name]
    below = sum(other.high < own.low for other in scores.values())
    above = sum(other.low > own.high for other in scores.values())
    tied = [each for each, other in scores.items() if each != name and other.low <= own.high and other.high >= own.low]
    equal = [each for each in tied if abs(scores[each].value - own.value) <= ROUNDING * max(1.0, abs(own.value))]
    return Entry(
        file=name, row=rows[name], score=own, best_place=1 + below, worst_place=len(scores) - above, tied_with=tuple(tied),
        equal_to=tuple(equal),
    )  # fmt: skip


def _measure_of(rows: Sequence[LeaderboardRow]) -> RankedBy | None:
    """The first measure that every row has for each of its biases; rows of one text set have the same biases."""
    for measure, part in _MEASURES.items():
        found = [part(bias) for row in rows for bias in row.biases.values()]
        if found and all(isinstance(value, Estimate) for value in found):
            return measure
    return None


def mean_of_biases(values: Sequence[Estimate | Missing]) -> Estimate:
    """Mean over the biases of one row, each of the same weight. The interval has the mean of the intervals' ends, as wide as if all
    biases erred together: an upper bound, since their contrasts may share prompts. DataError: a missing value, or none."""
    known = [value for value in values if isinstance(value, Estimate)]
    if not known or len(known) < len(values):
        raise DataError("a mean over biases needs a value for each of them")
    return Estimate(
        value=fmean(value.value for value in known),
        low=fmean(value.low for value in known),
        high=fmean(value.high for value in known),
        n=sum(value.n for value in known),
        n_prompts=max(value.n_prompts for value in known),
        unit=known[0].unit,
        method=known[0].method,
    )


Form = Callable[[Estimate], str]
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


def leaderboard_document(result: LeaderboardResult) -> Document:
    """A table of places for each group, then the files that are not shown. With a script, a column's name sorts its table."""
    n = sum(len(group.entries) for group in result.groups)
    notes, sections = _notes(result), tuple(_sections(result))
    headlines = [_headline(at, group) for at, group in enumerate(result.groups, 1)]
    headlines += [Headline("Not shown:", note, "none") for note in notes]
    groups = f"{len(result.groups)} group{'s' * (len(result.groups) > 1)}"
    return Document(
        "Leaderboard", f"{n} audits in {groups}, from the folder {result.name}.", tuple(headlines), sections,
        (*(_places(group, _title(at, group)) for at, group in enumerate(result.groups, 1)), *notes),
        ((_RANKS, _GROUPS, *notes), *headings(sections)),
        script="sortable.js", styles=("report.css", "sortable.css"),
    )  # fmt: skip


def _sections(result: LeaderboardResult) -> Iterator[ReportSection]:
    for at, group in enumerate(result.groups, 1):
        labels = {entry.file: entry.row.label for entry in group.entries}
        measured = tables_by_bias(numbers_in(group), "leaderboard", ("model", labels), {})
        tables = [_places(group, "Places"), *measured, _made(group)]
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
        return (NOT_MEASURED, "")
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
    columns = [f"{bias} {measure.shown_as.get('row', key)}" for bias in biases for key, measure in _columns().items()]
    measures = ["score", "quality", *columns]
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


def _columns() -> dict[str, AuditMeasure]:
    return {key: measure for key, measure in MEASURES.items() if measure.caption}


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
    by_bias = numbers_in(row).pivot("bias", "measure")
    numbers = [by_bias.get(bias, {}).get(key) for bias in biases for key in _columns()]
    found += [number.found if number else None for number in numbers]
    for value in found:
        cells += [value.value, value.low, value.high, value.n] if isinstance(value, Estimate) else [None] * 4
    return [guarded(inert(cell)) if isinstance(cell, str) else cell for cell in cells]
