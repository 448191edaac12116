"""A table of plain words and numbers, and its forms in a terminal and in Markdown; text from outside made inert."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from cda.report.numbers import inert, visible, width

Row = tuple[str, ...]
# Characters that begin a list or a heading in Markdown at the start of a line.
_OPENING = re.compile(r"\A(\s*(?:\d{1,9}(?=[.)](?:\s|\Z))|(?=[#=+-]+(?:\s|\Z))))([.)#=+-])")
_WWW = re.compile(r"(?<![A-Za-z0-9])(www)\.", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
FEW = 2
"""Observations of which the intervals say nothing."""
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


def folded_rows(table: Table) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The rows to show at once, and those that say little: at most `FEW` observations in a column `n`, or numbers that are all 0,
    p-values and n left aside. No row is folded where all would be.

    >>> folded_rows(Table("", ("of", "share", "n"), (("a", "0% [0, 0]", "9"), ("b", "50%", "9"), ("c", "50%", "2"))))[1]
    (('a', '0% [0, 0]', '9'), ('c', '50%', '2'))
    """
    aside = {at for at, name in enumerate(table.header) if name in ("n", "p") or name.startswith("p (")}
    counts = {
        at for at, name in enumerate(table.header) if at and name == "n"
    }  # a first column names the rows, maybe by n
    folded = tuple(row for row in table.rows if _says_little(row, aside, counts))
    if len(folded) == len(table.rows):
        return table.rows, ()
    return tuple(row for row in table.rows if row not in folded), folded


def _says_little(row: Row, aside: Collection[int], counts: Collection[int]) -> bool:
    ns = [int(found[0]) for at in counts if (found := _NUMBER.match(row[at]))]
    numbers = [
        float(number) for at, cell in enumerate(row) if at and at not in aside for number in _NUMBER.findall(cell)
    ]
    return any(n <= FEW for n in ns) or bool(numbers and not any(numbers))


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
