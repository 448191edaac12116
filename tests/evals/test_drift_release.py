"""The drift eval on a small release of our own: it passes where its claim holds, and fails where it does not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
        rows.append((f"question {number}", perturbed, base, margin))
    pairs, scores = folder / "data" / "perturbations", folder / "data" / "fine_tuned_model_scores" / "jargon"
    pairs.mkdir(parents=True)
    scores.mkdir(parents=True)
    (pairs / "all_data_perturbed_jargon.jsonl").write_text(
        "\n".join(
            json.dumps({"query": query, "original_response": "", "perturbed_response": high, "base_response": low})
            for query, high, low, _ in rows
        ),
        encoding="utf-8",
    )
    (scores / "jargon_scored_2B.jsonl").write_text(
        "\n".join(
            json.dumps({"query": query, "perturbed_response": high, "base_response": low, "perturbed_score": margin, "base_score": 0.0})
            for query, high, low, margin in rows
        ),
        encoding="utf-8",
    )  # fmt: skip


def run(release: Path, tmp_path: Path) -> tuple[subprocess.CompletedProcess[str], dict]:
    """Run a copy of the eval, so that its result does not replace the one on real data."""
    copy = tmp_path / "copy"
    shutil.copytree(
        ROOT / "evals", copy / "evals", ignore=shutil.ignore_patterns("results", "answers"), dirs_exist_ok=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "evals.real_data.drift_release", "--release", str(release)],
        cwd=copy, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    result = copy / "evals" / "results" / "drift_release.json"
    return done, json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}


@pytest.mark.parametrize(("growth", "passes"), [(5, True), (0, False)])
def test_claim_and_status_agree(tmp_path: Path, growth: int, passes: bool) -> None:
    write_release(tmp_path / "release", growth)
    done, result = run(tmp_path / "release", tmp_path)
    assert result, done.stderr
    assert result["passed"] == (done.returncode == 0)
    found = {check["threshold"]: check["passed"] for check in result["checks"]}
    assert found["jargon: median words ratio 1.40 to 1.50"] is passes
    assert found["jargon: words as drift, every model: not identified"] is passes
    assert "question 3" not in json.dumps(result)  # numbers only
