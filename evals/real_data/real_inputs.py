"""Real texts for evals that train: contrasts with and without people's votes, and pairs that say whether quality stayed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cda.files.jsonl import read_json, read_jsonl
from cda.records import Contrast, Pair, prompt_id, user_prompt
from evals.real_data.release import items
from evals.shared import DATA

BIASES = ("jargon", "structure", "length")
"""Biases that people voted on."""
TAUGHT = ("jargon", "length")
"""Those that training is against; the others only have to stay where they are."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Pairs of one data set.

    Attributes:
        name: What it is called in tables.
        pairs: Better and worse response.
        by: Who said so.
    """

    name: str
    pairs: tuple[Pair, ...]
    by: str


def missing_data() -> list[str]:
    """Folders of real data that are not there."""
    return [name for name in ("alpaca_eval", "fff", "llmbar", "rm_bench") if not (DATA / name).is_dir()]


def alpaca_pairs(split: str) -> list[Pair]:
    """Preference pairs of AlpacaEval, `train` or `test` (other instructions); a judge's preferences."""
    with gzip.open(DATA / "alpaca_eval" / "pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Pair(user_prompt(row["prompt"]), row["chosen"], row["rejected"]) for row in rows if row["split"] == split]


def voted_contrasts(bias: str) -> list[Contrast]:
    """GPT-4o's contrasts on which people voted."""
    found = []
    for one in items(DATA / "fff", bias):
        perturbed, base = one.responses[one.biased], one.responses[1 - one.biased]
        found.append(Contrast(bias, user_prompt(one.query), perturbed, base, votes=one.votes))
    return found


def taught_contrasts(bias: str, most: int, seed: int) -> list[Contrast]:
    """GPT-4o's contrasts without votes, none on a query that is annotated under any bias, drawn with the seed."""
    annotated = {prompt_id(user_prompt(one.query)) for name in BIASES for one in items(DATA / "fff", name)}
    rows = read_jsonl(DATA / "fff" / "data" / "perturbations" / f"all_data_perturbed_{bias}.jsonl")
    free = [row for row in rows if prompt_id(user_prompt(row["query"])) not in annotated]
    order = np.random.default_rng([seed, BIASES.index(bias)]).permutation(len(free))[:most]
    drawn = [free[index] for index in sorted(order)]
    return [Contrast(bias, user_prompt(row["query"]), row["perturbed_response"], row["base_response"]) for row in drawn]


def quality_sets() -> list[Quality]:
    """LLMBar (people), RM-Bench chat (its authors) and AlpacaEval's test split (a judge)."""
    return [
        Quality("LLMBar natural", tuple(_llmbar()), "people"),
        Quality("RM-Bench chat", tuple(_rm_bench()), "its authors"),
        Quality("AlpacaEval test", tuple(alpaca_pairs("test")), "a judge"),
    ]


def _llmbar() -> list[Pair]:
    rows: Sequence[dict[str, Any]] = read_json(DATA / "llmbar" / "natural.json")
    return [
        Pair(user_prompt(row["input"]), row[f"output_{row['label']}"], row[f"output_{3 - row['label']}"])
        for row in rows
    ]


def _rm_bench() -> list[Pair]:
    """Each of three chosen over each of three rejected responses, in rising richness of style; without the prompts that AlpacaEval's train
    split has too: the model was trained on those."""
    trained = {prompt_id(pair.prompt) for pair in alpaca_pairs("train")}
    rows: Sequence[dict[str, Any]] = read_json(DATA / "rm_bench" / "chat_filtered.json")
    return [
        Pair(user_prompt(row["prompt"]), chosen, rejected)
        for row in rows
        if prompt_id(user_prompt(row["prompt"])) not in trained
        for chosen in row["chosen"]
        for rejected in row["rejected"]
    ]
