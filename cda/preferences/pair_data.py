"""Preference pairs with their rows, and labels that files give of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from sys import intern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.data.load import Row, Rows, streamed_rows
from cda.data.pairs import PairReader, clean_numbers, cluster_of, row_labels, text_digests
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import authored_pairs
from cda.errors import DataError, RecipeError, did_you_mean, refuse
from cda.inert import inert
from cda.records import Exclusions, Pair, count_reasons, prompt_text
from cda.stats.draws import Stream, drawn
from cda.stats.levels import Levels, levels_of

SIDES = ("chosen", "rejected")
_READ = ("prompt", *SIDES, "preference")
_USUAL = ("source", "topic", "domain", "category", "subset", "dataset", "language")
"""Columns that often name where pairs come from."""
_MOST_CHARACTERS = 60
_NO_PLACE = -2
NOT_DRAWN = "not drawn (--limit)"
OF_A_GROUP = "read together with an earlier row of its prompt"
Sides = NDArray[np.int8]
"""Labels of chosen and rejected of n pairs, shape (n, 2): 1, 0, or −1 if unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class PairData:
    """Usable pairs in row order, of which numbers alone stay: their rows and texts are read anew whenever they are needed.

    `reader` is None for a file that holds labels and no texts; then every row counts as a pair.
    """

    reference: str
    rows: Rows
    """All rows of the file."""
    numbers: NDArray[np.int64]
    """Row of each pair, from 1, shape (n,)."""
    prompt_ids: NDArray[np.int64]
    """Prompt of each pair by the place of its name among all, shape (n,)."""
    reader: PairReader | None
    exclusions: Exclusions
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 3), np.uint64))
    """Digests of the texts of each pair, shape (n, 3), if files of labels are matched by them; else none."""
    not_drawn: int = 0
    taken: str = ""
    """The shape of the rows, and what was taken for what."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Reason for each row that cannot be used, by number."""
    usable: bytes = b""
    """1 at the number of each row that is a pair or was not drawn."""

    def pairs(self) -> Iterator[Pair]:
        """The pairs, read anew. DataError: the file has changed."""
        assert self.reader is not None
        wanted, n = self.wanted(), 0
        for number, own in self.reader.read():
            if wanted[number] and isinstance(own, Pair):
                n += 1
                yield own
        if n != len(self.numbers):
            raise DataError(f"{self.reference}: has changed while it was read; start again")

    def wanted(self) -> bytes:
        """1 at the number of each pair's row, else 0."""
        return _marked(len(self.rows), self.numbers)

    def chosen_rows(self) -> Iterator[Row]:
        """The row of each pair, read anew."""
        return compress(self.rows, self.wanted()[1:])

    def why_left_out(self, number: int) -> str:
        """Why a row is no pair here."""
        return self.left_out.get(number) or (NOT_DRAWN if self.usable[number] else OF_A_GROUP)

    def levels(self, column: str) -> Levels:
        """Levels of the pairs by a column. DataError: no such column, or it does not divide them."""
        check_by(self.rows, [column], self.reference)
        cells = (row.get(column) for row in self.chosen_rows())
        values = [
            None if cell is None or not str(cell).strip() else intern(inert(str(cell).strip())[:_MOST_CHARACTERS])
            for cell in cells
        ]
        try:
            return levels_of(values, self.prompt_ids)
        except DataError as error:
            raise DataError(f"--by {column}: {error}; name another column") from None

    def suggested(self) -> list[str]:
        """Columns that often name where pairs come from, and have several values here."""
        first = next(iter(self.rows))
        found = [name for name in _USUAL if name in first]
        several: set[str] = set()
        for row in self.rows if found else ():
            several |= {name for name in found if str(row.get(name)) != str(first[name])}
            if len(several) == len(found):
                break
        return [name for name in found if name in several]


def pair_data(
    reference: str,
    split: str,
    columns: Mapping[str, str],
    labels: Sequence[str],
    limit: int | None,
    seed: int,
) -> PairData:
    """Pairs of `embedded` or of a reference that `load_rows` takes, at most so many of them; rows without texts count if
    `labels` names the same file. DataError: it cannot be loaded, a column is missing, or nothing usable is left."""
    rows = Rows.held(_embedded_rows()) if reference == EMBEDDED else streamed_rows(reference, split)
    names = {name: theirs for name, theirs in columns.items() if name in _READ}
    if reference in labels and not {*rows.columns} & {names.get(side, side) for side in SIDES}:
        numbers = np.array(drawn(range(1, len(rows) + 1), limit, seed, Stream.PAIRS), dtype=np.int64)
        none = PairData(reference, rows, numbers, numbers, None, Exclusions(len(rows), {}))
        ids = [cluster_of(row, number) for row, number in zip(none.chosen_rows(), numbers.tolist(), strict=True)]
        every = b"\1" * (len(rows) + 1)
        return replace(none, prompt_ids=_places(np.array(ids)), not_drawn=len(rows) - len(numbers), usable=every)
    reader = PairReader(rows, names, reference, "--column ")
    found = clean_numbers(reader.read())
    exclusions = Exclusions(reader.seen, count_reasons([*found.left_out.values()]))
    if not len(found.numbers):
        raise DataError(f"{reference}: no usable pair; {exclusions}")
    numbers, keys = found.numbers, found.keys
    if limit is not None:
        kept = drawn(range(len(numbers)), limit, seed, Stream.PAIRS)
        numbers, keys = numbers[kept], keys[kept]
    prompts, keys = _places(keys[:, 0]), keys if labels else np.empty((0, 3), np.uint64)
    return PairData(
        reference, rows, numbers, prompts, reader, exclusions, keys, len(found.numbers) - len(numbers),
        "" if reference == EMBEDDED else reader.taken, found.left_out, _marked(len(rows), found.numbers),
    )  # fmt: skip


def _places(names: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(names, return_inverse=True)[1]


def _marked(n_rows: int, numbers: NDArray[np.int64]) -> bytes:
    found = np.zeros(n_rows + 1, dtype=bool)
    found[numbers] = True
    return found.tobytes()


def _embedded_rows() -> list[Row]:
    return [
        {
            "prompt": prompt_text(row.pair.prompt), "chosen": row.pair.chosen, "rejected": row.pair.rejected,
            "domain": row.domain, "flaw_kind": row.flaw_kind,
        }
        for row in authored_pairs("train")
    ]  # fmt: skip


def check_by(rows: Rows, by: Sequence[str], reference: str) -> None:
    """Refuse columns that no row has with a DataError that names each."""
    present = sorted(rows.columns)
    refuse([
        f"--by {name}: no such column in {reference}.{did_you_mean(name, present)} Found: {', '.join(map(inert, present))}"
        for name in by
        if name not in present
    ])  # fmt: skip


def check_column_names(columns: Mapping[str, str], biases: Sequence[Bias]) -> None:
    """Refuse columns that the command does not read with a RecipeError that names each."""
    known = [*_READ, *(f"{side}_{bias.name}" for bias in biases for side in SIDES)]
    problems = [
        f"--column {name}: not a column that is read.{did_you_mean(name, known)} Known: {', '.join(known)}"
        for name in columns
        if name not in known
    ]
    if problems:
        raise RecipeError(problems)


def given_labels(
    files: Sequence[str], data: PairData, biases: Sequence[Bias], columns: Mapping[str, str]
) -> dict[str, tuple[Sides, str]]:
    """Labels of each pair in files, by bias, with the file; the first file that has a bias counts, and biases that none has are
    left out. A pair without a row there has unknown labels.

    Raises:
        DataError: A file cannot be read or matched to the pairs, or holds labels of none of the biases.
    """
    found: dict[str, tuple[Sides, str]] = {}
    for file in files:
        rows = data.rows if file == data.reference else streamed_rows(file)
        renamed = {ours: theirs for ours, theirs in columns.items() if ours not in _READ}
        own = _labels_in(rows, renamed, [bias.name for bias in biases])
        at = _places_in(file, rows, data)
        own = {name: np.where(at[:, None] < 0, _NO_PLACE, labels[at]) for name, labels in own.items()}
        own = {name: np.maximum(labels, -1) for name, labels in own.items() if (labels != _NO_PLACE).any()}
        if not own:
            present = {*rows.columns, *(ours for ours, theirs in renamed.items() if theirs in rows.columns)}
            raise DataError(
                f"{file}: no labels of {', '.join(bias.name for bias in biases)}. Found: {', '.join(sorted(map(inert, present)))}. Needed: the columns "
                f"chosen_{biases[0].name} and rejected_{biases[0].name} (yes or no), or labels as `cda label` writes them; other "
                f"names with --column chosen_{biases[0].name}=<your column>"
            )
        found = {name: (labels, file) for name, labels in own.items()} | found
    return found


def _labels_in(rows: Rows, renamed: Mapping[str, str], biases: Sequence[str]) -> dict[str, Sides]:
    """Labels of all rows of a file, by bias; `_NO_PLACE` on both sides in a row that has none for them."""
    found = {name: array("b") for name in biases}
    for row in rows:
        row = {**row, **{ours: row[theirs] for ours, theirs in renamed.items() if theirs in row}}
        for name, own in found.items():
            labels = row_labels(row, name)
            own.extend([_NO_PLACE] * 2 if labels is None else [-1 if label is None else int(label) for label in labels])
    return {name: np.array(own, dtype=np.int8).reshape(-1, 2) for name, own in found.items()}


def _places_in(file: str, rows: Rows, data: PairData) -> NDArray[np.int64]:
    """The place of each pair's row of labels, −1 without one: of the same file, by its texts, or in the order of the rows."""
    if file == data.reference:
        return data.numbers - 1
    if any(side in rows.columns for side in SIDES):
        return _by_texts(file, rows, data)
    if len(rows) != len(data.rows):
        raise DataError(
            f"{file}: {len(rows)} rows of labels without texts for {len(data.rows)} rows of {data.reference}; give one for each "
            "row in the same order, or the columns prompt, chosen and rejected"
        )
    return data.numbers - 1


def _by_texts(file: str, rows: Rows, data: PairData) -> NDArray[np.int64]:
    read = [
        (number, text_digests(own))
        for number, own in PairReader(rows, {}, file, "--column ").read()
        if isinstance(own, Pair)
    ]
    numbers, keys = (
        np.array([number for number, _ in read]),
        np.array([key for _, key in read], dtype=np.uint64).reshape(-1, 3),
    )
    both, place = np.unique(np.concatenate([keys, data.keys]), axis=0, return_inverse=True)
    last = np.full(len(both), -1)
    last[place[: len(keys)]] = numbers - 1  # of several rows on the same texts, the last
    found = last[place[len(keys) :]]
    if not (found >= 0).any():
        raise DataError(
            f"{file}: none of its {len(rows)} rows is one of the {len(data.numbers)} pairs of {data.reference}; prompt, chosen and "
            "rejected have to be the same texts"
        )
    return found
