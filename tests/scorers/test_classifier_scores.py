"""A text's score is its own: not its batch's, its neighbours', nor the padding's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny import load

from cda.errors import ModelError
from cda.models.load import ModelSpec, RewardModel, load_reward_model
from cda.models.template import Encoded
from cda.records import user_prompt
from cda.scorers import batching
from cda.scorers.batching import TextBar, batches, token_batches, windows
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.protocols import TextScore

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
    ],
    ids=["right", "left", "pad-is-eos", "pad-is-eos-left", "no-pad", "no-pad-no-eos"],
)
def test_scores_are_the_unpadded_ones_whatever_the_tokenizer_pads_with_and_where(
    llama_maker: ModelMaker,
    texts: Texts,
    reference: list[float],
    tokenizer: dict[str, object],
    request: pytest.FixtureRequest,
) -> None:
    reward_model = load(llama_maker(f"score-{request.node.callspec.id}", **tokenizer))
    for batch_tokens in (1, 100, 8192):
        scores = ClassifierScorer(reward_model, batch_tokens).score(texts.prompts, texts.responses)
        np.testing.assert_allclose(scores, reference, atol=TOLERANCE, rtol=0)


def test_plain_text_that_ends_in_the_padding_token_scores_the_same_padded_and_alone(
    llama_maker: ModelMaker, texts: Texts
) -> None:
    reward_model = load(llama_maker("score-plain-pad-eos", chat_template=None, pad="</s>"))
    encoded = reward_model.template.encode(texts.prompts[0], texts.responses[0])
    assert encoded.ids[-1] == reward_model.template.pad_token_id
    scores = ClassifierScorer(reward_model).score(texts.prompts, texts.responses)
    np.testing.assert_allclose(scores, alone_and_unpadded(reward_model, texts), atol=TOLERANCE, rtol=0)


def test_bert_scores_are_the_unpadded_ones(bert: Path, texts: Texts) -> None:
    reward_model = load(bert)
    expected = alone_and_unpadded(reward_model, texts)
    assert np.ptp(expected) > 0.1
    for batch_tokens in (1, 8192):
        scores = ClassifierScorer(reward_model, batch_tokens).score(texts.prompts, texts.responses)
        np.testing.assert_allclose(scores, expected, atol=TOLERANCE, rtol=0)


def test_rewards_that_are_no_numbers_are_one_clear_error(llama: Path, texts: Texts) -> None:
    import torch

    reward_model = load(llama)
    broken = reward_model.template.encode(user_prompt("good"), "bad").ids
    with torch.no_grad():
        # `good` alone is broken, so only the texts that hold it are.
        reward_model.model.model.embed_tokens.weight[broken[2]] = float("nan")
    scorer = ClassifierScorer(reward_model)
    assert np.isfinite(scorer.score(texts.prompts, texts.responses)).all()
    with pytest.raises(ModelError) as error:
        scorer.score([*texts.prompts, user_prompt("good")], [*texts.responses, "bad"])
    assert str(error.value) == (
        f"{llama}: 1 of 13 rewards are NaN or infinite (first: text 12). Try model.precision=fp32"
    )


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
    encoded = [Encoded([0] * length, False) for length in lengths]
    assert list(batches(encoded, batch_tokens)) == expected


def test_plain_text_with_an_end_mark_is_read_at_that_mark_as_the_stock_model_does(
    llama_maker: ModelMaker, texts: Texts
) -> None:
    """Without a padding token, a stock model scores one text at its last token: the end mark it was trained on."""
    import torch
    from transformers import AutoModelForSequenceClassification

    folder = llama_maker("stock-no-pad", pad=None, chat_template=None)
    reward_model = load(folder)
    stock = AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
    assert stock.config.pad_token_id is None
    expected = []
    for prompt, response in zip(texts.prompts, texts.responses, strict=True):
        ids = reward_model.template.encode(prompt, response).ids
        assert ids[-1] == reward_model.template.tokenizer.eos_token_id
        with torch.no_grad():
            expected.append(stock(input_ids=torch.tensor([ids])).logits[0, 0].item())
    scores = ClassifierScorer(reward_model).score(texts.prompts, texts.responses)
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE)


def test_windows_hold_a_limited_number_of_characters_longest_first(
    llama: Path, words: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "WINDOW_CHARACTERS", 500)
    template = load(llama).template
    prompts = [user_prompt("w1 w2")] * 6
    responses = [words(count) for count in (1, 90, 70, 2, 60, 200)]
    found = list(windows(template, prompts, responses))
    # 200 words are a window of their own; the short texts count for 128 characters each.
    assert [list(window) for window in found] == [[5], [1], [2, 4], [0, 3]]
    for window in found:
        assert window == {row: template.encode(prompts[row], responses[row]) for row in window}


def test_no_more_than_three_windows_are_held_at_once(
    llama: Path, words: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the window that is scored, one is being tokenized; a third may have just been used up."""
    monkeypatch.setattr(batching, "WINDOW_CHARACTERS", 400)
    template, encoded = load(llama).template, list[int]()
    real = template.encode
    monkeypatch.setattr(template, "encode", lambda *text: encoded.append(1) or real(*text))
    n = 300
    found = windows(template, [user_prompt("w1")] * n, [words(3, start=row) for row in range(n)])
    for used, window in enumerate(itertools.islice(found, 5)):
        assert len(window) == 3
        assert len(encoded) <= 3 * (used + 2)


def test_what_fills_no_batch_waits_for_the_next_window() -> None:
    def given(*lengths: int, start: int) -> dict[int, Encoded]:
        return {start + at: Encoded([0] * length, False) for at, length in enumerate(lengths)}

    found = token_batches(iter([given(5, 5, 4, start=0), {}, given(4, 3, 2, 9, start=3), {}]), 10)
    assert [batch.rows for batch in found] == [[0, 1], [6], [2, 3], [4, 5]]
    assert list(token_batches(iter([]), 10)) == [] == list(token_batches(iter([{}]), 10))


def test_scores_are_the_same_however_small_the_windows(
    llama: Path, texts: Texts, reference: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = ClassifierScorer(load(llama), 100)
    for size in (1, 300, 1000):
        monkeypatch.setattr(batching, "WINDOW_CHARACTERS", size)
        np.testing.assert_allclose(scorer.score(texts.prompts, texts.responses), reference, atol=TOLERANCE, rtol=0)


def test_long_texts_are_left_out_on_demand_and_come_last(llama: Path, words: Callable[..., str]) -> None:
    scorer = ClassifierScorer(load(llama, limit=12), over_length="drop")
    prompts, responses = [user_prompt(words(2))] * 3, [words(5), words(6), words(1)]
    found = dict(itertools.chain(*(finished := list(scorer.in_batches(prompts, responses)))))
    assert finished[-1] == [(1, TextScore(None))]
    whole = ClassifierScorer(scorer.reward_model).score(prompts, responses)
    assert [found[row].reward for row in (0, 2)] == pytest.approx([whole[0], whole[2]], abs=TOLERANCE)
    assert all(one.read is None for one in found.values())


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
