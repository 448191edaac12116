"""Weights of pairs in a column: numbers in any spelling, and every mistake with its row."""

from __future__ import annotations

from typing import Any

import pytest

from cda.data.weights import weights_of
from cda.errors import DataError


def read(*cells: Any, numbers: list[int] | None = None) -> list[float]:
    rows = [{"prompt": "?", "w": cell} for cell in cells]
    return weights_of(rows, numbers or [*range(1, len(rows) + 1)], "w", "pairs.csv", "data.weights")


def test_numbers_and_numbers_as_text() -> None:
    assert read(1, "0.5", 0, " 2e-1 ") == [1.0, 0.5, 0.0, 0.2]
    assert read("bad", 3, None, 4, numbers=[2, 4]) == [3.0, 4.0]  # rows that are no pairs need none


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([1, "high", True], r"cells of 'w' hold no number in 2 of 3 pairs \(the first is row 2: 'high'\)"),
        ([1, None, ""], r"cells of 'w' hold no number in 2 of 3 pairs \(the first is row 2: 'None'\)"),
        (["nan", "inf", 1], r"cells of 'w' hold NaN or infinity in 2 of 3 pairs \(the first is row 1: 'nan'\)"),
        ([1, -0.5], r"cells of 'w' are negative in 1 of 2 pairs \(the first is row 2: '-0.5'\)"),
        ([0, "0"], "all 2 weights in 'w' are 0, so that no pair would be taught"),
    ],
)
def test_each_mistake_is_one_sentence(cells: list[Any], said: str) -> None:
    with pytest.raises(DataError, match=rf"^pairs\.csv: data\.weights: {said}") as found:
        read(*cells)
    assert len(str(found.value).splitlines()) == 1


def test_mistakes_of_every_kind_are_told_at_once() -> None:
    with pytest.raises(DataError) as found:
        read("x", -1, "nan")
    assert len(str(found.value).splitlines()) == 3


def test_a_column_that_is_not_there() -> None:
    rows = [{"prompt": "?", "weight": 1}]
    with pytest.raises(DataError, match=r"no column 'wieght'\. Did you mean 'weight'\? .*Map it with data\.weights="):
        weights_of(rows, [1], "wieght", "pairs.jsonl", "data.weights")
