"""Rows to score, functions that score them by their length, and what `cda score` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet

MINE = """
def reward(prompts, responses):
    return [float("nan") if "nan" in response else float(len(response)) for response in responses]


def other(prompts, responses):
    return [-float(len(response)) for response in responses]


def compares(prompts, first, second):
    return [0.0 for _ in first]
"""


def singles(n: int, start: int = 0) -> list[dict[str, Any]]:
    """Rows of prompt and response, the i-th response of i + 1 letters."""
    return [{"id": i, "prompt": f"Why {i}?", "response": "a" * (i + 1)} for i in range(start, start + n)]


def written(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def scored(out: str | Path) -> list[dict[str, Any]]:
    """Rows of all shards, in their order."""
    files = sorted(Path(out, "rows").iterdir())
    assert files and all(file.suffix == ".parquet" for file in files), files
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]
