"""Batches of a classifier's texts: similar lengths within a budget, window by window, and a bar that starts behind what is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import load

from cda.models.template import Encoded
from cda.records import user_prompt
from cda.scorers import batching
from cda.scorers.batching import batches, token_batches
from cda.scorers.classifier import ClassifierScorer


@pytest.mark.parametrize(
    ("lengths", "batch_tokens", "expected"),
    [
        ([3, 9, 5, 5, 2], 10, [[1], [2, 3], [0, 4]]),
        ([3, 9, 5, 5, 2], 1, [[1], [2], [3], [0], [4]]),
        ([3, 9, 5, 5, 2], 45, [[1, 2, 3, 0, 4]]),
        ([3, 9, 5, 5, 2], 44, [[1, 2, 3, 0], [4]]),
        ([4, 4], 7, [[0], [1]]),
        ([4, 4], 8, [[0, 1]]),
        ([], 8, []),
    ],
)
def test_batches_hold_similar_lengths_within_the_budget_longest_first(
    lengths: list[int], batch_tokens: int, expected: list[list[int]]
) -> None:
    encoded = {row: Encoded([0] * length, False) for row, length in enumerate(lengths)}
    assert [list(batch) for batch in batches(encoded, batch_tokens)] == expected


def test_what_fills_no_batch_waits_for_the_next_window() -> None:
    def given(*lengths: int, start: int) -> dict[int, Encoded]:
        return {start + at: Encoded([0] * length, False) for at, length in enumerate(lengths)}

    found = token_batches(iter([given(5, 5, 4, start=0), {}, given(4, 3, 2, 9, start=3), {}]), 10)
    assert [list(batch) for batch in found] == [[0, 1], [6], [2, 3], [4, 5]]
    assert list(token_batches(iter([]), 10)) == [] == list(token_batches(iter([{}]), 10))


def test_the_first_window_may_be_small_and_later_ones_grow(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "WINDOW_CHARACTERS", 2000)
    given = [(user_prompt("p" * 100), "r" * 100)] * 50
    sizes = [len(window) for window in batching.windows(load(llama).template, given, 400)]
    assert sizes == [2, 4, 8, 10, 10, 10, 6]


def test_a_resumed_scoring_starts_behind_what_is_known_and_ends_at_all(
    llama: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cda.progress.on_terminal", lambda: True)
    scorer = ClassifierScorer(load(llama), batch_tokens=16, label="scoring")
    given = [(user_prompt("w1"), " ".join(["good"] * n)) for n in range(1, 9)]
    list(scorer.in_batches(given, skip=frozenset({6, 7})))
    shown = capsys.readouterr().err
    assert "2/8 texts" in shown and "8/8 texts" in shown and "0/8 texts" not in shown
