"""One small recipe of the embedded default, for every file that runs the whole command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
# Texts are cut at 64 tokens: the sides of a contrast differ from the 27th at the latest, and half of the tokens is half of the time.
SMALL = (
    "data.max_pairs=20", "audit.max_contrasts=4", "audit.max_quality=6", "audit.rate=2", "model.max_length_tokens=64",
    "train.num_train_epochs=1", "train.per_device_train_batch_size=4", "train.eval_steps=2", "train.save_steps=2",
)  # fmt: skip


@pytest.fixture(scope="session")
def small_job() -> Callable[..., list[str]]:
    """Words behind `train` for a small run in a folder, with further overrides."""
    return lambda folder, *overrides: ["jargon", *SMALL, f"run.folder={folder}", *overrides]


@pytest.fixture(scope="session")
def launch(small_job: Callable[..., list[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs scripts/train.py in a process of its own, under a launcher if one is named."""

    def start(
        folder: Path, *overrides: str, program: list[str] | None = None, timeout_s: float = 600
    ) -> subprocess.CompletedProcess[str]:
        command = [*(program or [sys.executable]), str(ROOT / "scripts" / "train.py"), *small_job(folder, *overrides)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT)

    return start


@pytest.fixture(scope="session")
def record() -> Callable[[Path, str], dict[str, Any]]:
    """What a finished stage of a run folder says of itself."""

    def read(folder: Path, stage: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((folder / stage / "stage.json").read_text(encoding="utf-8"))
        return content

    return read
