"""The drift eval on a small release of our own: it passes where its claim holds, and fails where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_release import write_rows

ROOT = Path(__file__).parents[2]
BASE = "The pump moves water up the hill and then it rests for a while before it starts again "


def write_release(folder: Path, growth: int) -> None:
    """60 pairs whose jargon side has `growth` more words for each ten, scored by a model that pays log words."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(60):
        base = BASE * int(random.integers(4, 8))
        extra = 0 if number < 5 else round(growth * len(base.split()) / 10 * float(random.uniform(0.5, 1.5)))
        perturbed = base + "operational " * extra
        ratio = len(perturbed.split()) / len(base.split())
        margin = -0.5 + 4 * float(np.log(ratio)) + float(random.normal(0, 0.05))
        texts = {"query": f"question {number}", "perturbed_response": perturbed, "base_response": base}
        rows.append((texts, margin))
    write_rows(
        folder / "data" / "perturbations" / "all_data_perturbed_jargon.jsonl",
        [texts | {"original_response": ""} for texts, _ in rows],
    )
    write_rows(
        folder / "data" / "fine_tuned_model_scores" / "jargon" / "jargon_scored_2B.jsonl",
        [texts | {"perturbed_score": margin, "base_score": 0.0} for texts, margin in rows],
    )


@pytest.mark.parametrize(("growth", "passes"), [(5, True), (0, False)])
def test_claim_and_status_agree(tmp_path: Path, run_eval: Any, growth: int, passes: bool) -> None:
    write_release(tmp_path / "release", growth)
    done, result = run_eval("drift_release", tmp_path / "release")
    assert result, done.stderr
    assert result["passed"] == (done.returncode == 0)
    found = {check["threshold"]: check["passed"] for check in result["checks"]}
    assert found["jargon: median words ratio 1.40 to 1.50"] is passes
    assert found["jargon: words as drift, every model: not identified"] is passes
    assert "question 3" not in json.dumps(result)  # numbers only
