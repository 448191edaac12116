"""The kinds of results that lie in a folder of their own, and which of them a file holds."""

from __future__ import annotations

from pathlib import Path

from cda.errors import DataError
from cda.files.jsonl import read_json
from cda.results.audit import AuditResult
from cda.results.base import Shown, load
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.comparison import ComparisonResult, DiscoveriesResult
from cda.results.data import DataResult
from cda.results.discover import DiscoverResult, TopicsResult
from cda.results.dose import CalibrationResult, DoseResult

KINDS: dict[str, type[Shown]] = {
    "by_attribute": TopicsResult,
    "generations": DiscoverResult,
    "paired": ComparisonResult,
    "discoveries": DiscoveriesResult,
    "regression": DataResult,
    "sets": QualityResult,
    "attributes": BestOfResult,
    "methods": DoseResult,
    "corrections": CalibrationResult,
    "skew": AuditResult,
}
"""A field that no other kind has, to the kind."""
EARLIER: dict[str, type[Shown]] = {
    "held_out": DoseResult,
    "without_counterpart": QualityResult,
    "panels": ComparisonResult,
}
"""The same of earlier versions, to the kind that took its place."""
FILES = tuple(kind.made_by.file for kind in KINDS.values() if kind is not AuditResult)
"""Names of their files, by which a command's folder is known."""


def read_result(file: Path) -> Shown:
    """A result of any kind; DataError as of `load`."""
    content = read_json(file)
    fields = content if isinstance(content, dict) else {}
    kind = next((kind for field, kind in {**KINDS, **EARLIER}.items() if field in fields), None)
    if kind is None:
        row = "a row to share, which `cda compare` reads" if "numbers" in fields else "no result of a command"
        raise DataError(f"{file}: {row}")
    return load(kind, file, kind.made_by.command)
