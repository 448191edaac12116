"""Evals of released data, on the real ones; and correlations against scipy's."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from made_release import write_rows
from scipy import stats

from cda.errors import DataError
from evals.real_data import paper_tables
from evals.real_data import release as fff

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data"))


@pytest.mark.skipif(not (DATA / "rm_bias").is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_the_reference_s_numbers_come_out_of_the_real_release(tmp_path: Path) -> None:
    """Run from a copy, so that its result does not replace the one that is kept."""
    evals = tmp_path / "evals"
    shutil.copytree(ROOT / "evals", evals, ignore=shutil.ignore_patterns("results", "answers"))
    done = subprocess.run(
        [sys.executable, "-m", "evals.real_data.discover_release", "--release", str(DATA / "rm_bias")],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8",
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads((evals / "results" / "discover_release.json").read_text(encoding="utf-8"))
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


@pytest.mark.parametrize("name", ["panel_release", "data_release", "paper_tables", "paper_outcome", "paper_means"])
def test_an_eval_without_its_data_has_not_passed_and_leaves_its_result(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `python -m` runs it, without loading cda anew."""
    result = ROOT / "evals" / "results" / f"{name}.json"
    kept = result.read_bytes()
    monkeypatch.setenv("CDA_DATA", str(tmp_path))
    for module in [each for each in sys.modules if each.partition(".")[0] == "evals"]:  # it is read as they load
        monkeypatch.delitem(sys.modules, module)

    def ended(*words: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [name, *words])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(f"evals.real_data.{name}", run_name="__main__", alter_sys=True)
        return end.value.code, capsys.readouterr().out.partition(": ")[0]

    assert ended() == (77, "skipped")
    assert ended("--release", str(tmp_path / "no")) == (2, "FAILED")
    assert result.read_bytes() == kept


def test_a_judge_s_verdict_is_on_the_text_that_it_preferred(tmp_path: Path) -> None:
    """The judge saw the second pair in the other order; by place it is said to prefer the other response."""
    pairs = [fff.Item(f"question {row}", ("biased", "plain"), 0, "response_1", (), None, 0) for row in range(3)]
    shown = [("biased", "plain"), ("plain", "biased"), ("other", "texts")]
    rows = [
        {
            "query": f"question {row}",
            "response_1": first,
            "response_2": second,
            "judgement": {"judgement": "Response 1"},
        }
        for row, (first, second) in enumerate(shown)
    ]
    path = write_rows(tmp_path / "judge.jsonl", rows)
    assert fff.verdicts(pairs, path)[:2].tolist() == [1.0, -1.0] and np.isnan(fff.verdicts(pairs, path)[2])
    assert fff.verdicts(pairs, path, "place").tolist() == [1.0, 1.0, 1.0]
