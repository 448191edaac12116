"""The bar of a scoring: known texts are behind it from the start, it ends at all of them, and long texts weigh more."""

from __future__ import annotations

from pathlib import Path

import pytest

from cda.models.load import ModelSpec, load_reward_model
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.progress import TextBar


def test_long_texts_weigh_more_and_known_ones_are_behind_it() -> None:
    with TextBar([100, 10, 10, 80], frozenset({3}), "scoring") as bar:
        assert (bar.n, bar.total, bar.format_dict["texts"]) == (80, 200, "1/4 texts")
        bar.scored([0, 3])  # the known one once more, with its batch-mates
        assert (bar.n, bar.format_dict["texts"]) == (180, "2/4 texts")
        bar.scored([1, 2])
        assert (bar.n, bar.format_dict["texts"]) == (200, "4/4 texts")


def test_a_resumed_scoring_starts_behind_what_is_known_and_ends_at_all(
    llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scorer = ClassifierScorer(load_reward_model(ModelSpec(str(llama), "fp32", 64)), batch_tokens=16, label="scoring")
    responses = [" ".join(["good"] * n) for n in range(1, 9)]
    list(scorer.in_batches([user_prompt("w1")] * 8, responses, skip=frozenset({6, 7})))
    shown = capsys.readouterr().err
    assert "2/8 texts" in shown and "8/8 texts" in shown and "0/8 texts" not in shown
