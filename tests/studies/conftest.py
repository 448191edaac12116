"""A study that was exported once, and files that came back."""

from __future__ import annotations

from pathlib import Path

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
