"""Rows of a file, folder or hub data set, and the messages, prompts and texts in their cells."""

from __future__ import annotations

import atexit
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypeVar

from cda.arrays import LARGEST
from cda.data.tables import (
    ROLES,
    columns_in,
    delimited_rows,
    each_plain,
    with_columns_of_messages,
)
from cda.errors import DataError, did_you_mean, near, refuse
from cda.files.hub import commit_of
from cda.files.jsonl import read_json_rows, read_jsonl
from cda.files.paths import is_a_folder, is_there, near_path, user_path
from cda.inert import clipped, inert
from cda.launch import say
from cda.records import Message, Prompt, user_prompt

T = TypeVar("T")
Row = Mapping[str, Any]
_CACHED_COMMIT = re.compile(r"[/\\]([0-9a-f]{40})(?=[/\\])")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", re.ASCII)
BATCH_ROWS = 2_000
"""Rows of a table of Arrow that are read at once."""
_LISTED_FILES = 8  # tables of a folder that a message names


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
    """A side that stands as one assistant message, as its text; anything else as it is. RowError for content that is not text."""
    turn = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
    return _content(turn) if isinstance(turn, Mapping) else value


def is_turn(value: Mapping[str, Any]) -> bool:
    """True for a turn of a conversation, as chat templates or ShareGPT name its parts."""
    return {"role", "content"} <= value.keys() or {"from", "value"} <= value.keys()


def as_messages(value: Any) -> list[Message]:
    """A conversation, or one turn of it, as messages; RowError for a turn without a known role or text content.

    Turns have `role` and `content`, or `from` and `value` (ShareGPT). A developer's turn is a system turn; the text parts of a
    content are joined.
    """
    messages = []
    for turn in [value] if isinstance(value, Mapping) else value:
        content, role = _content(turn), turn.get("role", turn.get("from")) if isinstance(turn, Mapping) else None
        if not isinstance(content, str) or not isinstance(role, str):
            raise RowError("a turn without role and text content")
        if role.lower() not in ROLES:
            raise RowError(f"a role that is not known ({role[:40]})")
        messages.append(Message(ROLES[role.lower()], content))
    return messages


def _content(turn: object) -> object:
    """The content of a turn; content in parts as its text. RowError for a part that is no text, or a call of a tool alone."""
    if not isinstance(turn, Mapping):
        return None
    content = turn.get("content", turn.get("value"))
    if content in (None, "") and turn.get("tool_calls"):
        raise RowError("a turn that calls a tool and says nothing")
    if not isinstance(content, list | tuple):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    if not all(isinstance(text, str) for text in texts):
        kinds = {
            str(part.get("type", "no type"))[:40] if isinstance(part, Mapping) else "no text"
            for part, text in zip(content, texts, strict=True)
            if not isinstance(text, str)
        }
        raise RowError(f"content in parts that are not text ({', '.join(sorted(kinds))})")
    return "".join(map(str, texts))


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


def side_text(value: Any, missing: str = "a side is missing", other: str = "a side is no text") -> str:
    """A side's text; RowError with these reasons if there is none, or if it is something else than text."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RowError(missing)
    if not isinstance(value, str):
        raise RowError(other)
    return value


def number_of(cell: Any) -> float:
    """A number, also in text; NaN for anything else, and for what is too large to be squared."""
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
        return math.nan
    return number if abs(number) <= LARGEST else math.nan


def looks_like_path(reference: str) -> bool:
    """True if a reference means a file or folder rather than a hub id, which is `name` or `owner/name`."""
    return (
        is_there(reference)
        or reference.startswith(("/", "./", "../", "~"))
        or reference.removesuffix(".gz").endswith(FILE_TYPES)
        or reference.count("/") > 1
    )


def is_data(reference: str) -> bool:
    """True for what can only be data, not a recipe: `embedded`, a file of a known type, a folder, or a hub id whose owner is no folder."""
    if reference == "embedded" or reference.removesuffix(".gz").endswith(FILE_TYPES) or is_a_folder(reference):
        return True
    owner, slash, name = reference.partition("/")
    return (
        bool(owner and slash and name)
        and "/" not in name
        and not name.endswith((".yaml", ".yml"))
        and not is_there(owner)
    )


def is_same_place(reference: str, file: str) -> bool:
    """True if a file that is to be written is a data source, or lies in the folder of one."""
    if not (looks_like_path(reference) and is_there(user_path(reference))):
        return False
    source, target = user_path(reference).resolve(), user_path(file).resolve()
    return target.is_relative_to(source) or (target.exists() and target.samefile(source))


def located(reference: str) -> Path | None:
    """The file or folder that a reference means; None for a hub id. DataError: it is none of them, or not there."""
    if not looks_like_path(reference):
        if close := near(reference, ["embedded"]) or near_path(reference):
            raise DataError(f"{reference}: no such file. Did you mean '{close}'?")
        if not _HUB_ID.fullmatch(reference):
            raise DataError(
                f"{clipped(reference, 80)}: no such file, and no hub id; give a file, a folder or a hub id (from Python also a list of dicts)"
            )
        if "/" not in reference:
            say(f"  {reference}: no such file here; looked for as a data set on the Hugging Face hub")
        return None
    path = user_path(reference)
    if not is_there(path):
        close = near_path(reference)
        raise DataError(f"{path}: no such file or folder" + (f". Did you mean '{close}'?" if close else ""))
    if not is_a_folder(path) and kind_of(path) not in _READERS:
        raise DataError(f"{path}: unknown file type; use one of {', '.join(FILE_TYPES)}, a folder or a hub id")
    return path


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a data source, read anew each time that one goes through them, so that none of them stays in memory; and their columns."""

    n: int
    columns: tuple[str, ...]
    _read: Callable[[], Iterable[Row]]

    @classmethod
    def held(cls, rows: Sequence[Row]) -> Rows:
        return cls(len(rows), tuple(dict.fromkeys(name for row in rows for name in row)), lambda: rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._read())

    def __len__(self) -> int:
        return self.n


def streamed_rows(reference: str, split: str = "train") -> Rows:
    """As `load_rows`, without holding them: one pass finds the columns, and every error."""
    where, is_typed, read = _reader(reference, split)
    n, columns = columns_in(each_plain(read(), where))
    names = _of_messages(n, columns, is_typed, where)
    rows = Rows(n, tuple(columns), lambda: with_columns_of_messages(each_plain(read(), where), names, where))
    if names:
        deque(rows, maxlen=0)  # finds cells that are no messages
    return rows


def load_rows(reference: str, split: str = "train") -> list[Row]:
    """All rows of a data source; messages that a table holds as text are read as messages.

    Raises:
        DataError: Not found, unreadable, broken (with the line), of an unknown type, or empty.
    """
    where, is_typed, read = _reader(reference, split)
    rows = list(each_plain(read(), where))
    names = _of_messages(*columns_in(rows), is_typed, where)
    return list(with_columns_of_messages(rows, names, where)) if names else rows


def _of_messages(n: int, columns: Mapping[str, bool | None], is_typed: bool, where: str) -> list[str]:
    """Columns whose texts are messages that are still to be read; DataError if there is no row."""
    if not n:
        raise DataError(f"{where}: has no rows")
    return [] if is_typed else [name for name, are_messages in columns.items() if are_messages]


def _reader(reference: str, split: str) -> tuple[str, bool, Callable[[], Iterable[Row]]]:
    """The source's name in messages, whether its messages are read already, and a function that reads its rows."""
    path = located(reference)
    if path is None:
        return reference, False, _of_dataset(_from_hub(reference, split))
    if is_a_folder(path):
        return str(path), False, _of_dataset(_from_folder(path, split))
    read = partial(_READERS[kind_of(path)], path)
    held = None if path.is_file() else list(read())  # a pipe can be read once
    return str(path), kind_of(path) in (".csv", ".tsv"), read if held is None else lambda: held


def _of_dataset(dataset: Any) -> Callable[[], Iterable[Row]]:
    tables = dataset.with_format("arrow")
    return lambda: (row for table in tables.iter(BATCH_ROWS) for row in table.to_pylist())


def check_columns(
    rows: Sequence[Row],
    needed: Mapping[str, str],
    where: str,
    setting: str,
    instead: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse rows without a mapped column (our name to the file's) with a DataError that names each; `setting` and our name map it,
    or what `instead` says by our name."""
    present = {key for row in rows for key in row}
    missing = [
        f"{where}: no column '{theirs}'.{did_you_mean(theirs, present)} Found: {', '.join(map(inert, sorted(present)))}. "
        f"Map it with {setting}{ours}=<your column>{instead.get(ours, '')}"
        for ours, theirs in needed.items()
        if theirs not in present
    ]
    refuse(missing)


def arrow_batches(path: Path) -> tuple[Any, int | None, Iterator[Any]]:
    """Schema of a parquet or arrow file, its number of rows if it states one, and its record batches. DataError: not readable."""
    import pyarrow.ipc
    import pyarrow.parquet

    try:
        if kind_of(path) == ".parquet":
            # Buffered ahead, or read over several groups at once, all that was read would be held.
            file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
            groups = (file.iter_batches(BATCH_ROWS, row_groups=[each]) for each in range(file.num_row_groups))
            read = _checked(path, (batch for group in groups for batch in group))
            return _distinct(path, file.schema_arrow), file.metadata.num_rows, read
        source = pyarrow.memory_map(str(path))
        try:  # as `datasets` writes them, or as Feather does
            stream = pyarrow.ipc.open_stream(source)
            return _distinct(path, stream.schema), None, _checked(path, stream)
        except pyarrow.ArrowInvalid:
            opened = pyarrow.ipc.open_file(source)
            return (
                _distinct(path, opened.schema),
                None,
                _checked(path, map(opened.get_batch, range(opened.num_record_batches))),
            )
    except DataError:
        raise
    except Exception as error:  # pyarrow's own, and those of its conversions: text that is not UTF-8, impossible dates
        raise _unreadable(path, error) from None


def _distinct(path: Path, schema: Any) -> Any:
    """The schema; DataError if a column occurs twice, of which a row could hold one alone."""
    if twice := [name for name, n in Counter(schema.names).items() if n > 1]:
        raise DataError(f"{path}: the column '{twice[0]}' occurs twice; rename or drop one")
    return schema


def _checked(path: Path, batches: Iterable[T]) -> Iterator[T]:
    try:
        yield from batches
    except Exception as error:  # as above
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: not a readable {kind_of(path).removeprefix('.')} file ({first_line(error)})")


def _from_arrow(path: Path) -> Iterator[Row]:
    return _checked(path, (row for batch in arrow_batches(path)[2] for row in batch.to_pylist()))


_READERS: dict[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": read_jsonl, ".json": read_json_rows, ".parquet": _from_arrow, ".csv": delimited_rows, ".tsv": delimited_rows,
    ".arrow": _from_arrow,
}  # fmt: skip
FILE_TYPES = tuple(_READERS)
_PACKED = (".jsonl", ".json", ".csv", ".tsv")


def kind_of(path: Path) -> str:
    """The suffix that says how a file is read; that before .gz, for texts."""
    inner = Path(path.stem).suffix
    return inner if path.suffix == ".gz" and inner in _PACKED else path.suffix


def _from_folder(path: Path, split: str) -> Any:
    from datasets import load_from_disk

    saved = is_saved(path)
    # Data files and saved datasets of the folder, each of which could be given by itself.
    tables = sorted(inside for inside in path.iterdir() if inside.suffix in FILE_TYPES or is_saved(inside))
    if not saved and any(map(is_saved, tables)):
        # Before datasets takes all of their files for one table.
        raise DataError(f"{path}: {_holds(tables)}")
    try:
        dataset = load_from_disk(str(path)) if saved else _loaded_anew(path)
    except Exception as error:  # datasets raises many kinds, all of them about the folder
        reason = _holds(tables) if tables else first_line(error)
        raise DataError(f"{path}: not a folder that datasets can load ({reason})") from None
    return split_of(dataset, split, path)


def split_of(dataset: Any, split: str, path: Path) -> Any:
    """One split of a loaded folder, or of its files by split; DataError if it has others alone. What has no splits is itself."""
    if not isinstance(dataset, Mapping):
        return dataset
    if split not in dataset:
        raise DataError(
            f"{path}: no split '{split}'. Found: {', '.join(map(str, dataset))}. Choose one with data.split=..."
        )
    return dataset[split]


def _loaded_anew(path: Path) -> Any:
    """A folder of data files, read now: `datasets` caches earlier reads, and identifies files by name and date alone."""
    from datasets import load_dataset

    cache = TemporaryDirectory(prefix="cda-rows-", ignore_cleanup_errors=True)
    atexit.register(cache.cleanup)  # its files are read as long as this process may want its rows
    return load_dataset(str(path), cache_dir=cache.name)


def is_saved(folder: Path) -> bool:
    return (folder / "dataset_info.json").exists() or (folder / "dataset_dict.json").exists()


def _holds(tables: Sequence[Path]) -> str:
    more = f" and {len(tables) - _LISTED_FILES} more" if len(tables) > _LISTED_FILES else ""
    return f"it holds {', '.join(map(str, tables[:_LISTED_FILES]))}{more}; give the one that is meant"


def _from_hub(reference: str, split: str) -> Any:
    from datasets import load_dataset

    commit = commit_of("dataset", reference)
    try:
        dataset = load_dataset(reference, split=split, revision=commit)
    except Exception as error:  # connection, missing repository, missing split: all end the same way for a user
        raise not_on_hub(reference, split, error) from None
    # Out of reach of the hub, `datasets` takes whichever copy it has.
    read = {found[-1] for file in dataset.cache_files if (found := _CACHED_COMMIT.findall(file["filename"]))}
    if commit is not None and read - {commit}:
        raise DataError(
            f"{reference}: commit {commit} is wanted and this machine has a copy of {', '.join(sorted(read))} alone. "
            "Connect to the hub, or save the rows as a file and name that"
        )
    return dataset


def not_on_hub(reference: str, split: str, error: Exception) -> DataError:
    """The error of a data set that the hub does not give."""
    why = f"not loadable from the Hugging Face hub (split '{split}'): {first_line(error)}"
    return DataError(f"{reference}: not a local file, and {why}")


def first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]
