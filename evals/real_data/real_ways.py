"""Ways of debiasing the real reward model: what each teaches, and its adapter, trained once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from cda.biases import load_bias
from cda.counterfactuals.pairs import make_counterfactuals
from cda.embedded.rules import RuleRewriter
from cda.features import n_words
from cda.files.jsonl import read_json, write_json
from cda.finetuning.train import with_base_preferences
from cda.models.config import ModelSpec
from cda.models.load import free_memory, load_reward_model
from cda.records import LabelledPair, Pair, TrainingExample, TrainingPair
from cda.rewriting.labels import label_pair
from cda.run import fingerprint
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.engine import score_texts
from cda.training.arguments import Lora
from cda.training.lora import train_adapter
from evals.real_data.real_inputs import BIASES, alike, alpaca_pairs, taught_contrasts

LORA = Lora(r=16, alpha=32, dropout=0.05, target_modules=["query", "key", "value", "dense"])
TRAINING: dict[str, Any] = {
    "learning_rate": 5e-4,
    "num_train_epochs": 2,
    "per_device_train_batch_size": 16,
    "lr_scheduler_type": "linear",
    "save_strategy": "no",
    "bf16": True,
}
SHORTEST_WORDS = 40  # of a response that is cut


@dataclass(frozen=True, slots=True)
class Way:
    """What an adapter is taught.

    Attributes:
        targets: By bias, the taught probability that the side without it is better; None within keeps what the base model
            says. None in its place: the paper's counterfactuals.
        per_bias: Contrasts, or counterfactuals, of each bias.
        kept: Pairs of AlpacaEval on which the base model's own preference is taught; with one bias alone, its share of them.
        fresh: Whether the pairs kept are of other two responses to a prompt than those that the base model was trained on.
        matched: Whether AlpacaEval's train pairs that are alike in length and layout are taught too, with the judge's verdict.
        cut: Responses of AlpacaEval beside their own first half, on which the base model's own preference is taught: what
            is shorter because something is missing.
        training: What differs from TRAINING.
    """

    targets: Mapping[str, float | None] | None
    per_bias: int = 150
    kept: int = 0
    fresh: bool = False
    matched: bool = False
    cut: int = 0
    training: Mapping[str, Any] = field(default_factory=dict)


WAYS: dict[str, Way] = {
    "neutral": Way({"jargon": 0.5, "structure": None, "length": 0.5}, kept=600),
    "paired": Way({"jargon": 0.75, "structure": 0.3, "length": 0.55}, kept=1500),
    "paper": Way(None),
}


def settings(way: str) -> dict[str, Any]:
    """Everything that decides what a way's adapter is, beside the seed."""
    one = WAYS[way]
    return {"lora": to_jsonable_python(LORA)} | to_jsonable_python(one) | {"training": {**TRAINING, **one.training}}


def trained(way: str, seed: int, spec: ModelSpec, work: Path, biases: Sequence[str] = BIASES) -> Path:
    """The adapter of a way against some biases, trained unless it is there already."""
    name = f"{way}-{seed}" if tuple(biases) == BIASES else f"{way}-{seed}-{'+'.join(biases)}"
    folder = work / f"{name}-{fingerprint(settings(way))}"
    if not (folder / "trained.json").is_file():
        examples = examples_of(way, seed, spec, biases)
        result = train_adapter(load_reward_model(spec), examples, [], LORA, settings(way)["training"], folder, seed)
        done = {"lessons": len(examples), "steps": result.counts.steps, "device": _device()}
        write_json(folder / "trained.json", done)
        free_memory()
    return folder / "adapter"


def trained_on(way: str, seed: int, work: Path) -> Any:
    """The device that a way's adapter was trained on."""
    return read_json(work / f"{way}-{seed}-{fingerprint(settings(way))}" / "trained.json").get("device")


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def examples_of(way: str, seed: int, spec: ModelSpec, biases: Sequence[str]) -> list[TrainingExample]:
    """What a way teaches, drawn with the seed."""
    rng, chosen = np.random.default_rng([seed, 1]), WAYS[way]
    pairs = alpaca_pairs("train")
    pairs = [pairs[row] for row in rng.permutation(len(pairs))]
    if chosen.targets is None:
        return [row.example for bias in biases for row in _counterfactuals(bias, pairs, chosen.per_bias, rng)]
    kept = fresh_pairs(pairs, rng) if chosen.fresh else pairs
    rows = [_row(TrainingExample(pair, None)) for pair in kept[: chosen.kept * len(biases) // len(BIASES)]]
    if chosen.matched:
        rows += [_row(TrainingExample(pair)) for pair in pairs if alike(pair)]
    if chosen.cut:
        rows += [_row(TrainingExample(pair, None)) for pair in cut_pairs(pairs, chosen.cut, rng)]
    for bias in biases:
        for one in taught_contrasts(bias, chosen.per_bias, seed):
            rows.append(_row(TrainingExample(Pair(one.prompt, one.base, one.perturbed), chosen.targets[bias])))
    return with_base_preferences(
        rows, lambda texts: score_texts(ClassifierScorer(load_reward_model(spec)), texts).by_text
    )


def fresh_pairs(pairs: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
    """Every two responses to the same prompt that are no pair yet, shuffled; which is chosen means nothing."""
    responses: dict[Any, list[str]] = {}
    for pair in pairs:
        responses.setdefault(pair.prompt, []).extend([pair.chosen, pair.rejected])
    known = {(pair.prompt, frozenset((pair.chosen, pair.rejected))) for pair in pairs}
    found = [
        Pair(prompt, *two)
        for prompt, texts in responses.items()
        for two in itertools.combinations(dict.fromkeys(texts), 2)
        if (prompt, frozenset(two)) not in known
    ]
    return [found[row] for row in rng.permutation(len(found))]


def cut_pairs(pairs: Sequence[Pair], most: int, rng: np.random.Generator) -> list[Pair]:
    """Responses over their own first half; one side of each pair, drawn, where it can be cut."""
    whole = [(pair.prompt, pair.chosen if rng.random() < 0.5 else pair.rejected) for pair in pairs]
    halves = ((prompt, text, first_half(text)) for prompt, text in whole)
    return [Pair(prompt, text, half) for prompt, text, half in halves if half][:most]


def first_half(text: str) -> str:
    """What of a text ends with a sentence or a line in its third to sixth tenth, as long as can be; empty if none does."""
    ends = [end.end() for end in re.finditer(r"[.!?](?=\s)|\S(?=\n)", text)]
    within = [end for end in ends if 0.3 * len(text) <= end <= 0.6 * len(text)]
    return text[: within[-1]] if within and n_words(text) >= SHORTEST_WORDS else ""


def _counterfactuals(bias: str, pairs: Sequence[Pair], most: int, rng: np.random.Generator) -> Sequence[TrainingPair]:
    """The paper's: chosen over rejected rewritten by rules, where neither side shows the bias."""
    found = load_bias(bias)
    rows = [LabelledPair(pair, "train", {bias: label_pair(pair, found)}) for pair in pairs]
    return make_counterfactuals(rows, found, RuleRewriter(0), most, rng, check_measure=True).pairs


def _row(example: TrainingExample) -> TrainingPair:
    return TrainingPair(example, "train", "contrast", None, "")
