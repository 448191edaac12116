"""Rows from a hub id, a saved folder, or a .jsonl, .json, .parquet, .csv or .tsv file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cda.data.delimited import columns_of_messages, delimited_rows
from cda.errors import DataError, did_you_mean, near
from cda.files.jsonl import read_json_rows, read_jsonl
from cda.files.paths import is_a_folder, is_there, near_path, user_path

Row = Mapping[str, Any]
FILE_TYPES = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
_LISTED = 8
"""Tables of a folder that a message names."""


def looks_like_path(reference: str) -> bool:
    """Whether a reference means a file or folder rather than a hub id.

    A hub id is `name` or `owner/name`; anything that exists, is absolute, dotted or has a data file's ending is a path.
    """
    return (
        is_there(reference)
        or reference.startswith(("/", "./", "../", "~"))
        or reference.endswith(FILE_TYPES)
        or reference.count("/") > 1
    )


def load_rows(reference: str, split: str = "train") -> list[Row]:
    """Load all rows of a data source; messages that a table holds as text are read as messages.

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
    elif path.suffix == ".jsonl":
        rows = list(read_jsonl(path))
    elif path.suffix == ".json":
        rows = list(read_json_rows(path))
    elif path.suffix in (".csv", ".tsv"):
        rows = list(delimited_rows(path))
    elif path.suffix == ".parquet":
        rows = _from_parquet(path)
    else:
        raise DataError(f"{path}: unknown file type; use one of {', '.join(FILE_TYPES)}, a folder or a hub id")
    if not rows:
        raise DataError(f"{path}: has no rows")
    return rows if path.suffix in (".csv", ".tsv") else columns_of_messages(rows, str(path))


def check_columns(rows: Sequence[Row], needed: Mapping[str, str], where: str, setting: str) -> None:
    """All mapped columns must be there.

    Args:
        rows: Loaded rows.
        needed: Our name to the column that should hold it.
        where: Named in the error.
        setting: The recipe setting that maps columns.

    Raises:
        DataError: Names every missing column and what the file has.
    """
    present = {key for row in rows[:100] for key in row}
    missing = [(ours, theirs) for ours, theirs in needed.items() if theirs not in present]
    if missing:
        lines = [
            f"{where}: no column '{theirs}'.{did_you_mean(theirs, present)} Found: {', '.join(sorted(present))}. "
            f"Map it with {setting}.{ours}=<your column>"
            for ours, theirs in missing
        ]
        raise DataError("\n".join(lines))


def _from_parquet(path: Path) -> list[Row]:
    if not is_there(path):
        raise DataError(f"{path}: no such file")
    import pyarrow
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_table(path).to_pylist())
    except Exception as error:  # pyarrow's own, and those of its conversions: text that is not UTF-8, impossible dates
        raise DataError(f"{path}: not a readable parquet file ({_first_line(error)})") from None


def _from_folder(path: Path, split: str) -> list[Row]:
    from datasets import DatasetDict, load_from_disk

    saved, tables = _is_saved(path), _tables_in(path)
    if not saved and any(_is_saved(one) for one in tables):
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
    """A folder of data files, read now: `datasets` keeps what it read before, and knows files by name and date alone."""
    from datasets import load_dataset

    with TemporaryDirectory(prefix="cda-rows-") as cache:
        return load_dataset(str(path), cache_dir=cache, keep_in_memory=True)


def _is_saved(folder: Path) -> bool:
    """Whether `datasets` saved it, with splits or without."""
    return (folder / "dataset_info.json").exists() or (folder / "dataset_dict.json").exists()


def _tables_in(folder: Path) -> list[Path]:
    """What of a folder could be given by itself: data files and saved datasets."""
    return sorted(one for one in folder.iterdir() if one.suffix in FILE_TYPES or _is_saved(one))


def _holds(tables: Sequence[Path]) -> str:
    more = f" and {len(tables) - _LISTED} more" if len(tables) > _LISTED else ""
    return f"it holds {', '.join(map(str, tables[:_LISTED]))}{more}; give the one that is meant"


def _from_hub(reference: str, split: str) -> list[Row]:
    from datasets import load_dataset

    try:
        return list(load_dataset(reference, split=split).to_list())
    except Exception as error:  # connection, missing repository, missing split: all end the same way for a user
        raise DataError(
            f"{reference}: not a local file, and not loadable from the Hugging Face hub (split '{split}'): {_first_line(error)}"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]
