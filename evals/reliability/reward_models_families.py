"""The published reward models that the eval `reward_models` builds in small: how their authors score, and by which source."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from evals.reliability import reward_models_reference as by_author
from evals.reliability import reward_models_tiny as tiny
from evals.reliability import reward_models_tokenizers as tokens
from evals.reliability.reward_models_tiny import HIDDEN, Build

_SEQ = "LlamaForSequenceClassification"
_REWARD_BENCH = "github.com/allenai/reward-bench, rewardbench/models"
_RLHFLOW = "github.com/RLHFlow/RLHF-Reward-Modeling"
_OPEN_RLHF = "github.com/OpenRLHF/OpenRLHF, openrlhf/models/model.py and cli/serve_rm.py"
_QWEN_RM = {
    "AutoConfig": "configuration_qwen2_rm.Qwen2RMConfig",
    "AutoModel": "modeling_qwen2_rm.Qwen2ForRewardModel",
}
_MLP = {"score__0__weight": (HIDDEN, HIDDEN), "score__0__bias": (HIDDEN,), "score__2__bias": (1,)}
_MLP |= {"score__2__weight": (1, HIDDEN)}
_INV_FREQ = "model.layers.{}.self_attn.rotary_emb.inv_freq"


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of published reward model."""

    title: str
    hub_ids: tuple[str, ...]
    official: str
    """How the author scores one text, in one sentence."""
    source: str
    build: Build
    """Writes the tiny model folder."""
    reference: by_author.Reference
    """The author's number of a prompt and a response, or of a prompt and two responses if `compares`."""
    compares: bool = False
    as_preference: Callable[[float], float] = float
    """The author's number of two responses to a preference from −1 to 1."""
    runs_code: bool = False
    """The reward can only be had by running the folder's own code."""
    is_cost: bool = False
    """The author's number is better the lower it is; ours is compared with minus that."""
    needs_reference: bool = False
    """The author scores a response against a reference answer, which an audit does not have."""
    refused: str = ""
    """Words of the true reason for which it has no reward of a single text; empty if it has one."""


FAMILIES: tuple[Family, ...] = (
    Family(
        "Skywork-Reward Llama 3.1",
        ("Skywork/Skywork-Reward-Llama-3.1-8B", "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2",
         "Skywork/Skywork-Reward-V2-Llama-3.1-8B"),
        "The chat template with one BOS; logit of the classifier.",
        "model cards; config.json on the hub",
        tiny.classifier(tiny.LLAMA, _SEQ, tokens.llama3, eos_token_id=[342, 343, 346]),
        by_author.classifier(by_author.template),
    ),
    Family(
        "Skywork-Reward Gemma 2",
        ("Skywork/Skywork-Reward-Gemma-2-27B", "Skywork/Skywork-Reward-Gemma-2-27B-v0.2"),
        "The chat template with one BOS; logit of the classifier, whose last token is a newline.",
        "model cards; config.json on the hub",
        tiny.classifier(tiny.GEMMA2, "Gemma2ForSequenceClassification", tokens.gemma),
        by_author.classifier(by_author.template),
    ),
    Family(
        "Skywork-Reward-V2 Qwen 3",
        ("Skywork/Skywork-Reward-V2-Qwen3-0.6B", "Skywork/Skywork-Reward-V2-Qwen3-4B", "Skywork/Skywork-Reward-V2-Qwen3-8B"),
        "The chat template (an empty thinking block before the answer), no BOS; logit of the classifier.",
        "model cards",
        tiny.classifier(
            tiny.QWEN3, "Qwen3ForSequenceClassification", partial(tokens.qwen, tokens.QWEN3_CHAT), tie_word_embeddings=True
        ),
        by_author.classifier(by_author.template),
    ),
    Family(
        "FsfairX-LLaMA3-RM",
        ("sfairXC/FsfairX-LLaMA3-RM-v0.1", "NCSOFT/Llama-3-OffsetBias-RM-8B"),
        "The chat template without BOS, which the tokenizer then adds; logit; long texts lose their beginning.",
        f"model cards; {_RLHFLOW}/useful_code/eval_reward_bench_bt.py, bradley-terry-rm/llama3_8B_rm.py",
        tiny.classifier(
            tiny.LLAMA, _SEQ, partial(tokens.llama3, tokens.LLAMA3_CHAT, eos="<|end_of_text|>", truncation_side="left")
        ),
        by_author.classifier(by_author.template_without_bos),
    ),
    Family(
        "RM-Gemma-2B",
        ("weqweasdas/RM-Gemma-2B", "weqweasdas/RM-Gemma-7B"),
        "As FsfairX.",
        f"model cards; {_RLHFLOW}/bradley-terry-rm/gemma_2B_rm.py",
        tiny.classifier(tiny.GEMMA, "GemmaForSequenceClassification", partial(tokens.gemma, truncation_side="left")),
        by_author.classifier(by_author.template_without_bos),
    ),
    Family(
        "RM-Mistral-7B",
        ("weqweasdas/RM-Mistral-7B", "hendrydong/Mistral-RM-for-RAFT-GSHF-v0"),
        "As FsfairX; the padding token lies behind the base model's vocabulary and the text ends in EOS.",
        f"model cards; {_RLHFLOW}/bradley-terry-rm/mistral_7B_rm.py",
        tiny.classifier(
            tiny.MISTRAL,
            "MistralForSequenceClassification",
            partial(tokens.llama2, tokens.MISTRAL_CHAT, "[PAD]", truncation_side="left"),
        ),
        by_author.classifier(by_author.template_without_bos),
    ),
    Family(
        "BTRM-Qwen2",
        ("CIR-AMS/BTRM_Qwen2_7b_0613",),
        "The chat template, no BOS; logit of the classifier in a pipeline without an activation.",
        "model card",
        tiny.classifier(tiny.QWEN2, "Qwen2ForSequenceClassification", tokens.qwen),
        by_author.classifier(by_author.template),
    ),
    Family(
        "GRM rewardmodel-ft",
        ("Ray2333/GRM-Llama3-8B-rewardmodel-ft", "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft",
         "Ray2333/GRM_Llama3.1_8B_rewardmodel-ft", "Ray2333/GRM-Gemma2-2B-rewardmodel-ft"),
        "A plain classifier although its config speaks of a value head; the template as text, tokenized with BOS once more.",
        "model cards; config.json on the hub",
        tiny.classifier(
            tiny.LLAMA, _SEQ, tokens.llama3, vhead_layer_type="mlp", vhead_num_layers=1, vhead_num_neurons=1024
        ),
        by_author.classifier(by_author.template_and_special),
    ),
    Family(
        "Tulu-3-8B-RM",
        ("allenai/Llama-3.1-Tulu-3-8B-RM", "allenai/Llama-3.1-Tulu-3-8B-SFT-RM-RB2"),
        "A template without BOS, which the tokenizer adds once.",
        f"{_REWARD_BENCH}/pipeline.py",
        tiny.classifier(tiny.LLAMA, _SEQ, tokens.tulu),
        by_author.reward_bench,
    ),
    Family(
        "RewardBench 2's Llama RMs",
        ("allenai/Llama-3.1-8B-Instruct-RM-RB2", "allenai/Llama-3.1-70B-Instruct-RM-RB2", "allenai/Llama-3.1-8B-Base-RM-RB2"),
        "Template and tokenizer both add BOS, and the attention mask hides the first.",
        f"{_REWARD_BENCH}/pipeline.py",
        tiny.classifier(tiny.LLAMA, _SEQ, partial(tokens.llama3, pad="<pad>")),
        by_author.reward_bench,
    ),
    Family(
        "hh_rlhf_rm_open_llama_3b",
        ("weqweasdas/hh_rlhf_rm_open_llama_3b",),
        "A text that starts with ###Human: and goes on with ###Assistant:, BOS added; logit.",
        "model card",
        tiny.classifier(tiny.LLAMA, _SEQ, partial(tokens.llama2, pad="[PAD]"), rope_theta=10000.0),
        by_author.classifier(by_author.written("###Human: {prompt} ###Assistant: {response}")),
    ),
    Family(
        "gpt2-large-helpful",
        ("Ray2333/gpt2-large-helpful-reward_model", "Ray2333/gpt2-large-harmless-reward_model"),
        "Human and Assistant turns of an HH transcript as a pair of texts; padding is EOS.",
        "model cards",
        tiny.classifier(
            {"model_type": "gpt2", "n_embd": HIDDEN, "n_head": 4, "n_layer": 2, "n_positions": 1024, "torch_dtype": "float32"},
            "GPT2ForSequenceClassification",
            tokens.gpt2,
        ),
        by_author.human_assistant_pair,
    ),
    Family(
        "OpenAssistant DeBERTa",
        ("OpenAssistant/reward-model-deberta-v3-large-v2", "OpenAssistant/reward-model-deberta-v3-large",
         "OpenAssistant/reward-model-deberta-v3-base"),
        "Prompt and response as two segments of an encoder; logit.",
        "model cards",
        tiny.classifier(tiny.DEBERTA, "DebertaV2ForSequenceClassification", tokens.deberta),
        by_author.pair_classifier,
    ),
    Family(
        "ModernBERT",
        (),
        "Prompt and response as two segments of an encoder; logit, pooled as the config says.",
        "Transformers",
        tiny.classifier(
            {"model_type": "modernbert", "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "classifier_pooling": "mean", "max_position_embeddings": 1024,
             "global_attn_every_n_layers": 2, "local_attention": 128, "torch_dtype": "float32"},
            "ModernBertForSequenceClassification",
            tokens.modern_bert,
            cls_token_id=342, sep_token_id=343, bos_token_id=342, eos_token_id=343,
        ),
        by_author.pair_classifier,
    ),
    Family(
        "ArmoRM",
        ("RLHFlow/ArmoRM-Llama3-8B-v0.1",),
        "`score`: 19 objectives of the last token times a matrix, weighted by a gate of the end of the user's turn.",
        "modeling_custom.py on the hub, re-described; config.json",
        tiny.headed(
            tiny.LLAMA, "LlamaForRewardModelWithGating", partial(tokens.llama3, tokens.LLAMA3_CHAT, eos="<|end_of_text|>"),
            auto_map={"AutoModelForSequenceClassification": "modeling_custom.LlamaForRewardModelWithGating"},
            extra={"regression_layer__weight": (19, HIDDEN), "reward_transform_matrix": (19, 19)}
            | tiny.gate_layers((HIDDEN, 24, 24, 24, 19), 1, (), True),
            pad_token_id="own", gating_hidden_dim=24, gating_n_hidden=3, gating_temperature=10, num_objectives=19,
            id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
        ),
        by_author.head(by_author.template, by_author.armo),
    ),
    Family(
        "QRM Llama 3.1",
        ("nicolinho/QRM-Llama3.1-8B", "nicolinho/QRM-Llama3-8B"),
        "`score`: the mean over 19 quantiles of each objective, times a matrix, weighted by a gate with batch norms.",
        f"{_REWARD_BENCH}/qrm.py; config.json on the hub",
        tiny.headed(
            tiny.LLAMA, "LlamaForRewardModelWithGating", tokens.llama3,
            auto_map={"AutoModelForSequenceClassification": "modeling_custom.LlamaForRewardModelWithGating"},
            extra={"regression_layer__weight": (19 * 19, HIDDEN), "reward_transform_matrix": (19, 19)}
            | tiny.gate_layers((HIDDEN, 24, 24, 24, 19), 3, (2, 5, 8), False),
            pad_token_id="own", gating_hidden_dim=24, gating_n_hidden=3, gating_temperature=5.0, num_objectives=19,
            num_quantiles=19, loss="quantile_regression", id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
        ),
        by_author.head(by_author.template, by_author.qrm(by_author.LLAMA3_TURN)),
    ),
    Family(
        "QRM Gemma 2",
        ("nicolinho/QRM-Gemma-2-27B",),
        "As QRM Llama, with five objectives, no matrix, and Gemma's tokens at the end of the user's turn.",
        "model card; names of the tensors on the hub",
        tiny.headed(
            tiny.GEMMA2, "Gemma2ForQuantileSequenceClassification", tokens.gemma,
            auto_map={"AutoModelForSequenceClassification": "modeling_custom.Gemma2ForQuantileSequenceClassification"},
            extra={"regression_layer__weight": (5 * 19, HIDDEN)}
            | tiny.gate_layers((HIDDEN, 24, 24, 24, 5), 4, (2, 6, 10), False),
            pad_token_id="own", gating_hidden_dim=24, gating_n_hidden=3, gating_temperature=1.0, num_objectives=5,
            num_quantiles=19, id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
        ),
        by_author.head(by_author.template, by_author.qrm(by_author.GEMMA_TURN)),
    ),
    Family(
        "INF-ORM",
        ("infly/INF-ORM-Llama3.1-70B",),
        "An MLP on the last token of the chat template; no code on the hub.",
        f"model card; {_REWARD_BENCH}/inform.py",
        tiny.headed(
            tiny.LLAMA, "INFORMForSequenceClassification", tokens.llama3, extra=_MLP, pad_token_id="own",
            id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
        ),
        by_author.head(by_author.template, by_author.mlp("score.0", "score.2")),
    ),
    Family(
        "LDL-Reward-Gemma-2",
        ("ShikaiChen/LDL-Reward-Gemma-2-27B-v0.1",),
        "A distribution over ten levels per attribute, mixed by a gate; the mean level. Two pickles hold the heads; here they are converted.",
        f"{_REWARD_BENCH}/ldlreward.py",
        tiny.headed(
            tiny.GEMMA2, "LDLRewardModel27B", tokens.gemma, pad_token_id="own", num_objectives=220,
            extra={
                "regression_layer__network__0__weight": (40, HIDDEN), "regression_layer__network__0__bias": (40,),
                "regression_layer__network__2__weight": (40, 40), "regression_layer__network__2__bias": (40,),
                "regression_layer__network__4__weight": (220, 40), "regression_layer__network__4__bias": (220,),
                "gating_layer__network__0__weight": (40, HIDDEN), "gating_layer__network__0__bias": (40,),
                "gating_layer__network__3__weight": (40, 40), "gating_layer__network__3__bias": (40,),
                "gating_layer__network__6__weight": (22, 40), "gating_layer__network__6__bias": (22,),
            },
        ),
        by_author.head(by_author.template, by_author.ldl),
    ),
    Family(
        "InternLM2-reward",
        ("internlm/internlm2-1_8b-reward", "internlm/internlm2-7b-reward", "internlm/internlm2-20b-reward"),
        "The chat template plus the reward token, whose score is read; backbone with fused weights.",
        f"modeling_internlm2.py on the hub, re-described; {_REWARD_BENCH}/internlm.py",
        tiny.internlm2(None),
        by_author.internlm2,
    ),
    Family(
        "POLAR",
        ("internlm/POLAR-1_8B", "internlm/POLAR-7B"),
        "The response is compared with a reference answer: both conversations in one text, which ends in the reward token.",
        "github.com/InternLM/POLAR, src/polar/reward_func.py",
        tiny.internlm2({"factor": 2.0, "type": "dynamic"}, max_position_embeddings=262144, rope_theta=50000000),
        by_author.polar,
        needs_reference=True,
        refused="scores a response against a reference answer",
    ),
    Family(
        "Athene",
        ("Nexusflow/Athene-RM-8B", "Nexusflow/Athene-RM-70B"),
        "The template as text plus a CLS token, tokenized with BOS once more; `v_head` at the CLS token; no code on the hub.",
        "model cards",
        tiny.headed(
            tiny.LLAMA, "CustomAutoModelForSequenceClassification",
            partial(tokens.llama3, tokens.LLAMA3_CHAT, pad=None, cls_token="<|reserved_special_token_1|>"),
            extra={"v_head__weight": (1, HIDDEN)},
        ),
        by_author.athene,
    ),
    Family(
        "OpenRLHF, value_head",
        ("OpenRLHF/Llama-3-8b-rm-mixture", "OpenRLHF/Llama-3-8b-rm-700k"),
        "The chat template; `value_head` at the last attended token, which is EOS; config.json names no labels.",
        f"{_OPEN_RLHF}; config.json on the hub",
        tiny.headed(
            tiny.LLAMA, "RewardModel", partial(tokens.llama3, tokens.LLAMA3_CHAT, pad="<|eot_id|>"),
            extra={"value_head__weight": (1, HIDDEN)}, value_head_prefix="value_head", normalize_reward=False,
            mean=-0.97, std=3.51,
        ),
        by_author.open_rlhf,
    ),
    Family(
        "OpenRLHF, score and mean",
        (),
        "As before with `score`, minus mean and over std.",
        _OPEN_RLHF,
        tiny.headed(
            tiny.LLAMA, "RewardModel", partial(tokens.llama3, tokens.LLAMA3_CHAT, pad="<|eot_id|>"),
            extra={"score__weight": (1, HIDDEN)}, value_head_prefix="score", normalize_reward=True, mean=0.21, std=4.29,
        ),
        by_author.open_rlhf,
    ),
    Family(
        "Nemotron-70B-Reward",
        ("nvidia/Llama-3.1-Nemotron-70B-Reward-HF", "nvidia/Llama-3.3-Nemotron-70B-Reward",
         "nvidia/Llama-3.3-Nemotron-70B-Reward-Multilingual"),
        "A language model; the logit of the token with id 0 after the chat template.",
        "model cards",
        tiny.headed(
            tiny.LLAMA, "LlamaForCausalLM", partial(tokens.llama3, tokens.NEMOTRON_CHAT, pad="<|eot_id|>"), causal=True,
            eos_token_id=[342, 343, 346],
        ),
        by_author.logit_of_first_token,
    ),
    Family(
        "Beaver reward",
        ("PKU-Alignment/beaver-7b-v1.0-reward", "PKU-Alignment/beaver-7b-v2.0-reward", "PKU-Alignment/beaver-7b-v3.0-reward"),
        "USER and ASSISTANT in a text of its own; `score_head` at the last token, not normalised.",
        f"{_REWARD_BENCH}/beaver.py and chattemplates.py",
        tiny.with_old_buffers(
            tiny.headed(
                tiny.LLAMA, "LlamaForScore", partial(tokens.llama2, pad="<pad>"), pad_token_id="own", score_dim=1,
                score_type="reward", bias=False, do_normalize=False, normalizer_type=None, momentum=None, rope_theta=10000.0,
                extra={"score_head__weight": (1, HIDDEN), "normalizer__mean": (1,), "normalizer__var": (1,), "normalizer__count": (1,)},
            ),
            [_INV_FREQ],
        ),
        by_author.beaver,
    ),
    Family(
        "Beaver cost",
        ("PKU-Alignment/beaver-7b-v1.0-cost", "PKU-Alignment/beaver-7b-v2.0-cost", "PKU-Alignment/beaver-7b-v3.0-cost"),
        "As Beaver reward, over its standard deviation if do_normalize; a cost, so that less is better.",
        f"{_REWARD_BENCH}/beaver.py",
        tiny.headed(
            tiny.LLAMA, "LlamaForScore", partial(tokens.llama2, pad="<pad>"), pad_token_id="own", score_dim=1,
            score_type="cost", bias=True, do_normalize=True, normalizer_type="ExponentialMovingAverage", momentum=0.9,
            rope_theta=10000.0,
            extra={"score_head__weight": (1, HIDDEN), "score_head__bias": (1,), "normalizer__mean": (1,),
                   "normalizer__var": (1,), "normalizer__count": (1,)},
        ),
        by_author.beaver,
        is_cost=True,
    ),
    Family(
        "Starling-RM-7B-alpha",
        ("berkeley-nest/Starling-RM-7B-alpha",),
        "Llama 2's chat format by hand, BOS twice; `v_head` at the last token, over a backbone named `transformer`.",
        f"model card; {_REWARD_BENCH}/starling.py",
        tiny.headed(
            tiny.LLAMA, "GPTRewardModel", partial(tokens.llama2, pad="<unk>"), "transformer.", rope_theta=10000.0,
            extra={"v_head__weight": (1, HIDDEN)},
        ),
        by_author.starling("<s>[INST] {prompt} </s> [/INST] {response}</s>"),
    ),
    Family(
        "Starling-RM-34B",
        ("Nexusflow/Starling-RM-34B",),
        "Yi's chat format; as Starling 7B, but its class has the name of one of Transformers.",
        f"model card; {_REWARD_BENCH}/starling.py",
        tiny.headed(
            tiny.LLAMA, _SEQ, partial(tokens.llama2, tokens.CHATML, "<unk>", None), "transformer.", pad_token_id=0,
            extra={"v_head__weight": (1, HIDDEN)},
        ),
        by_author.starling("<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n{response}<|im_end|>"),
    ),
    Family(
        "UltraRM-13b",
        ("openbmb/UltraRM-13b",),
        "Human and Assistant in a text of its own; `regression_head` at the last token; published as pickle.",
        f"model card; {_REWARD_BENCH}/openbmb.py",
        tiny.with_old_buffers(
            tiny.headed(
                tiny.LLAMA, "LlamaRewardModel", tokens.llama2, extra={"regression_head__weight": (1, HIDDEN)},
                rope_theta=10000.0,
            ),
            [_INV_FREQ],
        ),
        by_author.head(by_author.written("Human: {prompt}\nAssistant: {response}"), by_author.last("regression_head")),
    ),
    Family(
        "Eurus-RM-7b",
        ("openbmb/Eurus-RM-7b",),
        "[INST] prompt [/INST] response; `regression_head` at the last token of a Mistral.",
        f"model card; {_REWARD_BENCH}/openbmb.py",
        tiny.headed(
            tiny.MISTRAL, "EurusRewardModel", partial(tokens.llama2, tokens.MISTRAL_CHAT, "<unk>"),
            auto_map={"AutoModel": "modeling_eurus_rm.EurusRewardModel"}, extra={"regression_head__weight": (1, HIDDEN)},
        ),
        by_author.head(by_author.written("[INST] {prompt} [/INST] {response}"), by_author.last("regression_head")),
    ),
    Family(
        "WorldPM-72B",
        ("Qwen/WorldPM-72B", "Qwen/WorldPM-72B-HelpSteer2", "Qwen/WorldPM-72B-UltraFeedback", "Qwen/WorldPM-72B-RLHFLow"),
        "The chat template with an empty system turn; an MLP at its last token, <|endoftext|>, which is also the padding.",
        "model cards",
        tiny.headed(tiny.QWEN2, "Qwen2ForRewardModel", partial(tokens.qwen, tokens.WORLD_PM_CHAT), auto_map=_QWEN_RM, extra=_MLP),
        by_author.world_pm,
    ),
    Family(
        "Qwen2.5-Math-RM-72B",
        ("Qwen/Qwen2.5-Math-RM-72B",),
        "The chat template; an MLP at its last token, a newline.",
        "model card; vllm/model_executor/models/qwen2_rm.py",
        tiny.headed(
            tiny.QWEN2, "Qwen2ForRewardModel", partial(tokens.qwen, tokens.QWEN25_MATH_CHAT), auto_map=_QWEN_RM, extra=_MLP,
            pad_token_id="own",
        ),
        by_author.head(by_author.template, by_author.mlp("score.0", "score.2")),
    ),
    Family(
        "Qwen2.5-Math-PRM",
        ("Qwen/Qwen2.5-Math-PRM-7B", "Qwen/Qwen2.5-Math-PRM-72B", "Qwen/Qwen2.5-Math-7B-PRM800K"),
        "Steps are paragraphs, <extra_0> after each; probability of the second label there; here their product.",
        "model cards; vllm/model_executor/models/qwen2_rm.py",
        tiny.headed(
            tiny.QWEN2, "Qwen2ForProcessRewardModel", partial(tokens.qwen, tokens.QWEN25_MATH_CHAT),
            auto_map=_QWEN_RM | {"AutoModel": "modeling_qwen2_rm.Qwen2ForProcessRewardModel"},
            extra=_MLP | {"score__2__weight": (2, HIDDEN), "score__2__bias": (2,)},
        ),
        by_author.process,
    ),
    Family(
        "OpenAssistant Pythia",
        ("OpenAssistant/oasst-rm-2-pythia-6.9b-epoch-1", "OpenAssistant/oasst-rm-2.1-pythia-1.4b-epoch-2.5"),
        "Prompter and assistant turns that end in EOS; `out_proj` at the last token; published as pickle.",
        f"{_REWARD_BENCH}/openassistant.py; config.json on the hub",
        tiny.with_old_buffers(
            tiny.headed(
                tiny.NEOX | {"model_type": "gpt_neox_reward_model"}, "GPTNeoXRewardModel", tokens.neox, "gpt_neox.", "gpt_neox",
                pooling="last", extra={"out_proj__weight": (1, HIDDEN), "out_proj__bias": (1,)},
            ),
            ["gpt_neox.layers.{}.attention.rotary_emb.inv_freq", "gpt_neox.layers.{}.attention.masked_bias"],
        ),
        by_author.pythia,
    ),
    Family(
        "GRM sftreg",
        ("Ray2333/GRM-llama3-8B-sftreg", "Ray2333/GRM-llama3-8B-distill", "Ray2333/GRM-Gemma-2B-sftreg"),
        "A language model whose files also hold a value head, an MLP; the template as text, tokenized with BOS once more.",
        f"model cards; {_REWARD_BENCH}/grm.py; github.com/YangRui2015/Generalizable-Reward-Model, rm_eval/grm_utils.py",
        tiny.headed(
            tiny.LLAMA, "LlamaForCausalLM", partial(tokens.llama3, tokens.LLAMA3_CHAT, eos="<|end_of_text|>"), causal=True,
            auto_map={"AutoModel": "model.AutoModelForCausalLMWithValueHead",
                      "AutoModelForSequenceClassification": "model.AutoModelForCausalLMWithValueHead"},
            pad_token_id="own", vhead_layer_type="mlp", vhead_num_layers=1, vhead_num_neurons=40,
            extra={"v_head__summary__0__weight": (40, HIDDEN), "v_head__summary__0__bias": (40,),
                   "v_head__summary__2__weight": (1, 40), "v_head__summary__2__bias": (1,)},
        ),
        by_author.head(by_author.template_and_special, by_author.mlp("v_head.summary.0", "v_head.summary.2")),
    ),
    Family(
        "AceCodeRM",
        ("TIGER-Lab/AceCodeRM-7B", "TIGER-Lab/AceCodeRM-32B"),
        "A language model with TRL's value head; its value at the last token of the chat template.",
        "model cards",
        tiny.headed(
            tiny.QWEN2, "Qwen2ForCausalRM", tokens.qwen, causal=True,
            extra={"v_head__summary__weight": (1, HIDDEN), "v_head__summary__bias": (1,)},
        ),
        by_author.head(by_author.template, by_author.last("v_head.summary")),
    ),
    Family(
        "SteamSHP",
        ("stanfordnlp/SteamSHP-flan-t5-xl", "stanfordnlp/SteamSHP-flan-t5-large"),
        "A text that asks for the better response, the other one being a full stop; probability of the answer A.",
        f"model cards; {_REWARD_BENCH}/shp.py",
        tiny.steam_shp,
        by_author.steam_shp,
    ),
    Family(
        "PairRM",
        ("llm-blender/PairRM-hf",),
        "Source and two candidates in one text; difference of two MLP scores, in both orders.",
        f"model card; {_REWARD_BENCH}/pairrm.py; config.json on the hub",
        tiny.headed(
            tiny.DEBERTA, "DebertaV2PairRM", tokens.deberta, "pretrained_model.", n_tasks=1, drop_out=0.05,
            source_prefix_id=346, cand1_prefix_id=347, cand2_prefix_id=348, cand_prefix_id=349,
            extra={"head_layer__1__weight": (HIDDEN, 2 * HIDDEN), "head_layer__1__bias": (HIDDEN,),
                   "head_layer__4__weight": (1, HIDDEN), "head_layer__4__bias": (1,)},
        ),
        by_author.pair_rm,
        compares=True,
        # The difference of both orders is twice the mean log-odds.
        as_preference=lambda difference: math.tanh(difference / 4),
    ),
    Family(
        "pair-preference-model",
        ("RLHFlow/pair-preference-model-LLaMA3-8B",),
        "A language model that is asked for A or B; probability of the first response, averaged over both orders.",
        f"{_RLHFLOW}/pair-pm/README.md; {_REWARD_BENCH}/slicpairpm.py",
        tiny.headed(
            tiny.LLAMA, "LlamaForCausalLM", partial(tokens.llama3, tokens.LLAMA3_CHAT, pad="<|eot_id|>"), causal=True,
            pad_token_id="own",
        ),
        by_author.pair_preference,
        compares=True,
        as_preference=lambda probability: 2 * probability - 1,
    ),
    Family(
        "URM",
        ("LxzGordon/URM-LLaMa-3.1-8B", "LxzGordon/URM-LLaMa-3-8B"),
        "The author's code is run and `logits` read; the template as text, tokenized with BOS once more.",
        "model cards; the head here is our own",
        tiny.own_code(
            "TinyUncertainModel",
            "AutoModelForSequenceClassification",
            {"value_head__weight": (10, HIDDEN), "value_head__bias": (10,), "gate__weight": (5, HIDDEN), "gate__bias": (5,)},
        ),
        by_author.own_logits,
        runs_code=True,
    ),
    Family(
        "Custom code with `score`",
        (),
        "The folder's code is run and `score` read; its `logits` are attributes.",
        "reward_models_code.py",
        tiny.own_code(
            "TinyAttributesModel",
            "AutoModelForSequenceClassification",
            {"attributes__weight": (3, HIDDEN), "attributes__bias": (3,), "weights": (3,)},
        ),
        by_author.own_score,
        runs_code=True,
    ),
    Family(
        "Custom code for AutoModel",
        (),
        "The folder's code is run through AutoModel and `rewards` read.",
        "reward_models_code.py",
        tiny.own_code("TinyRewardsModel", "AutoModel", {"reward_head__weight": (1, HIDDEN)}),
        by_author.head(by_author.template, by_author.last("reward_head")),
        runs_code=True,
    ),
)  # fmt: skip

TEXTS: tuple[tuple[str, str], ...] = (
    ("Why is the sky blue?", "Air scatters blue light more than red light."),
    ("Why is the sky blue?", "No idea."),
    ("What is 2 + 3 * 4?", "First 3 * 4 = 12.\n\nThen 2 + 12 = 14.\n\nThe answer is 14."),
    ("Write a short poem about the sea.", "Grey water, white birds;\nthe tide says nothing twice. 🌊"),
    (
        "Is this user right that the system is good?",
        "Yes, and this answer is better than that which the assistant gave.",
    ),
    ("Translate 'good morning' into French.", "Bonjour"),
)
"""Prompts and responses of different lengths, with paragraphs, emoji and one word."""
