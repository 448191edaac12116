"""The linters are part of the tests: style, types, and one-way imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], ["lint-imports"]], ids=" ".join
)
def test_linter_is_content(command: list[str]) -> None:
    result = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_test_files_have_names_of_their_own() -> None:
    """Files of one name in two folders cannot be collected together."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert len(names) > 150 and sorted({name for name in names if names.count(name) > 1}) == []
