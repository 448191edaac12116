"""Families whose head is a linear layer or a small MLP under another name, on one token of a backbone that Transformers has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cda.models.families import heads
from cda.models.families.family import Family
from cda.models.own_files import ModelFiles
from cda.models.reading import Reads

HEADS = ("score", "v_head", "value_head", "regression_head", "reward_head", "rm_head", "score_head", "classifier")
"""Names of the last layer in published reward models."""


def is_class(*names: str) -> Callable[[ModelFiles], bool]:
    """A claim of models whose config.json names one of these classes."""
    return lambda files: any(name in files.architectures for name in names)


def size(config: Any) -> int:
    """Width of the last hidden states."""
    return int(config.get_text_config().hidden_size)


def _open_rlhf_head(config: Any, files: ModelFiles) -> Any:
    head = heads.linear(size(config), bias=f"{_prefix(files)}.bias" in files.tensors)
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
LINEAR: tuple[Family, ...] = (
    OPEN_RLHF,
    Family(
        "inf-orm",
        "INF-ORM-Llama3.1-70B",
        "The chat template; an MLP on the last token that is not padding.",
        "model card of infly/INF-ORM-Llama3.1-70B; github.com/allenai/reward-bench: rewardbench/models/inform.py",
        is_class("INFORMForSequenceClassification"),
        head=lambda config, _: heads.mlp(size(config), size(config), 1),
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
        names={r"^v_head\.": "score."},
        reads="last_token",
        last=lambda tokenizer, _: tokenizer.cls_token_id,
        doubles_bos=True,
    ),
)


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
        names={rf"^{re.escape(name)}\.": "score."},
        head=lambda config, _: heads.linear(size(config), bias=biased),
        reads=reads or "config",
        last=OPEN_RLHF.last if reads == "last_attended" else None,
    )
