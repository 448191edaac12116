"""`cda triples`: what cannot be labelled is refused before an answer is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import Served, status
from typer.testing import CliRunner

from cda.cli import app


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("--queries", '{"prompt": "How do the tides work here?"}\n'),
        ("--topics", "tides\n"),
        ("--responses", '{"prompt": "Why?", "response": "So.", "has_attribute": true}\n{"prompt": "Who?", "response": "We."}\n'),
    ],
)  # fmt: skip
def test_a_relative_measure_needs_labels_before_anything_is_asked(source: str, rows: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(rows)
    asked: list[object] = []
    server = Served(lambda _: status(500), lambda: status(500))
    server.routes = lambda *call: (asked.append(call), status(500))[1]
    try:
        words = ["triples", str(tmp_path / "out.jsonl"), source, str(file), "--bias", "jargon", "--bias", "length",
                 "llm.model=m", f"llm.base_url={server.url}", f"llm.cache={tmp_path / 'cache'}"]  # fmt: skip
        done = CliRunner().invoke(app, words)
    finally:
        server.stop()
    assert done.exit_code == 2 and asked == []
    assert "length: whether one response by itself has it cannot be measured; give has_attribute" in done.output
