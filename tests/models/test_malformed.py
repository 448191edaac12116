"""Folders that are malformed in one place each: every one ends in one line that names file or key, and in no other error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import edit_json, load, message_of

from cda.errors import ModelError

if TYPE_CHECKING:
    from conftest import Trained

Change = Callable[[Path], object]
CONFIG, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "model.safetensors",
)
ADAPTER_CONFIG = "adapter_config.json"


def sets(file: str, **changes: object) -> Change:
    return lambda folder: edit_json(folder / file, **changes)


def writes(file: str, content: str | bytes) -> Change:
    return lambda folder: (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)


def halves(file: str) -> Change:
    return lambda folder: (folder / file).write_bytes(
        (folder / file).read_bytes()[: (folder / file).stat().st_size // 2]
    )


def becomes_a_folder(file: str) -> Change:
    def change(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).mkdir()

    return change


def links_to_itself(file: str) -> Change:
    def change(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).symlink_to(folder / file)

    return change


def indexed(*files: object, **content: object) -> Change:
    """Weights behind an index that names these files, of which the first is a copy of the whole weights if it is a name."""

    def change(folder: Path) -> None:
        weights = folder / WEIGHTS
        if files and files[0] == "model-1.safetensors":
            shutil.copy(weights, folder / str(files[0]))
        weights.unlink()
        places = {f"tensor.{number}": file for number, file in enumerate(files)}
        index = {"metadata": {}, "weight_map": places} | content
        (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))

    return change


FOLDERS: dict[str, tuple[Change, str]] = {
    "config-list": (writes(CONFIG, "[]"), "config.json"),
    "config-binary": (writes(CONFIG, b"\xff\xfe\x00\x01"), "config.json:1: not UTF-8"),
    "config-half": (halves(CONFIG), "config.json"),
    "config-deep": (writes(CONFIG, "[" * 100_000), "config.json: not valid JSON (nested too deeply)"),
    "config-digits": (writes(CONFIG, '{"num_hidden_layers": ' + "9" * 5000 + "}"), "config.json: not valid JSON"),
    "config-folder": (becomes_a_folder(CONFIG), "no config.json"),
    "config-loop": (links_to_itself(CONFIG), "no config.json"),
    "kind-unknown": (sets(CONFIG, model_type="no-such-kind"), "cannot be loaded as a sequence classifier"),
    "kind-number": (sets(CONFIG, model_type=5), "cannot be loaded as a sequence classifier"),
    "layers-endless": (sets(CONFIG, num_hidden_layers=10**9), "num_hidden_layers=1000000000; it must be a whole number from 1 to 1000."),
    "layers-text": (sets(CONFIG, num_hidden_layers="two"), "num_hidden_layers='two'"),
    "width-none": (sets(CONFIG, hidden_size=0), "hidden_size=0"),
    "heads-none": (sets(CONFIG, num_attention_heads=0), "num_attention_heads=0"),
    "heads-odd": (sets(CONFIG, num_attention_heads=7), "cannot be loaded as a sequence classifier"),
    "words-endless": (sets(CONFIG, vocab_size=10**12), "vocab_size=1000000000000"),
    "positions-negative": (sets(CONFIG, max_position_embeddings=-1), "max_position_embeddings=-1"),
    "part-endless": (sets(CONFIG, text_config={"num_hidden_layers": 10**9}), "num_hidden_layers=1000000000"),
    "code-list": (sets(CONFIG, auto_map=["AutoModel"]), "auto_map=['AutoModel']; it must be an object"),
    "code-text": (sets(CONFIG, auto_map="file.Class"), "auto_map='file.Class'"),
    "class-text": (sets(CONFIG, architectures="LlamaForSequenceClassification"), "architectures='Llama"),
    "activation-unknown": (sets(CONFIG, hidden_act="no-such-function"), "cannot be loaded as a sequence classifier"),
    "length-none": (sets(TOKENIZER_CONFIG, model_max_length=0), "model_max_length=0; it must be the number of tokens"),
    "length-text": (sets(TOKENIZER_CONFIG, model_max_length="512"), "model_max_length='512'"),
    "length-nan": (sets(TOKENIZER_CONFIG, model_max_length=float("nan")), "model_max_length=nan"),
    "tokenizer-list": (writes(TOKENIZER_CONFIG, "[]"), "its tokenizer cannot be loaded"),
    "tokenizer-folder": (becomes_a_folder(TOKENIZER_CONFIG), "tokenizer_config.json: is a folder, and a file is needed"),
    "words-half": (halves(TOKENIZER), "its tokenizer cannot be loaded"),
    "words-folder": (becomes_a_folder(TOKENIZER), "tokenizer.json: is a folder"),
    "template-broken": (writes("chat_template.jinja", "{% for %}"), "its chat template cannot be used (line 1:"),
    "template-bytes": (writes("chat_template.jinja", b"\xff\xfe"), "its tokenizer cannot be loaded"),
    "template-folder": (becomes_a_folder("chat_template.jinja"), "chat_template.jinja: is a folder"),
    "template-endless": (
        writes("chat_template.jinja", "{% set n = namespace(s='ab') %}{% for m in messages %}{% set n.s = n.s + n.s %}{% endfor %}"),
        "it loops or grows without end. Correct chat_template",
    ),
    "pattern-endless": (
        sets(TOKENIZER, pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}),
        "its tokenizer's pattern '(a+)+$' over a text of 2,000 characters, 'a' again and again, comes to no end",
    ),
    "weights-half": (halves(WEIGHTS), "model.safetensors: cannot be read"),
    "weights-header": (writes(WEIGHTS, b"\xff" * 8), "model.safetensors: cannot be read"),
    "weights-folder": (becomes_a_folder(WEIGHTS), "1 of its 1 weight files are missing"),
    "weights-pointer": (writes(WEIGHTS, "version https://git-lfs.github.com/spec/v1\n"), "is a pointer of Git LFS, not the weights"),
    "index-pickle": (indexed("pytorch_model.bin"), "names 'pytorch_model.bin' for weights. Only safetensors are read"),
    "index-mixed": (indexed("model-1.safetensors", "model-2.bin"), "names 'model-2.bin' for weights"),
    "index-outside": (indexed("../other/model.safetensors"), "a file outside of the model's folder"),
    "index-number": (indexed(5), "names '5' for weights"),
    "index-missing": (indexed("model-1.safetensors", "model-2.safetensors"), "1 of its 2 weight files are missing (model-2.safetensors)"),
    "index-empty": (indexed(), "is no index of weights"),
    "index-list": (indexed(weight_map=["model-1.safetensors"]), "is no index of weights"),
    "named-pickle": (sets(CONFIG, transformers_weights="adapter_model.bin"), "names 'adapter_model.bin' for weights"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_malformed_folder_ends_in_one_line(llama: Path, tmp_path: Path, name: str) -> None:
    change, expected = FOLDERS[name]
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    change(folder)
    message = message_of(lambda: load(folder), ModelError)
    assert message.startswith(f"{folder}") and "\n" not in message
    assert expected in message


def test_lengths_without_a_limit_are_none(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    for length in (1e30, 10**30, None):
        edit_json(folder / TOKENIZER_CONFIG, model_max_length=length)
        assert load(folder).template.max_length_tokens == 64


ADAPTERS: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"peft_type": "LORAX"}, "peft_type='LORAX' is none that the installed PEFT knows. Did you mean 'LORA'?"),
    "no-kind": ({"peft_type": None}, "peft_type=None is none that the installed PEFT knows"),
    "rank-null": ({"r": None}, "adapter_config.json: r is None, and its scores rest on it"),
    "rank-text": ({"r": "8"}, "adapter_config.json: r is '8'"),
    "scale": ({"lora_alpha": "much"}, "adapter_config.json: lora_alpha is 'much'"),
    "layers": ({"layer_replication": [[0, 9]]}, "does not fit this model (index 2 is out of range)"),
    "layers-text": ({"layer_replication": "all"}, "does not fit this model"),
    "targets": ({"target_modules": ["no_such_layer"]}, "does not fit this model"),
    "ranks-list": ({"rank_pattern": [1]}, "does not fit this model"),
    "rank": ({"r": 4}, "q_proj.lora_A.weight is 8 × 64 in its file and 4 × 64 on this base"),
}  # fmt: skip


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_malformed_adapter_ends_in_one_line(trained_fp32: Trained, llama: Path, tmp_path: Path, name: str) -> None:
    changes, expected = ADAPTERS[name]
    folder = Path(shutil.copytree(trained_fp32.result.adapter, tmp_path / "adapter"))
    edit_json(folder / ADAPTER_CONFIG, **changes)
    message = message_of(lambda: load(llama, folder), ModelError)
    assert message.startswith(f"{folder}") and "\n" not in message
    assert expected in message


def test_an_adapter_needs_its_rank_and_is_no_pickle(trained_fp32: Trained, llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained_fp32.result.adapter, tmp_path / "adapter"))
    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    (folder / ADAPTER_CONFIG).write_text(json.dumps({key: value for key, value in config.items() if key != "r"}))
    assert "adapter_config.json: r is not there, and its scores rest on it" in message_of(lambda: load(llama, folder))
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config))  # the remedy
    load(llama, folder)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    assert "adapter_model.bin is a pickle, which can run code when read" in message_of(lambda: load(llama, folder))
