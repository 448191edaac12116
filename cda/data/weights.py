"""Weights of preference pairs in a column of their file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from cda.data.load import Row, check_columns
from cda.errors import refuse
from cda.inert import clipped, inert


def weights_of(rows: Sequence[Row], numbers: Sequence[int], column: str, where: str, setting: str) -> list[float]:
    """Weight of each pair by the number of its row, 0 or more; `setting` names `column` in messages.

    Raises:
        DataError: No such column; cells that hold no number, NaN, infinity or a negative number (each kind with its count and first
            row); or weights that are all 0.
    """
    check_columns(rows, {"": column}, where, setting)
    found = {number: _number(rows[number - 1].get(column)) for number in numbers}
    kinds: Mapping[str, Callable[[float | None], bool]] = {
        "hold no number": lambda value: value is None,
        "hold NaN or infinity": lambda value: value is not None and not math.isfinite(value),
        "are negative": lambda value: value is not None and value < 0 and math.isfinite(value),
    }
    problems = []
    for kind, is_so in kinds.items():
        if wrong := [number for number, value in found.items() if is_so(value)]:
            cell = clipped(inert(str(rows[wrong[0] - 1].get(column))), 30)
            problems.append(
                f"{where}: {setting}: cells of '{column}' {kind} in {len(wrong)} of {len(numbers)} pairs (the first is row {wrong[0]}: "
                f"{cell!r}). A weight is a number, 0 or more; write one, or leave the row out"
            )
    if not problems and not any(found.values()):
        problems = [
            f"{where}: {setting}: all {len(numbers)} weights in '{column}' are 0, so that no pair would be taught"
        ]
    refuse(problems)
    return [float(value or 0.0) for value in found.values()]


def _number(cell: object) -> float | None:
    """The number in a cell, also as text; None for an empty one and for another text."""
    if cell is None or isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None
