"""Families whose head is a linear layer or a small MLP under another name, on one token of a backbone that Transformers has;
and families whose reward is a weighted sum of attributes, with weights that a gate computes from the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cda.errors import ModelError
from cda.models.families import heads
from cda.models.families.family import Family, Points, published
from cda.models.own_files import ModelFiles
from cda.models.reading import Reads
from cda.models.template import Turns

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

HEADS = ("score", "v_head", "value_head", "regression_head", "reward_head", "rm_head", "score_head", "classifier")
"""Names of the last layer in published reward models."""


def is_class(*names: str) -> Callable[[ModelFiles], bool]:
    """A claim of models whose config.json names one of these classes."""
    return lambda files: any(name in files.architectures for name in names)


def width_of(config: PretrainedConfig) -> int:
    """Width of the last hidden states."""
    return int(config.get_text_config().hidden_size)


def _open_rlhf_head(config: PretrainedConfig, files: ModelFiles) -> nn.Module:
    head = heads.linear(width_of(config), bias=f"{_prefix(files)}.bias" in files.tensors)
    own = files.config
    return heads.normalised(head, own["mean"], own["std"]) if own.get("normalize_reward") and own.get("std") else head


def _prefix(files: ModelFiles) -> str:
    named = str(files.config.get("value_head_prefix") or "score")
    return next((name for name in (named, *HEADS) if f"{name}.weight" in files.tensors), named)


OPEN_RLHF = Family(
    "openrlhf",
    "OpenRLHF's reward models: Llama-3-8b-rm-mixture, Llama-3-8b-rm-700k",
    "The chat template, which has to end in EOS; the head at the last attended token, minus mean and over std if normalize_reward.",
    "github.com/OpenRLHF/OpenRLHF: openrlhf/models/model.py, openrlhf/cli/serve_rm.py",
    lambda files: "value_head_prefix" in files.config or "normalize_reward" in files.config,
    names={rf"^({'|'.join(HEADS)})\.": "score."},
    head=_open_rlhf_head,
    reads="last_attended",
    last=lambda tokenizer, _: tokenizer.eos_token_id,
)


def _renamed(head: str, **others: str) -> dict[str, str]:
    """Names of tensors: those of a head to `score`, and others to others."""
    return {rf"^{re.escape(head)}\.": "score."} | {rf"^{re.escape(old)}\.": f"{new}." for old, new in others.items()}


def _one(head: str) -> Callable[[PretrainedConfig, ModelFiles], nn.Module]:
    """A linear layer of one output, with a bias if the files (or those of a merged model) hold one."""
    return lambda config, files: heads.linear(
        width_of(config), bias=any(f"{name}.bias" in files.tensors for name in (head, "score"))
    )


def _mlp(config: PretrainedConfig, _: ModelFiles) -> nn.Module:
    return heads.mlp(width_of(config), width_of(config), 1)


def _beaver_head(config: PretrainedConfig, files: ModelFiles) -> nn.Module:
    scales, is_cost = bool(files.config.get("do_normalize")), files.config.get("score_type") == "cost"
    return heads.scaled(_one("score_head")(config, files), scales, not is_cost, -1 if is_cost else 1)


def _beaver(files: ModelFiles) -> bool:
    return is_class("LlamaForScore", "LlamaModelForScore")(files) and files.config.get("score_dim", 1) == 1


_BEAVER = Family(
    "beaver-reward",
    "beaver-7b-v1.0-reward to -v3.0-reward",
    "The text BEGINNING OF CONVERSATION: USER: … ASSISTANT:…; `score_head` at the last token, minus mean and over std if do_normalize.",
    "github.com/PKU-Alignment/safe-rlhf; github.com/allenai/reward-bench: rewardbench/models/beaver.py",
    lambda files: _beaver(files) and files.config.get("score_type") != "cost",
    names=_renamed("score_head") | {r"^normalizer\.": "score."},
    head=_beaver_head,
    reads="last_attended",
    turns=Turns("USER: {text} ", "ASSISTANT:{text}", between=" ", begin="BEGINNING OF CONVERSATION: "),
    unused=(r"^(score|normalizer)\.(mean|var|count)$",),
)
_STARLING = Family(
    "starling-7b",
    "Starling-RM-7B-alpha",
    "Llama 2's turns by hand and a second BOS; `v_head` at the last token of one text; long texts lose their beginning.",
    "model card of berkeley-nest/Starling-RM-7B-alpha; github.com/allenai/reward-bench: rewardbench/models/starling.py",
    is_class("GPTRewardModel"),
    names={r"^model\.model\.": "again."} | _renamed("v_head", transformer="model"),  # it may hold the backbone twice
    reads="last_token",
    turns=Turns("<s>[INST] {text} </s> [/INST]", " {text}</s>", between=""),
    doubles_bos=True,
    cuts_left=True,
    unused=(r"^again\.",),
)


def _has_no_score(files: ModelFiles) -> bool:
    """True of a folder whose weights have Starling's names under the name of a class of Transformers."""
    return Path(files.name_or_path).is_dir() and files.has("transformer.layers.", "v_head.")


def _writes_value_head(files: ModelFiles) -> bool:
    """True of GRM's models that keep a language model's output layer beside a value head."""
    return any(str(name).endswith("AutoModelForCausalLMWithValueHead") for name in files.auto_map.values()) or (
        "vhead_layer_type" in files.config and any(name.endswith("ForCausalLM") for name in files.architectures)
    )


def _grm_head(config: PretrainedConfig, files: ModelFiles) -> nn.Module:
    if files.config.get("vhead_layer_type") == "linear":
        return heads.linear(width_of(config), bias=True)
    inner = [int(files.config.get("vhead_num_neurons", 1024))] * int(files.config.get("vhead_num_layers", 1))
    return heads.mlp(width_of(config), *inner, 1)


def _ends_in_endoftext(files: ModelFiles) -> bool:
    return is_class("Qwen2ForRewardModel")(files) and (
        published(r"worldpm-72b.*")(files) or files.chat_template.rstrip().endswith("<|endoftext|>")
    )


LINEAR: tuple[Family, ...] = (
    OPEN_RLHF,
    Family(
        "inf-orm",
        "INF-ORM-Llama3.1-70B",
        "The chat template; an MLP on the last token that is not padding.",
        "model card of infly/INF-ORM-Llama3.1-70B; github.com/allenai/reward-bench: rewardbench/models/inform.py",
        is_class("INFORMForSequenceClassification"),
        head=_mlp,
    ),
    Family(
        "athene",
        "Athene-RM-8B, Athene-RM-70B",
        "The template as text and the tokenizer's CLS token, tokenized with a second BOS; `v_head` at that token.",
        "model cards of Nexusflow/Athene-RM-8B and -70B",
        lambda files: (
            "AtheneForSequenceClassification" in files.architectures
            or ("CustomAutoModelForSequenceClassification" in files.architectures and files.has("v_head."))
        ),
        names=_renamed("v_head"),
        reads="last_token",
        last=lambda tokenizer, _: tokenizer.cls_token_id,
        doubles_bos=True,
    ),
    _BEAVER,
    replace(
        _BEAVER,
        key="beaver-cost",
        models="beaver-7b-v1.0-cost to -v3.0-cost",
        official="The text BEGINNING OF CONVERSATION: USER: … ASSISTANT:…; `score_head` at the last token, over std if do_normalize. It is a cost, "
        "more is worse: the reward is minus the cost.",
        claims=lambda files: _beaver(files) and files.config.get("score_type") == "cost",
    ),
    _STARLING,
    replace(
        _STARLING,
        key="starling-34b",
        models="Starling-RM-34B",
        official="Yi's ChatML by hand, without BOS; `v_head` at the last token of one text; long texts lose their beginning.",
        source="model card of Nexusflow/Starling-RM-34B; github.com/allenai/reward-bench: rewardbench/models/starling.py",
        claims=lambda files: (
            (
                published("starling-rm-34b", of="Llama…SequenceClassification")(files)
                and "score.weight" not in files.tensors
            )
            or _has_no_score(files)
        ),
        turns=Turns(
            "<|im_start|>user\n{text}<|im_end|>\n",
            "<|im_start|>assistant\n{text}<|im_end|>",
            "<|im_start|>system\n{text}<|im_end|>\n",
        ),
        doubles_bos=False,
    ),
    Family(
        "ultrarm",
        "UltraRM-13b",
        "The text Human: … Assistant: …; `regression_head` at the last token.",
        "model card of openbmb/UltraRM-13b; github.com/allenai/reward-bench: rewardbench/models/openbmb.py",
        lambda files: "LlamaRewardModel" in files.architectures and files.has("regression_head."),
        names=_renamed("regression_head"),
        head=_one("regression_head"),
        reads="last_attended",
        turns=Turns("Human: {text}\n", "Assistant: {text}"),
    ),
    Family(
        "eurus",
        "Eurus-RM-7b",
        "The text [INST] … [/INST] …; `regression_head` at the last token.",
        "model card of openbmb/Eurus-RM-7b; github.com/allenai/reward-bench: rewardbench/models/openbmb.py",
        is_class("EurusRewardModel"),
        names=_renamed("regression_head"),
        head=_one("regression_head"),
        reads="last_attended",
        turns=Turns("[INST] {text} [/INST] ", between=" "),
    ),
    Family(
        "worldpm",
        "WorldPM-72B, WorldPM-72B-HelpSteer2, -UltraFeedback, -RLHFlow",
        "The chat template with an empty system turn; an MLP at the last token, which is <|endoftext|>.",
        "model card of Qwen/WorldPM-72B",
        _ends_in_endoftext,
        head=_mlp,
        reads="last_token",
        last=lambda tokenizer, _: tokenizer.get_vocab().get("<|endoftext|>"),
        system="",
    ),
    Family(
        "qwen2.5-math-rm",
        "Qwen2.5-Math-RM-72B",
        "The chat template, with its own system turn; an MLP at the last token.",
        "model card of Qwen/Qwen2.5-Math-RM-72B; github.com/vllm-project/vllm: vllm/model_executor/models/qwen2_rm.py",
        is_class("Qwen2ForRewardModel"),
        head=_mlp,
        reads="last_token",
    ),
    Family(
        "oasst-pythia",
        "oasst-rm-2-pythia-6.9b-epoch-1, oasst-rm-2.1-pythia-1.4b-epoch-2.5",
        "<|prompter|> and <|assistant|> turns that each end in EOS; `out_proj` at the last token.",
        "github.com/LAION-AI/Open-Assistant: model/model_training; github.com/allenai/reward-bench: rewardbench/models/openassistant.py",
        is_class("GPTNeoXRewardModel"),
        backbone=lambda config: {**config, "model_type": "gpt_neox"},
        names=_renamed("out_proj"),
        head=_one("out_proj"),
        reads="last_attended",
        turns=Turns(
            "<|prompter|>{text}<|endoftext|>",
            "<|assistant|>{text}<|endoftext|>",
            "<|system|>{text}<|endoftext|>",
            between="",
        ),
    ),
    Family(
        "grm-sftreg",
        "GRM-llama3-8B-sftreg, GRM-llama3-8B-distill, GRM-Gemma-2B-sftreg",
        "The template as text, tokenized with a second BOS; the value head beside the language model, at the last token.",
        "model cards of Ray2333/GRM-llama3-8B-sftreg and others; github.com/YangRui2015/Generalizable-Reward-Model: rm_eval/grm_utils.py",
        _writes_value_head,
        names=_renamed("v_head.summary"),
        head=_grm_head,
        reads="last_attended",
        doubles_bos=True,
    ),
    Family(
        "acecoder",
        "AceCodeRM-7B, AceCodeRM-32B",
        "The chat template; TRL's value head at the last token.",
        "model cards of TIGER-Lab/AceCodeRM-7B and -32B",
        is_class("Qwen2ForCausalRM"),
        names=_renamed("v_head.summary"),
        head=_one("v_head.summary"),
        reads="last_attended",
    ),
)


TEXTS: tuple[Family, ...] = (
    Family(
        "grm-ft",
        "GRM-Llama3-8B-rewardmodel-ft and the other GRM …-rewardmodel-ft",
        "The template as text, tokenized with a second BOS; the logit of a plain classifier. Its config.json speaks of a value head.",
        "model cards of Ray2333/GRM-Llama3-8B-rewardmodel-ft and others",
        lambda files: (
            "vhead_layer_type" in files.config
            and any(name.endswith("ForSequenceClassification") for name in files.architectures)
        ),
        doubles_bos=True,
    ),
    Family(
        "tulu-3",
        "Llama-3.1-Tulu-3-8B-RM, Llama-3.1-Tulu-3-…-RM-RB2",
        "A template without BOS, which the tokenizer adds; the logit of a plain classifier.",
        "github.com/allenai/reward-bench: rewardbench/models/pipeline.py",
        published(r"llama-3\.1-tulu-3-.*rm(-rb2)?", of="Llama…SequenceClassification"),
        adds_bos=True,
    ),
    Family(
        "hh-open-llama",
        "hh_rlhf_rm_open_llama_3b",
        "The text ###Human: … ###Assistant: …; the logit of a plain classifier.",
        "model card of weqweasdas/hh_rlhf_rm_open_llama_3b",
        published("hh_rlhf_rm_open_llama_3b", of="Llama…SequenceClassification"),
        turns=Turns("###Human: {text} ", "###Assistant: {text}", between=" "),
    ),
    Family(
        "gpt2-hh",
        "gpt2-large-helpful-reward_model, gpt2-large-harmless-reward_model",
        "The text of an HH transcript, Human and Assistant after blank lines; the logit of a plain classifier.",
        "model cards of Ray2333/gpt2-large-helpful-reward_model and -harmless-",
        published(r"gpt2-large-(helpful|harmless)-reward_model", of="GPT2…SequenceClassification"),
        turns=Turns("\n\nHuman: {text}", "\n\nAssistant: {text}", between=""),
    ),
)
"""Families of a class of Transformers whose authors write or encode a text otherwise than its tokenizer's files say."""


def named_head(files: ModelFiles, reads: Reads | None) -> Family | None:
    """A family for files whose class is unknown and whose weights hold one plain head of one output; None if they do not.
    `reads`: where the user says that it is read.
    """
    found = [name for name in HEADS if (files.shape(f"{name}.weight") or ())[:1] == (1,)]
    if len(found) != 1:
        return None
    (name,) = found
    biased = f"{name}.bias" in files.tensors
    return replace(
        OPEN_RLHF,
        key=f"head:{name}",
        models="any",
        official="not known; read as the user says",
        note=f"Its class is not known here: the head {name} is read as model.reads says. Compare one reward with the author's (--check-reward).",
        names={rf"^{re.escape(name)}\.": "score."},
        head=lambda config, _: heads.linear(width_of(config), bias=biased),
        reads=reads or "config",
        last=OPEN_RLHF.last if reads == "last_attended" else None,
    )


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
