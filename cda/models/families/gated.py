"""Families whose reward is a weighted sum of attributes, with weights that a gate computes from the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cda.errors import ModelError
from cda.models.families.family import Family, Points
from cda.models.families.linear import is_class, width_of
from cda.models.own_files import ModelFiles

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

LLAMA_TURN = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
GEMMA_TURN = "<end_of_turn>\n<start_of_turn>model\n"


def _shapes(files: ModelFiles, prefix: str) -> Mapping[str, tuple[int, ...]]:
    """Shapes of the tensors whose names start with a prefix, in published files or a merged model's, by the rest of the name."""
    found = {name: name.removeprefix("score.") for name in files.tensors}
    return {
        short.removeprefix(prefix): files.shape(name) or ()
        for name, short in found.items()
        if short.startswith(prefix) and short.endswith(("weight", "bias", "matrix"))
    }


def _head(config: PretrainedConfig, files: ModelFiles) -> nn.Module:
    from cda.models.families.gated_heads import Gated

    found = _shapes(files, "")
    gate = _shapes(files, "gating.layers.")
    objectives = gate[max(gate, key=lambda name: int(name.split(".")[0]))][0]
    quantiles = found["regression_layer.weight"][0] // objectives
    mixes = "reward_transform_matrix" in found
    return Gated(width_of(config), objectives, quantiles, mixes, gate, files.config.get("gating_temperature") or 1)


def _after(turn: str) -> Callable[[PreTrainedTokenizerBase, ModelFiles], Points]:
    """The token at which the last of these marks begins, and the last token."""

    def points_of(tokenizer: PreTrainedTokenizerBase, files: ModelFiles) -> Points:
        wanted = list(tokenizer(turn, add_special_tokens=False, verbose=False)["input_ids"])

        def points(ids: list[int]) -> list[int]:
            starts = [at for at in range(len(ids)) if ids[at : at + len(wanted)] == wanted]
            if not starts:
                raise ModelError(
                    f"{files.name_or_path}: a text of {len(ids)} tokens lacks {turn!r}, the beginning of the answer, at which its gate "
                    "reads the prompt. Raise model.max_length_tokens above the longest prompt, or give the tokenizer the chat_template "
                    "of the published model"
                )
            return [starts[-1], len(ids) - 1]

        return points

    return points_of


def _ldl_head(_: PretrainedConfig, files: ModelFiles) -> nn.Module:
    from cda.models.families.gated_heads import TenLevels

    temperature = files.config.get("temperature", 1.0) if files.config.get("softmax") else None
    return TenLevels(_shapes(files, "regression_layer.network."), _shapes(files, "gating_layer.network."), temperature)


def _is_ldl(files: ModelFiles) -> bool:
    name = files.name_or_path.rpartition("/")[2].lower()
    return is_class("LDLRewardModel27B")(files) or name.startswith("ldl-reward-gemma")


_LLAMA = is_class("LlamaForRewardModelWithGating")
_NAMES = {r"^(regression_layer|gating|gating_layer|reward_transform_matrix)(?=\.|$)": r"score.\1"}
ARMO = Family(
    "armorm",
    "ArmoRM-Llama3-8B-v0.1",
    "19 attributes of the last token times a matrix, weighted by a gate at the end of the user's turn.",
    "huggingface.co/RLHFlow/ArmoRM-Llama3-8B-v0.1: modeling_custom.py, config.json",
    lambda files: (
        _LLAMA(files) and "num_quantiles" not in files.config and files.has("regression_layer.", "gating.layers.")
    ),
    names=_NAMES,
    head=_head,
    points=_after(LLAMA_TURN),
    unused=(r"num_batches_tracked$",),
)
GATED: tuple[Family, ...] = (
    ARMO,
    replace(
        ARMO,
        key="qrm-llama",
        models="QRM-Llama3-8B, QRM-Llama3.1-8B",
        official="The mean over quantiles of each attribute of the last token, times a matrix if there is one, weighted by a gate at the end "
        "of the user's turn.",
        source="github.com/allenai/reward-bench: rewardbench/models/qrm.py; config.json of nicolinho/QRM-Llama3.1-8B",
        claims=lambda files: (
            _LLAMA(files) and "num_quantiles" in files.config and files.has("regression_layer.", "gating.layers.")
        ),
    ),
    replace(
        ARMO,
        key="qrm-gemma",
        models="QRM-Gemma-2-27B",
        official="The mean over quantiles of each attribute of the last token, weighted by a gate at the end of the user's turn.",
        source="model card and tensors of nicolinho/QRM-Gemma-2-27B",
        claims=is_class("Gemma2ForQuantileSequenceClassification"),
        points=_after(GEMMA_TURN),
    ),
    Family(
        "ldl-pickled",
        "LDL-Reward-Gemma-2-27B-v0.1",
        "As ldl.",
        "github.com/allenai/reward-bench: rewardbench/models/ldlreward.py",
        lambda files: _is_ldl(files) and not files.has("regression_layer.network.", "gating_layer.network."),
        refusal="its heads are not among its safetensors but in two pickles, regression_layer.pt and gating_layer.pt, which can run code when "
        "read. torch.load(FILE, weights_only=True) reads them without; save their tensors as regression_layer.NAME and gating_layer.NAME "
        "beside the others in model.safetensors, or in one more file that model.safetensors.index.json names for each",
    ),
    Family(
        "ldl",
        "LDL-Reward-Gemma-2-27B-v0.1, its heads converted to safetensors",
        "A distribution over ten levels for each of 22 attributes of the last token, mixed by a gate; the mean level.",
        "github.com/allenai/reward-bench: rewardbench/models/ldlreward.py",
        _is_ldl,
        names=_NAMES | {r"^(?!model\.|score\.|regression_layer\.|gating_layer\.)": "model."},
        head=_ldl_head,
        reads="last_token",
    ),
)
