"""The study as a table that no spreadsheet can take for formulas: written, and read back when it is filled."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cda.data.delimited import check_header, delimiter_of
from cda.errors import DataError
from cda.study.records import Study

COLUMNS = (
    "study",
    "participant",
    "number",
    "item",
    "prompt",
    "answer_a",
    "answer_b",
    "choice",
    "justification",
    "seconds",
)
_NEEDED = ("study", "participant", "item", "choice")
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text, and how many of its cells got an apostrophe."""

    text: str
    n_guarded: int


def guarded(cell: str) -> str:
    """A cell that no spreadsheet runs: an apostrophe before anything that could open a formula, and before an apostrophe.

    >>> guarded("=1+1"), guarded("'s"), guarded("plain")
    ("'=1+1", "''s", 'plain')
    """
    return f"'{cell}" if cell.startswith((*_RISKY, "'")) else cell


def unguarded(cell: str) -> str:
    """What `guarded` was given; a lone apostrophe of somebody else's stays.

    >>> unguarded("'=1+1"), unguarded("''s"), unguarded("'tis")
    ('=1+1', "'s", "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*_RISKY, "'")) else cell


def sheet(study: Study) -> Sheet:
    """A row for each judgement that is wanted, in each participant's order."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    n_guarded = 0
    for code, given in study.participants.items():
        for number, one in enumerate(given, 1):
            item = study.items[one.item]
            texts = (item.prompt, item.texts[one.a], item.texts[1 - one.a])
            safe = tuple(map(guarded, texts))
            n_guarded += sum(before != after for before, after in zip(texts, safe, strict=True))
            writer.writerow((study.fingerprint, code, number, item.id, *safe, "", "", ""))
    return Sheet(out.getvalue(), n_guarded)


def sheet_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Filled rows with their numbers, apostrophes undone; commas, semicolons or tabs stand between cells.

    Raises:
        DataError: Not such a table, or broken.
    """
    delimiter = delimiter_of(text)
    csv.field_size_limit(2**27)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    check_header(reader.fieldnames or (), where)
    if "annotation_id" in (reader.fieldnames or ()):
        raise DataError(f"{where}: Label Studio's table of annotations; export as JSON")
    missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise DataError(
            f"{where}: no column {', '.join(missing)}. A filled table keeps the columns of items.csv: {', '.join(COLUMNS)}"
        )
    try:
        for number, row in enumerate(reader, 2):
            if None in row or None in row.values():
                raise DataError(f"{where}: row {number} has not as many cells as the header")
            yield number, {name: unguarded(cell) for name, cell in row.items()}
    except csv.Error as error:
        raise DataError(f"{where}:{reader.line_num}: not valid CSV ({error})") from None
