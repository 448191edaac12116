"""A table of plain words and numbers, and its forms in a terminal and in Markdown; text from outside made inert."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from cda.numbers.measures import MEASURES
from cda.report.numbers import (
    FORMS,
    NOT_ESTIMATED,
    cell,
    count,
    in_each,
    inert,
    n_of,
    p_value,
    printed,
    signed,
    visible,
    width,
)
from cda.results.base import Estimate, Missing, Number, Test
from cda.results.effects import Grouping, Level, SameMargin
from cda.stats.levels import FEWEST_PROMPTS, MOST_LEVELS

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], str]]
"""Headings, and the cell of a row below each."""
Row = tuple[str, ...]
_MOST_POOLED = 8
# Characters that begin a list or a heading in Markdown at the start of a line.
_OPENING = re.compile(r"\A(\s*(?:\d{1,9}(?=[.)](?:\s|\Z))|(?=[#=+-]+(?:\s|\Z))))([.)#=+-])")
_WWW = re.compile(r"(?<![A-Za-z0-9])(www)\.", re.IGNORECASE)
_LONGEST_NAME = 100
_SHORT_NAME = 40
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of a row names it, and each row has as many cells as the header."""

    caption: str
    header: Row
    rows: tuple[Row, ...]


def table(caption: str, header: Row, rows: Iterable[Row]) -> Table | None:
    """A table, or None without rows."""
    found = tuple(rows)
    return Table(caption, header, found) if found else None


@dataclass(frozen=True, slots=True)
class Column:
    """A column over numbers: its heading, and which number of a row it shows and what of it."""

    heading: str
    of: Mapping[str, str]
    """Measure, moment or level to the one of it; of several, the first that a row has."""
    shows: Literal["estimate", "estimate, n", "n", "p", "p (Holm)", "p (BH)"] = "estimate"

    def cell(self, row: Iterable[Number], missing: Mapping[str, str], absent: str) -> str:
        """The cell of a row's numbers."""
        number = next((each for each in row if all(each.value_of(key) == one for key, one in self.of.items())), None)
        if number is None:
            return absent if self.shows.startswith("estimate") else ""
        found, test = number.found, number.test
        if self.shows.startswith("p"):
            p = {"p": test.p_value, "p (Holm)": test.p_holm, "p (BH)": test.p_bh}[self.shows] if test else None
            return "" if p is None else p_value(p)
        if isinstance(found, Missing):
            word = missing.get(MEASURES[number.measure].on, NOT_ESTIMATED)
            return "" if self.shows == "n" else word or found.reason
        shown = count(found) if self.shows == "n" else printed(number.measure, number.moment, found)
        return f"{shown}, n {count(found)}" if self.shows == "estimate, n" else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf:
    """A table as a declaration: `of(numbers)` draws it. Filter numbers with `where` before."""

    caption: str
    heading: str
    """Of the first column."""
    rows: tuple[str, ...]
    """Measure, moment or levels that tell rows apart; their names make the first cell."""
    columns: tuple[Column, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Kind of texts (`AuditMeasure.on`) to the word for a number that could not be estimated; empty for its reason."""
    absent: str = ""
    """Of a number that was not measured."""

    def of(self, numbers: Iterable[Number], labels: Mapping[str, str] | None = None) -> Table | None:
        """The table in the numbers' order, with other labels for some names (only rows with a label, in the labels' order, if a row
        is told by one level); None without rows."""
        found: dict[tuple[str, ...], list[Number]] = {(name,): [] for name in labels or () if len(self.rows) == 1}
        for number in numbers:
            key = tuple(number.value_of(name) for name in self.rows)
            if labels is None or len(self.rows) > 1 or key in found:
                found.setdefault(key, []).append(number)
        named = labels or {}
        rows = (
            (
                " ".join(_named(level, name, named) for level, name in zip(self.rows, key, strict=True) if name),
                *(column.cell(own, self.missing, self.absent) for column in self.columns),
            )
            for key, own in found.items()
        )
        return table(self.caption, (self.heading, *(column.heading for column in self.columns)), rows)


def _named(level: str, name: str, labels: Mapping[str, str]) -> str:
    return labels.get(name, MEASURES[name].title if level == "measure" else name)


COUNTS: Columns[Level] = {
    "n": lambda level: str(level.n),
    "prompts": lambda level: str(level.n_prompts),
}
TESTED: Columns[Level] = {
    "p": lambda level: cell(level.test, lambda test: p_value(test.p_value), ""),
    "p (Holm)": lambda level: cell(level.test, lambda test: cell(test.p_holm, p_value), ""),
}
"""Columns of counts and of the levels' tests."""


def levels_table(
    caption: str, heading: str, rows: Iterable[tuple[str, T]], columns: Columns[T], last: Iterable[Row] = ()
) -> Table | None:
    """A row for each level, its name first, then `last`; None without rows. A row may be several levels of one name."""
    levels = [(name, *(shown(row) for shown in columns.values())) for name, row in rows]
    return table(caption, (heading, *columns), [*levels, *last])


def level_number(measure: str, moment: str) -> Callable[[Level], str]:
    """A column of one number of each level, in the form of its unit."""

    def shown(level: Level) -> str:
        match level.found.get(measure, {}).get(moment):
            case Estimate() as found:
                form: Callable[[Estimate], str] = FORMS.get(found.unit, signed)  # type: ignore[call-overload]
                return form(found)
            case SameMargin(value=value):
                return in_each(value)
            case None:
                return ""
        return NOT_ESTIMATED

    return shown


def p_differ(test: Test | Missing, missing: str = NOT_ESTIMATED) -> str:
    """p of the test that levels are alike, Holm's if it belongs to a family."""
    return cell(test, lambda own: p_value(own.p_value if own.p_holm is None else own.p_holm), missing)


def grouping_sentences(of: str, by: Grouping, rows: str) -> Iterator[str]:
    """What was pooled, and how many rows have no level. `of`: the column, `rows`: what it divides."""
    if by.pooled:
        largest = sorted(by.pooled.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{inert(name)} ({n})" for name, n in largest[:_MOST_POOLED])
        more = f" and {n_of(len(by.pooled) - _MOST_POOLED, 'other')}" if len(by.pooled) > _MOST_POOLED else ""
        why = f"fewer than {FEWEST_PROMPTS} prompts, or beyond the {MOST_LEVELS} largest"
        yield f"{of}: levels with {why}, are pooled: {shown}{more}."
    if by.n_missing:
        yield f"{of}: {rows} without a value, in no level: {by.n_missing}."


def plain_table(table: Table) -> str:
    """A table as lines, its caption first; as wide as it is, with names in lines of `_LONGEST_NAME` columns."""
    rows = (broken_name(tuple(map(inert, row)), _LONGEST_NAME) for row in (table.header, *table.rows))
    return "\n".join([inert(table.caption), *aligned([line for row in rows for line in row])])


def fitted_table(table: Table, lines: int, columns: int = 100) -> list[str]:
    """A table within so many lines and columns: names and the caption broken, columns left out from the right and rows from below,
    which is said in their place."""
    caption = textwrap.wrap(inert(table.caption), columns)
    whole = [broken_name(tuple(map(inert, row)), _SHORT_NAME) for row in (table.header, *table.rows)]
    shown, left = fitting(whole, lines - len(caption))
    rows, kept = [line for row in shown for line in row], len(table.header)
    while kept > 2 and max(map(width, aligned([row[:kept] for row in rows]))) > columns:
        kept -= 1
    more = [f"… {n_of(left, 'more row')} in the report"] if left else []
    return [*caption, *aligned([row[:kept] for row in rows]), *more]


def broken_name(row: Row, most: int, lines: int | None = None) -> list[Row]:
    """A row as one line, or as several, so many `lines` at most, if its name has more than `most` columns."""
    name, *cells = row
    if width(name) <= most:
        return [row]
    first, *rest = textwrap.wrap(name, most * len(name) // width(name), max_lines=lines, placeholder="…")
    return [(first, *cells), *((part, *[""] * len(cells)) for part in rest)]


def fitting(rows: Sequence[list[Row]], room: int) -> tuple[Sequence[list[Row]], int]:
    """The header and the first rows that so many lines hold, one row at least, and the number of the others, which takes a line."""
    lines = [sum(map(len, rows[:n])) + (n < len(rows)) for n in range(len(rows) + 1)]
    n = max((n for n, needed in enumerate(lines) if needed <= room), default=2)
    return rows[: max(2, n)], max(0, len(rows) - max(2, n))


def aligned(rows: Sequence[Row]) -> list[str]:
    """Rows as lines with columns of equal width."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def markdown_table(table: Table) -> list[str]:
    """Lines of a table, its caption above it."""
    header, *rows = (f"| {' | '.join(map(escaped, row))} |" for row in (table.header, *table.rows))
    return [f"{escaped(table.caption)}:", "", header, f"| {' | '.join('---' for _ in table.header)} |", *rows, ""]


def fenced_block(text: str) -> list[str]:
    """The text in a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", visible(text), fence]


def escaped(text: object) -> str:
    """One inert line in which nothing is markup, even at the start of a line or of a list item.

    >>> escaped("# www.example.org"), escaped("1. <b>")
    ('\\\\# www&#46;example.org', '1\\\\. &lt;b&gt;')
    """
    plain = _OPENING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", inert(text)))
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # Some renderers make links of bare addresses, with or without http.
    return _WWW.sub(r"\1&#46;", plain.replace("://", "&#58;//"))
