"""The eval of the paper's tables on the real release, where it is present; its correlations are scipy's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cda.errors import DataError
from evals.real_data import paper_tables

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data")) / "fff"


@pytest.mark.skipif(not DATA.is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_the_real_release_gives_the_paper_s_numbers(tmp_path: Path) -> None:
    result = tmp_path / "tables.json"
    command = [sys.executable, "-m", "evals.real_data.paper_tables", "--release", str(DATA), "--result", str(result)]
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
