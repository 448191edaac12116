"""An eval on a release, run from a copy, so that its result does not replace the one on real data."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Ran = tuple[subprocess.CompletedProcess[str], dict[str, Any]]


@pytest.fixture
def run_eval(tmp_path: Path) -> Callable[[str, Path], Ran]:
    """Runs an eval of `evals/real_data` by its name: the process, and what it wrote as its result."""

    def run(name: str, release: Path) -> Ran:
        evals = tmp_path / "copy" / "evals"
        shutil.copytree(ROOT / "evals", evals, ignore=shutil.ignore_patterns("results", "answers"))
        done = subprocess.run(
            [sys.executable, "-m", f"evals.real_data.{name}", "--release", str(release)],
            cwd=evals.parent, capture_output=True, text=True, encoding="utf-8",
            env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        )  # fmt: skip
        result = evals / "results" / f"{name}.json"
        return done, json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}

    return run
