"""Artifact rows: records to JSON objects and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_jsonl
from cda.records import LabelledPair, Lesson, Message, Pair, Prompt, TrainingPair


def prompt_row(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt as chat messages."""
    return [{"role": message.role, "content": message.content} for message in prompt]


def pair_row(pair: Pair) -> dict[str, Any]:
    """A pair in TRL's conversational preference format, so that artifacts load anywhere."""
    return {
        "prompt": prompt_row(pair.prompt),
        "chosen": [{"role": "assistant", "content": pair.chosen}],
        "rejected": [{"role": "assistant", "content": pair.rejected}],
    }


def labelled_row(row: LabelledPair) -> dict[str, object]:
    """A labelled pair."""
    return {"id": row.pair.id, "split": row.split, "labels": row.labels, **pair_row(row.pair)}


def training_row(row: TrainingPair) -> dict[str, object]:
    """A row of the training mix."""
    return {
        "kind": row.kind,
        "bias": row.bias,
        "split": row.split,
        "source_id": row.source_id,
        "target": row.lesson.target,
        "margin": row.lesson.margin,
        "weight": row.lesson.weight,
        **pair_row(row.pair),
    }


def read_labelled(path: Path) -> Iterator[LabelledPair]:
    """Labelled pairs of an artifact."""
    for row in read_jsonl(path):
        yield LabelledPair(_pair(row), row["split"], row["labels"])


def read_training(path: Path) -> Iterator[TrainingPair]:
    """The training mix of an artifact."""
    for row in read_jsonl(path):
        lesson = Lesson(_pair(row), row["target"], row["margin"], row["weight"])
        yield TrainingPair(lesson, row["split"], row["kind"], row["bias"], row["source_id"])


def _pair(row: dict[str, Any]) -> Pair:
    prompt = tuple(Message(turn["role"], turn["content"]) for turn in row["prompt"])
    return Pair(prompt, row["chosen"][0]["content"], row["rejected"][0]["content"])
