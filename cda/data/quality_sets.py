"""Preference benchmarks as items to be ranked: a file read whole, every dropped row counted, the weights of its subsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cda.data.load import Row, check_columns, load_rows, looks_like_path
from cda.data.messages import RowError
from cda.data.pairs import EVEN, OUTVOTED, repeated_rows
from cda.data.quality_sets_rows import N_PAIRS, WEIGHTS, Format, QualityItem, format_of, quality_item
from cda.errors import DataError
from cda.files.jsonl import parse_json
from cda.records import Exclusions, Pair, count_reasons, text_key

MAX_UNUSABLE = 0.2
"""More broken rows than this share stop the command: the file is probably not what it was taken for."""
_HARMLESS = ("duplicate", "prior set", "tie", EVEN, OUTVOTED)
_SHOWN_ROWS = 5


@dataclass(frozen=True, slots=True)
class QualitySet:
    """Items of one file.

    Attributes:
        name: Short name, for tables.
        source: As it was given.
        format: Which of the formats it is.
        items: In file order.
        exclusions: Rows left out, by reason.
        left_out_rows: Reason to the first rows left out for it, from 1.
        weights: Weight of each subset within its section; None where every item counts alike.
        n_expected: Pairs of each subset in the whole benchmark, where that is known.
    """

    name: str
    source: str
    format: Format
    items: tuple[QualityItem, ...]
    exclusions: Exclusions
    left_out_rows: Mapping[str, tuple[int, ...]]
    weights: Mapping[str, float] | None
    n_expected: Mapping[str, int]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """First chosen over first rejected response of each item: the item itself where it has one of each."""
        return tuple(Pair(one.prompt, one.chosen[0], one.rejected[0]) for one in self.items)


def load_quality_set(reference: str, split: str = "test", columns: Mapping[str, str] | None = None) -> QualitySet:
    """Items of a file, a saved folder or a hub id.

    Args:
        reference: As `load_rows` takes it.
        split: For sources with several (RewardBench's is `filtered`).
        columns: Our name to theirs, for TRL's pairs under other names; then the file is taken for such pairs.

    Raises:
        DataError: Cannot be loaded, no known format, nothing usable, or too many broken rows; names the rows.
    """
    return quality_set(load_rows(reference, split), reference, columns)


def quality_set(rows: Sequence[Row], source: str, columns: Mapping[str, str] | None = None) -> QualitySet:
    """Items of rows that were loaded; see `load_quality_set`."""
    rows = _with_lists(rows)
    form: Format = "pairs" if columns else format_of(rows, source)
    if columns:
        check_columns(rows, dict(columns), source, "audit.quality_columns")
    name = _short_name(source)
    items: list[QualityItem] = []
    left_out: list[tuple[int, str]] = []
    for number, row in enumerate(rows, 1):
        try:
            items.append(quality_item(form, row, number, name, columns))
        except RowError as problem:
            left_out.append((number, str(problem)))
    if form == "pairs":
        repeated = repeated_rows([text_key(one.prompt, one.chosen[0], one.rejected[0]) for one in items])
        left_out += [(one.row, reason) for one, reason in zip(items, repeated, strict=True) if reason is not None]
        items = [one for one, reason in zip(items, repeated, strict=True) if reason is None]
    items = _partnered(items, left_out)
    _check_usable(source, form, len(rows), items, left_out)
    reasons = count_reasons([reason for _, reason in left_out])
    rows_out = {why: tuple(row for row, reason in left_out if reason == why)[:_SHOWN_ROWS] for why in reasons}
    weights = _weights(form, items)
    expected = N_PAIRS if form == "rewardbench" else {}
    return QualitySet(name, source, form, tuple(items), Exclusions(len(rows), reasons), rows_out, weights, expected)


def _with_lists(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows whose lists of responses a table holds as text; of other rows each is as it was."""
    read = [{side: _texts_in(row.get(side)) for side in ("chosen", "rejected")} for row in rows]
    if any(texts is None for row in read for texts in row.values()):
        return rows
    return [{**row, **texts} for row, texts in zip(rows, read, strict=True)]


def _texts_in(cell: object) -> list[str] | None:
    if not (isinstance(cell, str) and cell.lstrip().startswith("[")):
        return None
    try:
        found = parse_json(cell)
    except ValueError:
        return None
    return found if isinstance(found, list) and found and all(isinstance(one, str) for one in found) else None


def _short_name(source: str) -> str:
    if not looks_like_path(source):
        return source
    path = Path(source)
    # Resolved, since a folder is made of the name, and that of `..` would lie elsewhere.
    folder = path.parent.resolve().name
    return folder if path.stem == "dataset" and folder else path.stem


def _weights(form: Format, items: Sequence[QualityItem]) -> Mapping[str, float] | None:
    """Of subsets within their section: RewardBench's own; each domain of RM-Bench and subset of RewardBench 2 alike."""
    if form == "rewardbench":
        return WEIGHTS
    return {item.subset: 1.0 for item in items} if form in ("rewardbench-2", "rm-bench") else None


def _partnered(items: Sequence[QualityItem], left_out: list[tuple[int, str]]) -> list[QualityItem]:
    """Items of Ties whose partner is there, and all others."""
    first = {item.tied: item.row for item in reversed(items) if item.tied}
    kept = []
    for item in items:
        if item.tied and first[item.tied] != item.row:
            left_out.append((item.row, "duplicate"))
        elif item.tied and ("tied" if item.tied[0] == "ref" else "ref", item.tied[1]) not in first:
            left_out.append((item.row, "Ties row without its partner"))
        else:
            kept.append(item)
    return kept


def _check_usable(source: str, form: Format, n: int, items: Sequence[object], left_out: list[tuple[int, str]]) -> None:
    broken = sorted(one for one in left_out if one[1] not in _HARMLESS)
    if items and len(broken) <= MAX_UNUSABLE * n:
        return
    shown = "; ".join(f"row {row}: {reason}" for row, reason in (broken or left_out)[:_SHOWN_ROWS])
    more = "; …" if len(broken or left_out) > _SHOWN_ROWS else ""
    many = f"{len(broken)} of {n} rows cannot be used" if items else f"no usable row of {n}"
    raise DataError(f"{source}: read as {form}: {many} ({shown}{more}). Correct or remove them")
