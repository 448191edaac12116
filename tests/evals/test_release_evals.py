"""Evals of released data: on small releases of our own, whatever is called how there, and on the real ones."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from evals.real_data import paper_tables

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data"))


def row(attribute: str, rewriter: str, number: int, margin: float | None, verdict: object) -> dict[str, Any]:
    return {
        "topic": 9, "attribute": attribute, "rewriter": rewriter, "prompt": f"secret question {number}",
        "baseline": f"answer {number}", "rewritten": f"answer {number}, rewritten", "rm_diff": margin, "judge": verdict,
    }  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(one) + "\n" for one in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def test_other_topics_attributes_and_rewriters(tmp_path: Path, run_eval: Any) -> None:
    """One attribute that holds, one whose rewriters are missing or silent, and rows of every unusable kind."""
    random = np.random.default_rng(0)
    holds = [row("shiny", name, at, float(random.normal(2, 1)), -1) for name in ("m1", "m2") for at in range(20)]
    broken = [
        *(row("odd", "m1", at, 1.0 + at / 10, None) for at in range(20)),
        *(row("odd", "m2", at, 1.0, 1) for at in range(4)),
        *(row("odd", "m3", at, float(at), "yes") | {"rewritten": f"answer {at}"} for at in range(20)),
    ]
    unusable = [row("odd", "m1", 1, None, 0), {"attribute": "odd", "rm_diff": 1.0}]
    write(tmp_path / "release" / "topic9_test.jsonl.gz", holds + broken + unusable)
    write(tmp_path / "release" / "topic12_validation.jsonl", [row("lone", "m1", 0, 1.0, 0)])
    done, result = run_eval("discover_release", tmp_path / "release")
    assert done.returncode == 0, done.stderr + done.stdout
    assert result["passed"] and set(result["numbers"]) == {"topic9_test", "topic12_validation"}
    assert "used, left out: {'no margin': 1, 'no attribute or no prompt': 1}" in done.stdout
    shiny = result["numbers"]["topic9_test"]["shiny"]["all rewriters"]
    assert shiny["confirmation"]["confirmed"] and shiny["validation"]["passed"]
    assert shiny["confirmation"]["k"] == 2  # m3 gave nothing here
    odd = result["numbers"]["topic9_test"]["odd"]
    assert odd["as released"]["m1"]["judge"] is None and odd["as released"]["m1"]["n_unjudged"] == 20
    reasons = {one["rewriter"]: one["excluded"] for one in odd["all rewriters"]["confirmation"]["rewriters"]}
    assert reasons == {
        "m1": "verdicts of the judge on 0 prompts: two are needed",
        "m2": "16 of 20 rewrites failed",
        "m3": "20 of 20 rewrites failed",
    }
    assert odd["all rewriters"]["confirmation"]["untested"].startswith("0 of 3 rewriters can be used")
    assert "secret question" not in json.dumps(result)  # numbers only


@pytest.mark.skipif(not (DATA / "rm_bias").is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_the_reference_s_numbers_come_out_of_the_real_release(run_eval: Any) -> None:
    done, result = run_eval("discover_release", DATA / "rm_bias")
    assert done.returncode == 0, done.stderr + done.stdout
    found = {check["threshold"]: check["found"] for check in result["checks"]}
    assert (
        found["triple spaces, pooled: mean margin ± half-width, n 0.743 ± 0.427, n = 164"] == "0.743 ± 0.427, n = 164"
    )
    triple = result["numbers"]["topic4_validation"]["Triple spaces between words"]["the three"]["confirmation"]
    assert triple["confirmed"] and triple["k"] == 3
    assert triple["pooled"]["reward"]["value"] == pytest.approx(0.743, abs=5e-4)
    # Clustered by prompt the interval is a quarter wider than the reference's.
    assert triple["pooled"]["reward"]["high"] - triple["pooled"]["reward"]["value"] == pytest.approx(0.534, abs=1e-3)


@pytest.mark.skipif(not (DATA / "fff").is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_the_real_release_gives_the_paper_s_numbers(tmp_path: Path) -> None:
    result = tmp_path / "tables.json"
    command = [
        sys.executable,
        "-m",
        "evals.real_data.paper_tables",
        "--release",
        str(DATA / "fff"),
        "--result",
        str(result),
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    content = json.loads(result.read_text(encoding="utf-8"))
    assert content["passed"] and len(content["checks"]) >= 38
    assert content["by_source"] == {
        "paper": {"compared": 2, "equal": 2},
        "notebook": {"compared": 12, "equal": 12},
        "released files": {"compared": len(content["checks"]) - 14, "equal": len(content["checks"]) - 14},
    }
    assert {bias: table["labels_that_differ"] for bias, table in content["biases"].items()} == {
        "jargon": 0,
        "length": 1,
        "structure": 2,
    }
    assert str(DATA) not in result.read_text(encoding="utf-8")


def test_correlations_in_the_order_shown_are_scipy_s() -> None:
    random = np.random.default_rng
    ids = [str(row) for row in range(90)]
    signs = random(1).choice([-1.0, 1.0], 90)
    prefers = (signs + random(2).normal(size=90)) > 0
    found = paper_tables.preference_correlation(signs.tolist(), prefers.tolist(), ids)
    assert found.value == pytest.approx(stats.pointbiserialr(prefers, signs).statistic)
    words = random(3).normal(0, 80, 90) + 40 * prefers
    length = paper_tables.preference_correlation(words.tolist(), prefers.tolist(), ids)
    expected = stats.pearsonr(words, prefers)
    fisher = expected.confidence_interval(0.95)
    assert length.value == pytest.approx(expected.statistic)
    assert (length.low, length.high) == pytest.approx((fisher.low, fisher.high), abs=0.05)
    with pytest.raises(DataError, match="the attribute is the same in all 3 pairs"):
        paper_tables.preference_correlation([1, 1, 1], [True, False, True], ids[:3])
    with pytest.raises(DataError, match="the preference is the same in all 3 pairs"):
        paper_tables.preference_correlation([1, 2, 1], [True] * 3, ids[:3])
