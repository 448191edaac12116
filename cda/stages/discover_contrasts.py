"""Contrasts that a discovery leaves for training: its rewrites of validation responses, on which nothing is reported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cda.files.jsonl import write_jsonl
from cda.records import text_key
from cda.results.discover import Measured


def write_contrasts(rows: Iterable[Measured], bias: str, path: Path) -> int:
    """Write each pair of sides once, and return how many there are.

    Args:
        rows: Rewrites of validation responses in either direction. Those of the test prompts must stay unseen.
        bias: Name of the bias.
        path: JSONL file.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        perturbed, base = row.with_attribute, row.without_attribute
        prompt = [{"role": turn.role, "content": turn.content} for turn in row.prompt]
        one = {"bias": bias, "prompt": prompt, "perturbed": perturbed, "base": base}
        found.setdefault(text_key(row.prompt, perturbed, base), one)
    write_jsonl(path, found.values())
    return len(found)
