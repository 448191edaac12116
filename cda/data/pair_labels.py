"""Labels of preference pairs: which side of each exhibits a bias, from a file, with the pairs' texts or without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cda.data.load import Row, load_rows
from cda.data.messages import RowError, prompt_of, side_text
from cda.errors import DataError
from cda.records import LabelledPair, prompt_id

SIDES = ("chosen", "rejected")
_WORD = re.compile(r"\W*(yes|no|true|false|1|0)\b", re.IGNORECASE)
_YES = ("yes", "true", "1")


@dataclass(frozen=True, slots=True)
class PairLabels:
    """Labels of pairs for one bias.

    Attributes:
        chosen: Whether each chosen response exhibits the bias; None where the label cannot be read.
        rejected: The same of each rejected response.
        prompt_ids: Cluster of each pair: its prompt, or the row itself where the file names no prompt.
        sides: Texts of both sides; None where the file does not hold them.
    """

    chosen: tuple[bool | None, ...]
    rejected: tuple[bool | None, ...]
    prompt_ids: tuple[str, ...]
    sides: tuple[tuple[str, str], ...] | None = None

    def __len__(self) -> int:
        return len(self.chosen)


def training_labels(labelled: Sequence[LabelledPair], bias: str) -> PairLabels | None:
    """Labels of training pairs; None where none is labelled for the bias."""
    rows = [row for row in labelled if bias in row.labels]
    if not rows:
        return None
    return PairLabels(
        tuple(row.labels[bias]["chosen"] for row in rows),
        tuple(row.labels[bias]["rejected"] for row in rows),
        tuple(prompt_id(row.pair.prompt) for row in rows),
        tuple((row.pair.chosen, row.pair.rejected) for row in rows),
    )


def load_labels(reference: str, biases: Sequence[str]) -> dict[str, PairLabels]:
    """Labels of a file, by bias; biases that it says nothing of are left out.

    Rows hold `chosen_<bias>` and `rejected_<bias>` (yes or no; brackets and explanations behind the word are looked
    through), or `labels` as `cda label` writes them; `prompt`, `chosen` and `rejected` where the texts are known.

    Raises:
        DataError: Cannot be loaded, or holds labels of none of the biases.
    """
    rows = load_rows(reference)
    found = {bias: one for bias in biases if (one := labels_in(rows, bias)) is not None}
    if not found:
        columns = ", ".join(sorted({key for row in rows for key in row}))
        raise DataError(
            f"{reference}: no labels of {', '.join(biases)}. Found: {columns}. Needed: the columns chosen_{biases[0]} and "
            f"rejected_{biases[0]} (yes or no), or labels as `cda label` writes them"
        )
    return found


def labels_in(rows: Sequence[Row], bias: str, column: str | None = None) -> PairLabels | None:
    """Labels of rows that were loaded; None where no row holds any.

    Args:
        rows: Loaded rows.
        bias: The bias.
        column: What stands behind `chosen_` and `rejected_` in the columns' names; the bias where it is not given.
    """
    read = [(row, _both(row, bias, column or bias)) for row in rows]
    labelled = [(row, both) for row, both in read if both is not None]
    if not labelled:
        return None
    texts = [_texts(row) for row, _ in labelled]
    return PairLabels(
        tuple(both[0] for _, both in labelled),
        tuple(both[1] for _, both in labelled),
        tuple(_cluster(row, number) for number, (row, _) in enumerate(labelled, 1)),
        None if None in texts else tuple(one for one in texts if one is not None),
    )


def _both(row: Row, bias: str, column: str) -> tuple[bool | None, bool | None] | None:
    """Labels of chosen and rejected; None where the row has no place for them."""
    own = row.get("labels")
    if isinstance(own, Mapping) and isinstance(own.get(bias), Mapping):
        return _label(own[bias].get("chosen")), _label(own[bias].get("rejected"))
    names = [f"{side}_{column}" for side in SIDES]
    return (_label(row[names[0]]), _label(row[names[1]])) if all(name in row for name in names) else None


def _label(value: Any) -> bool | None:
    if isinstance(value, bool) or value is None:
        return value
    match = _WORD.match(str(value))
    return None if match is None else match[1].lower() in _YES


def _cluster(row: Row, number: int) -> str:
    try:
        return prompt_id(prompt_of(row.get("prompt")))
    except RowError:
        return f"row {number}"


def _texts(row: Row) -> tuple[str, str] | None:
    try:
        return side_text(_last(row.get("chosen"))), side_text(_last(row.get("rejected")))
    except RowError:
        return None


def _last(side: object) -> object:
    """A side that stands as messages, as the text of the last one."""
    if isinstance(side, list | tuple) and side and isinstance(side[-1], Mapping):
        return side[-1].get("content")
    return side
