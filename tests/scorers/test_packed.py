"""Batches without padding, other kinds of attention, and a compiled model: the same rewards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from tiny import load

from cda.errors import ModelError
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, compile_base, load_reward_model, without_adapter
from cda.scorers.batching import forward, packed, packs, padded

if TYPE_CHECKING:
    from conftest import Texts, Trained


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
