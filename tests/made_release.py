"""A small release in the layout of "Flattery, Fluff, and Fog", with known answers, for tests that read one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

VOTED, MORE = 24, 6
"""Pairs that people voted on, and triples beside them."""


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def make_release(root: Path, bias: str = "jargon") -> Path:
    """The folder of a release of one bias.

    24 pairs: people prefer the perturbed side of 8 and the base of 12; 2 are stated ties and 2 splits stated as ties. The
    model 2B prefers the perturbed side of even pairs before and of none after, 3B likewise but has no score of pair 5. One
    judge ties on every fourth pair and is for the base elsewhere. 31 triples, of which one rewrite changed nothing.
    """
    pairs = [
        {"query": f"question {row}", "perturbed_response": f"long words {row}", "base_response": f"plain {row}"}
        for row in range(VOTED + MORE)
    ]
    annotations = []
    for row, pair in enumerate(pairs[:VOTED]):
        first = row % 3 == 0  # in a third of the pairs the biased response is shown first
        side, other = ("response_1", "response_2") if first else ("response_2", "response_1")
        stated = side if row < 8 else other if row < 20 else "Tie" if row < 22 else "tie"
        votes = [stated, stated, "Tie"] if row < 22 else ["Response 1", "response_2", "Tie"]
        annotations.append(
            {
                "query": pair["query"],
                side: pair["perturbed_response"],
                other: pair["base_response"],
                f"more_{bias}_response": side,
                "most_frequent_preference": stated,
                "entries": [{"overall_preference": vote} for vote in votes],
            }
        )
    people = root / "human_annotation_data" / bias / f"{bias}_grouped_human_annotations.json"
    people.parent.mkdir(parents=True)
    people.write_text(json.dumps(annotations), encoding="utf-8")
    triples = [{**pair, "original_response": f"as it was {row}"} for row, pair in enumerate(pairs)]
    same = {
        "query": "same",
        "original_response": "long same",
        "perturbed_response": "long same",
        "base_response": "plain",
    }
    write_rows(root / "data" / "perturbations" / f"all_data_perturbed_{bias}.jsonl", [*triples, same])
    scores = root / "data" / "fine_tuned_model_scores" / bias
    for size in ("2B", "3B"):
        kept = [pair for row, pair in enumerate(pairs) if size == "2B" or row != 5]
        for name, moved in ((f"{bias}_scored_{size}", 0), (f"{bias}_scored_fine_tuned_{size}_750_3", -2)):
            rows = [
                {**pair, "base_score": 1.0, "perturbed_score": 1.0 + (1 if pair["query"][-1] in "02468" else -1) + moved}
                for pair in kept
            ]  # fmt: skip
            write_rows(scores / f"{name}.jsonl", rows)
    judged = [
        {
            **{key: row[key] for key in ("query", "response_1", "response_2")},
            "judgement": {
                "judgement": "Tie" if at % 4 == 0 else "Response 2" if row[f"more_{bias}_response"] == "response_1" else "Response 1"
            },
        }
        for at, row in enumerate(annotations)
    ]  # fmt: skip
    judges = root / "llm_evaluation_data" / "generative_model_scores" / bias
    write_rows(judges / f"{bias}_scored_gpt-4o.jsonl", judged)
    labels = [("Yes", "No")] * 6 + [("**No**", "yes")] * 2 + [("Yes", "Yes"), ("No", "No"), ("", "No")]
    labelled = [{f"chosen_{bias}": chosen, f"rejected_{bias}": rejected} for chosen, rejected in labels]
    write_rows(root / "data" / "reward_model_training_labeled_data" / f"GEMMA_sample_labeled_{bias}.jsonl", labelled)
    for folder, name, chat in (("base-models", "2B_base", 0.8), (bias, f"2B_{bias}_750_3", 0.75)):
        path = root / "data" / "rewardbench_results" / folder / f"{name}_rewardbench.out"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"hep-cpp: 0.8\nSection Scores: {{'Chat': {chat}, 'Safety': 0.9}}\n", encoding="utf-8")
    return root
