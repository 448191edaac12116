"""From counterfactuals and contrasts to training examples, under each objective of a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from cda.recipe.schema import ObjectiveSection
from cda.records import Contrast, Exclusions, LabelledPair, Pair, Split, TrainingPair, count_reasons, prompt_id

Row = TypeVar("Row", bound=Contrast | LabelledPair)
IN_AUDIT = "prompt is in the audit"


def counterfactual_examples(
    counterfactuals: Iterable[TrainingPair], rows: Sequence[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Each counterfactual of `rows` under every objective: against the chosen response, and against its original."""
    originals = {row.pair.id: row.pair for row in rows}
    for made in counterfactuals:
        same_response = Pair(made.pair.prompt, originals[made.source_id].rejected, made.pair.rejected)
        for objective in objectives:
            if objective.kind == "pairs":
                yield replace(made, example=objective.example(made.pair, str(made.bias)))
            elif objective.kind != "keep":
                yield replace(made, example=objective.example(same_response, str(made.bias)), kind=objective.kind)


def contrast_examples(
    contrasts: Iterable[Contrast],
    splits: Mapping[str, Split],
    biases: Sequence[str],
    objectives: Sequence[ObjectiveSection],
) -> Iterator[TrainingPair]:
    """Contrasts under the objectives that are about one response and its biased version.

    Contrasts of other biases are taught only by `keep`: there the base model's preference is to stay.

    Args:
        contrasts: The contrasts to be taught.
        splits: Side of each prompt, by `prompt_id`.
        biases: Names of those that are debiased.
        objectives: The recipe's objectives.
    """
    for contrast in contrasts:
        pair, split = Pair(contrast.prompt, contrast.base, contrast.perturbed), splits[prompt_id(contrast.prompt)]
        for objective in objectives:
            example = objective.example(pair, contrast.bias)
            if contrast.bias in biases and objective.kind in ("paired", "neutral"):
                yield TrainingPair(example, split, objective.kind, contrast.bias, contrast.id)
            elif contrast.bias not in biases and objective.kind == "keep":
                yield TrainingPair(example, split, "contrast", contrast.bias, contrast.id)


def unchanged_examples(pairs: Iterable[TrainingPair], objectives: Sequence[ObjectiveSection]) -> list[TrainingPair]:
    """Supplementary pairs: taught as labelled, or kept as the base model has them if the recipe asks for `keep`."""
    keep = next((objective for objective in objectives if objective.kind == "keep"), None)
    if keep is None:
        return list(pairs)
    return [replace(row, example=keep.example(row.pair, str(row.bias))) for row in pairs]


def teachable(rows: Sequence[Row], audited_prompts: set[str]) -> tuple[list[Row], Exclusions]:
    """Rows whose prompt the audit does not measure on, and a count of the others: training prompts are never audited.

    Args:
        rows: Contrasts or labelled pairs.
        audited_prompts: `prompt_id` of everything that the audit measures on.
    """
    kept = [
        row
        for row in rows
        if prompt_id(row.pair.prompt if isinstance(row, LabelledPair) else row.prompt) not in audited_prompts
    ]
    return kept, Exclusions(len(rows), count_reasons([IN_AUDIT] * (len(rows) - len(kept))))


def assign_splits(
    contrasts: Sequence[Contrast], known: Mapping[str, Split], validation_share: float, rng: np.random.Generator
) -> dict[str, Split]:
    """Side of every contrast's prompt: one that has a side keeps it, of the others a share is drawn for validation.

    Args:
        contrasts: The contrasts to be split.
        known: Side of prompts of the preference pairs.
        validation_share: Share of the other prompts, rounded to the nearest whole one.
        rng: Decides which.
    """
    ids = sorted({prompt_id(contrast.prompt) for contrast in contrasts})
    free = [name for name in ids if name not in known]
    held = set(rng.choice(free, size=round(validation_share * len(free)), replace=False).tolist()) if free else set()
    return {name: known.get(name, "validation" if name in held else "train") for name in ids}
