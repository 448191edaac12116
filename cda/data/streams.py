"""Inputs too large to hold: files, folders and hub data sets read in order, some rows at a time, each time as rows and as a table of Arrow."""

from __future__ import annotations

import glob
import json
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cda.data.load import (
    BATCH_ROWS,
    FILE_TYPES,
    Row,
    arrow_batches,
    first_line,
    is_saved,
    kind_of,
    located,
    not_on_hub,
    split_of,
)
from cda.data.tables import delimited_stream, plain_rows
from cda.errors import DataError
from cda.files.hub import commit_of
from cda.files.jsonl import read_json_rows, read_jsonl
from cda.files.paths import is_there, user_path
from cda.files.reads import contents, sha256_of
from cda.records import content_id

_AS_JSON = {b"cda": b"json"}
"""Mark of a column whose values have several types, and which is kept as JSON text."""


@dataclass(frozen=True, slots=True)
class Source:
    """One input: a file, a dataset saved to a folder, or a data set on the hub."""

    name: str
    path: Path | None
    """None: on the hub."""
    split: str

    def content(self) -> str:
        """Size and hash of a file's or folder's bytes, or the commit on the hub; DataError if it cannot be had."""
        if self.path is None:
            if (commit := commit_of("dataset", self.name)) is None:
                raise DataError(
                    f"{self.name}: no such file, and its commit on the hub is not known. Connect to the hub"
                )
            return f"{commit}, {self.split}"
        try:
            if self.path.is_dir():
                return content_id(contents(self.path), self.split)
            return f"{self.path.stat().st_size} bytes, {sha256_of(self.path)[:16]}"
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    def scanned(self) -> tuple[int, Any]:
        """Number of rows, and the columns with their types as a schema of Arrow, in one pass. DataError: unreadable, or no rows."""
        import pyarrow as pa

        if self._is_arrow:
            schema, stated, batches = self._batches()
            n = sum(batch.num_rows for batch in batches) if stated is None else stated
            schema = pa.schema([pa.field(field.name, field.type) for field in schema])
        else:
            n, types, rows = 0, dict[str, Any](), iter(self._rows())
            while part := plain_rows(islice(rows, BATCH_ROWS), self.name):
                n += len(part)
                for name in dict.fromkeys(name for row in part for name in row):
                    types[name] = _wider(types.get(name, pa.null()), [row.get(name) for row in part])
            schema = pa.schema([
                pa.field(name, pa.string(), metadata=_AS_JSON) if kind is None else pa.field(name, kind)
                for name, kind in types.items()
            ])  # fmt: skip
        if not n:
            raise DataError(f"{self.name}: has no rows")
        return n, schema

    def chunks(
        self, size: int, n_rows: int, indexes: Collection[int], schema: Any
    ) -> Iterator[tuple[int, list[Row], Any]]:
        """Those of the chunks of `size` rows with these indexes, in order: index, rows, and the rows as a table of the schema.

        DataError if the input does not have `n_rows` rows any more.
        """
        import pyarrow as pa

        wanted = {index: range(index * size, min((index + 1) * size, n_rows)) for index in sorted(indexes)}
        left = iter(wanted)
        for part, table in self._parts(list(wanted.values()), size, schema):
            yield next(left), part, table
            pa.default_memory_pool().release_unused()  # Arrow keeps what it has freed, and more of it with every row
        if next(left, None) is not None:
            raise DataError(f"{self.name}: has fewer rows than when it was first read; start again with what it is now")

    def _parts(self, wanted: Sequence[range], size: int, schema: Any) -> Iterator[tuple[list[Row], Any]]:
        """Rows and table of each wanted range, of `size` rows or the last."""
        import pyarrow as pa

        if self._is_arrow:
            with closing(_slices(self._batches()[-1], wanted)) as tables:
                for batches in tables:
                    table = pa.Table.from_batches(batches).select(schema.names).cast(schema)
                    yield plain_rows(table.to_pylist(), self.name), table
            return
        places = {own.start // size for own in wanted}
        rows = iter(self._rows(lambda row: row // size in places))
        for own in wanted:
            part = plain_rows(islice(rows, len(own)), self.name)
            if len(part) < len(own):
                return
            yield part, _table(part, schema)

    @property
    def _is_arrow(self) -> bool:
        return self.path is not None and (self.path.is_dir() or kind_of(self.path) in (".parquet", ".arrow"))

    def _rows(self, wanted: Any = None) -> Iterable[Row]:
        """Rows of an input that is no table of Arrow, those that are `wanted` by their number from 0."""
        kind = "" if self.path is None else kind_of(self.path)
        if self.path is not None and kind == ".jsonl":
            return read_jsonl(self.path, wanted)
        rows: Iterable[Row]
        if self.path is None:
            rows = _from_hub(self.name, self.split)
        elif kind == ".json":
            rows = read_json_rows(self.path)  # one document, which cannot be read in part
        else:
            rows = (row for _, row in delimited_stream(self.path))
        return rows if wanted is None else (row for number, row in enumerate(rows) if wanted(number))

    def _batches(self) -> tuple[Any, int | None, Iterator[Any]]:
        """Schema of a table of Arrow, its number of rows if it states one, and its record batches."""
        assert self.path is not None
        if not self.path.is_dir():
            return arrow_batches(self.path)
        from datasets import load_from_disk

        try:
            dataset = split_of(load_from_disk(str(self.path)), self.split, self.path)
        except DataError:
            raise
        except Exception as error:  # `datasets` raises many kinds, all of them about the folder
            raise DataError(f"{self.path}: not a readable folder ({first_line(error)})") from None
        tables = dataset.with_format("arrow").iter(BATCH_ROWS)
        return (
            dataset.features.arrow_schema,
            dataset.num_rows,
            (batch for table in tables for batch in table.to_batches()),
        )


def sources(references: Sequence[str], split: str) -> list[Source]:
    """The inputs that files, patterns (`shards/*.jsonl`), folders and hub ids stand for, each once. A folder's are those that `datasets`
    takes for the split. DataError: not found, of an unknown type, or a folder with tables beside them."""
    found: list[Source] = []
    for reference in references:
        if reference == "embedded":
            raise DataError(
                f"{reference}: texts that ship with cda; `cda texts FOLDER` writes them as files, which can be scored"
            )
        matching = [reference]
        if glob.has_magic(reference) and not is_there(reference):
            matching = sorted(glob.glob(str(user_path(reference)), recursive=True))  # noqa: PTH207 (absolute patterns too)
            if not matching:
                raise DataError(f"{reference}: no file matches")
        for each in matching:
            path = located(each)
            own = _in_folder(path, split) if path is not None and path.is_dir() and not is_saved(path) else [path]
            found += [Source(each if inside is path else str(inside), inside, split) for inside in own]
    return list(dict.fromkeys(found))


def stored_schema(file: Path, added: Collection[str]) -> Any:
    """The schema of the rows in a table that was written with `added` columns."""
    import pyarrow as pa
    import pyarrow.parquet

    return pa.schema([
        pa.field(field.name, field.type, metadata=_AS_JSON if b"cda" in (field.metadata or {}) else None)
        for field in pyarrow.parquet.read_schema(file)
        if field.name not in added
    ])  # fmt: skip


def one_schema(found: Mapping[str, Any]) -> Any:
    """The schema of several inputs, by name, which have the same columns of types that fit each other; DataError names two that do not."""
    import pyarrow as pa

    (first, whole), *others = found.items()
    todo = "Score inputs of one schema together, and others into a folder of their own"
    for name, schema in others:
        if {*schema.names} != {*whole.names}:
            has = [f"{each} has the columns {', '.join(own.names)}" for each, own in ((first, whole), (name, schema))]
            raise DataError(f"{' and '.join(has)}. {todo}")
        fields = []
        for own in whole:
            other = schema.field(own.name)
            try:
                if own.metadata != other.metadata:
                    raise pa.ArrowTypeError
                fields.append(pa.unify_schemas([pa.schema([own]), pa.schema([other])], promote_options="permissive")[0])
            except pa.ArrowException:
                kinds = [
                    f"{'several types' if each.metadata else each.type} in {of}"
                    for each, of in ((own, first), (other, name))
                ]
                raise DataError(f"column '{own.name}' is {' and '.join(kinds)}. {todo}") from None
        whole = pa.schema(fields)
    return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in whole])


def _in_folder(folder: Path, split: str) -> list[Path]:
    from datasets import load_dataset_builder

    tables = sorted(each for each in folder.iterdir() if kind_of(each) in FILE_TYPES)
    try:
        with TemporaryDirectory(prefix="cda-rows-") as cache:
            by_split = load_dataset_builder(str(folder), cache_dir=cache).config.data_files
    except Exception as error:  # `datasets` raises many kinds, all of them about the folder
        raise DataError(f"{folder}: not a folder that datasets can load ({first_line(error)})") from None
    files = {str(name): [Path(file) for file in own] for name, own in by_split.items()}
    known = {file.resolve() for own in files.values() for file in own}
    if left := [str(each) for each in tables if each.resolve() not in known]:
        raise DataError(
            f"{folder}: datasets reads its files without {', '.join(left[:8])}; name the files that are meant"
        )
    chosen: list[Path] = split_of(files, split, folder)
    return chosen


def _from_hub(reference: str, split: str) -> Iterator[Row]:
    from datasets import load_dataset

    try:
        yield from load_dataset(reference, split=split, revision=commit_of("dataset", reference), streaming=True)
    except Exception as error:  # connection, missing repository, missing split: all end the same way for a user
        raise not_on_hub(reference, split, error) from None


def _slices(batches: Iterator[Any], wanted: Sequence[range]) -> Generator[list[Any], None, None]:
    """For each wanted range of rows, in order, the parts of batches that hold it."""
    left, parts, start = list(wanted), list[Any](), 0
    for batch in batches if left else ():
        end = start + batch.num_rows
        while left and left[0].start < end:
            low, high = max(left[0].start, start), min(left[0].stop, end)
            parts.append(batch.slice(low - start, high - low))
            if left[0].stop > end:
                break
            yield parts
            parts = []
            left.pop(0)
        start = end
        if not left:
            return


def _wider(known: Any, values: list[Any]) -> Any:
    """A type for these values and those of a known type; None for several types that no type of Arrow holds."""
    import pyarrow as pa

    if known is None:
        return None
    try:
        own = pa.schema([("x", pa.array(values).type)])
        return pa.unify_schemas([pa.schema([("x", known)]), own], promote_options="permissive")[0].type
    except (pa.ArrowException, OverflowError):
        return None


def _table(rows: Sequence[Row], schema: Any) -> Any:
    import pyarrow as pa

    def column(field: Any) -> Any:
        values = [row.get(field.name) for row in rows]
        if field.metadata == _AS_JSON:
            values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return pa.array(values, field.type)

    return pa.table([column(field) for field in schema], schema=schema)
