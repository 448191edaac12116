"""Data in memory as the paths that a recipe holds, and as rows."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cda.data.load import load_rows
from cda.data.tables import rows_in
from cda.files.jsonl import write_jsonl
from cda.files.paths import place_for, writing
from cda.jobs.options import Data
from cda.records import content_id


def as_reference(data: Data, name: str, folder: Path) -> str:
    """Return a recipe's name for data: a path or hub id unchanged, or a new file of the rows, named after their content.

    `name` is the kind of data, such as `contrasts`; part of the file's name and of messages. Equal rows share one file, which is
    never overwritten with other rows. Raises DataError for no rows, or what JSON cannot hold; RunError if nothing can be written.
    """
    if isinstance(data, str | PathLike):
        return str(data)
    rows = rows_of(data, name)
    file = place_for(folder / f"{name}-{content_id(rows)}.jsonl")
    if not file.is_file():
        with writing(file):
            write_jsonl(file, rows)
    return str(file)


def rows_of(data: Data, name: str) -> list[dict[str, object]]:
    """Rows of data in memory, or of a file; DataError as `as_reference`, or for a file that cannot be read."""
    if isinstance(data, str | PathLike):
        return [dict(row) for row in load_rows(str(data))]
    return [dict(row) for row in rows_in(data, name)]
