"""What cannot be a reward model, or its adapter, is refused with one message that says where, what was found and what to do."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import edit_json, load, message_of, scores_of

from cda.embedded.model import encoder_folder, encoder_tokenizer
from cda.errors import ModelError
from cda.models.adapters import check_adapter, check_base
from cda.models.causal import load_causal_config
from cda.models.config import ModelSpec, Precision, load_config
from cda.models.load import RewardModel, load_reward_model
from cda.models.refusals import why_not_loadable
from cda.models.template import Template
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.engine import scope_of

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained


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


def checked(adapter: Path, model: Path, revision: str | None = None) -> str | None:
    spec = ModelSpec(str(model), revision=revision)
    return check_base(adapter, spec, load_config(ModelSpec(str(model))))


def of_base(adapter: Path, folder: Path, **named: object) -> Path:
    shutil.copytree(adapter, folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | named))
    return folder


def test_an_adapter_fits_its_base_wherever_that_lies(trained_fp32: Trained, llama: Path, tmp_path: Path) -> None:
    adapter = trained_fp32.result.adapter
    assert checked(adapter, llama) is None and not (adapter / "README.md").exists()
    moved = Path(shutil.copytree(llama, tmp_path / "elsewhere" / llama.name))
    assert checked(adapter, moved) is None


def test_a_base_of_another_shape_is_refused_in_one_sentence(
    trained_fp32: Trained, llama: Path, llama_maker: ModelMaker
) -> None:
    adapter = trained_fp32.result.adapter
    wide = llama_maker("wide", config={"hidden_size": 32, "intermediate_size": 64})
    shallow = llama_maker("shallow", config={"num_hidden_layers": 1})
    for base, why in (
        (
            wide,
            "model.layers.0.self_attn.q_proj.lora_A.weight is 64 in the adapter and 32 in this model. Give the model",
        ),
        (
            shallow,
            "4 of its tensors are without a counterpart there (first: model.layers.1.self_attn.q_proj.lora_A.weight)",
        ),
    ):
        with pytest.raises(ModelError) as refused:
            checked(adapter, base)
        assert f"{adapter}, which was trained on {llama}, does not fit {base}: {why}" in str(refused.value)
        assert "\n" not in str(refused.value)


def test_another_name_or_revision_is_said(trained_fp32: Trained, llama: Path, tmp_path: Path) -> None:
    adapter = trained_fp32.result.adapter
    other = of_base(adapter, tmp_path / "other", base_model_name_or_path="my-org/other")
    assert checked(other, llama) == (
        f"{other}: was trained on my-org/other; on {llama} its scores mean something only if the weights are the same"
    )
    revised = of_base(adapter, tmp_path / "revised", base_model_name_or_path=f"my-org/{llama.name}", revision="v1")
    assert checked(revised, llama, "v1") is None and checked(revised, llama) is None
    said = checked(revised, llama, "v2")
    assert said and said.startswith(
        f"{revised}: was trained on revision v1 of my-org/{llama.name}; at revision v2 its scores"
    )
    nameless = of_base(adapter, tmp_path / "nameless", base_model_name_or_path=None)
    assert checked(nameless, llama) is None


OWN_PARTS = """
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

class Failing(LlamaForSequenceClassification):
    def __init__(self, config):
        raise ValueError("boom while it is built")

class Several(LlamaForSequenceClassification):
    def forward(self, *inputs, **named):
        logits = super().forward(*inputs, **named).logits
        return {"rewards": logits.repeat(1, 3) * logits.new_tensor([1.0, 2.0, 3.0])}

class Broken(LlamaForSequenceClassification):
    def forward(self, *inputs, **named):
        raise RuntimeError("boom in its forward pass")

class OwnConfig(LlamaConfig):
    pass

class OwnModel(LlamaForSequenceClassification):
    pass

class OwnTokenizer(PreTrainedTokenizerFast):
    def __call__(self, *texts, **options):
        return super().__call__(*(text[::-1] for text in texts), **options)
"""
TOKENIZER = {"AutoTokenizer": [None, "parts.OwnTokenizer"]}
AUTO_MAPS = {
    "model": ("config.json", {"AutoModelForSequenceClassification": "parts.OwnModel"}),
    "config": ("config.json", {"AutoConfig": "parts.OwnConfig"}),
    "tokenizer": ("tokenizer_config.json", TOKENIZER),
    "tokenizer, in the form of before": ("tokenizer_config.json", [None, "parts.OwnTokenizer"]),
    "tokenizer, in config.json": ("config.json", {"AutoTokenizer": ["parts.OwnTokenizer", None]}),
}


@pytest.fixture
def plain(llama: Path, tmp_path: Path) -> Path:
    """A Llama by its model_type, with code of its own beside it that nothing names yet."""
    folder = tmp_path / "parts"
    shutil.copytree(llama, folder)
    (folder / "parts.py").write_text(OWN_PARTS, encoding="utf-8")
    return folder


def test_code_that_is_not_there_is_named_whether_it_may_run_or_not(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    edit_json(folder / "config.json", auto_map={"AutoModelForSequenceClassification": "parts.OwnModel"})
    for may_run in (False, True):
        with pytest.raises(
            ModelError, match=r"names parts.OwnModel, and the folder holds no parts.py. Put the file there"
        ):
            load_config(ModelSpec(str(folder), "fp32", trust_remote_code=may_run))
    (folder / "parts.py").write_text(OWN_PARTS, encoding="utf-8")  # one remedy
    trusted(folder)
    (folder / "parts.py").unlink()
    edit_json(folder / "config.json", auto_map={})  # the other
    load(folder)


def test_outputs_of_code_that_are_no_reward_end_in_one_line(plain: Path, texts: Texts) -> None:
    wanted = scores_of(load(plain), texts)
    config = plain / "config.json"
    edit_json(config, auto_map={"AutoModelForSequenceClassification": "parts.Several"})
    message = message_of(lambda: scores_of(trusted(plain), texts))
    assert (
        "Several gives no reward: its output has the shape (1, 3), 3 numbers a text; model.head=INDEX says" in message
    )
    second = load_reward_model(ModelSpec(str(plain), "fp32", 64, trust_remote_code=True, head=1))  # the remedy
    np.testing.assert_allclose(scores_of(second, texts), 2 * wanted, atol=1e-5)
    third = load_reward_model(ModelSpec(str(plain), "fp32", 64, trust_remote_code=True, head=3))
    assert "3 numbers a text, and no number 3" in message_of(lambda: scores_of(third, texts))
    edit_json(config, auto_map={"AutoModelForSequenceClassification": "parts.Broken"})
    message = message_of(lambda: scores_of(trusted(plain), texts))
    assert "Broken gives no reward: boom in its forward pass. Two ways always work" in message and "\n" not in message


def trusted(folder: Path) -> RewardModel:
    return load_reward_model(ModelSpec(str(folder), "fp32", trust_remote_code=True))


@pytest.mark.parametrize("part", AUTO_MAPS)
def test_own_code_is_refused_also_where_the_library_knows_the_kind_of_model(plain: Path, part: str) -> None:
    """Transformers would pass over it without a word, and the scores would be others."""
    file, auto_map = AUTO_MAPS[part]
    edit_json(plain / file, auto_map=auto_map)
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load(plain)


def test_own_code_of_a_language_model_is_refused_too(plain: Path) -> None:
    auto_map = {"AutoModelForCausalLM": "parts.OwnModel"}
    edit_json(plain / "config.json", auto_map=auto_map, architectures=["LlamaForCausalLM"])
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load_causal_config(ModelSpec(str(plain), "fp32"))


def test_own_code_is_run_where_it_is_allowed_and_fails_with_one_message(plain: Path) -> None:
    edit_json(plain / "config.json", auto_map=AUTO_MAPS["model"][1])
    edit_json(plain / "tokenizer_config.json", auto_map=TOKENIZER)
    found = trusted(plain)
    assert type(found.model).__name__ == "OwnModel"
    assert type(found.template.tokenizer).__name__ == "OwnTokenizer"
    edit_json(plain / "config.json", auto_map=AUTO_MAPS["config"][1])
    assert type(load_config(found.spec)).__name__ == "OwnConfig"
    edit_json(plain / "config.json", auto_map={"AutoModelForSequenceClassification": "parts.Failing"})
    with pytest.raises(ModelError, match=r"cannot be loaded as a sequence classifier .boom while it is built"):
        trusted(plain)


def test_own_code_that_the_library_does_not_run_though_it_is_allowed_is_refused(plain: Path) -> None:
    file, auto_map = AUTO_MAPS["tokenizer, in config.json"]
    edit_json(plain / file, auto_map=auto_map)
    with pytest.raises(ModelError, match=r"its tokenizer has a custom class \(OwnTokenizer\), but Transformers"):
        trusted(plain)


def test_a_class_of_its_own_for_another_use_is_refused(plain: Path) -> None:
    edit_json(plain / "config.json", auto_map={"AutoModel": "parts.OwnReward"}, architectures=["OwnReward"])
    with pytest.raises(ModelError, match=r"runs with your rights.*model.trust_remote_code=true"):
        load_config(ModelSpec(str(plain), "fp32"))
    # The code beside it is for another class: Transformers would load its own for `model_type`.
    edit_json(plain / "config.json", auto_map={"AutoModel": "parts.OwnBase"})
    with pytest.raises(ModelError, match=r"is a OwnReward, a custom class that it names for no auto class"):
        load_config(ModelSpec(str(plain), "fp32"))
    edit_json(plain / "config.json", architectures=["LlamaForSequenceClassification"])
    assert load_config(ModelSpec(str(plain), "fp32")).model_type == "llama"


def test_code_of_another_repository_counts_for_kept_scores(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`owner/name--file.Class` names code that is in no file of the model."""
    edit_json(plain / "tokenizer_config.json", auto_map=TOKENIZER)
    found, code = trusted(plain), tmp_path / "elsewhere" / "parts.py"
    code.parent.mkdir()
    monkeypatch.setattr(sys.modules[type(found.template.tokenizer).__module__], "__file__", str(code))
    scopes = []
    for text in ("a = 1", "a = 2", "a = 1"):
        code.write_text(text, encoding="utf-8")
        scopes.append(scope_of(found))
    assert scopes[0] == scopes[2] != scopes[1]


def test_a_token_that_the_model_does_not_know_is_one_message(llama: Path) -> None:
    reward_model = load(llama)
    reward_model.template.tokenizer.add_tokens(["unheardof"])
    with pytest.raises(ModelError, match=r"its tokenizer made token .* and the model knows"):
        ClassifierScorer(reward_model, 256).score([user_prompt("w1")], ["w2 unheardof"])


def test_the_name_of_a_special_token_in_a_text_is_text() -> None:
    tokenizer = encoder_tokenizer(encoder_folder())
    ids = Template(tokenizer, 128).encode(user_prompt("before [SEP] after"), "one [SEP] two").ids
    assert ids.count(tokenizer.sep_token_id) == 2
    assert "sep" in tokenizer.convert_ids_to_tokens(ids)
