"""A study that was exported once, and files that came back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated import cda, contrast_rows, write_rows


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crowd study of twenty contrasts, four participants, two attention checks each."""
    root = tmp_path_factory.mktemp("study")
    contrasts = write_rows(root / "contrasts.jsonl", contrast_rows())
    result = cda("study", "export", contrasts, root / "out", "--participants", "crowd", "--people", 4, "--attention", 2)
    assert result.exit_code == 0, result.output
    return root / "out"


@pytest.fixture
def save(tmp_path: Path) -> Callable[[dict[str, Any] | list[Any], str], Path]:
    """Writes what came back to a file."""

    def write(content: dict[str, Any] | list[Any], name: str) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write
