"""Weights and adapters whose tensors are not those of the declared structure are refused by name, and those that a table explains are
not: for classifiers and causal models, and for each kind of adapter."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import edit_json, load, load_causal, message_of, scores_of

from cda.errors import ModelError
from cda.models.adapters import replaced_tensors
from cda.models.agreement import unexplained
from cda.scorers.log_ratio import adapter_off
from cda.training.dose import plain_config

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

PREFIX = "base_model.model."


@pytest.fixture(scope="module")
def causal(causal_maker: ModelMaker) -> Path:
    return causal_maker("agreement")


def changed(folder: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a model or adapter whose tensors are changed in place."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, target, dirs_exist_ok=True)
    (file,) = target.glob("*.safetensors")
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})
    return target


def with_tensors(*names: str) -> Callable[[dict[str, Any]], object]:
    import torch

    return lambda tensors: tensors.update({name: torch.ones(2) for name in names})


def without(*ends: str) -> Callable[[dict[str, Any]], object]:
    return lambda tensors: [tensors.pop(name) for name in list(tensors) if name.endswith(ends)]


@pytest.mark.parametrize("kind", ["classifier", "causal"])
def test_a_config_of_fewer_layers_than_the_weights_is_refused(
    llama: Path, causal: Path, tmp_path: Path, kind: str
) -> None:
    base, loads = (llama, load) if kind == "classifier" else (causal, load_causal)
    folder = Path(shutil.copytree(base, tmp_path / "half"))
    edit_json(folder / "config.json", num_hidden_layers=1)
    message = message_of(lambda: loads(folder), ModelError)
    assert message.startswith(
        f"{folder}: config.json declares 1 layer (num_hidden_layers), the weights hold 2: scores would come from a part"
    )
    assert "model.layers.1.input_layernorm.weight" in message and "and 6 more" in message
    edit_json(folder / "config.json", num_hidden_layers=2)  # the remedy
    loads(folder)


def test_tensors_without_a_place_are_refused_by_name(llama: Path, causal: Path, tmp_path: Path) -> None:
    gated = changed(llama, tmp_path / "gated", with_tensors("gating.weight", "regression_layer.bias"))
    assert (
        "its weights hold 2 tensors that a LlamaForSequenceClassification has no place for (gating.weight, regression_layer.bias)"
        in (message_of(lambda: load(gated)))
    )
    prefixed = changed(causal, tmp_path / "prefixed", with_tensors("norms.weight"))
    assert "a LlamaForCausalLM has no place for (norms.weight)" in message_of(lambda: load_causal(prefixed))


def test_a_model_saved_inside_a_wrapper_is_to_be_saved_itself(llama: Path, texts: Texts, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file, save_model

    loaded = load(llama)
    wrapped = get_peft_model(loaded.model, LoraConfig(task_type="SEQ_CLS", modules_to_save=["score"]))
    with torch.no_grad():
        for name, weights in wrapped.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                weights.add_(0.1)
    inside = Path(shutil.copytree(llama, tmp_path / "inside"))
    save_model(wrapped.base_model.model, str(inside / "model.safetensors"), metadata={"format": "pt"})
    head = load_file(llama / "model.safetensors")["score.weight"]
    for folder in (
        inside,
        changed(inside, tmp_path / "both", lambda tensors: tensors.update({"score.weight": head})),
        changed(llama, tmp_path / "stray", with_tensors("module.score.weight")),
    ):
        assert "the names of a model inside PEFT or another wrapper" in message_of(lambda at=folder: load(at))
    trained = scores_of(loaded, texts)
    merged = Path(shutil.copytree(llama, tmp_path / "merged"))
    save_model(wrapped.merge_and_unload(), str(merged / "model.safetensors"), metadata={"format": "pt"})  # the remedy
    np.testing.assert_allclose(scores_of(load(merged), texts), trained, atol=1e-5)


def test_another_head_is_named_where_the_own_one_is_missing(llama: Path, tmp_path: Path) -> None:
    def swap(tensors: dict[str, Any]) -> None:
        tensors["v_head.summary.weight"] = tensors.pop("score.weight")

    message = message_of(lambda: load(changed(llama, tmp_path / "swapped", swap)))
    assert (
        "no score head (score.weight would be random). Its files hold instead: v_head.summary.weight, which a Llama"
        in message
    )


def test_shapes_that_differ_are_refused_by_name(llama: Path, tmp_path: Path) -> None:
    def cut(tensors: dict[str, Any]) -> None:
        tensors["model.norm.weight"] = tensors["model.norm.weight"][:8].clone()

    message = message_of(lambda: load(changed(llama, tmp_path / "cut", cut)))
    assert (
        "1 of its tensors do not fit its config.json (first: model.norm.weight, which is 8 in the weights and 64 in a Llama"
        in message
    )


def test_tensors_that_a_table_explains_are_allowed(llama: Path, causal: Path, texts: Texts, tmp_path: Path) -> None:
    more = changed(
        llama,
        tmp_path / "more",
        with_tensors("lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq", "mtp.0.weight"),
    )
    assert np.array_equal(scores_of(load(more), texts), scores_of(load(llama), texts))
    load_causal(changed(causal, tmp_path / "valued", with_tensors("v_head.summary.weight", "score.weight")))


@pytest.mark.parametrize(
    ("kind", "key", "allowed"),
    [
        ("classifier", "lm_head.weight", True),
        ("classifier", "embed_out.weight", True),
        ("classifier", "roberta.pooler.dense.weight", True),
        ("classifier", "cls.predictions.transform.dense.weight", True),
        ("classifier", "lm_predictions.lm_head.bias", True),
        ("classifier", "bert.embeddings.position_ids", True),
        ("classifier", "gpt_neox.layers.3.attention.masked_bias", True),
        ("classifier", "transformer.h.3.attn.bias", True),
        ("classifier", "model.layers.3.self_attn.rotary_emb.inv_freq", True),
        ("classifier", "v_head.summary.weight", False),
        ("classifier", "model.layers.3.self_attn.q_proj.bias", False),
        ("classifier", "bert.encoder.layer.3.attention.self.query.bias", False),
        ("causal", "v_head.summary.weight", True),
        ("causal", "lm_head.bias", False),
        ("causal", "model.layers.3.mlp.up_proj.lora_A.weight", False),
    ],
)  # fmt: skip
def test_what_the_tables_allow(kind: Any, key: str, allowed: bool) -> None:
    assert unexplained([key], kind) == ([] if allowed else [key])


def _configs() -> Mapping[str, Any]:
    import peft

    def lora(**options: Any) -> Any:
        return peft.LoraConfig(**({"r": 4, "target_modules": ["q_proj", "v_proj"]} | options))

    q = {"target_modules": ["q_proj"]}
    return {
        "lora": lora(), "dora": lora(use_dora=True), "rslora": lora(use_rslora=True), "one layer": lora(layers_to_transform=[1]),
        "ranks": lora(rank_pattern={"v_proj": 2}), "embeddings": lora(target_modules=["embed_tokens"]),
        "tokens": lora(trainable_token_indices=[1, 2]), "copies": lora(layer_replication=[[0, 2], [1, 2]]),
        "ia3": peft.IA3Config(target_modules=["k_proj"], feedforward_modules=[]), "loha": peft.LoHaConfig(r=4, **q),
        "vera": peft.VeraConfig(r=4, **q), "oft": peft.OFTConfig(oft_block_size=4, r=0, **q), "norms": peft.LNTuningConfig(target_modules=["input_layernorm"]),
        "vblora": peft.VBLoRAConfig(num_vectors=8, vector_length=32, **q),
    }  # fmt: skip


def made(config: Any, model: Any, task: str, folder: Path) -> Path:
    """An adapter of a configuration for a base, with weights that are not the start's."""
    import peft
    import torch

    config.task_type = task
    adapted = peft.get_peft_model(model, config)
    with torch.no_grad():
        for weights in adapted.parameters():
            if weights.requires_grad:
                weights.add_(0.01)
    adapted.save_pretrained(str(folder))
    return folder


def ends(names: Iterable[str]) -> set[str]:
    """The last parts of tensors' names: one for each kind of tensor in an adapter."""
    return {name[name.rindex(".layers.") + len(".layers.0") :] if ".layers." in name else name for name in names}


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "classifier") for name in _configs()), ("lora", "causal"), ("tokens", "causal"), ("vera", "causal")]
)  # fmt: skip
def test_each_tensor_of_an_adapter_is_needed_and_no_other(
    llama: Path, causal: Path, tmp_path: Path, name: str, kind: str
) -> None:
    from safetensors import safe_open

    base, loads = (llama, load) if kind == "classifier" else (causal, load_causal)
    adapter = made(
        _configs()[name], loads(base).model, "SEQ_CLS" if kind == "classifier" else "CAUSAL_LM", tmp_path / "whole"
    )
    loads(base, adapter)
    with safe_open(adapter / "adapter_model.safetensors", framework="pt") as opened:
        kinds = ends(opened.keys())
    assert kinds
    for end in kinds - {f"{PREFIX}model.embed_tokens.base_layer.weight"}:  # a copy of the base's own
        message = message_of(
            lambda end=end: loads(base, changed(adapter, tmp_path / "lacking", without(end))), ModelError
        )
        assert any(
            words in message for words in ("lacks", "holds no weights for the score head", "they were not present")
        )
        assert "\n" not in message
        assert (
            end.removeprefix(PREFIX).removeprefix("base_model.").split(".")[-2 if end.endswith("weight") else -1]
            in message
        )
    for extra in ("model.layers.7.self_attn.q_proj.lora_A.weight", "model.layers.1.mlp.up_proj.weight"):
        more = changed(adapter, tmp_path / "more", with_tensors(PREFIX + extra))
        message = message_of(lambda more=more: loads(base, more), ModelError)
        assert extra in message and ("has no place for on this base" in message or "in its file" in message)


def test_an_adapter_may_not_change_the_base_where_it_is_switched_off_or_scaled(
    causal: Path, llama: Path, tmp_path: Path
) -> None:
    import torch

    key = f"{PREFIX}model.embed_tokens.weight"
    whole = made(_configs()["lora"], load_causal(causal).model, "CAUSAL_LM", tmp_path / "whole")
    rows = load_causal(causal).model.get_input_embeddings().weight.shape
    replacing = changed(whole, tmp_path / "replacing", lambda tensors: tensors.update({key: torch.zeros(rows)}))
    assert replaced_tensors(replacing) == ["model.embed_tokens.weight"] and replaced_tensors(whole) == []
    adapter_off(load_causal(causal, whole))
    assert "replaces the base's model.embed_tokens.weight, which stays" in message_of(
        lambda: adapter_off(load_causal(causal, replacing))
    )
    scaled = made(_configs()["lora"], load(llama).model, "SEQ_CLS", tmp_path / "scaled")
    plain_config(scaled)
    more = changed(scaled, tmp_path / "more", lambda tensors: tensors.update({key: torch.zeros(rows)}))
    assert "cannot be scaled by a dose" in message_of(lambda: plain_config(more))


def test_a_model_folder_holds_no_adapter(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "both"))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    assert "holds a model and an adapter_config.json, by which Transformers would put" in message_of(
        lambda: load(folder)
    )
    (folder / "adapter_config.json").unlink()  # the remedy
    load(folder)
