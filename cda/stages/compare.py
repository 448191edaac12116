"""Compare finished runs: reads their audits, writes a page, returns the cross-bias matrix as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cda.errors import DataError, RunError
from cda.files.jsonl import write_page
from cda.files.paths import user_path
from cda.report.comparison import comparison_notes, comparison_tables
from cda.report.comparison_page import render_comparison
from cda.report.terminal import plain_table
from cda.results.audit import AuditResult
from cda.results.saved import load
from cda.stages.audit import RESULT
from cda.stages.saved import of_this_version

PAGE = "comparison.html"


def compare_runs(folders: Sequence[str], out: str | None = None) -> str:
    """The comparison of finished runs; a run that is given twice is used once.

    Args:
        folders: Of finished runs.
        out: The HTML file; None: comparison.html beside the first run's folder. One that is there is written anew.

    Returns:
        The tables and notes, and in the last line where the page is.

    Raises:
        RunError: Fewer than two runs; a folder holds no finished audit, or one of another version; all of them are listed. Or
            the page cannot be written.
        DataError: An audit of one model without a training.
    """
    audits = _audits(folders)
    with of_this_version(Path(", ".join(audits))):
        parts = [plain_table(table) for table in comparison_tables(audits)]
        parts += comparison_notes(audits)
        content = render_comparison(audits)
    page = _page_path(folders[0], out)
    _write(page, content)
    return "\n\n".join([*parts, f"Page: {page}"])


def _audits(folders: Sequence[str]) -> dict[str, AuditResult]:
    files = _files(folders)
    problems = [
        f"{folder}: no finished audit here ({Path('audit') / RESULT}); give the folders of finished runs"
        for folder, file in files.items()
        if not file.is_file()
    ]
    if problems:
        raise RunError("\n".join(problems))
    if len(files) < 2:
        raise RunError(
            f"--compare: two finished runs or more are compared, and {folders[0]} is one"
            f"{' (given twice)' if len(folders) > 1 else ''}; its own report: cda report {folders[0]}"
        )
    audits: dict[str, AuditResult] = {}
    for folder, file in files.items():
        try:
            audits[folder] = load(AuditResult, file, "cda audit")
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise RunError("\n".join(problems))
    return audits


def _files(folders: Sequence[str]) -> dict[str, Path]:
    """Folder as it was given to its audit, each audit once."""
    found: dict[Path, str] = {}
    for folder in folders:
        found.setdefault((user_path(folder) / "audit" / RESULT).resolve(), folder)
    return {folder: file for file, folder in found.items()}


def _page_path(first: str, out: str | None) -> Path:
    if out is not None:
        return user_path(out)
    folder = user_path(first)
    # `.` and `..` name a folder without saying where it lies.
    return (folder if folder.name not in ("", "..") else folder.resolve()).parent / PAGE


def _write(page: Path, text: str) -> None:
    if page.is_dir():
        raise RunError(f"{page}: a folder; name a file with --out, such as {page / PAGE}")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_page(page, text)
    except OSError as error:
        raise RunError(f"{page}: cannot be written: {error.strerror or error}. Choose another with --out") from None
