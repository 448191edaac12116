"""Batches of a classifier's texts: similar lengths within a budget, window by window, and a bar that starts behind what is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
import torch
from tiny import load, scores_of

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.config import ModelSpec, Precision
from cda.models.load import RewardModel, compile_base, load_reward_model, without_adapter
from cda.models.template import Encoded
from cda.records import user_prompt
from cda.scorers import batching
from cda.scorers.batching import batches, forward, packed, packs, padded, token_batches
from cda.scorers.classifier import ALIKE, TOO_LONG, ClassifierScorer, LocalPairwise, in_order, preferred
from cda.scorers.compared import Rewards, Text, compare_distinct, text_id

if TYPE_CHECKING:
    from conftest import Texts, Trained


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


def ids_of(reward_model: RewardModel, texts: Texts) -> list[list[int]]:
    return [reward_model.template.encode(*text).ids for text in zip(texts.prompts, texts.responses, strict=True)][:12]


def test_texts_in_a_row_get_the_rewards_of_padded_ones(llama: Path, trained_fp32: Trained, texts: Texts) -> None:
    for reward_model in (load(llama), load(llama, trained_fp32.result.adapter)):
        ids = ids_of(reward_model, texts)
        assert len({len(row) for row in ids}) > 1
        rewards = padded(reward_model, ids)
        np.testing.assert_allclose(packed(reward_model, ids), rewards, atol=1e-5 * np.ptp(rewards))
        assert packed(reward_model, ids[:1]) == pytest.approx(rewards[:1], abs=1e-5)


def test_only_a_flash_attention_of_a_causal_classifier_packs(
    llama: Path, bert: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward_model, encoder = load(llama), load(bert)
    assert not packs(reward_model.model)
    ids, rewards = ids_of(reward_model, texts), padded(reward_model, ids_of(reward_model, texts))
    for loaded in (reward_model, encoder):
        # As it is named where it is installed; the products are still those of this machine.
        monkeypatch.setattr(type(loaded.model.config), "_attn_implementation", "flash_attention_2", raising=False)
    assert packs(reward_model.model)
    assert not packs(encoder.model)  # its rewards are read off the first token, through a pooler
    monkeypatch.undo()
    monkeypatch.setattr("cda.scorers.batching.packs", lambda _model: True)
    np.testing.assert_allclose(forward(reward_model, ids), rewards, atol=1e-5 * np.ptp(rewards))


def test_a_compiled_model_gives_the_same_rewards(llama: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    # Traced as for a GPU, without the minutes that a C++ compiler takes.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    reward_model = load(llama)
    ids = ids_of(reward_model, texts)
    rewards = padded(reward_model, ids)
    compile_base(reward_model)
    base = without_adapter(reward_model.model).model
    assert base._compiled_call_impl is not None
    np.testing.assert_allclose(padded(reward_model, ids), rewards, atol=1e-4 * np.ptp(rewards))


def test_eager_attention_and_one_that_is_not_installed(llama: Path, texts: Texts) -> None:
    spec = ModelSpec(str(llama), "fp32", attn_implementation="eager")
    eager, usual = load_reward_model(spec), load(llama)
    assert eager.model.config._attn_implementation == "eager"
    rewards = padded(usual, ids_of(usual, texts))
    np.testing.assert_allclose(padded(eager, ids_of(eager, texts)), rewards, atol=1e-5 * np.ptp(rewards))
    for name in ("flash_attention_2", "flashy"):
        with pytest.raises(ModelError, match=r"model\.attn_implementation=flash"):
            load_reward_model(replace(spec, attn_implementation=name))


PROMPT = user_prompt("Why?")


def judge(
    log_odds: Mapping[tuple[str, str], float],
    averages: Literal["log-odds", "probabilities"] = "log-odds",
    read: Mapping[tuple[str, str], str] | None = None,
    both_orders: bool = False,
) -> LocalPairwise:
    """A model that is asked for these log-odds of the response shown first."""

    def score(texts: Sequence[Text]) -> Rewards:
        shown = {text_id(*text): (text[0][-1].content, text[1]) for text in texts}
        assert all(text[0][:-1] == PROMPT and text[0][-1].role == "assistant" for text in texts)
        found = {name: log_odds[both] for name, both in shown.items()}
        return Rewards(found, {name: read[both] for name, both in shown.items() if both in read} if read else {})

    return LocalPairwise("tiny", score, averages, both_orders)


def margin(asked: LocalPairwise, *pairs: tuple[str, str]) -> list[float]:
    first, second = zip(*pairs, strict=True)
    return list(asked.margin([PROMPT] * len(pairs), first, second))


def test_both_orders_are_averaged_as_the_authors_average_them() -> None:
    odds = {("a", "b"): 3.0, ("b", "a"): 5.0}
    assert margin(judge(odds), ("a", "b")) == [pytest.approx(math.tanh(-1 / 2))]
    mean = (math.tanh(3 / 2) - math.tanh(5 / 2)) / 2
    assert margin(judge(odds, "probabilities"), ("a", "b")) == [pytest.approx(mean)]
    assert margin(judge(odds), ("a", "b"), ("b", "a")) == pytest.approx([math.tanh(-0.5), math.tanh(0.5)])


def test_a_preference_is_twice_the_probability_minus_one() -> None:
    """Log-odds of log 3 are a probability of 3/4."""
    odds = np.array([[math.log(3), -math.log(3)], [0.0, 0.0]])
    for averages in ("log-odds", "probabilities"):
        np.testing.assert_allclose(preferred(odds, averages)[0], [0.5, 0.0])  # type: ignore[arg-type]


def test_what_follows_the_place_is_counted() -> None:
    asked = judge({("a", "b"): 1.0, ("b", "a"): 1.0, ("c", "d"): 1.0, ("d", "c"): -2.0})
    assert margin(asked, ("a", "b"), ("c", "d"))[0] == 0
    assert (asked.orders.n_flipped, asked.orders.n_unread, asked.orders.n_half_read) == (1, 0, 0)
    bias = (2 * math.tanh(0.5) + math.tanh(0.5) + math.tanh(-1)) / 4
    assert asked.orders.position_bias == pytest.approx(bias)


def test_texts_that_are_left_out_or_cut_to_the_same_have_no_preference() -> None:
    nan = math.nan
    odds = {("a", "b"): nan, ("b", "a"): nan, ("c", "d"): 1.0, ("d", "c"): nan, ("e", "f"): 2.0, ("f", "e"): 2.0}
    odds |= {("g", "h"): 1.0, ("h", "g"): -1.0}
    read = {("e", "f"): "same", ("f", "e"): "same", ("g", "h"): "one", ("h", "g"): "other"}
    asked = judge(odds, read=read)
    found = margin(asked, ("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"))
    assert np.isnan(found).tolist() == [True, False, True, False]
    assert found[1] == pytest.approx(math.tanh(0.5)) and asked.reasons == {TOO_LONG: 1, ALIKE: 1}
    assert (asked.orders.n_unread, asked.orders.n_half_read, asked.n_cut) == (2, 1, 2)
    needed = judge(odds, read=read, both_orders=True)
    assert np.isnan(margin(needed, ("c", "d"))).all()


def test_distinct_comparisons_are_asked_once_and_named_by_their_texts() -> None:
    asked = judge({("a", "b"): 1.0, ("b", "a"): -1.0})
    found = compare_distinct(asked, [(PROMPT, "a", "b")] * 3)
    assert found.margins([(PROMPT, "a", "b")] * 2) == pytest.approx([math.tanh(0.5)] * 2)
    assert text_id(*in_order(PROMPT, "a", "b")) != text_id(*in_order(PROMPT, "b", "a"))


# Of the spread (highest less lowest score). Measured at most 0.03 in either precision, see the printed lines.
LARGEST_SHARE = 0.1
# Of the orders of two texts that fp32 scores more than that share apart: none may flip.


def merged(reward_model: RewardModel) -> RewardModel:
    return replace(reward_model, model=reward_model.model.merge_and_unload().eval())


def margins(scores: FloatArray) -> FloatArray:
    """Differences of every two scores, shape (n (n - 1) / 2,)."""
    first, second = np.triu_indices(len(scores), k=1)
    return scores[first] - scores[second]


@pytest.fixture(scope="module")
def in_place(trained_fp32: Trained, texts: Texts) -> FloatArray:
    """Scores of the model in memory, just trained."""
    return scores_of(trained_fp32.model, texts)


def test_fp32_scores_survive_save_load_and_merge(
    llama: Path, trained_fp32: Trained, texts: Texts, in_place: FloatArray, tmp_path: Path
) -> None:
    loaded = load(llama, trained_fp32.result.adapter)
    base = scores_of(load(llama), texts)
    assert np.abs(base - in_place).max() > 0.1 * np.ptp(in_place)  # the adapter does change the scores
    found = [scores_of(loaded, texts, batch_tokens) for batch_tokens in (1, 8192)]
    whole = merged(loaded)
    assert not hasattr(whole.model, "peft_config")
    whole.model.save_pretrained(str(tmp_path))
    whole.template.tokenizer.save_pretrained(str(tmp_path))
    for merged_model in (whole, load(tmp_path)):  # the second as an ordinary folder
        found += [scores_of(merged_model, texts, batch_tokens) for batch_tokens in (1, 8192)]
    for scores in found:
        np.testing.assert_allclose(scores, in_place, atol=1e-4, rtol=0)


@pytest.mark.parametrize("precision", ["8bit", "bf16"])
def test_8bit_and_bf16_scores_move_by_a_small_share_of_their_spread(
    precision: Precision,
    llama: Path,
    trained_fp32: Trained,
    texts: Texts,
    in_place: FloatArray,
) -> None:
    adapter = trained_fp32.result.adapter
    loaded = load(llama, adapter, precision)
    alone = scores_of(loaded, texts)
    seen = {
        "reloaded again": scores_of(load(llama, adapter, precision), texts),
        "with batch-mates": scores_of(loaded, texts, batch_tokens=8192),
        "merged": scores_of(merged(loaded), texts),
        "against fp32": in_place,
    }
    spread = float(np.ptp(alone))
    clear = np.abs(margins(in_place)) > LARGEST_SHARE * spread
    assert clear.sum() > len(clear) / 2
    for what, scores in seen.items():
        moved = float(np.abs(scores - alone).max())
        flips = np.sign(margins(scores)) != np.sign(margins(alone))
        print(f"{precision}, {what}: {moved:.4f} of {spread:.2f}, {flips.sum()} of {flips.size} orders flipped")
        assert moved < LARGEST_SHARE * spread, what
        assert not flips[clear].any(), what
    np.testing.assert_array_equal(seen["reloaded again"], alone)
    # Else the precision was not the one asked for.
    assert np.abs(seen["against fp32"] - alone).max() > 1e-4
