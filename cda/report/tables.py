"""A table of plain words and numbers, and its forms in a terminal and in Markdown; text from outside made inert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cda.numbers.measures import MEASURES
from cda.report.numbers import NOT_ESTIMATED, count, inert, p_value, printed, visible, width
from cda.results.base import Missing, Number

Row = tuple[str, ...]
# Characters that begin a list or a heading in Markdown at the start of a line.
_OPENING = re.compile(r"\A(\s*(?:\d{1,9}(?=[.)](?:\s|\Z))|(?=[#=+-]+(?:\s|\Z))))([.)#=+-])")
_WWW = re.compile(r"(?<![A-Za-z0-9])(www)\.", re.IGNORECASE)
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


def plain_table(table: Table) -> str:
    """A table as lines, its caption first; as wide as it is."""
    rows = [tuple(inert(cell) for cell in row) for row in (table.header, *table.rows)]
    return "\n".join([inert(table.caption), *aligned(rows)])


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
