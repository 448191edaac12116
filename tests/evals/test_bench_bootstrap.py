"""The bootstrap benchmark runs and writes what it measured; its thresholds are for full size and are not tested here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_a_small_benchmark(tmp_path: Path) -> None:
    result = tmp_path / "bench.json"
    command = [sys.executable, "-m", "evals.speed.bench_bootstrap", "--repeats", "1", "--triples", "300"]
    run = subprocess.run([*command, "--draws", "2000", "--result", str(result)], capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    content = json.loads(result.read_text(encoding="utf-8"))
    for kind in ("effect", "skew"):
        table = content["kinds"][kind]
        assert table["cda"]["seconds_median"] > 0 and table["time_ratio"] > 0
        assert table["interval_difference_in_widths"] < 0.2
    assert str(ROOT) not in result.read_text(encoding="utf-8")
