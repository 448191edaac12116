"""Rows in memory, and cells of any library as JSON's types: the same rows, whatever they are read from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from os import PathLike
from typing import Any

from cda.errors import DataError, type_in_words
from cda.files.jsonl import MAX_DEPTH

Rows = Iterable[Mapping[str, object]]
"""Rows in memory: a list of dicts, a `datasets.Dataset`, or a pandas frame."""
_MOST_BITS = 10_000
"""Of a whole number: Python writes none of more than 4,300 digits."""


def rows_in(data: Rows, name: str) -> list[Mapping[str, Any]]:
    """Rows of data in memory, of JSON's types; DataError (which calls the data `name`) for no rows, or what is none."""
    rows = plain_rows(_in_memory(data, name), name)
    if not rows:
        raise DataError(f"{name}: has no rows")
    return rows


def _in_memory(data: object, name: str) -> Iterable[object]:
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return list(data.to_dict("records"))  # a pandas frame
    if isinstance(data, Mapping):
        splits = [key for key, value in data.items() if hasattr(value, "column_names")]
        if splits:
            raise DataError(f"{name}: a dataset with the splits {', '.join(map(str, splits))}; give one of them")
        raise DataError(f"{name}: one dict; give a list with a dict for each row")
    if hasattr(data, "to_list"):
        return list(data.to_list())  # a datasets.Dataset
    if isinstance(data, Iterable) and not isinstance(data, bytes | str | PathLike):
        return data
    raise DataError(
        f"{name}: found {type_in_words(data)}; give a path, a list of dicts, a datasets.Dataset or a pandas frame"
    )


def plain_rows(rows: Iterable[object], name: str) -> list[Mapping[str, Any]]:
    """Rows whose cells have JSON's types, whatever they were read from; a missing value of any library is None."""
    plain: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise DataError(f"{name}, row {number}: found {type_in_words(row)}, not a dict of columns")
        plain.append({str(key): _plain(value, f"{name}, row {number}, {key}") for key, value in row.items()})
    return plain


def _plain(value: object, where: str, depth: int = 0) -> object:
    if value is None or isinstance(value, str | bool):
        return value
    if depth > MAX_DEPTH:
        raise DataError(f"{where}: nested too deeply, more than {MAX_DEPTH} levels")
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise DataError(f"{where}: a number of thousands of digits")
        return value
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(cell, where, depth + 1) for key, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(cell, where, depth + 1) for cell in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, timedelta):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), where, depth)  # an array, or a number of numpy
    raise DataError(f"{where}: {type_in_words(value)}; cells are text, numbers, lists or dicts")
