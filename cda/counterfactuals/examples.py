"""From counterfactuals and contrasts to examples: what each objective of a recipe teaches on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from cda.recipe.schema import ObjectiveSection
from cda.records import (
    Contrast,
    Exclusions,
    LabelledPair,
    Pair,
    Prompt,
    Split,
    TrainingPair,
    count_reasons,
    prompt_id,
)

Row = TypeVar("Row", bound=Contrast | LabelledPair)
IN_AUDIT = "prompt is in the audit"


def counterfactual_examples(
    made: Iterable[TrainingPair], rows: Sequence[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Each counterfactual under every objective: against the chosen response, and against what it was rewritten from.

    Args:
        made: Counterfactual pairs.
        rows: The pairs that they were made from.
        objectives: What to teach.
    """
    originals = {row.pair.id: row.pair for row in rows}
    for one in made:
        bias = str(one.bias)
        same_response = Pair(one.pair.prompt, originals[one.source_id].rejected, one.pair.rejected)
        for objective in objectives:
            if objective.kind == "pairs":
                yield replace(one, example=objective.example(one.pair, bias))
            elif objective.kind != "keep":
                yield replace(one, example=objective.example(same_response, bias), kind=objective.kind)


def contrast_examples(
    contrasts: Iterable[Contrast],
    splits: Mapping[str, Split],
    biases: Sequence[str],
    objectives: Sequence[ObjectiveSection],
) -> Iterator[TrainingPair]:
    """Contrasts under the objectives that are about one response and its biased version.

    Contrasts of other biases are taught only by `keep`: there the base model's preference is to stay.

    Args:
        contrasts: To be taught.
        splits: Side of each prompt, by `prompt_id`.
        biases: Those that are debiased.
        objectives: What to teach.
    """
    for one in contrasts:
        pair, split = Pair(one.prompt, one.base, one.perturbed), splits[prompt_id(one.prompt)]
        for objective in objectives:
            if one.bias in biases and objective.kind in ("paired", "neutral"):
                yield TrainingPair(objective.example(pair, one.bias), split, objective.kind, one.bias, one.id)
            elif one.bias not in biases and objective.kind == "keep":
                yield TrainingPair(objective.example(pair, one.bias), split, "contrast", one.bias, one.id)


def unchanged_examples(pairs: Iterable[TrainingPair], objectives: Sequence[ObjectiveSection]) -> list[TrainingPair]:
    """Supplementary pairs: taught as labelled, or kept as the base model has them where the recipe asks for `keep`."""
    keep = next((one for one in objectives if one.kind == "keep"), None)
    return [one if keep is None else replace(one, example=keep.example(one.pair, str(one.bias))) for one in pairs]


def teachable(rows: Sequence[Row], audited_prompts: set[str]) -> tuple[list[Row], Exclusions]:
    """Rows whose prompt is none of the audit's, and how many were left out: nothing is audited on what was taught.

    Args:
        rows: Contrasts or labelled pairs.
        audited_prompts: `prompt_id` of everything that the audit measures on.
    """

    def prompt(row: Row) -> Prompt:
        return row.pair.prompt if isinstance(row, LabelledPair) else row.prompt

    kept = [one for one in rows if prompt_id(prompt(one)) not in audited_prompts]
    left = [IN_AUDIT] * (len(rows) - len(kept))
    return kept, Exclusions(len(rows), count_reasons(left))


def split_prompts(
    contrasts: Sequence[Contrast], known: Mapping[str, Split], validation_share: float, rng: np.random.Generator
) -> dict[str, Split]:
    """Side of every contrast's prompt: where it has one already it stays, the others are drawn.

    Args:
        contrasts: To be split.
        known: Side of prompts of the preference pairs.
        validation_share: Share of the other prompts, rounded to the nearest whole one.
        rng: Decides which.
    """
    ids = sorted({prompt_id(one.prompt) for one in contrasts})
    free = [one for one in ids if one not in known]
    held = set(rng.choice(free, size=round(validation_share * len(free)), replace=False).tolist()) if free else set()
    return {one: known.get(one, "validation" if one in held else "train") for one in ids}
