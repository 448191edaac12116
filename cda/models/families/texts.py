"""Families of a class of Transformers whose authors write or encode a text otherwise than its tokenizer's files say."""

from __future__ import annotations

from cda.models.families.family import Family, published
from cda.models.template import Turns

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
