"""Small data of our own, and a place to run in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs land in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small() -> dict[str, Any]:
    """Arguments of an audit that takes no time: twelve contrasts, whose perturbed side is the longer one in eight of them."""
    plain, jargon = "It is a plain thing that people use", "It is a scalable paradigm that people leverage widely."
    contrasts = [
        {"id": f"c{number}", "prompt": f"What is item {number}?"}
        | (
            {"base": f"{plain}.", "perturbed": jargon}
            if number < 8
            else {"base": f"{plain} every day.", "perturbed": "A paradigm."}
        )
        for number in range(12)
    ]
    return {"contrasts": contrasts, "biases": "jargon", "quality": "none", "triples": "none", "progress": False}
