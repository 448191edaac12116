"""Published models whose reward is a weighted sum of attributes: ArmoRM, QRM, LDL."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from published import assert_as_the_author, assert_near_in_8bit, built, by_author, scored, spec_of

from cda.errors import ModelError
from cda.models.config import load_config
from cda.models.load import load_reward_model
from cda.pipeline.merge import merge_adapter
from cda.records import Pair, TrainingExample, user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.posthoc import head_inputs
from cda.training.arguments import Lora
from cda.training.dose import read_adapter, read_head
from cda.training.lora import train_adapter
from evals.reliability.reward_models_families import TEXTS

GATED = ("ArmoRM", "QRM Llama 3.1", "QRM Gemma 2")
LDL = "LDL-Reward-Gemma-2"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gated")
    return {title: built(title, folder) for title in (*GATED, LDL)}


@pytest.mark.parametrize("title", [*GATED, LDL])
def test_rewards_are_the_authors(folders: dict[str, Path], title: str) -> None:
    assert_as_the_author(title, folders[title])
    assert_near_in_8bit(title, folders[title])


def test_code_that_is_not_needed_is_not_run(folders: dict[str, Path]) -> None:
    """The published files do not import in today's Transformers; those here raise."""
    assert (folders["ArmoRM"] / "modeling_custom.py").is_file()
    assert load_config(spec_of(folders["ArmoRM"], trust_remote_code=True)).reward_family == "armorm"


def test_a_text_without_the_beginning_of_the_answer_is_one_message(folders: dict[str, Path]) -> None:
    loaded = load_reward_model(spec_of(folders["ArmoRM"]))
    with pytest.raises(
        ModelError, match=r"lacks '<\|eot_id\|>.*its gate reads the prompt. Raise model.max_length_tokens"
    ) as error:
        ClassifierScorer(loaded).score([user_prompt("long " * 800)], ["yes"])
    assert "\n" not in str(error.value)
    with pytest.raises(ModelError, match=r"model.reads=last_token.*tokens of its own choice"):
        load_reward_model(spec_of(folders["ArmoRM"], reads="last_token"))
    with pytest.raises(ModelError, match=r"its head reads more than one token"):
        head_inputs(loaded, [user_prompt("a"), user_prompt("b")], ["c", "d"], 64)


def test_a_gated_head_trains_in_8bit_and_comes_back(folders: dict[str, Path], tmp_path: Path) -> None:
    """Adapter and merged model give the trained rewards; a batch norm keeps its statistics."""
    spec = spec_of(folders["QRM Llama 3.1"], "8bit")
    loaded = load_reward_model(spec)
    before = scored(loaded, 4096)
    named = dict(loaded.model.named_buffers())
    statistics = {name: buffer.clone() for name, buffer in named.items() if "running" in name}
    pairs = [TrainingExample(Pair(user_prompt(prompt), response, "No.")) for prompt, response in TEXTS[:4]]
    arguments = {"learning_rate": 5e-3, "per_device_train_batch_size": 2, "max_steps": 2, "save_steps": 2}
    lora = Lora(r=2, alpha=4, dropout=0.0, target_modules=["q_proj", "v_proj"])
    adapter = train_adapter(loaded, pairs, [], lora, arguments, tmp_path / "run", 0).adapter
    again = load_reward_model(spec, adapter)
    after = scored(again, 4096)
    assert np.abs(after - before).max() > 1e-3
    held = dict(again.model.named_buffers())
    assert len(statistics) == 6
    for name, buffer in statistics.items():
        (trained,) = [kept for key, kept in held.items() if key.endswith(f"default.{name.removeprefix('score.')}")]
        np.testing.assert_array_equal(buffer.cpu(), trained.cpu())
    exact = spec_of(folders["QRM Llama 3.1"])
    assert read_adapter(adapter, read_head(exact)).head.keys() >= {
        "score.gating.logit_scale",
        "score.regression_layer.weight",
    }
    merge_adapter(exact, adapter, tmp_path / "merged", "fp32")
    merged = load_reward_model(spec_of(tmp_path / "merged"))
    assert merged.model.config.reward_family == "qrm-llama"
    np.testing.assert_allclose(scored(merged), scored(load_reward_model(exact, adapter)), atol=1e-5)


def test_heads_in_pickles_are_refused_and_the_conversion_that_is_named_works(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "LDL-Reward-Gemma-2-27B-v0.1"
    shutil.copytree(folders[LDL], folder)
    tensors = load_file(folder / "model.safetensors")
    for part in ("regression_layer", "gating_layer"):
        own = {name.removeprefix(f"{part}."): tensors.pop(name) for name in list(tensors) if name.startswith(part)}
        torch.save(own, folder / f"{part}.pt")
    # The backbone was saved alone, so that its names have no prefix.
    save_file(
        {name.removeprefix("model."): tensor for name, tensor in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(
        ModelError, match=r"two pickles, regression_layer.pt and gating_layer.pt.*weights_only=True"
    ) as error:
        load_reward_model(spec_of(folder))
    assert "\n" not in str(error.value)
    converted = load_file(folder / "model.safetensors")
    for part in ("regression_layer", "gating_layer"):
        read = torch.load(folder / f"{part}.pt", weights_only=True)
        converted |= {f"{part}.{name}": tensor for name, tensor in read.items()}
    save_file(converted, folder / "model.safetensors", {"format": "pt"})
    np.testing.assert_allclose(scored(load_reward_model(spec_of(folder))), by_author(LDL, folders[LDL]), atol=1e-4)
