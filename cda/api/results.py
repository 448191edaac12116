"""Results of the API: an audit that can be shown, saved and drawn, and the run that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from numpy.typing import ArrayLike
from pydantic import BaseModel, PrivateAttr

from cda.arrays import FloatArray
from cda.auditing.audit import AUDIT_FILE, planned_calls
from cda.auditing.conditions import conditions_of, failures
from cda.auditing.report import audit_document, notebook_html
from cda.benchmarks.best_of_n_report import best_of_n_document
from cda.benchmarks.quality_report import quality_document
from cda.calibration.report import calibration_document
from cda.comparing.page import comparison_document
from cda.comparing.row import export_row, row_file, row_name
from cda.data.load import prompt_of
from cda.discovery.discovery_page import discovery_document
from cda.dosing.stage import dose_document
from cda.errors import DataError, RunError
from cda.files.jsonl import read_json, write_page
from cda.files.paths import is_a_file, is_a_folder, place_for, user_path, writing
from cda.finetuning.applied import chosen_dose
from cda.jobs.perform import Done
from cda.launch import is_main, say
from cda.numbers.number import Numbers, flat
from cda.numbers.views import numbers_in
from cda.pipeline import plan as planning
from cda.pipeline.stages import OTHER_RESULTS, audit_of, check_earlier, run_stages, train_result
from cda.preferences.data_page import data_document
from cda.recipe.load import LoadedRecipe
from cda.report.document import Document
from cda.resources.artifacts import stage_counts
from cda.resources.dry_run import noting, plan_of, plan_text, stop_if_dry
from cda.resources.llm_access import plan_lines
from cda.results.audit import AuditResult, TrainResult
from cda.results.base import NOT_TRAINED, Estimate, Missing, Saved, Test, save
from cda.results.base import load as load_result
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.commands import Plan
from cda.results.comparison import AuditRow, ComparisonResult
from cda.results.data import DataResult
from cda.results.discover import DiscoverResult
from cda.results.dose import CalibrationResult, DoseResult
from cda.results.stages import LabelCounts, SynthesizeCounts
from cda.results.topics import TopicsResult
from cda.run import RunFolder
from cda.scorers.calibrated import Corrector

if TYPE_CHECKING:
    from pandas import DataFrame


_MOMENTS = ("before", "after", "change", "unpaired")


def to_frame(result: Saved) -> DataFrame:
    """Every estimate of a result as a row of a pandas frame.

    Columns: measure, of, scoring (before, after, change, unpaired or empty), key (of a number in the table of measures), value, low,
    high (95% interval), n, n_prompts, unit, method, p_value and p_holm of a change, and reason if there is no value.

    Raises:
        DataError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise DataError("to_frame needs pandas: pip install 'cda-debias[pandas]'") from None
    return pandas.DataFrame(list(_rows(result)))


def _rows(result: BaseModel) -> Iterator[dict[str, object]]:
    """Every estimate of a result, in its order; `measure` is a field of it, `of` the parts within parts, joined by dots.

    Values that need a training are left out if there was none. Measures that are no field of the result follow.
    """
    numbers = [each for each in numbers_in(result) if isinstance(each.found, Estimate)]
    keys = {id(each.found): each.measure for each in reversed(numbers)}
    walked = list(_walked(result, ()))
    fields = {id(number) for _, number, _ in walked}
    walked += [
        ((each.measure, *each.at.values(), "before" if each.moment == "model" else each.moment), each.found, each.test)
        for each in numbers
        if id(each.found) not in fields
    ]
    for path, number, test in walked:
        if number != NOT_TRAINED:
            moment = path[-1] if path[-1] in _MOMENTS else ""
            parts = ".".join(path[1:-1] if moment else path[1:])
            named = {"measure": path[0], "of": parts, "scoring": moment, "key": keys.get(id(number), "")}
            yield named | flat(number, test if moment == "change" else None)


def _walked(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Estimate | Missing, Test | None]]:
    if isinstance(value, Estimate | Missing):
        yield path, value, None
    elif isinstance(value, BaseModel):
        test = getattr(value, "test", None)
        for name, field in value:
            for inner, number, own in _walked(field, (*path, name)):
                of_this = inner == (*path, "change") and isinstance(test, Test)
                yield inner, number, test if of_this else own
    else:
        parts: Iterable[tuple[object, object]] = value.items() if isinstance(value, Mapping) else ()
        if isinstance(value, tuple | list):
            parts = enumerate(value)
        for key, part in parts:
            yield from _walked(part, (*path, str(key)))


class Shown(Saved):
    """Methods that every result of the API has. `str()` returns the output of the command."""

    _document: ClassVar[Callable[[Any], Document] | None] = None
    _folder: Path | None = PrivateAttr(default=None)
    _summary: str | None = PrivateAttr(default=None)

    def __str__(self) -> str:
        return self._document().text() if self._document is not None else super().__str__()

    @property
    def folder(self) -> Path | None:
        """Output folder of the call; None if the result was read from a file."""
        return self._folder

    @property
    def summary(self) -> str:
        """Output of the command: `str()` of the result, and the files that the call wrote."""
        return self._summary or str(self)

    def save(self, path: str | Path) -> None:
        """Write it as JSON; `cda.load` reads it again.

        Raises:
            RunError: The file cannot be written.
        """
        file = place_for(user_path(path))
        with writing(file):
            save(self, file)

    def report(self, path: str | Path) -> None:
        """Write the report: a page (.html) or Markdown (.md), by the ending of the path.

        Raises:
            DataError: The path has another ending, or this result has no report.
            RunError: The file cannot be written.
        """
        if self._document is None:
            raise DataError(f"{path}: {type(self).__name__} has no report; str() of it says all that there is")
        file = user_path(path)
        if file.suffix not in (".html", ".md"):
            raise DataError(f"{path}: a report is a page (.html) or Markdown (.md)")
        document = self._document()
        page = document.page() if file.suffix == ".html" else document.markdown()
        with writing(place_for(file)):
            write_page(file, page)

    @property
    def numbers(self) -> Numbers:
        """Its measures by moment, bias and model, for `where` and `pivot`; empty if it is no audit, and not made of audits."""
        return numbers_in(self)

    def to_frame(self) -> DataFrame:
        """Every estimate as a row of a pandas frame; see `cda.api.results.to_frame`."""
        return to_frame(self)


S = TypeVar("S", bound=Shown)


def shown(kind: type[S], done: Done[Any]) -> S:
    """A job's result as the API returns it."""
    found = kind(**dict(done.result))
    found._folder, found._summary = done.folder, done.summary
    return found


class Audit(AuditResult, Shown):
    """An audit; its fields are those of `AuditResult`. In a notebook it shows verdicts, figure and table."""

    _document, _repr_html_ = audit_document, notebook_html

    def failures(self, *conditions: str) -> list[str]:
        """Conditions such as `jargon.skew>0.7` or `quality.accuracy<0.75` that hold, or that have no number here, each with what
        was found; empty if none does. RecipeError: another form, or an unknown measure. See `--fail-if`."""
        return failures(self, conditions_of(conditions, "condition"))

    def __repr__(self) -> str:
        return f"<Audit of {self.model.name}: {', '.join(bias.name for bias in self.biases)}>"

    def export(self, path: str | Path) -> Path:
        """Write it as one row that can be shared, for `cda.compare`: numbers, scoring, and texts by content; no local paths.

        Args:
            path: A file that ends in .json; or a folder, for a file named after the model and the row's content.

        Returns:
            The file.

        Raises:
            RunError: The audit was read from a file alone, its folder lacks the scores, or the file cannot be written.
        """
        return _written(export_row(self, self.folder), path)


def _written(row: AuditRow, path: str | Path) -> Path:
    file = place_for(row_file(path, row_name(row)))
    with writing(file):
        save(row, file)
    return file


class Comparison(ComparisonResult, Shown):
    """Several audits next to each other; its fields are those of `ComparisonResult`."""

    _document = comparison_document

    def export(self, folder: str | Path) -> tuple[Path, ...]:
        """Write each of its audits as a row that can be shared; see `Audit.export`."""
        return tuple(_written(row, f"{folder}/") for row in self.audits.values())

    def failures(self, *conditions: str) -> list[str]:
        """Conditions that hold for an audit, or have no number, with its name; see `Audit.failures`."""
        wanted = conditions_of(conditions, "condition")
        return [f"{name}: {problem}" for name, row in self.audits.items() for problem in failures(row, wanted)]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.audits)}>"


class Quality(QualityResult, Shown):
    """Accuracy on preference files; its fields are those of `QualityResult`."""

    _document = quality_document

    def __repr__(self) -> str:
        models = " and ".join(scoring.model for scoring in self.scorings)
        return f"<Quality of {models}: {', '.join(each.name for each in self.sets)}>"


class BestOf(BestOfResult, Shown):
    """Attributes of the responses that a reward picks as n grows; its fields are those of `BestOfResult`."""

    _document = best_of_n_document

    def __repr__(self) -> str:
        return f"<BestOf {self.sizes[-1]} by {' and '.join(asked.model for asked in self.models.values())}>"


class DataAudit(DataResult, Shown):
    """What preference data favour; its fields are those of `DataResult`."""

    _document = data_document

    def __repr__(self) -> str:
        return f"<DataAudit of {self.pairs}: {', '.join(bias.name for bias in self.biases)}>"


class Dose(DoseResult, Shown):
    """A dose between two scorers, with the fields of `DoseResult`."""

    _document = dose_document

    def __repr__(self) -> str:
        return f"<Dose {self.chosen:g}>"


class Calibration(CalibrationResult, Shown):
    """Corrections of a scorer's margins, with the fields of `CalibrationResult`; called, it corrects margins of texts."""

    _document = calibration_document

    def __call__(
        self,
        prompts: Sequence[str | Sequence[Mapping[str, str]]],
        first: Sequence[str],
        second: Sequence[str],
        margins: ArrayLike,
        *,
        one_order: bool = False,
    ) -> FloatArray:
        """Corrected margins of first texts over second ones, shape (n,), in the scorer's unit: rewards, or preferences from −1
        to 1. `one_order`: the judge was asked once per pair, in the order that cda draws from the texts. NaN stays NaN.

        Raises:
            ValueError: Lengths differ.
        """
        comparisons = [
            (prompt_of(prompt), text, other) for prompt, text, other in zip(prompts, first, second, strict=True)
        ]
        return Corrector(self).margins(margins, comparisons, one_order)

    def __repr__(self) -> str:
        return f"<Calibration of {self.scorer} at strength {self.strength:g}>"


@dataclass(frozen=True)
class Run:
    """A run's folder, whose results are read when they are asked for."""

    folder: Path
    plan: Plan | None = None
    """The plan of a dry run; None of a run."""

    @cached_property
    def audit(self) -> Audit:
        """Its audit; RunError if none is finished, DataError if it is of another version of cda or was changed."""
        audit = audit_of(RunFolder(self.folder), Audit)
        audit._folder = self.folder
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
        summary: Output of the command; `str()` returns it, too.
        result: Everything that was measured; None while the search waits for a review, and of a search by topic.
        topics: Everything that a search by topic measured; None of other searches.
    """

    folder: Path
    summary: str
    result: DiscoverResult | None
    topics: TopicsResult | None = None

    @property
    def biases(self) -> tuple[Path, ...]:
        """A bias file for each confirmed attribute, for `cda.train` and `cda.audit`; of a search by topic one in each topic."""
        if self.topics is not None:
            named = {cell.file for row in self.topics.by_attribute for cell in row.cells if cell.file}
            own = (self.folder / search.folder / "biases" for search in self.topics.searches)
            return tuple(
                sorted({self.folder / file for file in named} | {file for each in own for file in each.glob("*.yaml")})
            )
        return tuple(sorted((self.folder / "biases").glob("*.yaml")))

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


Loaded = Comparison | Quality | BestOf | Dose | Calibration | DataAudit
"""Results in one file of their own, apart from audits."""


def load(path: str | Path) -> Run | Audit | Loaded | Discovery:
    """A run's folder, or a result that was saved.

    Args:
        path: Folder of a run or of another command, or a JSON file that `save` of a result or a command wrote.

    Returns:
        For a folder a `Run`, or a `Discovery`; for a file the result in it.

    Raises:
        DataError: No such file or folder, or a result of another command or version of cda, or one that was cut or changed.
        RunError: The folder holds no run.
    """
    place = user_path(path)
    # A command's own folder: its result lies in it.
    place = next((place / name for name in OTHER_RESULTS if is_a_file(place / name)), place)
    if is_a_folder(place):
        if not any(is_a_file(place / stage / "stage.json") for stage in ("audit", "train", "label", "synthesize")):
            raise RunError(f"{path}: holds no run; give the folder of a training or an audit ({AUDIT_FILE} in audit/)")
        return Run(place)
    content = read_json(place)
    fields = content if isinstance(content, dict) else {}
    if "by_attribute" in fields:
        topics = load_result(TopicsResult, place, "cda discover --by-topic")
        return Discovery(place.parent, discovery_document(topics).text(), None, topics)
    if "generations" in fields:
        result = load_result(DiscoverResult, place, "cda discover")
        return Discovery(place.parent, discovery_document(result).text(), result)
    for name, (kind, command) in _KINDS.items():
        if name in fields:
            return load_result(kind, place, command)
    return load_result(Audit, place, "cda audit")


_KINDS: dict[str, tuple[type[Loaded], str]] = {
    "paired": (Comparison, "cda compare"),
    "regression": (DataAudit, "cda data"),
    "sets": (Quality, "cda quality"),
    "attributes": (BestOf, "cda best-of"),
    **dict.fromkeys(("methods", "held_out"), (Dose, "cda dose")),
    "corrections": (Calibration, "cda calibrate"),
}
"""A field that no other result has, to the result and the command that makes it."""
