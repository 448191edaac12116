"""Published models that compare two responses, or answer in words, so that no text has a reward."""

from __future__ import annotations

from cda.models.families.family import Family, published
from cda.models.families.linear import is_class

_FUNCTION = (
    "A function of yours with three parameters, (prompts, first, second), that returns for each comparison a preference from -1 (the second) "
    "to 1 (the first), is audited as a judge is (cda audit file.py:function)"
)
COMPARING: tuple[Family, ...] = (
    Family(
        "pairrm",
        "PairRM-hf, Better-PairRM",
        "Prompt and two responses in one text; the difference of two scores, in both orders.",
        "github.com/allenai/reward-bench: rewardbench/models/pairrm.py",
        is_class("DebertaV2PairRM"),
        refusal="is a PairRM, which compares two responses in one text and gives no reward of a single one",
        ways=_FUNCTION,
    ),
    Family(
        "pair-preference-model",
        "pair-preference-model-LLaMA3-8B",
        "Asked for A or B, the probability of the first response, in both orders.",
        "github.com/RLHFlow/RLHF-Reward-Modeling: pair-pm/README.md",
        published("pair-preference-model-LLaMA3-8B", of="Llama…CausalLM"),
        refusal="is RLHFlow's pair-preference-model, which compares two responses in one text and gives no reward of a single one",
        ways=f"{_FUNCTION}; or a server gives it as a judge (judge:NAME)",
    ),
    Family(
        "writes",
        "SteamSHP-flan-t5-large, -xl",
        "Asked which response is better, the other being a full stop, the probability of the answer A.",
        "github.com/allenai/reward-bench: rewardbench/models/shp.py; model card of stanfordnlp/SteamSHP-flan-t5-xl",
        is_class("T5ForConditionalGeneration"),
        refusal="is a T5ForConditionalGeneration, an encoder and decoder that writes an answer, without a reward head among its weights (of "
        "SteamSHP the reward is the probability of the answer A to a question about two responses)",
    ),
)
