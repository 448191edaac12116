"""Tables with a header as rows, and the messages that their cells hold as text."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any

from cda.errors import DataError, refuse, type_in_words
from cda.files.jsonl import MAX_DEPTH, opened_file, parse_json, read_text
from cda.files.paths import reading

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
    return list(each_plain(rows, name))


def each_plain(rows: Iterable[object], name: str) -> Iterator[Mapping[str, Any]]:
    """The same, row by row."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise DataError(f"{name}, row {number}: found {type_in_words(row)}, not a dict of columns")
        yield {str(key): _plain(value, f"{name}, row {number}, {key}") for key, value in row.items()}


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


ROLES: Mapping[str, str] = {
    "system": "system", "user": "user", "assistant": "assistant", "tool": "tool", "developer": "system", "human": "user",
    "gpt": "assistant", "chatgpt": "assistant", "function": "tool", "observation": "tool",
}  # fmt: skip
"""Roles of turns as data name them, and as chat templates do."""
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\r?\n")  # with which Excel may open a table
_MESSAGES = re.compile(r"(?:array\()?[\[(]\s*\{\s*(['\"])(?:role|content|from|value)\1\s*:")
_MAYBE_MESSAGES = re.compile(r"[\[(]\s*\{\s*['\"]")
"""Messages whose first key is another, such as `name`; a text of data may begin so too."""
_KEYS = ({"role", "content"}, {"from", "value"})
_HEAD = 2**20
"""Characters of a table by which its separator is known."""
_BLANK = "\ufeff \t\r\n"


def delimited_rows(path: Path) -> Iterator[dict[str, object]]:
    """Rows of a table with a header; commas, semicolons or tabs stand between cells. DataError names the line."""
    problems: list[str] = []
    for where, row in delimited_stream(path):
        yield with_messages(row, where, problems)
    refuse(problems, "more cells")


def delimited_stream(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """The place of each row of a table and its cells as texts, row by row; errors as of `delimited_rows`."""
    csv.field_size_limit(2**27)
    with reading(path), opened_file(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            yield from _delimited(path, text)
        except UnicodeDecodeError:
            read_text(path)  # which says where
            raise


def _delimited(path: Path, text: io.TextIOWrapper) -> Iterator[tuple[str, dict[str, object]]]:
    head = text.read(_HEAD)
    stated = _SEPARATOR_LINE.match(head)
    delimiter = (
        stated[1] if stated else delimiter_of(head, "\t" if path.name.removesuffix(".gz").endswith(".tsv") else ",")
    )
    text.seek(0)
    if stated:
        text.readline()
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    first = 1 if stated else 0
    last = first  # lines read so far: a quoted cell may hold several, and the line of its row is the first of them
    names: list[str] | None = None
    try:
        for cells in reader:
            where, last = f"{path}:{last + 1}", reader.line_num + first
            if names is None:
                check_header(names := cells, where)
            elif len(cells) == len(names):
                yield where, dict(zip(names, cells, strict=True))
            elif cells:
                raise DataError(f"{where}: not as many fields as the header has columns")
    except csv.Error as error:
        raise DataError(f"{path}:{last + 1}: not valid CSV ({error})") from None


def delimiter_of(text: str, usual: str = ",") -> str:
    """Separator of a table's cells, by the columns of the header and of the first row: comma, semicolon or tab.

    `usual` if nothing separates cells, or several do equally well.

    >>> delimiter_of('prompt;chosen;rejected\\n"a, b";c;d\\n')
    ';'
    """
    return max(dict.fromkeys((usual, ",", ";", "\t")), key=lambda delimiter: _columns(text, delimiter))


def check_header(names: Sequence[str], where: str) -> None:
    """Refuse a column that stands twice with a DataError: one would be lost silently. Several without a name are nobody's."""
    twice = [name for at, name in enumerate(names) if name.strip() and name in names[:at]]
    if twice:
        listed = ", ".join(f"'{name}'" for name in dict.fromkeys(twice))
        raise DataError(f"{where}: column {listed} occurs twice in the header; rename or remove one")


def columns_of_messages(rows: Sequence[Mapping[str, object]], where: str) -> list[Mapping[str, object]]:
    """Rows of other files, in which a text is a text: only columns of nothing but messages as text are read as messages.

    A cell of such a column that cannot be read is a DataError.
    """
    return list(with_columns_of_messages(rows, message_columns(rows), where))


def with_columns_of_messages(
    rows: Iterable[Mapping[str, Any]], names: Sequence[str], where: str
) -> Iterator[Mapping[str, Any]]:
    """Rows with the messages in these columns; errors as of `columns_of_messages`, behind the last row."""
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        own = {name: row[name] for name in names if name in row}
        yield {**row, **with_messages(own, f"{where}: row {number}", problems)} if own else row
    refuse(problems[:10])


def message_columns(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """The columns of nothing but messages as text."""
    return [name for name, are_messages in columns_in(rows)[1].items() if are_messages]


def columns_in(rows: Iterable[Mapping[str, object]]) -> tuple[int, dict[str, bool | None]]:
    """Number of rows; and the columns in the order in which they occur, each with True if it holds nothing but messages as text, None
    if it holds nothing."""
    n, found = 0, dict[str, bool | None]()
    for row in rows:
        n += 1
        for name, cell in row.items():
            known = found.setdefault(name, None)
            # Rows without a text say nothing of the column; they are counted later.
            if known is not False and cell not in (None, ""):
                found[name] = _looks_like(cell)
    return n, found


def _columns(text: str, delimiter: str) -> tuple[bool, int]:
    """(The first row has as many columns as the header, and several; number of columns of the header)."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    try:
        header = next(reader, [])
        fits = len(next(reader, header)) == len(header) > 1
    except csv.Error:
        fits = False
    # A quote inside a name shows that a quoted name was split.
    return (False, 0) if any('"' in name for name in header) else (fits, len(header))


def with_messages(row: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, Any]:
    """A row with the messages that its cells hold as text; adds to `problems` those that cannot be read."""
    read = dict(row)
    for name, cell in row.items():
        if not _looks_like(cell):
            continue
        turns = _turns(cell)
        if turns is None:
            problems.append(
                f"{where}: column '{name}' holds messages as text that cannot be read (neither JSON nor a Python list; a "
                "spreadsheet may have cut it). Write them as JSON, or save the table as JSON lines or parquet"
            )
        read[name] = turns or cell
    return read


def _looks_like(cell: object) -> bool:
    if not isinstance(cell, str):
        return False
    start = cell.lstrip(_BLANK)
    if _MESSAGES.match(start) is not None:
        return True
    turns = _turns(cell) if _MAYBE_MESSAGES.match(start) else None
    return bool(turns) and all(turn.get("role", turn.get("from")) in ROLES for turn in turns or ())


def _turns(cell: str) -> list[Any] | None:
    """The messages that a text is, as JSON or as Python prints them; none if it is something else; None if it is neither form."""
    text = cell.lstrip(_BLANK)
    try:
        _, end = json.JSONDecoder().raw_decode(text)
        value = parse_json(text[:end])
    except (ValueError, RecursionError):
        end = max(text.rfind("]"), text.rfind(")")) + 1
        try:
            value = ast.literal_eval(text[:end].strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    if not isinstance(value, list | tuple) or text[end:].strip():
        return []
    are_turns = all(isinstance(turn, Mapping) and any(keys <= turn.keys() for keys in _KEYS) for turn in value)
    return list(value) if are_turns else []


def structured(cell: object) -> Any:
    """The list or mapping that a table holds as text, in JSON or as Python prints it; any other cell as it is."""
    if not (isinstance(cell, str) and cell.lstrip()[:1] in ("[", "{")):
        return cell
    try:
        return parse_json(cell)
    except ValueError:
        pass
    try:
        return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell
