"""Rows from every type of file, and errors that name file and line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from cda.data.load import load_rows, looks_like_path, streamed_rows
from cda.errors import DataError

ROWS: list[dict[str, Any]] = [
    {"prompt": 'q, "one"\nline two', "chosen": "ä", "rejected": "b"},
    {"prompt": "q2", "chosen": "c", "rejected": "d"},
]
COLUMNS = ("prompt", "chosen", "rejected")
TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'A "quote", [1] and\na line'}]
STORED = json.dumps(TURNS)


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif path.suffix == ".csv":
        table(path, *(tuple(row.values()) for row in rows))
    else:
        schema = pyarrow.schema([(name, pyarrow.string()) for name in COLUMNS])
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), path)
    return str(path)


def table(path: Path, *rows: tuple[str, ...], delimiter: str = ",") -> str:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([COLUMNS, *rows])
    return str(path)


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".csv", ".parquet"])
def test_every_file_type_gives_the_same_rows(tmp_path: Path, ending: str) -> None:
    assert load_rows(write(tmp_path / f"rows{ending}", ROWS)) == ROWS
    with pytest.raises(DataError, match="has no rows"):
        load_rows(write(tmp_path / f"none{ending}", []))
    with pytest.raises(DataError, match=f"missing{ending}: no such file"):
        load_rows(str(tmp_path / f"missing{ending}"))


def test_saved_folders_with_and_without_splits(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    one = Dataset.from_list(ROWS)
    one.save_to_disk(str(tmp_path / "one"))
    DatasetDict({"train": one, "test": one.select([1])}).save_to_disk(str(tmp_path / "split"))
    assert load_rows(str(tmp_path / "one")) == ROWS
    assert load_rows(str(tmp_path / "split")) == ROWS
    assert load_rows(str(tmp_path / "split"), "test") == ROWS[1:]
    with pytest.raises(DataError, match=r"no split 'dev'\. Found: train, test"):
        load_rows(str(tmp_path / "split"), "dev")


def test_a_folder_of_several_tables_names_them(tmp_path: Path) -> None:
    from datasets import Dataset

    lines, saved = tmp_path / "lines", tmp_path / "saved"
    lines.mkdir()
    configs = "".join(f"- {{config_name: {name}, data_files: {name}.jsonl}}\n" for name in "ab")
    (lines / "README.md").write_text(f"---\nconfigs:\n{configs}---\n", encoding="utf-8")
    for name in "ab":
        write(lines / f"{name}.jsonl", ROWS)
        Dataset.from_list(ROWS).save_to_disk(str(saved / name))
    for folder, ending in ((lines, ".jsonl"), (saved, "")):
        with pytest.raises(DataError) as refused:
            load_rows(str(folder))
        assert f"it holds {folder}/a{ending}, {folder}/b{ending}; give the one that is meant" in str(refused.value)
        assert "Config name" not in str(refused.value)
        assert load_rows(f"{folder}/a{ending}") == ROWS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"prompt": "q"}\n{"prompt": \n', r"a\.jsonl:2: not valid JSON"),
        ("a.csv", b"", r"a\.csv: has no rows"),
        ("a.csv", b"a,b\n\xff,1\n", r"a\.csv:2: not UTF-8"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", r"a\.csv:3: not as many fields"),
        ("a.csv", b"a,b\n1\n", r"a\.csv:2: not as many fields"),
        ("a.csv", b'a,b\n1,2\n"1,2', r"a\.csv:\d: not valid CSV \(unexpected end"),
        ("a.parquet", b"not parquet", r"a\.parquet: not a readable parquet file"),
        ("a.txt", b"text", r"a\.txt: unknown file type; use one of \.jsonl, "),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_rows(str(path))


@pytest.mark.parametrize("path", ["none.jsonl", "data/none.csv", "./x", "../x", "/x", "~/x", "a/b/c"])
def test_hub_ids_are_told_from_paths(path: str) -> None:
    assert looks_like_path(path) and not looks_like_path("owner/name") and not looks_like_path("imdb")


def test_messages_whose_first_key_is_another_are_read(tmp_path: Path) -> None:
    named = [{"name": None, **turn} for turn in TURNS]
    path = table(tmp_path / "rows.csv", (json.dumps(named), repr(named), "a"))
    assert load_rows(path) == [{"prompt": named, "chosen": named, "rejected": "a"}]


@pytest.mark.parametrize(
    "prose",
    ['[{"role": "user", "content": "x"}] is a list [1].', "[{'role': 'user', 'content': 'x'}] is a list.", "[1] see below",
     '[{"role": "Engineer", "name": "Ada"}]', '[{"name": "Ada", "role": "Engineer", "content": "x"}]',
     '{"role": "user", "content": "x"}', '["a", "b"]'],
)  # fmt: skip
def test_prose_that_looks_like_messages_stays(tmp_path: Path, prose: str) -> None:
    assert load_rows(table(tmp_path / "rows.csv", ("q", prose, "b")))[0]["chosen"] == prose


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
def test_elsewhere_a_column_of_nothing_but_messages_as_text_is_read(tmp_path: Path, ending: str) -> None:
    """Rows without a text do not hide such a column."""
    path = tmp_path / f"rows{ending}"
    rows = [{"prompt": STORED, "chosen": STORED}, {"prompt": STORED, "chosen": "a"}, {"prompt": None, "chosen": ""}]
    found = [(row["prompt"], row["chosen"]) for row in load_rows(write(path, rows))]
    assert found == [(TURNS, STORED), (TURNS, "a"), (None, "")]
    rows[1]["prompt"] = STORED[:-5]
    with pytest.raises(DataError, match="row 2: column 'prompt' holds messages as text"):
        load_rows(write(path, rows))


@pytest.mark.parametrize(
    "name", ["rows.jsonl", "rows.json", "rows.csv", "rows.parquet", "rows.arrow", "saved", "folder"]
)
def test_a_stream_gives_the_same_rows_each_time(name: str, tmp_path: Path) -> None:
    from datasets import Dataset

    rows = [{**row, "prompt": STORED} for row in ROWS * 3000]
    file = str(tmp_path / name)
    if name == "saved":
        Dataset.from_list(rows).save_to_disk(file)
    elif name == "folder":
        (tmp_path / name).mkdir()
        write(tmp_path / name / "train.jsonl", rows)
    elif name == "rows.arrow":
        with (
            pyarrow.OSFile(file, "wb") as sink,
            pyarrow.ipc.new_stream(sink, pyarrow.table({name: [""] for name in COLUMNS}).schema) as out,
        ):
            out.write_table(pyarrow.Table.from_pylist(rows))
    else:
        write(tmp_path / name, rows)
    stream = streamed_rows(file)
    assert (len(stream), stream.columns) == (6000, COLUMNS)
    assert list(stream) == list(stream) == load_rows(file)
    assert next(iter(stream))["prompt"] == TURNS


def test_a_broken_row_in_the_middle_of_a_stream_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", ROWS * 2000)
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    Path(file).write_text("\n".join([*lines[:3000], "{broken", *lines[3000:]]), encoding="utf-8")
    with pytest.raises(DataError, match=r"rows\.jsonl:3001: not valid JSON"):
        streamed_rows(file)
    Path(file).write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no rows"):
        streamed_rows(file)
