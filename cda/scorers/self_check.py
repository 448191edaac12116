"""A few texts scored padded together and each alone, at load, to detect a model whose scores depend on the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cda.arrays import FloatArray
from cda.models.load import Precision, RewardModel
from cda.models.template import Template
from cda.records import user_prompt
from cda.scorers.batching import check_known, forward
from cda.scorers.compared import Text
from cda.scorers.protocols import not_finite

PROBES: tuple[Text, ...] = tuple(
    (user_prompt(prompt), response)
    for prompt, response in (
        ("What is the capital of France?", "Paris."),
        ("Name a fruit.", "An apple is a fruit, and so are pears and plums."),
        (
            "How do I boil an egg?",
            "Put the egg into boiling water, wait for eight minutes, and cool it under the tap before you peel it. "
            "For a soft yolk six minutes are enough.",
        ),
        (
            "Why is the sky blue?",
            "Sunlight holds all colours. Air scatters blue light far more than red light, because blue waves are shorter, "
            "so that blue reaches us from every direction of the sky, while the other colours come mostly straight from "
            "the sun. In the evening the light has a longer way through the air, most of the blue is lost on it, and "
            "what is left looks red.",
        ),
        (
            "Give me three tips for better sleep, please.",
            "1. Go to bed and get up at the same hours, also at the weekend.\n2. Keep the bedroom dark, quiet and cool, "
            "and leave the telephone outside.\n3. Drink no coffee after lunch, and eat little in the late evening.\n\n"
            "None of these works in a single night: give them two weeks. If you still lie awake for hours, ask a doctor, "
            "since poor sleep can have causes that no habit cures. It helps to write down for some days when you went to "
            "bed, when you got up, and how rested you felt.",
        ),
    )
)
"""Texts of about 5 to 130 tokens."""

# Largest share of the spread by which padding and company may move a score. In fp32 measured at most 1e-5; bf16 rounds at
# 0.4% of the score; in 8-bit the columns that stay out of it depend on the whole batch, measured at up to 0.2.
_TOLERANCE: Mapping[Precision, float] = {"fp32": 1e-4, "bf16": 0.1, "8bit": 0.4}
# Rounding grows with the score itself, so that scores that hardly differ are given a spread of this share of it.
_LEAST_SPREAD = 0.1


def self_check(reward_model: RewardModel, texts: Sequence[Text] = PROBES) -> list[str]:
    """Problems with a model's scoring, each as a sentence for the user; empty if there are none.

    Args:
        reward_model: As loaded.
        texts: At least two, of differing length; all of them make one batch.

    Raises:
        ModelError: A reward is NaN or infinite, or the tokenizer is another model's.
    """
    encoded = [reward_model.template.encode(*text).ids for text in texts]
    check_known(reward_model, max(map(max, encoded)))
    alone = np.array([_alone(reward_model, ids) for ids in encoded])
    together = forward(reward_model, encoded)
    broken = np.flatnonzero(~np.isfinite(alone + together))
    if broken.size:
        name = f"{reward_model.spec.name_or_path}, tried before scoring"
        raise not_finite(name, len(broken), len(texts), f"response {texts[broken[0]][1][:60]!r}")
    lengths = [len(ids) for ids in encoded]
    return [*_beginnings(reward_model.template, encoded), *_differences(reward_model, alone, together, lengths)]


def _alone(reward_model: RewardModel, ids: list[int]) -> float:
    """Reward of one text as the plain model gives it: no padding, no mask, nothing of our own."""
    import torch

    with torch.inference_mode():
        output = reward_model.model(input_ids=torch.tensor([ids], device=reward_model.model.device))
    return float(output.logits[0, 0])


def _differences(
    reward_model: RewardModel, alone: FloatArray, together: FloatArray, lengths: Sequence[int]
) -> list[str]:
    name, precision = reward_model.spec.name_or_path, reward_model.spec.precision
    spread = float(np.ptp(alone))
    if spread == 0:
        return [f"{name}: gives {len(alone)} different texts the same reward, {alone[0]:.6g}; is it trained?"]
    moved = np.abs(together - alone)
    worst = int(moved.argmax())
    if moved[worst] <= _TOLERANCE[precision] * max(spread, _LEAST_SPREAD * float(np.abs(alone).max())):
        return []
    return [
        f"{name}: its reward of a text changes with the texts it is scored with: one of {lengths[worst]} tokens gets "
        f"{alone[worst]:.4g} alone and {together[worst]:.4g} when padded to {max(lengths)} tokens, in {precision}, where "
        f"{len(alone)} texts alone are {spread:.2g} apart. It may read its score off padding, pay no regard to the "
        "attention mask, or be left in training mode. With score.batch_tokens=1 each text is scored alone"
    ]


def _beginnings(template: Template, encoded: Sequence[Sequence[int]]) -> list[str]:
    """Texts should begin with one beginning-of-sequence token, if the tokenizer has one and sets it by itself."""
    tokenizer, bos = template.tokenizer, template.tokenizer.bos_token_id
    if bos is None:
        return []
    # If one token both begins and ends texts, only the one at the beginning counts.
    ends = bos in (tokenizer.eos_token_id, template.pad_token_id)
    most = max(ids[:2].count(bos) if ends else ids.count(bos) for ids in map(list, encoded))
    if most > 1:
        return [f"Texts hold {most} beginning-of-sequence tokens ({tokenizer.bos_token}) where the model expects one."]
    by_itself = tokenizer("text", verbose=False)["input_ids"][:1] == [bos]
    if by_itself and not all(ids[0] == bos for ids in encoded):
        return [
            f"The tokenizer begins texts with {tokenizer.bos_token}, but as {template.form} they begin without it: was the "
            "model trained so?"
        ]
    return []
