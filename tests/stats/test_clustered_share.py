"""Wilson's interval on the effective number of rows: the plain one without repeats, wider with them, and its coverage."""

from __future__ import annotations

import numpy as np
import pytest

from cda.errors import DataError
from cda.stats.clustered_share import clustered_wilson
from cda.stats.proportions import wilson


def interval(hits: list[float], ids: list[str]) -> tuple[float, float]:
    found = clustered_wilson(hits, ids)
    return found.low, found.high


@pytest.mark.parametrize("hits", [[1.0, 0, 0, 1, 1], [0.5, 0, 0, 0, 0], [0.0] * 5, [1.0] * 5, [0.5] * 5])
def test_one_row_a_prompt_is_wilson_s(hits: list[float]) -> None:
    assert interval(hits, list("abcde")) == pytest.approx(wilson(sum(hits), 5))


def test_copies_of_a_row_are_worth_one() -> None:
    hits, ids = [1.0, 0, 0, 1, 1, 0, 0], list("abcdefg")
    assert interval(hits * 4, ids * 4) == pytest.approx(wilson(3, 7))
    assert interval([0.0] * 28, ids * 4) == pytest.approx(wilson(0, 7))


def test_rows_that_balance_within_their_prompt_are_worth_no_more_than_themselves() -> None:
    assert interval([1.0, 0, 1, 0], ["a", "a", "b", "b"]) == pytest.approx(wilson(2, 4))


def test_it_covers_the_truth_where_rows_move_together() -> None:
    random, covered, naive = np.random.default_rng(0), 0, 0
    ids = [str(row) for row in np.repeat(np.arange(50), 3)]
    for _ in range(1000):
        hits = (random.random(150) < np.repeat(random.beta(0.5, 1.5, 50), 3)).astype(float)  # mean 0.25
        low, high = interval(hits.tolist(), ids)
        covered += low <= 0.25 <= high
        low, high = wilson(float(hits.sum()), 150)
        naive += low <= 0.25 <= high
    assert 0.93 <= covered / 1000 <= 0.97
    assert naive / 1000 < 0.9


def test_too_little_is_said() -> None:
    for hits, ids in (([], []), ([1.0], ["a", "b"]), ([2.0], ["a"]), ([np.nan], ["a"])):
        with pytest.raises(DataError):
            clustered_wilson(hits, ids)
