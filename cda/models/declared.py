"""Numbers and names that a model's config.json and tokenizer_config.json declare, checked before the libraries
build on them: a layer count of a billion would be built."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cda.errors import DataError, ModelError, type_in_words
from cda.files.jsonl import parse_json, read_text
from cda.models.refusals import first_line

_MOST: Mapping[str, int] = {
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 1_000
    ),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size"), 1_000_000),
    **dict.fromkeys(("intermediate_size", "d_ff", "n_inner", "head_dim"), 10_000_000),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "n_head", "num_heads"), 10_000),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "num_labels"), 10_000),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 1_000_000_000),
    "vocab_size": 100_000_000,
}
"""The largest value of each count, some ten times that of the largest published model; the least is 1."""


def check_config_file(name_or_path: str, revision: str | None) -> None:
    """Raise ModelError if a folder's files cannot be read, or its config.json, or that of a hub id, declares what cannot be."""
    from transformers import PretrainedConfig

    folder = Path(name_or_path)
    if not folder.is_dir():
        check_config(name_or_path, PretrainedConfig.get_config_dict(name_or_path, revision=revision)[0])
        return
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".jinja") and (file.is_dir() or not os.access(file, os.R_OK)):
            why = "is a folder, and a file is needed" if file.is_dir() else "may not be read by you"
            raise ModelError(f"{file}: {why}. Put the model's own there, or take it out")
    try:
        content = parse_json(read_text(folder / "config.json"))
    except DataError as error:
        raise ModelError(str(error)) from None
    except ValueError as error:
        raise ModelError(
            f"{folder / 'config.json'}: not valid JSON ({first_line(error)}); was the download or save interrupted?"
        ) from None
    check_config(name_or_path, content)


def check_config(name_or_path: str, content: object) -> None:
    """Raise ModelError, naming the key, if the content of a config.json is no object, or a value in it cannot be a model's."""
    where = f"{name_or_path}: config.json"
    if not isinstance(content, dict):
        raise ModelError(
            f"{where} holds {type_in_words(content)}, not an object; put the one there that was saved with the weights"
        )
    for key, value in _nested(content):
        most = _MOST.get(key)
        if most is not None and value is not None and not _counts(value, most):
            raise ModelError(
                f"{where} has {key}={shown(value)}; it must be a whole number from 1 to {most}. Put the config.json there that was saved "
                "with the weights"
            )
    for key, kind, wanted in (
        ("auto_map", dict, "an object, from auto class to file.Class"),
        ("architectures", list, "a list of names"),
    ):
        value = content.get(key)
        entries = list(value.values() if isinstance(value, dict) else value) if isinstance(value, kind) else []
        if value is not None and not (
            isinstance(value, kind) and all(isinstance(entry, str | list) for entry in entries)
        ):
            raise ModelError(f"{where} has {key}={shown(value)}; it must be {wanted}. Mend it, or take it out")


def check_length(name_or_path: str, length: object) -> None:
    """Raise ModelError if a tokenizer's model_max_length is no length; one beyond any text, such as 1e30, means no limit."""
    if isinstance(length, bool) or not isinstance(length, int | float) or math.isnan(length) or length < 1:
        raise ModelError(
            f"{name_or_path}: tokenizer_config.json has model_max_length={shown(length)}; it must be the number of tokens that the model "
            "reads, 1 or more. Put that there, or take the key out"
        )


def _nested(content: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All keys with their values, also those of parts such as text_config."""
    for key, value in content.items():
        yield key, value
        if isinstance(value, dict) and key.endswith("_config") and depth < 8:
            yield from _nested(value, depth + 1)


def _counts(value: object, most: int) -> bool:
    if isinstance(value, list):  # one number a layer
        return bool(value) and all(_counts(each, most) for each in value)
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def shown(value: object) -> str:
    return repr(value)[:60]
