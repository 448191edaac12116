"""InternLM2's reward models, which compute as a Llama with other names for its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cda.models.families.family import Family
from cda.models.families.linear import is_class
from cda.models.own_files import ModelFiles

_NAMES = {
    r"tok_embeddings\.": "embed_tokens.",
    r"attention\.wo\.": "self_attn.o_proj.",
    r"feed_forward\.w1\.": "mlp.gate_proj.",
    r"feed_forward\.w3\.": "mlp.up_proj.",
    r"feed_forward\.w2\.": "mlp.down_proj.",
    r"attention_norm\.": "input_layernorm.",
    r"ffn_norm\.": "post_attention_layernorm.",
    r"^v_head\.": "score.",
}
_FUSED = "attention.wqkv."


def _as_llama(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**config, "model_type": "llama", "attention_bias": bool(config.get("bias"))}


def _tensors(tensors: dict[str, Any], config: Any, _: ModelFiles) -> dict[str, Any]:
    """Renamed, and the fused projections split: for each group of heads come its queries, a key and a value."""
    groups = config.num_key_value_heads
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if _FUSED in name:
            by_group = tensor.unflatten(0, (groups, -1, config.head_dim))
            for part, rows in (("q", by_group[:, :-2]), ("k", by_group[:, -2:-1]), ("v", by_group[:, -1:])):
                found[name.replace(_FUSED, f"self_attn.{part}_proj.")] = rows.flatten(0, 2).contiguous()
            continue
        for old, new in _NAMES.items():
            name = re.sub(old, new, name)
        found[name] = tensor
    return found


def _is_polar(files: ModelFiles) -> bool:
    """Both kinds have one class; POLAR's positions turn 50 times slower."""
    name = files.name_or_path.rpartition("/")[2].lower()
    return _IS_REWARD(files) and ("polar" in name or (files.config.get("rope_theta") or 0) >= 5e7)


_IS_REWARD = is_class("InternLM2ForRewardModel")
INTERNLM2: tuple[Family, ...] = (
    Family(
        "polar",
        "POLAR-1_8B, POLAR-7B",
        "One text of the prompt with a reference answer and the prompt with the response; `v_head` at the reward token.",
        "github.com/InternLM/POLAR: src/polar/reward_func.py",
        _is_polar,
        refusal="is a POLAR, which scores a response against a reference answer to the same prompt; an audit's prompts have none, and without "
        "it the number means nothing",
    ),
    Family(
        "internlm2-reward",
        "internlm2-1_8b-reward, internlm2-7b-reward, internlm2-20b-reward",
        "The chat template and the reward token, at which `v_head` is read.",
        "huggingface.co/internlm/internlm2-7b-reward: modeling_internlm2.py, config.json",
        _IS_REWARD,
        backbone=_as_llama,
        convert=_tensors,
        reads="last_token",
        last=lambda _, files: files.config.get("reward_token_id"),
    ),
)
