"""The first screen of a result: a row each with a chip, marks with intervals on one axis that all rows share, and a clause; for a page,
Markdown and, in at most `MAX_LINES` lines with the headline, a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from cda.report.numbers import inert, plain, share, width
from cda.report.page import Kind
from cda.report.tables import Row, Table, aligned, broken_name
from cda.results.base import Estimate, Missing

Look = Literal["before", "after", "third", "people", "characters", "words"]
"""How a mark is drawn: an open or a full circle, a square's colour, a diamond, a line and a dashed line."""
MAX_LINES, MAX_COLUMNS = 12, 100
_MAX_LABEL, _MIN_LABEL, MAX_HEADLINE = 40, 12, 3
_LANES = {1: (13,), 2: (8, 18), 3: (5, 13, 21)}
"""Heights of circles in a row; diamonds and lines stand in the middle."""
_MOST_TICKS = 5


@dataclass(frozen=True, slots=True)
class Chip:
    """A verdict in one or two words, with a sign, so that it does not depend on its colour."""

    word: str
    kind: Kind
    sign: str

    def __str__(self) -> str:
        return f"{self.sign} {self.word}"


NOT_SHOWN, UNKNOWN = Chip("no change shown", "none", "="), Chip("not known", "none", "?")
NEARER, FURTHER = Chip("nearer to people", "good", "✓"), Chip("further away", "bad", "✗")


def moved(change: object, fell: Chip, rose: Chip, open_: Chip = NOT_SHOWN) -> Chip:
    """The chip of a change whose interval lies below 0 or above it, or has 0 in it; `UNKNOWN` without an estimate."""
    if not isinstance(change, Estimate):
        return UNKNOWN
    return fell if change.high < 0 else rose if change.low > 0 else open_


@dataclass(frozen=True, slots=True)
class Series:
    """A kind of marks, with its words in the key."""

    look: Look
    words: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An estimate on the axis, and how it is printed."""

    series: Series
    found: Estimate
    text: str

    @property
    def is_dot(self) -> bool:
        return self.series.look in ("before", "after", "third")


def marked(
    series: Series, found: Estimate | Missing | None, form: Callable[[Estimate], str] = share
) -> tuple[Mark, ...]:
    """One mark, or none without an estimate."""
    return (Mark(series, found, form(found)),) if isinstance(found, Estimate) else ()


@dataclass(frozen=True, slots=True)
class Cell:
    """What a row has in one column of the axis; `instead` stands in place of marks, `words` are for those who do not see them."""

    chip: Chip | None = None
    marks: tuple[Mark, ...] = ()
    instead: str = ""
    words: str = ""

    @property
    def lanes(self) -> list[tuple[Mark, int]]:
        """Each mark with its height in the row, lines and diamonds first, which circles are drawn over."""
        dots = [mark for mark in self.marks if mark.is_dot]
        rest = [mark for mark in self.marks if not mark.is_dot]
        return [*((mark, 13) for mark in rest), *zip(dots, _LANES.get(len(dots), ()), strict=bool(dots))]

    @property
    def described(self) -> str:
        """The marks in words."""
        return self.words or ", ".join(f"{mark.series.words} {mark.text}" for mark in self.marks) or self.instead


@dataclass(frozen=True, slots=True)
class GlanceRow:
    """A row: `cells` are as many as the columns; `note` follows the label."""

    label: str
    cells: tuple[Cell, ...]
    clause: str = ""
    note: str = ""
    quiet: bool = False
    """It shows nothing, so that it is the first to become part of one line if rows do not fit."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis that all rows share: its ends and ticks in its own unit, with their words; `reference` is a dashed line."""

    name: str
    ticks: tuple[tuple[float, str], ...]
    reference: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return self.ticks[0][0], self.ticks[-1][0]

    def at(self, value: float) -> str:
        """Place of a value in percent of the width, within the ends."""
        low, high = self.ends
        return f"{min(max(100 * (value - low) / (high - low), 0.0), 100.0):.2f}%"

    def few(self) -> Axis:
        """The same with its ends and middle alone, for a narrow column."""
        shown = (self.ticks[0], *([self.ticks[len(self.ticks) // 2]] if len(self.ticks) % 2 else []), self.ticks[-1])
        return Axis(self.name, shown, self.reference)


def percent_axis(name: str, reference: float | None = 0.5) -> Axis:
    """The axis of shares, from none to all."""
    return Axis(name, tuple((tick / 100, f"{tick}%") for tick in (0, 25, 50, 75, 100)), reference)


def axis_around(name: str, found: Iterable[Estimate], reference: float = 0.0) -> Axis:
    """The axis of another unit, on which every interval and the reference lie."""
    ends = [reference, *(end for each in found for end in (each.low, each.high, each.value))]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = low - 1, high + 1
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple((at * step, plain(round(at * step, 10), 3)) for at in range(first, last + 1))
    return Axis(name, ticks, reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The rows of a first screen under one caption.

    `heading` names what rows are; `columns` the columns of the axis if there are several, each with its chip; `reading` is folded below.
    """

    caption: str
    heading: str
    axis: Axis
    rows: tuple[GlanceRow, ...]
    columns: tuple[str, ...] = ("",)
    end: str = ""
    """What follows the key in the caption, such as n."""
    rest: str = ""
    """What further rows say, which are not shown."""
    reading: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        return len(self.columns) > 1

    @property
    def has_chips(self) -> bool:
        return any(cell.chip for row in self.rows for cell in row.cells)

    @property
    def has_clauses(self) -> bool:
        return any(row.clause for row in self.rows)

    @property
    def series(self) -> tuple[Series, ...]:
        """The key: every kind of mark once."""
        known = {
            mark.series: None for row in self.rows for cell in row.cells for mark in cell.marks if mark.series.words
        }
        return tuple(known)

    def table(self) -> Table:
        """The same as a table, for Markdown."""
        header, rows = self._cells()
        if self.has_clauses:
            header, rows = (*header, "in short"), [(*row, one.clause) for row, one in zip(rows, self.rows, strict=True)]
        return Table(f"{self.caption.rstrip('.')}{f'; {self.end}' if self.end else ''}", header, tuple(rows))

    def _cells(self) -> tuple[Row, list[Row]]:
        """Header and rows: label, and chip and marks of each column."""
        if self.several:
            parts = [tuple(map(_said, row.cells)) for row in self.rows]
            header: Row = (self.heading, *map(inert, self.columns))
        else:
            header = (
                self.heading,
                *(("verdict",) if self.has_chips else ()),
                *(inert(one.words) for one in self.series),
            )
            parts = [self._alone(row.cells[0]) for row in self.rows]
        return header, [(inert(row.label), *own) for row, own in zip(self.rows, parts, strict=True)]

    def _alone(self, cell: Cell) -> Row:
        texts = [next((mark.text for mark in cell.marks if mark.series == one), "") for one in self.series]
        if cell.instead and texts and not any(texts):
            texts[0] = cell.instead
        return (*((str(cell.chip or ""),) if self.has_chips else ()), *texts)

    def _fitting(self, header: Row, rows: list[Row], room: int) -> list[Row]:
        """Chips with shares and intervals if they fit in the room with the clauses, or with shares alone; else without the clauses; else
        by themselves."""
        ends = max(width(inert(row.clause)) + 2 * bool(row.clause) for row in self.rows)
        short, alone = (
            [(row[0], *map(form, own.cells)) for row, own in zip(rows, self.rows, strict=True)]
            for form in (_short, _alone)
        )
        fits = (each for most in (room - ends, room) for each in (rows, short) if _wide([header, *each]) <= most)
        return next(fits, alone)

    def lines(self, room: int) -> list[str]:
        """Lines for a terminal, `room` at most (2 or more) of `MAX_COLUMNS`; a clause that does not fit is left out, and rows are counted that do not."""
        header, rows = self._cells()
        if self.several:
            rest_of = MAX_COLUMNS - min(_MAX_LABEL, max(width(row[0]) for row in rows)) - 2
            rows = self._fitting(header, rows, rest_of)
            while len(header) > 2 and _wide([header, *rows]) > rest_of:
                header, rows = header[:-1], [row[:-1] for row in rows]
        rest = _wide([header, *rows])
        longest = max(_MIN_LABEL, MAX_COLUMNS - rest - 2)
        by_news = sorted(range(len(rows)), key=lambda at: self.rows[at].quiet)
        named = [broken_name(row, longest, 2) for row in (header, *rows)]

        def taken(places: Sequence[int]) -> int:
            return len(named[0]) + sum(len(named[at + 1]) for at in places)

        kept = by_news
        while len(kept) > 1 and taken(kept) + (len(kept) < len(rows)) > room:
            kept = kept[:-1]
        shown = [named[0], *(named[at + 1] for at in kept)]
        lines = aligned([line for row in shown for line in row])
        most = max(map(width, lines))
        starts = accumulate(map(len, shown[:-1]))
        for at, row in zip(starts, (self.rows[at] for at in kept), strict=True):
            clause = inert(row.clause)
            if clause and most + 2 + width(clause) <= MAX_COLUMNS:
                lines[at] = f"{lines[at]}{' ' * (most - width(lines[at]))}  {clause}"
        left = [row for at, row in enumerate(self.rows) if at not in kept]
        hidden = self.columns[len(header) - 1 :] if self.several else ()
        end = [_in_brief(left)] if left else []
        end += [f"In the report: {', '.join(hidden)}."] if hidden else []
        end += [inert(self.rest)] if self.rest else []
        return [*lines, *end[: room - len(lines)]]


def _in_brief(rows: Sequence[GlanceRow]) -> str:
    """The rows that are left out: their number, and each with its sign and share if they show nothing and fit in a line."""
    signs = (
        f"{cell.chip.sign} {inert(row.label)} {_short(replace(cell, chip=None))}"
        for row in rows
        if (cell := row.cells[0]).chip
    )
    line = f"{len(rows)} more: {', '.join(signs)}"
    fits = all(row.quiet for row in rows) and width(line) <= MAX_COLUMNS
    return line if fits else f"{len(rows)} more in the report."


def _wide(rows: Sequence[Row]) -> int:
    """Columns of a terminal that the cells after the labels take."""
    return max(map(width, aligned([row[1:] for row in rows])))


def _said(cell: Cell) -> str:
    """Chip and first mark."""
    return _behind_chip(cell, cell.marks[0].text if cell.marks else "")


def _short(cell: Cell) -> str:
    """Chip and circles, without their intervals."""
    return _behind_chip(cell, " → ".join(mark.text.partition(" [")[0] for mark in cell.marks if mark.is_dot))


def _behind_chip(cell: Cell, text: str) -> str:
    chip = cell.chip
    return " ".join(filter(None, (str(chip or ""), "" if chip and cell.instead == chip.word else cell.instead or text)))


def _alone(cell: Cell) -> str:
    return str(cell.chip or cell.instead)


def headline_lines(headline: str, most: int | None = None) -> list[str]:
    """A headline as a terminal has it, in `most` lines; all of them without a number."""
    return textwrap.wrap(inert(headline), MAX_COLUMNS, max_lines=most, placeholder=" …", break_on_hyphens=False)


def screen_lines(headline: str, glance: Glance | None, room: int = MAX_LINES) -> list[str]:
    """Headline and rows for a terminal, in so many lines (3 or more)."""
    opening = headline_lines(headline, max(1, min(MAX_HEADLINE, room - 3)))
    return [*opening, *(glance.lines(max(2, room - len(opening))) if glance else ())]


def most_shown(rows: Sequence[GlanceRow], most: int, where: str = "in the report") -> tuple[tuple[GlanceRow, ...], str]:
    """The first rows, and a sentence that counts the others."""
    left = len(rows) - most
    return tuple(rows[:most]), f"{left} more {where}." if left > 0 else ""
