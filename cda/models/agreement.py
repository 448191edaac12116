"""Compare the tensors in the files of a model with those that its declared structure has; refuse what disagrees.

A tensor that is missing would be random, and one that no layer takes may be half of the model: Transformers and PEFT say so in a
warning at most. Here each is refused by its name, or allowed by a table that says why.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from cda.errors import DataError, ModelError
from cda.files.jsonl import read_json
from cda.models.refusals import first_line

if TYPE_CHECKING:
    from transformers import PretrainedConfig

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
_POINTER = b"version https://git-lfs"


def check_weight_files(name_or_path: str, revision: str | None, config: PretrainedConfig) -> None:
    """Raise ModelError if a model's weights would be read from anything but whole safetensors files of its own.

    An index may name any file for a shard, and Transformers reads one that is no safetensors as a pickle, which can run code; so may
    `transformers_weights` in config.json. On the hub the index is fetched, and shards are checked when they are read.
    """
    folder, named = Path(name_or_path), getattr(config, "transformers_weights", None)
    if named is not None:
        _check_names(f"{name_or_path}: config.json", [named], (".safetensors", ".safetensors.index.json"))
    if not folder.is_dir():
        if (index := _fetched(name_or_path, INDEX if named is None else named, revision)) is not None:
            shards(index)
        return
    first = folder / (named or (WHOLE if (folder / WHOLE).is_file() else INDEX))
    files = shards(first) if first.name.endswith(".json") and first.is_file() else [first.name]
    if absent := [file for file in files if not (folder / file).is_file()]:
        raise ModelError(
            f"{folder}: {len(absent)} of its {len(files)} weight files are missing ({', '.join(absent[:3])}); was the download or save "
            "interrupted?"
        )
    for file in files:
        _check_whole(folder / file)


def shards(index: Path) -> list[str]:
    """Names of the files that an index names, sorted. ModelError: it cannot be read, or names a file of another format or folder."""
    try:
        content = read_json(index)
    except DataError as error:
        raise ModelError(f"{error}; was the download or save interrupted?") from None
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places or not isinstance(content.get("metadata"), dict):
        raise ModelError(
            f"{index}: is no index of weights, which has weight_map (tensor to file) and metadata; save the model again"
        )
    files = list(dict.fromkeys(places.values()))
    _check_names(str(index), files)
    return sorted(files)


def _check_names(where: str, files: Sequence[object], ends: tuple[str, ...] = (".safetensors",)) -> None:
    for file in files:
        if not isinstance(file, str) or not file.endswith(ends):
            raise ModelError(
                f"{where} names {str(file)[:80]!r} for weights. Only safetensors are read: a pickle can run code. Convert the weights to "
                "safetensors (save_pretrained does) first"
            )
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
            raise ModelError(
                f"{where} names {file[:80]!r}, a file outside of the model's folder; put it in, and name it without a path"
            )


def _check_whole(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np"):
            return
    except (SafetensorError, OSError) as error:
        with file.open("rb") as opened:
            pointer = opened.read(len(_POINTER)) == _POINTER
        why = (
            "is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder"
            if pointer
            else (f"cannot be read ({first_line(error)}); was the download or save interrupted?")
        )
        raise ModelError(f"{file}: {why}") from None


def _fetched(name: str, file: str, revision: str | None) -> Path | None:
    from transformers.utils import cached_file

    if not file.endswith(".json"):
        return None
    try:
        path = cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):  # loading the model fails for the same reason, and says so
        return None
    return None if path is None else Path(path)


Kind = Literal["classifier", "causal"]

UNUSED: Mapping[str, str] = {
    r"(^|\.)(inv_freq|original_inv_freq|cos_cached|sin_cached)$": "rotary positions, which are computed when a model is built",
    r"(^|\.)(position_ids|token_type_ids)$": "counters of older versions, which are computed when a model is built",
    r"\.(attn|attention|self_attn)\.(bias|masked_bias|causal_mask)$": "the causal mask of older versions of GPT models",
    r"(^|\.)mtp(_\w+)?\.": "layers that guess further tokens to speed up generation; no score passes through them",
}
"""Tensors in the weight files of any model that its class may leave unused: pattern of the name, and the reason. The patterns
that a class of Transformers declares itself (`_keys_to_ignore_on_load_unexpected`) are allowed besides."""
_UNUSED_BY: Mapping[Kind, Mapping[str, str]] = {
    "classifier": {
        r"^(model\.|language_model\.|transformer\.)?(lm_head|embed_out|output_layer)\.": "the output layer of the language model that the classifier was made from",
        r"^cls\.|^(lm|mask|generator|discriminator)_predictions\.|^(predictions|sop_classifier|mlm_head|generator_lm_head)\.|^vocab_"
        r"|^decoder\.(weight|bias)$": "the head of the encoder's pretraining",
        r"^\w+\.pooler\.": "the encoder's pooled output, which classes with a head of their own do not use",
    },
    "causal": {
        r"^(score|classifier|v_head|value_head|reward_head|regression_head)\.": "a reward or value head, which takes no part in the probability of a token",
    },
}
_WRAPPED = re.compile(r"^base_model\.model\.|^module\.|\.(modules_to_save|original_module|base_layer|lora_[AB])\.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block)\.(\d+)\.")
_N_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_SHOWN = 3


def check_tensors(
    name: str, kind: Kind, model: Any, report: Mapping[str, Collection[Any]], heads: Sequence[str] = ()
) -> None:
    """Compare a loaded model's structure with its weight files.

    Args:
        name: Hub id or folder, for the message.
        model: The loaded model, with its config.
        report: Transformers' `output_loading_info`: missing, unexpected and mismatched keys.
        heads: Modules of a classifier's score.

    Raises:
        ModelError: Tensors are missing, have another shape, or are unused without a reason in `UNUSED`.
    """
    missing, unused = sorted(report["missing_keys"]), unexplained(report["unexpected_keys"], kind)
    named = type(model).__name__
    if wrapped := [key for key in unused if _WRAPPED.search(key)]:
        raise ModelError(
            f"{name}: its tensors have the names of a model inside PEFT or another wrapper ({shown_names(wrapped)}), so that trained weights may be "
            "left out. Save the model itself: model.merge_and_unload().save_pretrained(FOLDER) of a PeftModel, model.module of a "
            "parallel one"
        )
    if wrong := sorted(report.get("mismatched_keys", ()), key=str):
        key, found, wanted = wrong[0]
        raise ModelError(
            f"{name}: {len(wrong)} of its tensors do not fit its config.json (first: {key}, which is {size(found)} in the weights and "
            f"{size(wanted)} in a {named} of this config). Put the config.json next to the weights that was saved with them"
        )
    instead = f" Its files hold instead: {shown_names(unused)}, which a {named} has no place for." if unused else ""
    if fresh := [key for key in missing if key.split(".")[0] in heads]:
        raise ModelError(_headless(name, fresh, instead))
    if missing:
        asked = "that its config.json asks for" if kind == "classifier" else "of a causal language model"
        raise ModelError(
            f"{name}: its weights lack {len(missing)} tensors {asked} (first: {missing[0]}), which would be random.{instead} "
            "It is another kind of model, or its download or save is incomplete"
        )
    if unused:
        raise ModelError(f"{name}: {_too_many_layers(model.config, unused) or _left_over(unused, named)}")


def check_heads(name: str, heads: Sequence[str], tensors: Collection[str]) -> None:
    """Raise ModelError if the names in a classifier's files hold none of a head's, before anything is loaded; `check_tensors` sees the rest."""
    parts = {part for tensor in tensors for part in tensor.split(".")}
    if absent := [head for head in heads if head not in parts]:
        raise ModelError(_headless(name, absent))


def _headless(name: str, fresh: Sequence[str], instead: str = "") -> str:
    return (
        f"{name}: its weights hold no score head ({shown_names(fresh)} would be random).{instead} "
        "A base or chat model is not a reward model; give a trained one"
    )


def unexplained(keys: Collection[str], kind: Kind) -> list[str]:
    """Names of tensors that a class leaves unused and no table gives a reason for, sorted."""
    patterns = [*UNUSED, *_UNUSED_BY[kind]]
    return sorted(key for key in keys if not any(re.search(pattern, key) for pattern in patterns))


def _too_many_layers(config: PretrainedConfig, unused: Sequence[str]) -> str | None:
    """The message if the weights hold layers beyond the number that the config declares; else None."""
    text_config = config.get_text_config()
    key = next((key for key in _N_LAYERS if hasattr(text_config, key)), None)
    found = [int(match[1]) for match in map(_LAYER.search, unused) if match]
    declared = getattr(text_config, key) if key else None
    if not found or not isinstance(declared, int) or min(found) < declared:
        return None
    return (
        f"config.json declares {declared} layer{'' if declared == 1 else 's'} ({key}), the weights hold {max(found) + 1}: scores would "
        f"come from a part of the model (unused: {shown_names(unused)}). Give the config.json that belongs to the weights"
    )


def _left_over(unused: Sequence[str], named: str) -> str:
    return (
        f"its weights hold {len(unused)} tensors that a {named} has no place for ({shown_names(unused)}), so that scores would come from a "
        "part of the model. Give the class that they were saved from (architectures or auto_map in config.json), or save the model "
        "without them"
    )


def shown_names(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")


def size(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))
