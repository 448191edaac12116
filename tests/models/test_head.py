"""The score head computes in float32 over a base in bf16, without and with an adapter's head, and under autocast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from devices import on_a_cpu
from peft import LoraConfig, get_peft_model
from tiny import load, scores_of

from cda.models.precision import Precision
from cda.scorers.posthoc import head_inputs, score_head

if TYPE_CHECKING:
    from conftest import Texts


@pytest.fixture(scope="module")
def adapter(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LoRA as it starts, and a head of float32 weights that bf16 does not know."""
    loaded = load(llama)
    model = get_peft_model(loaded.model, LoraConfig(task_type="SEQ_CLS", r=2, modules_to_save=["score"]))
    with torch.no_grad():
        score_head(loaded).modules_to_save["default"].weight += 0.1234567
    folder = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize("with_adapter", [False, True])
def test_rewards_of_a_bf16_base_are_those_of_a_float32_head(
    llama: Path, adapter: Path, texts: Texts, with_adapter: bool
) -> None:
    loaded = load(llama, adapter if with_adapter else None, "bf16")
    head = score_head(loaded)
    weights = (head.modules_to_save["default"] if with_adapter else head).weight.detach().cpu()
    assert weights.dtype == torch.float32
    rewards = scores_of(loaded, texts)
    states = torch.as_tensor(head_inputs(loaded, texts.prompts, texts.responses, 1), dtype=torch.float32)
    assert torch.equal(states, states.bfloat16().float())  # the base's own are in bf16
    np.testing.assert_allclose(rewards, (states @ weights.T)[:, 0], rtol=1e-5)
    in_bf16 = torch.as_tensor(rewards).bfloat16().double().numpy()
    assert (rewards != in_bf16).mean() > 0.5


@pytest.mark.parametrize("precision", ["bf16", "8bit"])
def test_autocast_ends_before_the_head(llama: Path, precision: Precision) -> None:
    """Under which a trainer computes, on a GPU with an 8-bit base too."""
    loaded = load(llama, precision=precision)
    head = score_head(loaded)
    device = head.weight.device
    states = torch.randn(3, head.in_features, dtype=torch.bfloat16, device=device)
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        rewards = head(states)
    assert rewards.dtype == torch.float32 and isinstance(head, torch.nn.Linear)
    torch.testing.assert_close(rewards, states.float() @ head.weight.T)


@on_a_cpu
def test_the_default_on_a_cpu_scores_as_the_library_does(llama: Path, texts: Texts) -> None:
    """8-bit with float32 activations: nothing is to be cast there."""
    loaded = load(llama, precision="8bit")
    ours = scores_of(loaded, texts)
    head = score_head(loaded)
    head.__class__ = torch.nn.Linear
    np.testing.assert_array_equal(scores_of(loaded, texts), ours)
