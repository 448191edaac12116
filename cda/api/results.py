"""Results of the API: a run, a search, and those that `cda.results` declares, read from their folders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cda.auditing.audit import AUDIT_FILE, planned_calls
from cda.errors import RunError
from cda.files.paths import is_a_file, is_a_folder, user_path
from cda.finetuning.applied import chosen_dose
from cda.launch import is_main, say
from cda.pipeline import plan as planning
from cda.pipeline.stages import audit_of, check_earlier, run_stages, train_result
from cda.recipe.load import LoadedRecipe
from cda.resources.artifacts import stage_counts
from cda.resources.dry_run import noting, plan_of, plan_text, stop_if_dry
from cda.resources.llm_access import plan_lines
from cda.results.audit import AuditResult, TrainResult
from cda.results.base import Missing
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.commands import Plan
from cda.results.comparison import ComparisonResult
from cda.results.data import DataResult
from cda.results.discover import DiscoverResult, TopicsResult
from cda.results.dose import CalibrationResult, DoseResult
from cda.results.kinds import FILES, read_result
from cda.results.shown import Shown
from cda.results.stages import LabelCounts, SynthesizeCounts
from cda.run import RunFolder

Audit = AuditResult
BestOf = BestOfResult
Calibration = CalibrationResult
Comparison = ComparisonResult
DataAudit = DataResult
Dose = DoseResult
Quality = QualityResult


@dataclass(frozen=True)
class Run:
    """A run's folder, whose results are read when they are asked for."""

    folder: Path
    plan: Plan | None = None
    """The plan of a dry run; None of a run."""

    @cached_property
    def audit(self) -> AuditResult:
        """Its audit; RunError if none is finished, DataError if it is of another version of cda or was changed."""
        audit = audit_of(RunFolder(self.folder))
        audit.placed(self.folder)
        return audit

    @cached_property
    def training(self) -> TrainResult:
        """Log of the training; RunError if none is finished."""
        return train_result(RunFolder(self.folder))

    @cached_property
    def dose(self) -> DoseResult | Missing:
        """Choice of the adapter's dose; DataError if dose.json was edited or written by another version of cda."""
        chosen = chosen_dose(RunFolder(self.folder))
        return Missing(reason="no dose was chosen, so that it is as trained") if chosen is None else chosen

    def outcome(self, until: str) -> LabelCounts | SynthesizeCounts | TrainResult | DoseResult:
        """Result of a run up to a stage: counts of `label` and `synthesize`, the choice of `dose`, else the training with its
        audit; RunError if the stage is not finished, or of another version of cda."""
        kinds: dict[str, type[LabelCounts] | type[SynthesizeCounts]] = {
            "label": LabelCounts,
            "synthesize": SynthesizeCounts,
        }
        found = stage_counts(RunFolder(self.folder), until, kinds[until]) if until in kinds else None
        if until in kinds and found is None:
            raise RunError(
                f"{self.folder}: no counts of stage '{until}' as this version of cda writes them; run it again"
            )
        if until == "dose" and not isinstance(self.dose, Missing):
            return self.dose
        return found if found is not None else self.training

    @property
    def adapter(self) -> Path:
        """Folder of the PEFT adapter at the run's dose; RunError if no training is finished."""
        return self.training.adapter

    def __repr__(self) -> str:
        return f"<Run in {self.folder}>"


@dataclass(frozen=True)
class Discovery:
    """A search's results and its folder.

    Attributes:
        folder: Holds report.html, discover.json, discover.md and the outputs of every stage.
        found: Everything that was measured; a text of a dry run, and while the search waits for a review.
    """

    folder: Path
    found: DiscoverResult | TopicsResult | str

    @property
    def summary(self) -> str:
        """Output of the command; `str()` returns it, too."""
        return self.found if isinstance(self.found, str) else self.found.summary

    @property
    def result(self) -> DiscoverResult | None:
        """Everything that a search of all prompts together measured; None of others."""
        return self.found if isinstance(self.found, DiscoverResult) else None

    @property
    def topics(self) -> TopicsResult | None:
        """Everything that a search by topic measured; None of others."""
        return self.found if isinstance(self.found, TopicsResult) else None

    @property
    def biases(self) -> tuple[Path, ...]:
        """A bias file for each confirmed attribute, for `cda.train` and `cda.audit`; of a search by topic one in each topic."""
        if self.topics is None:
            return tuple(sorted((self.folder / "biases").glob("*.yaml")))
        named = {cell.file for row in self.topics.by_attribute for cell in row.levels if cell.file}
        own = (self.folder / search.folder / "biases" for search in self.topics.searches)
        return tuple(
            sorted({self.folder / file for file in named} | {file for each in own for file in each.glob("*.yaml")})
        )

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"<Discovery in {self.folder}: {len(self.biases)} biases>"


def carry_out(
    loaded: LoadedRecipe, until: str = "report", only: bool = False, figures: str | None = None, dry_run: bool = False
) -> Run:
    """The run of settings, up to a stage; a dry run checks everything, says the plan and does nothing."""

    def steps() -> list[str]:
        planning.check(loaded)
        if only:
            check_earlier(loaded, until)
        costs = plan_lines(planned_calls(loaded)) if until in ("audit", "report") else []
        return [*planning.plan(loaded, until, only).splitlines(), *costs]

    stop_if_dry(loaded, steps, planning.UNUSED.get(until, ()))
    if dry_run:
        return Run(loaded.recipe.run_path, planned_run(loaded, until=until, only=only) if is_main() else None)
    return Run(run_stages(loaded, until, only, figures).path)


def planned_run(loaded: LoadedRecipe, full: bool = False, until: str = "report", only: bool = False) -> Plan:
    """Check everything, and say and return the plan; `full`: with all settings, not only those that differ from the defaults."""
    with noting() as notes:
        planning.check(loaded)
    lines = [*planning.plan(loaded, until, only).splitlines(), *notes]
    plan = plan_of(loaded, lines, full, planning.UNUSED.get(until, ()))
    say(plan_text(plan, full))
    return plan


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
    place = user_path(path)
    # A command's own folder: its result lies in it.
    place = next((place / name for name in FILES if is_a_file(place / name)), place)
    if is_a_folder(place):
        if not any(is_a_file(place / stage / "stage.json") for stage in ("audit", "train", "label", "synthesize")):
            raise RunError(f"{path}: holds no run; give the folder of a training or an audit ({AUDIT_FILE} in audit/)")
        return Run(place)
    result = read_result(place)
    return Discovery(place.parent, result) if isinstance(result, DiscoverResult | TopicsResult) else result
