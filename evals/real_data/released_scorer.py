"""A scorer that says what a released reward model said: the score of each text in the paper's release.

`RELEASED_SCORES` names the release's folder, the model's size and `before` or `after`, with spaces between them. The release
scored both rewrites of each triple and no original: an original has 0 here, and what rests on originals means nothing.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_jsonl


@cache
def _scores() -> dict[tuple[str, str], float]:
    """(query, text) to score, over the files of all biases."""
    folder, size, when = os.environ["RELEASED_SCORES"].rsplit(" ", 2)
    found: dict[tuple[str, str], float] = {}
    root = Path(folder) / "data" / "fine_tuned_model_scores"
    bias = os.environ["RELEASED_BIAS"]
    pattern = f"{bias}_scored_{size}.jsonl" if when == "before" else f"{bias}_scored_fine_tuned_{size}_*.jsonl"
    (path,) = sorted((root / bias).glob(pattern))
    for row in read_jsonl(path):
        for side in ("base", "perturbed"):
            found[row["query"], row[f"{side}_response"]] = float(row[f"{side}_score"])
    return found


def score(prompts: list[list[dict[str, Any]]], responses: list[str]) -> list[float]:
    """Released scores of these texts."""
    return [_scores().get((prompt[-1]["content"], text), 0.0) for prompt, text in zip(prompts, responses, strict=True)]
