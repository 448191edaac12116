"""Data in memory as the paths that a recipe holds, and as rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from cda.data.load import load_rows
from cda.errors import DataError, type_in_words
from cda.files.jsonl import MAX_DEPTH, write_jsonl
from cda.files.paths import place_for, writing
from cda.jobs.options import Data
from cda.records import content_id

_MOST_BITS = 10_000
"""Of a whole number: Python writes none of more than 4,300 digits."""


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
    rows = [_row(row, number, name) for number, row in enumerate(_rows(data, name), 1)]
    if not rows:
        raise DataError(f"{name}: has no rows")
    return rows


def _rows(data: object, name: str) -> Iterable[object]:
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return list(data.to_dict("records"))  # a pandas frame
    if isinstance(data, Mapping):
        splits = [key for key, value in data.items() if hasattr(value, "column_names")]
        if splits:
            raise DataError(f"{name}: a dataset with the splits {', '.join(map(str, splits))}; give one of them")
        raise DataError(f"{name}: one dict; give a list with a dict for each row")
    if hasattr(data, "to_list"):
        return list(data.to_list())  # a datasets.Dataset
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return data
    raise DataError(
        f"{name}: found {type_in_words(data)}; give a path, a list of dicts, a datasets.Dataset or a pandas frame"
    )


def _row(row: object, number: int, name: str) -> dict[str, object]:
    if not isinstance(row, Mapping):
        raise DataError(f"{name}, row {number}: found {type_in_words(row)}, not a dict of columns")
    return {str(key): _plain(value, f"{name}, row {number}, {key}") for key, value in row.items()}


def _plain(value: object, where: str, depth: int = 0) -> object:
    """A cell as JSON: pandas' missing values become None."""
    if depth > MAX_DEPTH:
        raise DataError(f"{where}: nested too deeply, more than {MAX_DEPTH} levels")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise DataError(f"{where}: a number of thousands of digits")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(cell, where, depth + 1) for key, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(cell, where, depth + 1) for cell in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), where, depth)  # an array, or a number of numpy
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise DataError(f"{where}: {type_in_words(value)}; cells are text, numbers, lists or dicts")
