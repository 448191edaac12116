"""Rows of a file, folder or hub data set, and the messages, prompts and texts in their cells."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from cda.errors import DataError, did_you_mean, near, refuse
from cda.files.hub import commit_of
from cda.files.jsonl import parse_json, read_json_rows, read_jsonl, read_text
from cda.files.paths import is_a_folder, is_there, near_path, user_path
from cda.records import Message, Prompt, user_prompt

T = TypeVar("T")
ROLES = ("system", "user", "assistant", "tool")


class RowError(Exception):
    """A row cannot be used; the message is the reason that is counted."""


def readable(
    rows: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], T]
) -> tuple[list[tuple[int, T]], list[tuple[int, str]]]:
    """The rows that can be read, with their numbers from 1; and the others' numbers with the reason that `read` raised."""
    items: list[tuple[int, T]] = []
    unusable: list[tuple[int, str]] = []
    for number, row in enumerate(rows, 1):
        try:
            items.append((number, read(row)))
        except RowError as problem:
            unusable.append((number, str(problem)))
    return items, unusable


def check_agree(contradictions: Iterable[tuple[Sequence[int], str]], where: str) -> None:
    """Refuse rows that contradict each other (their numbers, and why) with a DataError: neither is right for coming first."""
    lines = [
        f"{where}: rows {', '.join(map(str, sorted(numbers)[:5]))}{', …' if len(numbers) > 5 else ''}: {why}. "
        "Keep those that are right"
        for numbers, why in contradictions
    ]
    refuse(lines, "more")


def message_text(value: Any) -> Any:
    """A side that stands as one assistant message, as its text; anything else as it is."""
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], Mapping):
        return value[0].get("content")
    return value


def as_messages(value: Any) -> list[Message]:
    """A conversation as messages; RowError for a turn without a known role or text content."""
    messages = []
    for turn in value:
        if not isinstance(turn, Mapping) or not isinstance(turn.get("content"), str) or turn.get("role") not in ROLES:
            raise RowError("a turn without role and text content")
        messages.append(Message(turn["role"], turn["content"]))
    return messages


def as_prompt(messages: Sequence[Message]) -> Prompt:
    """Messages that ask something; RowError without a user turn with words in it."""
    if not any(message.role == "user" and message.content.strip() for message in messages):
        raise RowError("empty prompt")
    return tuple(messages)


def covariates(row: Row, columns: Sequence[str]) -> dict[str, str]:
    """Values of the columns that effects are compared by, without those that are empty."""
    values = {name: str(row[name]).strip() for name in columns if row.get(name) is not None}
    return {name: value for name, value in values.items() if value}


def prompt_of(value: object) -> Prompt:
    """A prompt column's value, plain text or messages; RowError if it is neither, or empty."""
    if isinstance(value, str):
        return as_prompt(user_prompt(value))
    if isinstance(value, list | tuple):
        return as_prompt(as_messages(value))
    raise RowError("empty prompt" if value is None else "prompt is neither text nor messages")


def side_text(value: Any) -> str:
    """A side's text; RowError if there is none, or if it is something else than text."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RowError("a side is missing")
    if not isinstance(value, str):
        raise RowError("a side is no text")
    return value


_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\r?\n")  # with which Excel may open a table
_MESSAGES = re.compile(r"(?:array\()?[\[(]\s*\{\s*(['\"])(?:role|content|from|value)\1\s*:")
_MAYBE_MESSAGES = re.compile(r"[\[(]\s*\{\s*['\"]")
"""Messages whose first key is another, such as `name`; a text of data may begin so too."""
_KEYS = ({"role", "content"}, {"from", "value"})
_SPEAKERS = (*ROLES, "human", "gpt")
_BLANK = "\ufeff \t\r\n"


def delimited_rows(path: Path) -> list[dict[str, object]]:
    """Rows of a table with a header; commas, semicolons or tabs stand between cells. DataError names the line."""
    text = read_text(path)
    csv.field_size_limit(2**27)
    stated = _SEPARATOR_LINE.match(text)
    delimiter = stated[1] if stated else delimiter_of(text, "\t" if path.suffix == ".tsv" else ",")
    table = io.StringIO(text[stated.end() :] if stated else text, newline="")
    reader = csv.DictReader(table, delimiter=delimiter, strict=True)
    first = 2 if stated else 1
    rows: list[dict[str, object]] = []
    problems: list[str] = []
    try:
        check_header(reader.fieldnames or (), f"{path}:{first}")
        for row in reader:
            line = reader.line_num + first - 1
            if None in row or None in row.values():
                raise DataError(f"{path}:{line}: not as many fields as the header has columns")
            rows.append(_with_messages(row, f"{path}:{line}", problems))
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num + first - 1}: not valid CSV ({error})") from None
    refuse(problems, "more cells")
    return rows


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
    # Rows without a text say nothing of the column; they are counted later.
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if (cells := [row[name] for row in rows if row.get(name) not in (None, "")]) and all(map(_looks_like, cells))
    ]
    problems: list[str] = []
    read: list[Mapping[str, object]] = []
    for number, row in enumerate(rows, 1):
        own = {name: row[name] for name in names if name in row}
        read.append({**row, **_with_messages(own, f"{where}: row {number}", problems)} if own else row)
    refuse(problems[:10])
    return read


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


def _with_messages(row: Mapping[str, Any], where: str, problems: list[str]) -> dict[str, Any]:
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
    return bool(turns) and all(turn.get("role", turn.get("from")) in _SPEAKERS for turn in turns or ())


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


Row = Mapping[str, Any]
_CACHED_COMMIT = re.compile(r"[/\\]([0-9a-f]{40})(?=[/\\])")
_LISTED_FILES = 8  # tables of a folder that a message names


def looks_like_path(reference: str) -> bool:
    """True if a reference means a file or folder rather than a hub id, which is `name` or `owner/name`."""
    return (
        is_there(reference)
        or reference.startswith(("/", "./", "../", "~"))
        or reference.endswith(FILE_TYPES)
        or reference.count("/") > 1
    )


def load_rows(reference: str, split: str = "train") -> list[Row]:
    """All rows of a data source; messages that a table holds as text are read as messages.

    Raises:
        DataError: Not found, unreadable, broken (with the line), of an unknown type, or empty.
    """
    if not looks_like_path(reference):
        if close := near(reference, ["embedded"]) or near_path(reference):
            raise DataError(f"{reference}: no such file. Did you mean '{close}'?")
        return columns_of_messages(_from_hub(reference, split), reference)
    path = user_path(reference)
    if not is_there(path):
        close = near_path(reference)
        raise DataError(f"{path}: no such file or folder" + (f". Did you mean '{close}'?" if close else ""))
    if is_a_folder(path):
        rows = _from_folder(path, split)
    elif path.suffix in _READERS:
        rows = list(_READERS[path.suffix](path))
    else:
        raise DataError(f"{path}: unknown file type; use one of {', '.join(FILE_TYPES)}, a folder or a hub id")
    if not rows:
        raise DataError(f"{path}: has no rows")
    return rows if path.suffix in (".csv", ".tsv") else columns_of_messages(rows, str(path))


def check_columns(rows: Sequence[Row], needed: Mapping[str, str], where: str, setting: str) -> None:
    """Refuse rows without a mapped column (our name to the file's; `setting` maps them) with a DataError that names each."""
    present = {key for row in rows[:100] for key in row}
    missing = [
        f"{where}: no column '{theirs}'.{did_you_mean(theirs, present)} Found: {', '.join(sorted(present))}. "
        f"Map it with {setting}.{ours}=<your column>"
        for ours, theirs in needed.items()
        if theirs not in present
    ]
    refuse(missing)


def _from_parquet(path: Path) -> list[Row]:
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_table(path).to_pylist())
    except Exception as error:  # pyarrow's own, and those of its conversions: text that is not UTF-8, impossible dates
        raise DataError(f"{path}: not a readable parquet file ({_first_line(error)})") from None


_READERS: dict[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": read_jsonl, ".json": read_json_rows, ".parquet": _from_parquet, ".csv": delimited_rows, ".tsv": delimited_rows,
}  # fmt: skip
FILE_TYPES = tuple(_READERS)


def _from_folder(path: Path, split: str) -> list[Row]:
    from datasets import DatasetDict, load_from_disk

    saved = _is_saved(path)
    # Data files and saved datasets of the folder, each of which could be given by itself.
    tables = sorted(inside for inside in path.iterdir() if inside.suffix in FILE_TYPES or _is_saved(inside))
    if not saved and any(map(_is_saved, tables)):
        # Before datasets takes all of their files for one table.
        raise DataError(f"{path}: {_holds(tables)}")
    try:
        dataset = load_from_disk(str(path)) if saved else _loaded_anew(path)
    except Exception as error:  # datasets raises many kinds, all of them about the folder
        reason = _holds(tables) if tables else _first_line(error)
        raise DataError(f"{path}: not a folder that datasets can load ({reason})") from None
    if isinstance(dataset, DatasetDict):
        if split not in dataset:
            raise DataError(f"{path}: no split '{split}'. Found: {', '.join(dataset)}. Choose one with data.split=...")
        dataset = dataset[split]
    return list(dataset.to_list())


def _loaded_anew(path: Path) -> Any:
    """A folder of data files, read now: `datasets` caches earlier reads, and identifies files by name and date alone."""
    from datasets import load_dataset

    with TemporaryDirectory(prefix="cda-rows-") as cache:
        return load_dataset(str(path), cache_dir=cache, keep_in_memory=True)


def _is_saved(folder: Path) -> bool:
    return (folder / "dataset_info.json").exists() or (folder / "dataset_dict.json").exists()


def _holds(tables: Sequence[Path]) -> str:
    more = f" and {len(tables) - _LISTED_FILES} more" if len(tables) > _LISTED_FILES else ""
    return f"it holds {', '.join(map(str, tables[:_LISTED_FILES]))}{more}; give the one that is meant"


def _from_hub(reference: str, split: str) -> list[Row]:
    from datasets import load_dataset

    commit = commit_of("dataset", reference)
    try:
        dataset = load_dataset(reference, split=split, revision=commit)
        rows = list(dataset.to_list())
    except Exception as error:  # connection, missing repository, missing split: all end the same way for a user
        raise DataError(
            f"{reference}: not a local file, and not loadable from the Hugging Face hub (split '{split}'): {_first_line(error)}"
        ) from None
    # Out of reach of the hub, `datasets` takes whichever copy it has.
    read = {found[-1] for file in dataset.cache_files if (found := _CACHED_COMMIT.findall(file["filename"]))}
    if commit is not None and read - {commit}:
        raise DataError(
            f"{reference}: commit {commit} is wanted and this machine has a copy of {', '.join(sorted(read))} alone. "
            "Connect to the hub, or save the rows as a file and name that"
        )
    return rows


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]
