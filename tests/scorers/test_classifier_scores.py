"""A text's score is its own: not its batch's, its neighbours', nor the padding's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny import load, scores_of

from cda.models.load import RewardModel
from cda.models.template import Encoded
from cda.records import user_prompt
from cda.scorers import batching
from cda.scorers.batching import batches, token_batches
from cda.scorers.classifier import ClassifierScorer

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

TOLERANCE = 1e-4  # fp32; measured 5e-6 on scores between -4 and 4


def alone_and_unpadded(reward_model: RewardModel, texts: Texts) -> list[float]:
    """Scores without the scorer: one text, no padding, no mask."""
    import torch

    scores = []
    for prompt, response in zip(texts.prompts, texts.responses, strict=True):
        ids = torch.tensor([reward_model.template.encode(prompt, response).ids], device=reward_model.model.device)
        with torch.no_grad():
            scores.append(reward_model.model(input_ids=ids).logits[0, 0].item())
    return scores


@pytest.fixture(scope="module")
def reference(llama: Path, texts: Texts) -> list[float]:
    scores = alone_and_unpadded(load(llama), texts)
    assert np.ptp(scores) > 1  # else every comparison below would be empty
    return scores


@pytest.mark.parametrize(
    "tokenizer",
    [
        {},
        {"padding_side": "left"},
        {"pad": "</s>"},
        {"pad": "</s>", "padding_side": "left"},
        {"pad": None},
        {"pad": None, "eos": False},
        {"chat_template": None, "pad": "</s>"},  # its texts end in the padding token
        None,
    ],
    ids=["right", "left", "pad-is-eos", "pad-is-eos-left", "no-pad", "no-pad-no-eos", "plain", "bert"],
)
def test_scores_are_the_unpadded_ones_whatever_the_tokenizer_pads_with_and_where(
    llama_maker: ModelMaker,
    bert: Path,
    texts: Texts,
    reference: list[float],
    tokenizer: dict[str, object] | None,
    request: pytest.FixtureRequest,
) -> None:
    name = request.node.callspec.id
    reward_model = load(bert if tokenizer is None else llama_maker(f"score-{name}", **tokenizer))
    expected = alone_and_unpadded(reward_model, texts) if name in ("plain", "bert") else reference
    assert np.ptp(expected) > 0.1
    for batch_tokens in (1, 100, 8192):
        np.testing.assert_allclose(scores_of(reward_model, texts, batch_tokens), expected, atol=TOLERANCE, rtol=0)


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
