"""What cannot be a reward model is refused with one message that says where, what was found and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cda.errors import ModelError
from cda.models.load import ModelSpec, Precision, check_adapter, load_reward_model

if TYPE_CHECKING:
    from conftest import ModelMaker, Trained


def load(folder: Path | str, precision: Precision = "fp32", adapter: Path | None = None) -> object:
    return load_reward_model(ModelSpec(str(folder), precision, 64), adapter)


def message_of(call: Callable[[], object]) -> str:
    with pytest.raises(ModelError) as error:
        call()
    return str(error.value)


def edit_weights(source: Path, target: Path, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    from safetensors.torch import load_file, save_file

    save_file(change(load_file(source)), target, metadata={"format": "pt"})


@pytest.mark.parametrize("precision", ["fp32", "8bit", "bf16"])
def test_heads_stay_out_of_quantization(llama: Path, bert: Path, precision: Precision) -> None:
    import torch

    for folder, head in ((llama, "score"), (bert, "classifier")):
        loaded = load_reward_model(ModelSpec(str(folder), precision, 64))
        assert loaded.head_names == (head,)
        weights = getattr(loaded.model, head).weight
        assert weights.dtype == torch.float32
        in_8bit = [name for name, part in loaded.model.named_modules() if type(part).__name__ == "Linear8bitLt"]
        assert bool(in_8bit) == (precision == "8bit")
        assert not loaded.model.training


def test_missing_folder(tmp_path: Path) -> None:
    assert message_of(lambda: load(tmp_path / "nowhere")) == f"{tmp_path}/nowhere: no such folder"


def test_a_file_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    assert message_of(lambda: load(file)) == f"{file}: a model is a folder, not a file"


def test_unknown_hub_name() -> None:
    message = message_of(lambda: load("nobody/no-such-reward-model"))
    assert message.startswith("nobody/no-such-reward-model: cannot be loaded as a sequence classifier (")
    assert "\n" not in message


def test_more_than_one_label(llama_maker: ModelMaker) -> None:
    folder = llama_maker("two-labels", config={"num_labels": 2})
    assert message_of(lambda: load(folder)) == (
        f"{folder}: has 2 labels (LlamaForSequenceClassification); "
        "a reward model is a sequence classifier with num_labels=1"
    )


def test_no_weights(llama_maker: ModelMaker) -> None:
    folder = llama_maker("no-weights")
    (folder / "model.safetensors").unlink()
    assert message_of(lambda: load(folder)) == (
        f"{folder}: no weights (*.safetensors); was the download or save interrupted?"
    )


def test_every_problem_of_an_empty_folder_is_named_at_once(tmp_path: Path) -> None:
    assert message_of(lambda: load(tmp_path)).splitlines() == [
        f"{tmp_path}: no config.json; not a model folder",
        f"{tmp_path}: no weights (*.safetensors); was the download or save interrupted?",
    ]


def test_pickle_weights_are_never_read(llama_maker: ModelMaker) -> None:
    import torch
    from safetensors.torch import load_file

    folder = llama_maker("pickle-only")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert message_of(lambda: load(folder)) == (
        f"{folder}: only pickle weights (pytorch_model.bin), which can run code when read. "
        "Convert them to safetensors first"
    )


def test_half_written_weights(llama_maker: ModelMaker) -> None:
    folder = llama_maker("half-written")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    message = message_of(lambda: load(folder))
    assert message.startswith(f"{folder}: cannot be loaded as a sequence classifier (")
    assert "\n" not in message


@pytest.mark.parametrize("precision", ["fp32", "8bit"])
def test_a_chat_model_has_no_head(llama_maker: ModelMaker, precision: Precision) -> None:
    folder = llama_maker(f"chat-model-{precision}", architecture="LlamaForCausalLM")
    assert message_of(lambda: load(folder, precision)) == (
        f"{folder}: its weights hold no score head (score.weight would be random). "
        "A base or chat model is not a reward model; give a trained one"
    )


def test_a_missing_layer_is_not_filled_with_random_weights(llama_maker: ModelMaker) -> None:
    folder = llama_maker("missing-layer")
    weights = folder / "model.safetensors"
    edit_weights(weights, weights, lambda all_: {name: w for name, w in all_.items() if ".layers.1." not in name})
    assert "layers.1." in message_of(lambda: load(folder))


def test_not_an_adapter_folder(llama: Path, tmp_path: Path) -> None:
    assert message_of(lambda: load(llama, adapter=tmp_path)) == (
        f"{tmp_path}: not an adapter folder; it needs adapter_config.json and adapter_model.safetensors"
    )


def test_an_adapter_without_head_is_refused(llama: Path, trained_fp32: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(trained_fp32.result.adapter, folder)
    check_adapter(folder, ("score",))  # whole as it was saved
    edit_weights(
        trained_fp32.result.adapter / "adapter_model.safetensors",
        folder / "adapter_model.safetensors",
        lambda all_: {name: w for name, w in all_.items() if "score" not in name},
    )
    assert message_of(lambda: load(llama, adapter=folder)) == (
        f"{folder}: holds no weights for the score head 'score'. "
        "It would score with a random head; export the adapter with modules_to_save set to it"
    )


def test_an_adapter_of_another_base_is_refused(llama_maker: ModelMaker, trained_fp32: Trained) -> None:
    folder = llama_maker("narrow", config={"hidden_size": 32})
    adapter = trained_fp32.result.adapter
    assert message_of(lambda: load(folder, adapter=adapter)).startswith(f"{adapter}: ")


def test_a_half_written_adapter_is_refused(llama: Path, trained_fp32: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(trained_fp32.result.adapter, folder)
    whole = (folder / "adapter_model.safetensors").read_bytes()
    (folder / "adapter_model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert message_of(lambda: load(llama, adapter=folder)).startswith(f"{folder}")
