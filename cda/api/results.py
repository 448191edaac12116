"""What the API gives back: an audit that can be shown, saved and drawn, and the run that made it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import PrivateAttr

from cda.auditing.audit import RESULT as AUDIT
from cda.discovery.tables import discover_text
from cda.errors import DataError, RunError
from cda.files.jsonl import read_json, write_page
from cda.files.paths import is_a_file, is_a_folder, place_for, user_path
from cda.finetuning.applied import chosen_dose
from cda.pipeline.report import audit_of, train_result
from cda.results.audit import AuditResult, TrainResult
from cda.results.base import Missing, Saved, save
from cda.results.base import load as load_result
from cda.results.benchmarks import BestOfResult, QualityResult, WinRateResult
from cda.results.discover import DiscoverResult
from cda.results.dose import DoseFilesResult, DoseResult
from cda.results.frame import lines
from cda.run import RunFolder

if TYPE_CHECKING:
    from pandas import DataFrame


def to_frame(result: Saved) -> DataFrame:
    """Every estimate of a result as a row of a pandas frame.

    Columns: measure, of, scoring (before, after, change, unpaired or empty), value, low, high (95% interval), n, n_prompts, unit,
    method, p_value and p_holm of a change, and reason where there is no value.

    Raises:
        DataError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise DataError("to_frame needs pandas: pip install 'cda[pandas]'") from None
    return pandas.DataFrame([line.cells() for line in lines(result)])


class Shown(Saved):
    """What every result of the API can do. `str()` is what the command prints."""

    _folder: Path | None = PrivateAttr(default=None)
    _summary: str | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Where the call wrote everything; None if it was read from a file."""
        return self._folder

    @property
    def summary(self) -> str:
        """What the command prints: `str()` of it, and the files that the call wrote."""
        return self._summary or str(self)

    def save(self, path: str | Path) -> None:
        """Write it as JSON; `cda.load` reads it again.

        Raises:
            DataError: There is no place for the file.
        """
        save(self, place_for(user_path(path)))

    def report(self, path: str | Path) -> None:
        """Write the report: a page, or Markdown where the file ends in `.md`.

        Raises:
            DataError: There is no place for the file, or its ending is another one.
        """
        file = place_for(user_path(path))
        if file.suffix not in (".html", ".md"):
            raise DataError(f"{path}: a report is a page (.html) or Markdown (.md)")
        write_page(file, self._page() if file.suffix == ".html" else self._markdown())

    def to_frame(self) -> DataFrame:
        """Every estimate as a row of a pandas frame; see `cda.api.results.to_frame`."""
        return to_frame(self)

    def _page(self) -> str:
        raise NotImplementedError

    def _markdown(self) -> str:
        raise NotImplementedError


class Audit(AuditResult, Shown):
    """An audit, with what can be made of it. Its fields are those of `AuditResult`.

    As the last line of a notebook's cell it shows verdicts, figure and table.
    """

    def _page(self) -> str:
        from cda.auditing.report_html import render_html

        return render_html(self)

    def _markdown(self) -> str:
        from cda.auditing.report_text import render_markdown

        return render_markdown(self)

    def _repr_html_(self) -> str:
        from cda.auditing.report_html import notebook_html

        return notebook_html(self)

    def __str__(self) -> str:
        from cda.auditing.report_text import summary_table

        return summary_table(self)

    def __repr__(self) -> str:
        return f"<Audit of {self.model.name}: {', '.join(one.name for one in self.biases)}>"


class Quality(QualityResult, Shown):
    """Accuracy on preference files, with what can be made of it. Its fields are those of `QualityResult`."""

    def _page(self) -> str:
        from cda.benchmarks.quality_report import quality_page

        return quality_page(self)

    def _markdown(self) -> str:
        from cda.benchmarks.quality_report import quality_markdown

        return quality_markdown(self)

    def __str__(self) -> str:
        from cda.benchmarks.quality_report import quality_summary

        return quality_summary(self)

    def __repr__(self) -> str:
        return f"<Quality of {' and '.join(one.model for one in self.scorings)}: {', '.join(one.name for one in self.sets)}>"


class BestOf(BestOfResult, Shown):
    """What a reward picks as n grows, with what can be made of it. Its fields are those of `BestOfResult`."""

    def _page(self) -> str:
        from cda.benchmarks.best_of_n_report import best_of_n_page

        return best_of_n_page(self)

    def _markdown(self) -> str:
        from cda.benchmarks.best_of_n_report import best_of_n_markdown

        return best_of_n_markdown(self)

    def __str__(self) -> str:
        from cda.benchmarks.best_of_n_report import best_of_n_text

        return best_of_n_text(self)

    def __repr__(self) -> str:
        return f"<BestOf {self.sizes[-1]} by {' and '.join(one.model for one in self.models.values())}>"


class WinRate(WinRateResult, Shown):
    """How often one set of outputs is preferred. Its fields are those of `WinRateResult`; it has no report of its own."""

    def report(self, path: str | Path) -> None:
        """There is none.

        Raises:
            DataError: Always.
        """
        raise DataError(f"{path}: a win rate has no report; str() of it says all that there is")

    def __str__(self) -> str:
        from cda.benchmarks.win_rate import win_rate_text

        return win_rate_text(self)

    def __repr__(self) -> str:
        return f"<WinRate of {self.first} over {self.second} by {self.scorer.name}>"


class Dose(DoseFilesResult, Shown):
    """A dose chosen from scores. Its fields are those of `DoseFilesResult`; it has no report of its own."""

    def report(self, path: str | Path) -> None:
        """There is none.

        Raises:
            DataError: Always.
        """
        raise DataError(f"{path}: a dose from scores has no report; str() of it says all that there is")

    def __str__(self) -> str:
        from cda.dosing.files import dose_files_text

        return dose_files_text(self)

    def __repr__(self) -> str:
        return f"<Dose {self.held_out.dose:g}>"


@dataclass(frozen=True)
class Run:
    """A run's folder, read when something of it is asked for.

    Attributes:
        folder: Where it lies.
    """

    folder: Path

    @cached_property
    def audit(self) -> Audit:
        """What was measured.

        Raises:
            RunError: It holds no finished audit.
            DataError: The audit is of another version of cda, or was changed.
        """
        audit = audit_of(RunFolder(self.folder), Audit)
        audit._folder = self.folder
        return audit

    @cached_property
    def training(self) -> TrainResult:
        """How the training went.

        Raises:
            RunError: It holds no finished training.
        """
        return train_result(RunFolder(self.folder))

    @cached_property
    def dose(self) -> DoseResult | Missing:
        """How the dose of the adapter was chosen.

        Raises:
            DataError: It was written by another version of cda, or changed.
        """
        found = chosen_dose(RunFolder(self.folder))
        return Missing(reason="no dose was chosen, so that it is as trained") if found is None else found

    @property
    def adapter(self) -> Path:
        """Folder of the PEFT adapter at the run's dose.

        Raises:
            RunError: It holds no finished training.
        """
        return self.training.adapter

    def __repr__(self) -> str:
        return f"<Run in {self.folder}>"


@dataclass(frozen=True)
class Discovery:
    """What a search found, in its folder.

    Attributes:
        folder: With report.html, discover.json, discover.md and what every stage made.
        summary: What the command prints; `str()` of it, too.
        result: Everything that was measured; None where the search waits for a review.
    """

    folder: Path
    summary: str
    result: DiscoverResult | None

    @property
    def biases(self) -> tuple[Path, ...]:
        """A bias file for each confirmed attribute, for `cda.train` and `cda.audit`."""
        return tuple(sorted((self.folder / "biases").glob("*.yaml")))

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"<Discovery in {self.folder}: {len(self.biases)} biases>"


def load(path: str | Path) -> Run | Audit | Quality | BestOf | WinRate | Dose | Discovery:
    """A run's folder, or a result that was saved.

    Args:
        path: Folder of a run, or a JSON file that `save` of a result or a command wrote.

    Returns:
        For a folder a `Run`, or a `Discovery`; for a file the result in it.

    Raises:
        DataError: No such file or folder, or a result of another command or version of cda, or one that was cut or changed.
        RunError: The folder holds no run.
    """
    place = user_path(path)
    if is_a_file(place / _DISCOVERY):
        place = place / _DISCOVERY
    if is_a_folder(place):
        if not any(is_a_file(place / one / "stage.json") for one in ("audit", "train", "label", "synthesize")):
            raise RunError(f"{path}: holds no run; give the folder of a training or an audit ({AUDIT} in audit/)")
        return Run(place)
    fields = found if isinstance(found := read_json(place), dict) else {}
    if "generations" in fields:
        result = load_result(DiscoverResult, place, "cda discover")
        return Discovery(place.parent, discover_text(result), result)
    for name, (kind, command) in _KINDS.items():
        if name in fields:
            return load_result(kind, place, command)
    return load_result(Audit, place, "cda audit")


_DISCOVERY = "discover.json"
_KINDS: dict[str, tuple[type[Quality] | type[BestOf] | type[WinRate] | type[Dose], str]] = {
    "sets": (Quality, "cda quality"),
    "attributes": (BestOf, "cda best-of"),
    "without_counterpart": (WinRate, "cda win-rate"),
    "held_out": (Dose, "cda dose"),
}
"""A field that no other result has, to the result and the command that makes it."""
