"""Atomic writes of files, never through a link that another user has put there."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from cda.errors import DataError, type_in_words
from cda.files.paths import reading


@contextmanager
def written_whole(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write into, next to the wanted one as `.partial`, which takes its place once all is on disk.

    A link is replaced itself, and not the file that it leads to. `private`: only this user may read it.
    """
    partial = path.with_name(path.name + ".partial")
    with open_new(partial, private=private) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def open_new(path: Path, *, private: bool = False) -> BinaryIO:
    """Open a new file; a partial file of a killed process, or a link, is removed first and not followed.

    FileExistsError if another one is created at the same moment. `private`: only this user may read it.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(_new(path, private), "wb")


def make_private(path: Path) -> None:
    """Make an empty file that only this user may read; an existing file stays as it is."""
    if path.exists():
        return
    try:
        os.close(_new(path, private=True))
    except FileExistsError:  # another process was faster
        if not path.exists():
            raise


def _new(path: Path, private: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o600 if private else 0o666)


MAX_DEPTH = 100
"""Levels of lists and objects within each other; deeper ones cannot be walked, hashed or printed safely."""


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, also of a .gz (a byte order mark is dropped); DataError if it is missing, unreadable or not UTF-8."""
    with reading(path), opened_file(path) as file:
        raw = file.read()
    return _utf8(raw.removeprefix(BOM_UTF8), path)


def read_jsonl(path: Path, wanted: Callable[[int], bool] | None = None) -> Iterator[dict[str, Any]]:
    """Objects of a .jsonl or .jsonl.gz file, blank lines skipped; DataError names file and line of one that is not UTF-8 or no object.
    Of the objects, counted from 0, only those that are `wanted` are read."""
    row = -1
    if "\0" in str(path):
        raise DataError(f"{path}: no file can have such a name")
    # Line by line, and by \n alone: JSON strings may hold U+2028 and its like unescaped.
    with reading(path), opened_file(path) as file:
        for number, raw in enumerate(file, 1):
            line = _utf8(raw, path, number).removeprefix("\ufeff" if number == 1 else "")
            if line.strip():
                row += 1
                if wanted is None or wanted(row):
                    yield _object(line, path, number)


@contextmanager
def opened_file(path: Path) -> Iterator[BinaryIO]:
    """A file to read, unpacked if it is a .gz."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as unpacked:
            yield unpacked  # type: ignore[misc]  # it reads bytes
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); download or pack it again") from None


def _utf8(raw: bytes, path: Path, first_line: int = 1) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + raw[: error.start].count(b"\n")
        raise DataError(f"{path}:{line}: not UTF-8 (byte {error.start}); convert the file to UTF-8") from None


def _object(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        row = parse_json_once(line)
    except ValueError as error:
        raise DataError(f"{path}:{number}: not valid JSON ({error}); each line holds one object") from None
    if not isinstance(row, dict):
        raise DataError(f"{path}:{number}: expected a JSON object, found {type_in_words(row)}")
    return row


def read_json_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a .json file; DataError for anything else than a list of objects, an object with one such list under a key or with a
    list for each column (single values stand in every row), or JSON lines under the wrong name."""
    text = read_text(path)
    try:
        content = parse_json_once(text)
    except ValueError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > 1 and lines[0].strip().startswith("{") and lines[0].strip().endswith("}"):
            return list(read_jsonl(path))
        line_number = getattr(error, "lineno", 1)
        raise DataError(f"{path}:{line_number}: not valid JSON ({error})") from None
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        if _are_columns(lists, len(content) - len(lists)):
            content = [
                {name: value[at] if isinstance(value, list) else value for name, value in content.items()}
                for at in range(len(lists[0]))
            ]
        else:
            content = lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path}: expected a list of objects")
    return content


def _are_columns(lists: list[list[Any]], n_single: int) -> bool:
    """True if an object is a table by column: lists of one length, and hardly anything else. One row may hold lists too."""
    of_one_length = len(set(map(len, lists))) == 1 and bool(lists[0])
    return len(lists) > max(1, 2 * n_single) and of_one_length and not any(isinstance(own[0], dict) for own in lists)


def write_jsonl(path: Path, rows: Iterable[object]) -> int:
    """Write rows atomically and return their number."""
    count = 0
    with written_whole(path) as file:
        for row in rows:
            file.write((json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n").encode())
            count += 1
    return count


def write_json(path: Path, content: object, *, private: bool = False) -> None:
    """Write one JSON document; the file appears whole or not at all. `private`: only this user may read it."""
    text = json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
    with written_whole(path, private=private) as file:
        file.write(text.encode())


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8; the file appears whole or not at all."""
    with written_whole(path) as file:
        file.write(text.encode("utf-8"))


def write_page(path: Path, text: str) -> None:
    """Write a text to a path of the user's: as `write_text`, but in place if it is no file, such as /dev/stdout."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")
    else:
        write_text(path, text)


def read_json(path: Path) -> Any:
    """One JSON document; DataError if it is missing or not JSON."""
    try:
        return parse_json_once(read_text(path))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None


def parse_json(text: str, of_object: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """One JSON value from any source, safe to walk by recursive functions.

    `of_object` makes an object of its keys and values in order; by default a dict, with the last value of a repeated key.
    ValueError: not JSON, a number of thousands of digits, or nested more than MAX_DEPTH levels deep.
    """
    try:
        value = json.loads(text, object_pairs_hook=of_object)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    # Most texts cannot be so deep, and are not walked.
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise ValueError(f"nested too deeply, more than {MAX_DEPTH} levels")
    return value


def parse_json_once(text: str) -> object:
    """As `parse_json`, for files of people; also a ValueError for a repeated key, of which one value would be lost silently."""
    repeated: list[str] = []

    def of_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated.append(next(key for place, key in enumerate(keys) if key in keys[:place]))
        return values

    value = parse_json(text, of_object)
    if repeated:
        raise ValueError(f"key '{repeated[0]}' occurs twice in one object; keep one of them")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        inside = (item.values() if isinstance(item, dict) else item for item in layer if isinstance(item, dict | list))
        layer = [item for part in inside for item in part]
    return any(isinstance(item, dict | list) for item in layer)
