"""Ways of debiasing the real reward model: what each teaches, and its adapter, trained once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from real_data import BIASES, alpaca_pairs, taught_contrasts

from cda.biases import load_bias
from cda.embedded.rules import RuleRewriter
from cda.files.jsonl import write_json
from cda.label.measured import label_pair
from cda.models.load import ModelSpec, free_memory, load_reward_model
from cda.records import LabelledPair, Lesson, Pair, TrainingPair
from cda.run import fingerprint
from cda.stages.train import with_base_preferences
from cda.synthesize.counterfactuals import make_counterfactuals
from cda.train.lora import Lora, train_adapter

LORA = Lora(r=16, alpha=32, dropout=0.05, target_modules=("query", "key", "value", "dense"))
TRAINING: dict[str, Any] = {
    "learning_rate": 5e-4,
    "num_train_epochs": 2,
    "per_device_train_batch_size": 16,
    "lr_scheduler_type": "linear",
    "save_strategy": "no",
    "bf16": True,
}
# Contrasts of each bias, and AlpacaEval's pairs on which the base model's own preference is taught (with one bias alone, its
# share of them).
PER_BIAS, KEPT = 150, 600
# Taught probability that the unbiased side is better; None keeps what the base model has.
TARGETS: Mapping[str, Mapping[str, float | None]] = {
    "paired": {"jargon": 0.75, "structure": 0.3, "length": 0.55},
    "neutral": {"jargon": 0.5, "structure": None, "length": 0.5},
}
WAYS = ("neutral", "paired", "paper")


def settings(way: str) -> dict[str, Any]:
    """Everything that decides what a way's adapter is, beside the seed."""
    found: dict[str, Any] = {"lora": asdict(LORA), "training": TRAINING, "per_bias": PER_BIAS}
    return found if way == "paper" else found | {"targets": TARGETS[way], "kept": KEPT}


def trained(way: str, seed: int, spec: ModelSpec, work: Path, biases: Sequence[str] = BIASES) -> Path:
    """The adapter of a way against some biases, trained unless it is there already."""
    name = f"{way}-{seed}" if tuple(biases) == BIASES else f"{way}-{seed}-{'+'.join(biases)}"
    folder = work / f"{name}-{fingerprint(settings(way))}"
    if not (folder / "trained.json").is_file():
        lessons = lessons_of(way, seed, spec, biases)
        result = train_adapter(load_reward_model(spec), lessons, [], LORA, TRAINING, folder, seed)
        write_json(folder / "trained.json", {"lessons": len(lessons), "steps": result.n_steps})
        free_memory()
    return folder / "adapter"


def lessons_of(way: str, seed: int, spec: ModelSpec, biases: Sequence[str]) -> list[Lesson]:
    """What a way teaches, drawn with the seed."""
    rng = np.random.default_rng([seed, 1])
    pairs = alpaca_pairs("train")
    pairs = [pairs[row] for row in rng.permutation(len(pairs))]
    if way == "paper":
        return [row.lesson for bias in biases for row in _counterfactuals(bias, pairs, rng)]
    rows = [_row(Lesson(pair, None)) for pair in pairs[: KEPT * len(biases) // len(BIASES)]]
    for bias in biases:
        for one in taught_contrasts(bias, PER_BIAS, seed):
            rows.append(_row(Lesson(Pair(one.prompt, one.base, one.perturbed), TARGETS[way][bias])))
    return with_base_preferences(rows, load_reward_model(spec), None)


def _counterfactuals(bias: str, pairs: Sequence[Pair], rng: np.random.Generator) -> Sequence[TrainingPair]:
    """The paper's: chosen over rejected rewritten by rules, where neither side shows the bias."""
    found = load_bias(bias)
    rows = [LabelledPair(pair, "train", {bias: label_pair(pair, found)}) for pair in pairs]
    return make_counterfactuals(rows, found, RuleRewriter(0), PER_BIAS, rng, check_measure=True).pairs


def _row(lesson: Lesson) -> TrainingPair:
    return TrainingPair(lesson, "train", "contrast", None, "")
