"""Results of the API: a search, and those that `cda.results` declares, read from their folders."""

from __future__ import annotations

from pathlib import Path

from cda.discovery.discover import Discovery
from cda.errors import RunError
from cda.files.paths import is_a_file, is_a_folder, refuse_prose, user_path
from cda.pipeline.stages import Run
from cda.results.audit import AuditResult as Audit
from cda.results.base import Shown
from cda.results.benchmarks import BestOfResult as BestOf
from cda.results.benchmarks import QualityResult as Quality
from cda.results.comparison import ComparisonResult as Comparison
from cda.results.data import DataResult as DataAudit
from cda.results.discover import DiscoverResult, TopicsResult
from cda.results.dose import CalibrationResult as Calibration
from cda.results.dose import DoseResult as Dose
from cda.results.kinds import FILES, read_result

__all__ = [
    "Audit", "BestOf", "Calibration", "Comparison", "DataAudit", "Discovery", "Dose", "Quality", "Run", "load",
]  # fmt: skip


def load(path: str | Path) -> Run | Shown | Discovery:
    """A run's folder, or a result that was saved.

    Args:
        path: Folder of a run or of another command, or a JSON file that `save` of a result or a command wrote.

    Returns:
        For a folder of a run a `Run`, for one of a search a `Discovery`; else the result in the file.

    Raises:
        DataError: No such file or folder, or a result of another command or version of cda, or one that was cut or changed.
        RunError: The folder holds no run.
    """
    refuse_prose(path, "cda.load", "a folder or file")
    place = user_path(path)
    # A command's own folder: its result lies in it.
    place = next((place / name for name in FILES if is_a_file(place / name)), place)
    if is_a_folder(place):
        if not any(is_a_file(place / stage / "stage.json") for stage in ("audit", "train", "label", "synthesize")):
            raise RunError(
                f"{path}: holds no run; give the folder of a training or an audit ({Audit.made_by.file} in audit/)"
            )
        return Run(place)
    result = read_result(place)
    return Discovery(place.parent, result) if isinstance(result, DiscoverResult | TopicsResult) else result
