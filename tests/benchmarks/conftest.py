"""Files of rows, a scorer of one's own, and the commands as a user gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.cli import app

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes rows, a line each; gives the file."""

    def written(name: str, rows: Iterable[dict[str, Any]]) -> Path:
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return written


@pytest.fixture
def longer(tmp_path: Path) -> str:
    """A reward that is a text's length; asked, it leaves a file `asked`."""
    (tmp_path / "mine.py").write_text(
        "import pathlib\ndef reward(prompts, responses):\n    pathlib.Path(__file__).with_name('asked').touch()\n"
        "    return [float(len(response)) for response in responses]\n"
    )
    return f"{tmp_path / 'mine.py'}:reward"


@pytest.fixture
def cda() -> Callable[..., str]:
    """Runs a command; gives what it said, on one line."""

    def run(*words: object, status: int = 0) -> str:
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output and isinstance(result.exception, SystemExit | None)
        return " ".join(result.output.split())

    return run
