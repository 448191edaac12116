"""A working folder with functions that score, and the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from score_files import MINE
from typer.testing import CliRunner

from cda.cli import app


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file of functions."""
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cda(desk: Path) -> Callable[..., str]:  # noqa: ARG001 (it works there)
    """Runs `cda score`; gives what it said."""

    def run(*words: object, status: int = 0) -> str:
        done = CliRunner().invoke(app, ["score", *map(str, words)])
        assert done.exit_code == status, done.output
        assert "Traceback" not in done.output
        return done.stdout if status == 0 else done.stderr

    return run
