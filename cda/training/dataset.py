"""Lessons to token ids, cut at the same length as every score, with the cut ones counted; and their batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cda.models.template import Template
from cda.records import Lesson

TAUGHT = ("target", "margin", "weight")
"""Columns of what a pair teaches."""


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """A dataset for the trainer.

    Attributes:
        dataset: Columns chosen_ids, rejected_ids, target, margin, weight, and length (of the longer side, for grouping by
            length).
        n_truncated: Pairs with at least one side cut.
        n_identical: Pairs left out because both sides are the same after cutting.
    """

    dataset: Any
    n_truncated: int
    n_identical: int


def encode_pairs(lessons: Sequence[Lesson], template: Template) -> EncodedPairs:
    """Encode lessons in order.

    Raises:
        ValueError: A target is still to be asked of the base model.
    """
    from datasets import Dataset

    columns: dict[str, list[object]] = {name: [] for name in ("chosen_ids", "rejected_ids", "length", *TAUGHT)}
    n_truncated = n_identical = 0
    for lesson in lessons:
        if lesson.target is None:
            raise ValueError("a target is the base model's preference, which was not filled in")
        prompt = lesson.pair.prompt
        chosen, rejected = template.encode(prompt, lesson.pair.chosen), template.encode(prompt, lesson.pair.rejected)
        n_truncated += chosen.truncated or rejected.truncated
        if chosen.ids == rejected.ids:
            n_identical += 1
            continue
        columns["chosen_ids"].append(chosen.ids)
        columns["rejected_ids"].append(rejected.ids)
        columns["length"].append(max(len(chosen.ids), len(rejected.ids)))
        for name in TAUGHT:
            columns[name].append(getattr(lesson, name))
    return EncodedPairs(Dataset.from_dict(columns), n_truncated, n_identical)


def collator(pad_token_id: int) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    """TRL's batches of pairs, with targets and weights beside the margins."""
    import torch
    from trl.trainer.reward_trainer import DataCollatorForPreference

    pairs = DataCollatorForPreference(pad_token_id=pad_token_id)

    def collate(examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, object] = pairs(examples)
        return batch | {name: torch.tensor([one[name] for one in examples], dtype=torch.float) for name in TAUGHT}

    return collate
