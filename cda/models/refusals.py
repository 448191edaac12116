"""Reasons why a name cannot be loaded as a model, in words for the user."""

from __future__ import annotations

import os
from pathlib import Path

from cda.errors import ModelError
from cda.files.paths import is_there

WAYS_OUT = (
    "Two ways always work: a function of your own that returns its rewards (cda audit file.py:function), or a server that does "
    "(cda audit served:URL)"
)
_OF_DATA = {".jsonl", ".json", ".csv", ".tsv", ".parquet", ".arrow", ".gz", ".txt", ".yaml", ".yml", ".py"}
_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json")


def folder_problems(name_or_path: str) -> list[str]:
    """Reasons why a local name is not a model folder with safetensors weights; empty if it is, and for a hub id."""
    path = Path(name_or_path)
    if not is_there(path):
        if name_or_path.startswith(("/", ".", "~")) or name_or_path.count("/") > 1:
            return [f"{name_or_path}: no such folder"]
        if path.suffix in _OF_DATA:  # no model on the hub is named like one
            return [f"{name_or_path}: no such file, and a file is no model; a file of scores is named scores:FILE"]
        return []
    if not path.is_dir():
        return [f"{name_or_path}: a model is a folder, not a file; a file of scores is named scores:{name_or_path}"]
    if not os.access(path, os.R_OK | os.X_OK):
        return [f"{name_or_path}: its files may not be read by you; change the rights of the folder (chmod)"]
    problems = []
    if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        return [f"{name_or_path}: an adapter, not a model; `cda merge {name_or_path} --out FOLDER` makes a model of it"]
    if (path / "adapter_config.json").is_file():
        return [
            f"{name_or_path}: holds a model and an adapter_config.json, by which Transformers would put an adapter onto it unasked. "
            "Move the adapter's files into a folder of their own"
        ]
    if not (path / "config.json").is_file():
        problems.append(f"{name_or_path}: no config.json; not a model folder")
    if not any(True for pattern in _WEIGHT_FILES for _ in path.glob(pattern)):
        pickles = [file.name for file in [*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")]]
        if pickles:
            problems.append(
                f"{name_or_path}: only pickle weights ({', '.join(sorted(pickles)[:3])}), which can run code when read. "
                "Convert them to safetensors first: if you trust them, load the model with its class's from_pretrained and save_pretrained it"
            )
        else:
            problems.append(f"{name_or_path}: no weights (*.safetensors); was the download or save interrupted?")
    return problems


def own_code_needed(name_or_path: str) -> str:
    """The error of a model with custom code that the user has not allowed."""
    return (
        f"{name_or_path}: needs custom code. That code runs with your rights; read it, "
        "then allow it with model.trust_remote_code=true"
    )


def refuse_passed_over(name_or_path: str, config: object, auto: str, trusted: bool) -> bool:
    """Raise ModelError if a model has custom code that would not be run; return True if it has a class for `auto`, such
    as `AutoModelForSequenceClassification`. If Transformers knows its `model_type` it would load its own class in
    silence, which computes other scores; code that is `trusted` may run.
    """
    import transformers

    named = getattr(config, "auto_map", None) or {}
    for reference in (named.get(auto), named.get("AutoConfig")):
        _refuse_absent_code(name_or_path, reference)
    if not trusted and (auto in named or "AutoConfig" in named):
        raise ModelError(own_code_needed(name_or_path))
    check_its_class(name_or_path, "configuration", config, named.get("AutoConfig"))
    others = {class_name(reference): other for other, reference in named.items() if other.startswith("AutoModel")}
    # A class that Transformers has not, of a model that brings code for other auto classes, is the model's own too.
    passed_over = [
        name
        for name in getattr(config, "architectures", None) or []
        if name in others or (others and not hasattr(transformers, name))
    ]
    if passed_over and auto not in named:
        named_for = f"{others[passed_over[0]]} alone" if passed_over[0] in others else "no auto class"
        raise ModelError(
            f"{name_or_path}: is a {passed_over[0]}, a custom class that it names for {named_for}, so that "
            f"Transformers would load another class with other scores. Name one for {auto} in auto_map of its config.json"
        )
    return auto in named


def _refuse_absent_code(name_or_path: str, reference: object) -> None:
    """Raise ModelError if a local folder lacks the file of such a reference."""
    file = f"{str(reference).rpartition('.')[0]}.py"
    own = isinstance(reference, str) and "--" not in reference and Path(name_or_path).is_dir()
    if own and not (Path(name_or_path) / file).is_file():
        raise ModelError(
            f"{name_or_path}: auto_map in its config.json names {reference}, and the folder holds no {file}. Put the file there, or take "
            "auto_map out of config.json if a class of Transformers is meant"
        )


def check_its_class(name_or_path: str, part: str, loaded: object, named: object) -> None:
    """Raise ModelError if the class of a loaded `part`, such as `tokenizer`, is not the one that the model's files
    name: `named`, the entry of `auto_map`, such as `file.Class`, `owner/name--file.Class` or a list of them, or None.
    """
    names = [class_name(entry) for entry in (named if isinstance(named, list | tuple) else [named]) if entry]
    if names and type(loaded).__name__ not in names:
        raise ModelError(
            f"{name_or_path}: its {part} has a custom class ({names[0]}), but Transformers loaded its own class "
            f"{type(loaded).__name__}. Take the entry out of auto_map if that one is meant, or update the model's files"
        )


def class_name(reference: object) -> str:
    """The class in a reference such as `owner/name--file.Class`."""
    return str(reference).rpartition(".")[2]


def why_not_loadable(name_or_path: str, what: str, error: Exception) -> str:
    """An error of Transformers in words for the user; `what` it was to be loaded as, such as `a sequence classifier`."""
    text = str(error)
    if "trust_remote_code" in text:
        return own_code_needed(name_or_path)
    if "safetensors" in text and "not" in text:
        return f"{name_or_path}: offers no safetensors weights ({first_line(error)}). Convert them first"
    if "out of memory" in text or "can't allocate memory" in text:
        return (
            f"{name_or_path}: does not fit into the memory ({first_line(error)}). model.precision=8bit takes a byte a weight, bf16 "
            "two, fp32 four; or use a smaller model, a larger GPU, or CUDA_VISIBLE_DEVICES= for this machine's main memory"
        )
    return f"{name_or_path}: cannot be loaded as {what} ({first_line(error)})"


def first_line(error: Exception) -> str:
    """The first line of an error, short enough for a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
