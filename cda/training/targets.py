"""The layers that LoRA adapts: those that were asked for, PEFT's own choice for the architecture, or attention found by its names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cda.errors import ModelError, near
from cda.models.weights import heads_of

_ATTENTION = re.compile(r"att(e)?n", re.IGNORECASE)
_QUERY_OR_VALUE = frozenset({"q", "v", "kv", "qkv", "qkvz", "wq", "wv", "wqkv", "query", "value"})
"""Parts of the names of layers that compute queries or values: `q_lin`, `Wqkv`, `in_proj_qkv`, `query_key_value`."""
_NOT_OF_TEXT = re.compile(r"(^|[._])(vision|visual|image|audio)")
"""Parts of a model that no text passes through: LoRA there would never learn, and several processes would wait for its gradients."""
_SHOWN = 8
ALL = "all-linear"
"""PEFT's word for every linear layer but the head."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Layers as PEFT matches them, by a whole name or its end behind a dot; `why` they were chosen, empty if they were asked for."""

    names: tuple[str, ...]
    why: str = ""

    def __str__(self) -> str:
        """Last parts of the names, each once: `query, value (PEFT's choice for bert)`."""
        words = [*dict.fromkeys(name.rsplit(".", 1)[-1] for name in self.names)]
        shown = ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
        return f"{shown} ({self.why})" if self.why else shown


def chosen_targets(model: Any, name: str, asked: Sequence[str] | None) -> Targets:
    """The layers of a loaded or empty classifier that LoRA adapts; the head, which is trained whole, is none of them.

    Without any that were `asked` for, or `all-linear`: those of PEFT's table for the architecture, if the model has them all; else the linear layers in
    attention that compute queries or values, as the table mostly has it; else all that are in attention; else all of its blocks.
    ModelError, with names that exist: one that was asked for is not there, or there is no linear layer to adapt.
    """
    heads = heads_of(model)
    linear = [layer for layer in linear_layers(model) if layer.split(".")[0] not in heads]
    of_text = [layer for layer in linear if not _NOT_OF_TEXT.search(layer)]
    if asked is not None and [*asked] == [ALL] and of_text:
        return Targets(_ends(of_text, linear), "all linear layers but the head")
    if asked is not None:
        _check_asked(model, name, asked, heads, linear)
        return Targets(tuple(asked))
    kind = str(model.config.get_text_config().model_type)
    known = _peft_table().get(kind)
    if isinstance(known, list) and all(any(_matches(layer, word) for layer in of_text) for word in known):
        layers = [layer for layer in of_text if any(_matches(layer, word) for word in known)]
        return Targets(_ends(layers, linear), f"PEFT's choice for {kind}")
    attention = [layer for layer in of_text if _ATTENTION.search(layer.rpartition(".")[0])]
    queries = [layer for layer in attention if _QUERY_OR_VALUE & {*layer.rpartition(".")[2].lower().split("_")}]
    blocks = [layer for layer in of_text if re.search(r"\.\d+\.", layer)]
    for layers, why in (
        (queries, "its attention's queries and values"),
        (attention, "its attention's linear layers"),
        (blocks, "all linear layers of its blocks: none is in attention"),
    ):
        if layers:
            return Targets(_ends(layers, linear), why)
    raise ModelError(
        f"{name}: no linear layer that LoRA could adapt was found in its blocks ({type(model).__name__}). Name layers of another kind "
        "that PEFT adapts, with lora.target_modules=[NAME,…]"
    )


def linear_layers(model: Any) -> list[str]:
    """Names of a model's linear layers, Conv1D's (GPT-2's) among them."""
    import torch
    from transformers.pytorch_utils import Conv1D

    return [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear | Conv1D)]


def _check_asked(model: Any, name: str, asked: Sequence[str], heads: Collection[str], linear: Sequence[str]) -> None:
    """Raise ModelError for names that are no layer outside the head, one of which PEFT would pass over in silence."""
    parts = [layer for layer, _ in model.named_modules() if layer.split(".")[0] not in heads]
    unknown = [word for word in asked if not any(_matches(layer, word) for layer in parts)]
    if not unknown:
        return
    there = sorted({layer.rpartition(".")[2] for layer in linear})
    close = [near(word, there) for word in unknown]
    like = f" Did you mean {', '.join(filter(None, close))}?" if all(close) else ""
    raise ModelError(
        f"lora.target_modules: {', '.join(unknown)} {'matches' if len(unknown) == 1 else 'match'} no layer of {name} outside its head."
        f"{like} Its linear layers are: {', '.join(there)}. Name some of them, or leave lora.target_modules out: it then adapts "
        f"{chosen_targets(model, name, None)}"
    )


def _matches(layer: str, word: str) -> bool:
    """As PEFT matches: the whole name, or its end behind a dot."""
    return f".{layer}".endswith(f".{word}")


def _ends(layers: Sequence[str], all_layers: Iterable[str]) -> tuple[str, ...]:
    """The shortest ends of these names that no other layer's name has, each once."""
    others = {*all_layers} - {*layers}
    ends = []
    for layer in layers:
        parts = layer.split(".")
        words = (".".join(parts[-n:]) for n in range(1, len(parts) + 1))
        ends.append(next(word for word in words if not any(_matches(other, word) for other in others)))
    return tuple(sorted(set(ends)))


def _peft_table() -> dict[str, object]:
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as TABLE

    return TABLE  # type: ignore[no-any-return]
