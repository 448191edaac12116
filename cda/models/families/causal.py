"""Language models whose reward is the logit of one token after the text, those with a reward for every step, and InternLM2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cda.errors import ModelError
from cda.models.families.family import Family, Points, published
from cda.models.families.linear import is_class, width_of
from cda.models.own_files import ModelFiles

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_LOGIT = "logit:"
_OUTPUTS = ("lm_head", "embed_out")
_TABLES = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")
"""Ends of the names of embedding tables, which are the output layer where weights hold none."""


def is_causal(files: ModelFiles) -> bool:
    """True of a language model that config.json gives no other class."""
    names = files.architectures
    return bool(names) and all(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) and not files.auto_map


def logit_of(token: int) -> Family:
    """The family of a language model whose reward is the logit of a token with this id, after the last token of a text."""

    def only(tensors: dict[str, Tensor], _: PretrainedConfig, __: ModelFiles) -> dict[str, Tensor]:
        found, output = without_output(tensors)
        if "score.weight" in found and len(found) == len(tensors):  # of a merged model
            return found
        if output is None:
            raise ModelError(
                f"model.head={token}: its output layer is not known by its name (looked for {', '.join((*_OUTPUTS, *_TABLES))})"
            )
        return {**found, "score.weight": output[token : token + 1].clone()}

    return Family(
        f"{_LOGIT}{token}",
        "language models with model.head",
        f"The logit of the output token {token} after the last token of the chat template.",
        "the setting model.head",
        lambda _: False,
        convert=only,
        reads="last_token",
    )


def without_output(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None]:
    """A language model's tensors without its output layer, and that layer, which may be the embedding table; None if it has none."""
    found = {name: tensor for name, tensor in tensors.items() if name.split(".")[0] not in _OUTPUTS}
    own = (tensors[name] for part in _OUTPUTS if (name := f"{part}.weight") in tensors)
    tied = (tensor for name, tensor in tensors.items() if name.endswith(_TABLES))
    return found, next(own, next(tied, None))


def by_key(key: str) -> Family | None:
    """The family of such a key, as a merged model's config.json holds it; None of any other key."""
    token = key.removeprefix(_LOGIT)
    return logit_of(int(token)) if token != key and token.isdecimal() else None


def _steps_head(config: PretrainedConfig, _: ModelFiles) -> nn.Module:
    from torch import nn

    from cda.models.families.gated_heads import Steps

    return Steps(nn.Linear(width_of(config), width_of(config)), nn.ReLU(), nn.Linear(width_of(config), 2))


STEP_END = "<extra_0>"


def _ends_of_steps(tokenizer: PreTrainedTokenizerBase, files: ModelFiles) -> Points:
    end = tokenizer.convert_tokens_to_ids(STEP_END)

    def points(ids: list[int]) -> list[int]:
        if found := [at for at, token in enumerate(ids) if token == end]:
            return found
        raise ModelError(
            f"{files.name_or_path}: a text of {len(ids)} tokens holds no end of a step ({STEP_END}): its first step is cut. Raise "
            "model.max_length_tokens"
        )

    return points


_NEMOTRON = logit_of(0)
CAUSAL: tuple[Family, ...] = (
    Family(
        "nemotron",
        "Llama-3.1-Nemotron-70B-Reward-HF, Llama-3.3-Nemotron-70B-Reward and -Multilingual",
        "The logit of the token with id 0 after the chat template.",
        "model cards of nvidia/Llama-3.1-Nemotron-70B-Reward-HF and nvidia/Llama-3.3-Nemotron-70B-Reward",
        published(
            "Llama-3.1-Nemotron-70B-Reward-HF",
            "Llama-3.3-Nemotron-70B-Reward",
            "Llama-3.3-Nemotron-70B-Reward-Multilingual",
            of="Llama…CausalLM",
        ),
        convert=_NEMOTRON.convert,
        reads="last_token",
    ),
    Family(
        "qwen2.5-math-prm",
        "Qwen2.5-Math-PRM-7B, -72B, Qwen2.5-Math-7B-PRM800K",
        "The product over the paragraphs of the answer of the probability that each is right (with model.reads=last_token that of the last).",
        "model card of Qwen/Qwen2.5-Math-PRM-7B; arXiv:2501.07301",
        is_class("Qwen2ForProcessRewardModel"),
        head=_steps_head,
        points=_ends_of_steps,
        step_end=STEP_END,
    ),
    Family(
        "urm",
        "URM-LLaMa-3.1-8B, URM-LLaMa-3-8B",
        "The model's own code, on the chat template as text, tokenized with a second BOS.",
        "model cards of LxzGordon/URM-LLaMa-3.1-8B and -3-8B",
        published("URM-LLaMa-3.1-8B", "URM-LLaMa-3-8B"),
        runs_code=True,
        doubles_bos=True,
    ),
)


# InternLM2 computes as a Llama with other names for its tensors.
_INTERNLM2_NAMES = {
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


def _llama_tensors(tensors: dict[str, Tensor], config: PretrainedConfig, _: ModelFiles) -> dict[str, Tensor]:
    """Renamed, and the fused projections split: for each group of heads come its queries, a key and a value."""
    groups = config.num_key_value_heads
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if _FUSED in name:
            by_group = tensor.reshape(groups, -1, config.head_dim, *tensor.shape[1:])
            for part, rows in (("q", by_group[:, :-2]), ("k", by_group[:, -2:-1]), ("v", by_group[:, -1:])):
                found[name.replace(_FUSED, f"self_attn.{part}_proj.")] = rows.flatten(0, 2).contiguous()
            continue
        for old, new in _INTERNLM2_NAMES.items():
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
        convert=_llama_tensors,
        reads="last_token",
        last=lambda _, files: files.config.get("reward_token_id"),
    ),
)
