"""What cannot be a reward model, or its adapter, is refused with one message that says where, what was found and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import edit_json, load, message_of

from cda.models.adapters import check_adapter
from cda.models.precision import Precision
from cda.models.refusals import why_not_loadable

if TYPE_CHECKING:
    from conftest import ModelMaker, Trained


def refusal(folder: Path | str, precision: Precision = "fp32", adapter: Path | None = None) -> str:
    message = message_of(lambda: load(folder, adapter, precision))  # type: ignore[arg-type]
    assert "\n" not in message or "no weights" in message
    return message


def keep_weights(file: Path, wanted: Callable[[str], bool]) -> None:
    from safetensors.torch import load_file, save_file

    kept = {name: weights for name, weights in load_file(file).items() if wanted(name)}
    save_file(kept, file, metadata={"format": "pt"})


def halve(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


def only_pickle(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("precision", ["fp32", "8bit", "bf16"])
def test_heads_stay_out_of_quantization(llama: Path, bert: Path, precision: Precision) -> None:
    import torch

    for folder, head in ((llama, "score"), (bert, "classifier")):
        loaded = load(folder, precision=precision)
        assert loaded.head_names == (head,)
        assert getattr(loaded.model, head).weight.dtype == torch.float32
        in_8bit = [name for name, part in loaded.model.named_modules() if type(part).__name__ == "Linear8bitLt"]
        assert bool(in_8bit) == (precision == "8bit")
        assert not loaded.model.training


def test_names_that_are_no_model_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such folder"
    assert refusal(file) == f"{file}: a model is a folder, not a file; a file of scores is named scores:{file}"
    assert refusal(Path("mine.jsonl")).startswith("mine.jsonl: no such file, and a file is no model")
    assert refusal(tmp_path / "empty").splitlines() == [
        f"{tmp_path}/empty: no config.json; not a model folder",
        f"{tmp_path}/empty: no weights (*.safetensors); was the download or save interrupted?",
    ]
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").touch()
    made = f"`cda merge {tmp_path}/adapter --out FOLDER` makes a model of it"
    assert refusal(tmp_path / "adapter") == f"{tmp_path}/adapter: an adapter, not a model; {made}"
    assert "nobody/no-such-reward-model: cannot be loaded as a" in refusal("nobody/no-such-reward-model")


@pytest.mark.parametrize(
    ("name", "options", "change", "expected"),
    [
        ("no-weights", {}, lambda folder: (folder / "model.safetensors").unlink(), ": no weights (*.safetensors); was"),
        ("pickle-only", {}, only_pickle, ": only pickle weights (pytorch_model.bin), which can run code when read."),
        (
            "chat",
            {"architecture": "LlamaForCausalLM"},
            None,
            ": is a LlamaForCausalLM (config.json), a language model without a reward head among its weights.",
        ),
        (
            "missing-layer",
            {},
            lambda folder: keep_weights(folder / "model.safetensors", lambda name: ".layers.1." not in name),
            ": its weights lack 9 tensors that its config.json asks for (first: model.layers.1.",
        ),
    ],
)
def test_models_that_are_no_reward_model(
    llama_maker: ModelMaker, name: str, options: dict[str, Any], change: Callable[[Path], object] | None, expected: str
) -> None:
    folder = llama_maker(f"refused-{name}", **options)
    if change is not None:
        change(folder)
    assert refusal(folder, "8bit" if name == "chat" else "fp32").startswith(f"{folder}{expected}")


def test_a_model_that_does_not_fit_is_told_what_each_precision_takes() -> None:
    said = why_not_loadable(
        "big", "a sequence classifier", RuntimeError("CUDA out of memory. Tried to allocate 54 GiB")
    )
    assert said.startswith("big: does not fit into the memory (CUDA out of memory.")
    assert "model.precision=8bit takes a byte a weight" in said


@pytest.fixture
def adapter(trained_fp32: Trained, tmp_path: Path) -> Path:
    """A copy of a whole adapter of a reward model, to be changed."""
    folder = tmp_path / "adapter"
    shutil.copytree(trained_fp32.result.adapter, folder)
    check_adapter(folder, ("score",))
    return folder


def test_folders_that_are_no_whole_adapter_of_this_model(
    llama: Path, llama_maker: ModelMaker, adapter: Path, tmp_path: Path
) -> None:
    narrow = llama_maker("narrow", config={"hidden_size": 32})
    assert refusal(narrow, adapter=adapter).startswith(f"{adapter}: does not fit this model (")
    (tmp_path / "empty").mkdir()
    assert "empty: not an adapter folder" in refusal(llama, adapter=tmp_path / "empty")
    weights = adapter / "adapter_model.safetensors"
    keep_weights(weights, lambda name: "score" not in name)
    assert refusal(llama, adapter=adapter).startswith(f"{adapter}: holds no weights for the score head 'score'. ")
    halve(weights)
    assert "cannot be read" in refusal(llama, adapter=adapter)
    (adapter / "adapter_config.json").write_text("{", encoding="utf-8")
    assert "adapter_config.json: not valid JSON" in refusal(llama, adapter=adapter)


@pytest.mark.parametrize(
    ("task", "head", "expected"),
    [
        # Though it holds a head.
        ("CAUSAL_LM", "score", "its task_type is CAUSAL_LM: an adapter of a causal language model"),
        ("TOKEN_CLS", "score", "its task_type is TOKEN_CLS: an adapter of another kind of model."),
        (None, "classifier", "no weights for the score head 'classifier'"),
        (None, "score", None),
    ],
)
def test_the_task_of_an_adapter_is_checked_before_its_head(
    adapter: Path, task: str | None, head: str, expected: str | None
) -> None:
    edit_json(adapter / "adapter_config.json", task_type=task)
    if expected is None:
        check_adapter(adapter, (head,))
    else:
        assert expected in message_of(lambda: check_adapter(adapter, (head,)))
