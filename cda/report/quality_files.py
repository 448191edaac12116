"""What `cda quality` found in the shape of RewardBench's own result files, from its numbers and scores alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cda.files.paths import as_part
from cda.results.benchmarks import AccuracyGroup, QualityResult, QualityScoring, SetQuality
from cda.results.facts import RewardModelFacts

ScoreRow = Mapping[str, Any]
"""A row of scores.jsonl."""


def rewardbench_files(result: QualityResult, rows: Sequence[ScoreRow]) -> dict[str, object]:
    """RewardBench's result files: path below their folder to a JSON object, or to a list of JSON lines.

    Shapes as RewardBench's scripts write them: `eval-set/ORG/NAME.json` (model, model_type, chat_template and an accuracy
    for each subset: what the leaderboard reads), `eval-set-scores/ORG/NAME.json` (columns, with the scores of each pair), and
    of its command line `ORG/NAME.json` and `ORG/NAME_outputs.jsonl`. Texts stand as messages, before any chat template.

    Args:
        result: All numbers.
        rows: As in scores.jsonl.
    """
    files: dict[str, object] = {}
    for one in result.sets:
        own = [row for row in rows if row["set"] == one.name and row["used"]]
        folder = as_part(one.name)
        for scoring in result.scorings:
            label = scoring.label
            if one.format == "rm-bench" or not all("chosen" in row[label] for row in own):
                continue  # another benchmark's three by three, or a judge that scores no single text
            place, head = "/".join(map(as_part, scoring.model.split("/"))), _head(scoring)
            if one.format in ("rewardbench", "rewardbench-2"):
                accuracies = {group.name: _value(group, label) for group in one.subsets}
                columns = _best_of_columns if one.format == "rewardbench-2" else _pair_columns
                files[f"{folder}/eval-set/{place}.json"] = {**head, **accuracies}
                files[f"{folder}/eval-set-scores/{place}.json"] = {**head, **columns(own, label)}
            if one.format != "rewardbench-2":
                files[f"{folder}/{place}.json"] = _summary_file(one, own, scoring)
                files[f"{folder}/{place}_outputs.jsonl"] = _output_rows(own, label)
    return files


def _head(scoring: QualityScoring) -> dict[str, object]:
    form = scoring.facts.form if isinstance(scoring.facts, RewardModelFacts) else None
    template = "tokenizer" if form == "chat template" else form
    return {"model": scoring.model, "model_type": "Seq. Classifier" if form else "Custom", "chat_template": template}


def _pair_columns(rows: Sequence[ScoreRow], label: str) -> dict[str, list[object]]:
    lines = _output_rows(rows, label)
    names = ("text_chosen", "text_rejected", "results", "subset", "id", "scores_chosen", "scores_rejected")
    return {name: [line[name] for line in lines] for name in names}


def _output_rows(rows: Sequence[ScoreRow], label: str) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        chosen, rejected = row[label]["chosen"][0], row[label]["rejected"][0]
        found.append({
            "prompt": row["prompt"], "results": int(chosen > rejected), "scores_chosen": chosen, "scores_rejected": rejected,
            "text_chosen": _conversation(row, row["chosen"][0]), "text_rejected": _conversation(row, row["rejected"][0]),
            "subset": row["subset"], "id": _own_id(row),
        })  # fmt: skip
    return found


def _best_of_columns(rows: Sequence[ScoreRow], label: str) -> dict[str, list[object]]:
    """RewardBench 2's columns: right answers first; Ties have no result of single prompts."""
    columns: dict[str, list[object]] = {
        "text": [],
        "scores": [],
        "results": [],
        "subset": [],
        "id": [],
        "num_correct": [],
    }
    for row in rows:
        chosen, rejected = row[label]["chosen"], row[label]["rejected"]
        most = max(*chosen, *rejected)
        shared = [*chosen, *rejected].count(most)
        values = {
            "text": [_conversation(row, text) for text in [*row["chosen"], *row["rejected"]]],
            "scores": [*chosen, *rejected],
            "results": None if row["subset"].lower() == "ties" else chosen.count(most) / shared,
            "subset": row["subset"], "id": _own_id(row), "num_correct": len(chosen),
        }  # fmt: skip
        for name, value in values.items():
            columns[name].append(value)
    return columns


def _summary_file(one: SetQuality, rows: Sequence[ScoreRow], scoring: QualityScoring) -> dict[str, object]:
    hits = [line["results"] for line in _output_rows(rows, scoring.label)]
    subsets = {group.name: _value(group, scoring.label) for group in one.subsets}
    return {
        "accuracy": sum(hits) / len(hits), "num_prompts": len(hits), "model": scoring.model, "ref_model": None,
        "tokenizer": scoring.model, "chat_template": _head(scoring)["chat_template"], "extra_results": subsets,
    }  # fmt: skip


def _conversation(row: ScoreRow, response: str) -> list[dict[str, str]]:
    return [*row["prompt"], {"role": "assistant", "content": response}]


def _own_id(row: ScoreRow) -> int | str:
    name = str(row["id"])
    return int(name) if name.isdecimal() else name


def _value(group: AccuracyGroup, label: str) -> float:
    return group.scores[label].estimate.value
