"""The kinds of results that lie in a folder of their own, and which of them a file holds."""

from __future__ import annotations

from pathlib import Path

from cda.files.jsonl import read_json
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.comparison import ComparisonResult
from cda.results.data import DataResult
from cda.results.discover import DiscoverResult
from cda.results.dose import CalibrationResult, DoseResult
from cda.results.shown import Shown
from cda.results.topics import TopicsResult

KINDS: dict[str, type[Shown]] = {
    "by_attribute": TopicsResult,
    "generations": DiscoverResult,
    "paired": ComparisonResult,
    "regression": DataResult,
    "sets": QualityResult,
    "attributes": BestOfResult,
    "held_out": DoseResult,
    "corrections": CalibrationResult,
}
"""A field that no other kind has, to the kind; an audit has none of them."""
FILES = tuple(kind.made_by.file for kind in KINDS.values())
"""Names of their files, by which a command's folder is known."""


def read_result(file: Path) -> Shown:
    """A result of any kind; DataError as of `load`."""
    content = read_json(file)
    kind = next((kind for field, kind in KINDS.items() if isinstance(content, dict) and field in content), AuditResult)
    return load(kind, file, kind.made_by.command)
