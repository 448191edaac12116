"""Compare finished runs: reads their audits, returns the cross-bias matrix as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cda.errors import RunError
from cda.files.jsonl import read_json
from cda.report.comparison import comparison_tables
from cda.report.terminal import plain_table
from cda.stages.audit import RESULT


def compare_runs(folders: Sequence[str]) -> str:
    """The comparison of finished runs.

    Raises:
        RunError: A folder holds no finished audit; all of them are listed.
        DataError: An audit of one model without a training.
    """
    problems = [
        f"{folder}: no finished audit here ({Path('audit') / RESULT}); give the folders of finished runs"
        for folder in folders
        if not (Path(folder).expanduser() / "audit" / RESULT).is_file()
    ]
    if problems:
        raise RunError("\n".join(problems))
    audits: dict[str, Any] = {
        folder: read_json(Path(folder).expanduser() / "audit" / RESULT) for folder in dict.fromkeys(folders)
    }
    return "\n\n".join(plain_table(table) for table in comparison_tables(audits))
