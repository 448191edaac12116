"""What cannot be a reward model, or its adapter, is refused with one message that says where, what was found and what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cda.errors import ModelError
from cda.models.load import ModelSpec, Precision, check_adapter, load_reward_model

if TYPE_CHECKING:
    from conftest import ModelMaker, Trained


def load(folder: Path | str, precision: Precision = "fp32", adapter: Path | None = None) -> object:
    return load_reward_model(ModelSpec(str(folder), precision, 64), adapter)


def message_of(folder: Path | str, precision: Precision = "fp32", adapter: Path | None = None) -> str:
    with pytest.raises(ModelError) as error:
        load(folder, precision, adapter)
    return str(error.value)


def keep_weights(file: Path, wanted: Callable[[str], bool]) -> None:
    from safetensors.torch import load_file, save_file

    kept = {name: weights for name, weights in load_file(file).items() if wanted(name)}
    save_file(kept, file, metadata={"format": "pt"})


def halve(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("precision", ["fp32", "8bit", "bf16"])
def test_heads_stay_out_of_quantization(llama: Path, bert: Path, precision: Precision) -> None:
    import torch

    for folder, head in ((llama, "score"), (bert, "classifier")):
        loaded = load_reward_model(ModelSpec(str(folder), precision, 64))
        assert loaded.head_names == (head,)
        assert getattr(loaded.model, head).weight.dtype == torch.float32
        in_8bit = [name for name, part in loaded.model.named_modules() if type(part).__name__ == "Linear8bitLt"]
        assert bool(in_8bit) == (precision == "8bit")
        assert not loaded.model.training


def test_names_that_are_no_model_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    (tmp_path / "empty").mkdir()
    assert message_of(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such folder"
    assert message_of(file) == f"{file}: a model is a folder, not a file"
    assert message_of(tmp_path / "empty").splitlines() == [
        f"{tmp_path}/empty: no config.json; not a model folder",
        f"{tmp_path}/empty: no weights (*.safetensors); was the download or save interrupted?",
    ]
    message = message_of("nobody/no-such-reward-model")
    assert message.startswith("nobody/no-such-reward-model: cannot be loaded as a sequence classifier (")
    assert "\n" not in message


def only_pickle(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("name", "options", "change", "expected"),
    [
        (
            "two-labels",
            {"config": {"num_labels": 2}},
            None,
            "has 2 labels (LlamaForSequenceClassification); a reward model",
        ),
        (
            "no-weights",
            {},
            lambda folder: (folder / "model.safetensors").unlink(),
            "no weights (*.safetensors); was the",
        ),
        ("pickle-only", {}, only_pickle, "only pickle weights (pytorch_model.bin), which can run code when read."),
        ("half", {}, lambda folder: halve(folder / "model.safetensors"), "cannot be loaded as a sequence classifier ("),
        (
            "chat",
            {"architecture": "LlamaForCausalLM"},
            None,
            "its weights hold no score head (score.weight would be random)",
        ),
        (
            "missing-layer",
            {},
            lambda folder: keep_weights(folder / "model.safetensors", lambda name: ".layers.1." not in name),
            "its weights lack 9 tensors that its config.json asks for (first: model.layers.1.",
        ),
    ],
)
def test_models_that_are_no_reward_model(
    llama_maker: ModelMaker, name: str, options: dict[str, Any], change: Callable[[Path], object] | None, expected: str
) -> None:
    folder = llama_maker(f"refused-{name}", **options)
    if change is not None:
        change(folder)
    message = message_of(folder)
    assert message.startswith(f"{folder}: {expected}") and "\n" not in message


def test_a_chat_model_in_8bit_has_no_head_either(llama_maker: ModelMaker) -> None:
    folder = llama_maker("chat-model-8bit", architecture="LlamaForCausalLM")
    assert "hold no score head" in message_of(folder, "8bit")


@pytest.fixture
def adapter(trained_fp32: Trained, tmp_path: Path) -> Path:
    """A copy of a whole adapter of a reward model, to be changed."""
    folder = tmp_path / "adapter"
    shutil.copytree(trained_fp32.result.adapter, folder)
    check_adapter(folder, ("score",))
    return folder


def test_folders_that_are_no_whole_adapter(llama: Path, adapter: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert message_of(llama, adapter=tmp_path / "empty") == (
        f"{tmp_path}/empty: not an adapter folder; it needs adapter_config.json and adapter_model.safetensors"
    )
    weights = adapter / "adapter_model.safetensors"
    keep_weights(weights, lambda name: "score" not in name)
    assert message_of(llama, adapter=adapter).startswith(f"{adapter}: holds no weights for the score head 'score'. ")
    halve(weights)
    assert "cannot be read" in message_of(llama, adapter=adapter)
    (adapter / "adapter_config.json").write_text("{", encoding="utf-8")
    assert "adapter_config.json: cannot be read" in message_of(llama, adapter=adapter)


def test_an_adapter_of_another_base(llama_maker: ModelMaker, adapter: Path) -> None:
    narrow = llama_maker("narrow", config={"hidden_size": 32})
    assert message_of(narrow, adapter=adapter).startswith(f"{adapter}: does not fit this model (")


def test_an_adapter_of_a_language_model(llama: Path, llama_maker: ModelMaker, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(llama_maker("language-model", architecture="LlamaForCausalLM"))
    get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"])).save_pretrained(str(tmp_path))
    assert message_of(llama, adapter=tmp_path) == (
        f"{tmp_path}: its task_type is CAUSAL_LM: an adapter of a causal language model (text generation). "
        "Needed is one that was trained on a reward model (a sequence classifier with one label), saved with task_type "
        "SEQ_CLS and its score head"
    )


@pytest.mark.parametrize(
    ("task", "head", "expected"),
    [
        ("CAUSAL_LM", "score", "causal language model"),  # though it holds a head
        ("TOKEN_CLS", "score", "its task_type is TOKEN_CLS: an adapter of another kind of model."),
        (None, "classifier", "no weights for the score head 'classifier'"),
        (None, "score", None),
    ],
)
def test_the_task_of_an_adapter_is_checked_before_its_head(
    adapter: Path, task: str | None, head: str, expected: str | None
) -> None:
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | {"task_type": task}), encoding="utf-8")
    if expected is None:
        check_adapter(adapter, (head,))
        return
    with pytest.raises(ModelError) as error:
        check_adapter(adapter, (head,))
    assert expected in str(error.value)
