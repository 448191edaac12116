"""Contrasts and votes over the words that the tiny models know, and `cda audit` on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.cli import app

N = 24
Audited = tuple[str, dict[str, Any]]


def result(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Contrasts of jargon; two rows a prompt, all sides of one length."""
    rows = [
        {"id": f"item{row}", "prompt": f"w{row // 2} w1", "perturbed": f"w{row % 7} w{row % 11} good",
         "base": f"w{row % 5} w{row % 11} bad"}
        for row in range(N)
    ]  # fmt: skip
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    """Three votes an item: mostly base, every third perturbed; the last two items split and tied; one item unknown."""
    words = {f"item{row}": ["perturbed" if row % 3 == 0 else "base"] * 2 + ["base"] for row in range(N - 2)}
    words |= {f"item{N - 2}": ["perturbed", "base"], f"item{N - 1}": ["tie", "tie"], "other": ["base"]}
    path = tmp_path / "votes.csv"
    lines = [f"{item},{word}" for item, votes in words.items() for word in votes]
    path.write_text("\n".join(["id,vote", *lines]), encoding="utf-8")
    return path


@pytest.fixture
def audit(pairs: Path, tmp_path: Path) -> Callable[..., Audited]:
    """Audit a model on these contrasts alone: the output in one line, and audit.json (empty for an error)."""

    def run(model: object, *words: object, fails: bool = False) -> Audited:
        given = {
            "--bias": "jargon",
            "--contrasts": pairs,
            "--quality": "none",
            "--triples": "none",
            "--out": tmp_path / "out",
        }
        options = [word for name, value in given.items() if name not in words for word in (name, value)]
        done = CliRunner().invoke(app, ["audit", *map(str, (model, *options, *words))])
        assert done.exit_code == 2 * fails and "Traceback" not in done.output, done.output
        return " ".join(done.output.split()), {} if fails or "--dry-run" in words else result(tmp_path / "out")

    return run


@pytest.fixture
def report(tmp_path: Path) -> Callable[[], str]:
    """The Markdown report of the last audit."""
    return lambda: (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
