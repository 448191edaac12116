"""Preference pairs with their rows, and labels that files give of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cda.biases import Bias
from cda.data.load import Row, load_rows
from cda.data.pairs import PairLabels, clean_pairs, cluster_of, read_pairs, row_labels
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import authored_pairs
from cda.errors import DataError, RecipeError, did_you_mean, refuse
from cda.inert import inert
from cda.records import Exclusions, Pair, prompt_id, prompt_text, text_key
from cda.stats.draws import Stream, drawn
from cda.stats.levels import Levels, levels_of

SIDES = ("chosen", "rejected")
_READ = ("prompt", *SIDES, "preference")
_USUAL = ("source", "topic", "domain", "category", "subset", "dataset", "language")
"""Columns that often name where pairs come from."""
_MOST_CHARACTERS = 60
NOT_DRAWN = "not drawn (--limit)"
Labels = tuple[bool | None, bool | None]


@dataclass(frozen=True, slots=True, eq=False)
class PairData:
    """Usable pairs in row order, and their rows.

    `pairs` is None for a file that holds labels and no texts; then every row counts as a pair.
    """

    reference: str
    rows: Sequence[Row]
    """All rows of the file."""
    numbers: tuple[int, ...]
    """Row of each pair, from 1."""
    pairs: tuple[Pair, ...] | None
    exclusions: Exclusions
    not_drawn: int = 0
    taken: str = ""
    """The shape of the rows, and what was taken for what."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Reason for each row that is no pair here, by number."""

    @property
    def prompt_ids(self) -> tuple[str, ...]:
        if self.pairs is not None:
            return tuple(prompt_id(pair.prompt) for pair in self.pairs)
        return tuple(cluster_of(self.rows[number - 1], number) for number in self.numbers)

    @property
    def sides(self) -> tuple[tuple[str, str], ...] | None:
        return None if self.pairs is None else tuple((pair.chosen, pair.rejected) for pair in self.pairs)

    def labelled(self, labels: Sequence[Labels]) -> PairLabels:
        """Labels of the pairs, with their prompts and texts."""
        chosen, rejected = zip(*labels, strict=True)
        return PairLabels(chosen, rejected, self.prompt_ids, self.sides)

    def levels(self, column: str) -> Levels:
        """Levels of the pairs by a column. DataError: no such column, or it does not divide them."""
        check_by(self.rows, [column], self.reference)
        cells = [self.rows[number - 1].get(column) for number in self.numbers]
        values = [
            None if cell is None or not str(cell).strip() else inert(str(cell).strip())[:_MOST_CHARACTERS]
            for cell in cells
        ]
        try:
            return levels_of(values, self.prompt_ids)
        except DataError as error:
            raise DataError(f"--by {column}: {error}; name another column") from None

    def suggested(self) -> list[str]:
        """Columns that often name where pairs come from, and have several values here."""
        found = [name for name in _USUAL if name in self.rows[0]]
        return [name for name in found if len(set(map(str, (row.get(name) for row in self.rows)))) > 1]


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
    rows = _embedded_rows() if reference == EMBEDDED else load_rows(reference, split)
    names = {name: theirs for name, theirs in columns.items() if name in _READ}
    present = {name for row in rows for name in row}
    if reference in labels and not present & {names.get(side, side) for side in SIDES}:
        numbers = tuple(drawn(range(1, len(rows) + 1), limit, seed, Stream.PAIRS))
        left = dict.fromkeys(set(range(1, len(rows) + 1)) - {*numbers}, NOT_DRAWN)
        return PairData(reference, rows, numbers, None, Exclusions(len(rows), {}), len(left), "", left)
    cleaned = clean_pairs(rows, names, reference, "--column ")
    if not cleaned.pairs:
        raise DataError(f"{reference}: no usable pair; {cleaned.exclusions}")
    pairs = dict(zip(cleaned.numbers, cleaned.pairs, strict=True))
    kept = drawn(cleaned.numbers, limit, seed, Stream.PAIRS)
    own, taken = tuple(pairs[number] for number in kept), "" if reference == EMBEDDED else cleaned.taken
    left_out = dict.fromkeys(pairs.keys() - {*kept}, NOT_DRAWN) | {**cleaned.left_out}
    return PairData(reference, rows, tuple(kept), own, cleaned.exclusions, len(pairs) - len(kept), taken, left_out)


def _embedded_rows() -> list[Row]:
    return [
        {
            "prompt": prompt_text(row.pair.prompt), "chosen": row.pair.chosen, "rejected": row.pair.rejected,
            "domain": row.domain, "flaw_kind": row.flaw_kind,
        }
        for row in authored_pairs("train")
    ]  # fmt: skip


def check_by(rows: Sequence[Row], by: Sequence[str], reference: str) -> None:
    """Refuse columns that no row has with a DataError that names each."""
    present = sorted({name for row in rows for name in row})
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
) -> dict[str, tuple[list[Labels], str]]:
    """Labels of each pair in files, by bias, with the file; the first file that has a bias counts, and biases that none has are
    left out. A pair without a row there has unknown labels.

    Raises:
        DataError: A file cannot be read or matched to the pairs, or holds labels of none of the biases.
    """
    found: dict[str, tuple[list[Labels], str]] = {}
    for file in files:
        rows = _label_rows(file, data, columns)
        own = {bias.name: labels for bias in biases if (labels := _of_bias(rows, bias.name)) is not None}
        if not own:
            present = ", ".join(sorted({inert(key) for row in rows if row is not None for key in row}))
            raise DataError(
                f"{file}: no labels of {', '.join(bias.name for bias in biases)}. Found: {present}. Needed: the columns "
                f"chosen_{biases[0].name} and rejected_{biases[0].name} (yes or no), or labels as `cda label` writes them; other "
                f"names with --column chosen_{biases[0].name}=<your column>"
            )
        found = {name: (labels, file) for name, labels in own.items()} | found
    return found


def _of_bias(rows: Sequence[Row | None], bias: str) -> list[Labels] | None:
    labels = [None if row is None else row_labels(row, bias) for row in rows]
    return None if all(each is None for each in labels) else [(None, None) if each is None else each for each in labels]


def _label_rows(file: str, data: PairData, columns: Mapping[str, str]) -> list[Row | None]:
    """The row of labels of each pair, None without one: of the same file, by its texts, or in the order of the rows."""
    renamed = {ours: theirs for ours, theirs in columns.items() if ours not in _READ}
    rows = data.rows if file == data.reference else load_rows(file)
    rows = [{**row, **{ours: row[theirs] for ours, theirs in renamed.items() if theirs in row}} for row in rows]
    if file == data.reference:
        return [rows[number - 1] for number in data.numbers]
    if any(side in row for row in rows for side in SIDES):
        return _by_texts(file, rows, data)
    if len(rows) != len(data.rows):
        raise DataError(
            f"{file}: {len(rows)} rows of labels without texts for {len(data.rows)} rows of {data.reference}; give one for each "
            "row in the same order, or the columns prompt, chosen and rejected"
        )
    return [rows[number - 1] for number in data.numbers]


def _by_texts(file: str, rows: Sequence[Row], data: PairData) -> list[Row | None]:
    by_texts = {
        text_key(pair.prompt, pair.chosen, pair.rejected): rows[number - 1]
        for number, pair in read_pairs(rows, {}, file, "--column ").numbered
    }
    found = [by_texts.get(text_key(pair.prompt, pair.chosen, pair.rejected)) for pair in data.pairs or ()]
    if not any(row is not None for row in found):
        raise DataError(
            f"{file}: none of its {len(rows)} rows is one of the {len(data.numbers)} pairs of {data.reference}; prompt, chosen and "
            "rejected have to be the same texts"
        )
    return found
