"""Compare finished runs: reads their audits, returns the cross-bias matrix as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cda.errors import RunError
from cda.files.jsonl import read_json
from cda.report.comparison import comparison_notes, comparison_tables, is_audit
from cda.report.terminal import plain_table
from cda.stages.audit import RESULT


def compare_runs(folders: Sequence[str]) -> str:
    """The comparison of finished runs; a run that is given twice is used once.

    Raises:
        RunError: A folder holds no finished audit, or one of another version; all of them are listed.
        DataError: An audit of one model without a training.
    """
    files = _files(folders)
    problems = [
        f"{folder}: no finished audit here ({Path('audit') / RESULT}); give the folders of finished runs"
        for folder, file in files.items()
        if not file.is_file()
    ]
    if problems:
        raise RunError("\n".join(problems))
    audits: dict[str, Any] = {folder: read_json(file) for folder, file in files.items()}
    problems = [
        f"{files[folder]}: not an audit of this version; run `cda audit` again"
        for folder, audit in audits.items()
        if not is_audit(audit)
    ]
    if problems:
        raise RunError("\n".join(problems))
    parts = [plain_table(table) for table in comparison_tables(audits)]
    return "\n\n".join([*parts, *comparison_notes(audits)])


def _files(folders: Sequence[str]) -> dict[str, Path]:
    """Folder as it was given to its audit, each audit once."""
    found: dict[Path, str] = {}
    for folder in folders:
        found.setdefault((Path(folder).expanduser() / "audit" / RESULT).resolve(), folder)
    return {folder: file for file, folder in found.items()}
