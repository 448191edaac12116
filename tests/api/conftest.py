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
def contrasts() -> list[dict[str, Any]]:
    """Twelve contrasts; the perturbed side is the longer one in eight of them."""
    return [
        {
            "id": f"c{number}",
            "prompt": f"What is item {number}?",
            "base": "It is a plain thing that people use."
            if number < 8
            else "It is a plain thing that people use every day at home.",
            "perturbed": "It is a scalable paradigm that people leverage widely."
            if number < 8
            else "A scalable paradigm.",
        }
        for number in range(12)
    ]


@pytest.fixture
def small(contrasts: list[dict[str, Any]]) -> dict[str, Any]:
    """Arguments of an audit that takes no time."""
    return {"contrasts": contrasts, "biases": "jargon", "quality": "none", "triples": "none", "progress": False}
