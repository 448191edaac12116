"""Several trainings side by side as a page: the cross-bias matrix as a figure, verdicts, quality, and what each run was."""

from __future__ import annotations

from collections.abc import Mapping

from cda.report.comparison import comparison_notes, comparison_tables, matrix
from cda.report.page import Finding, Page, render_page
from cda.report.plots.matrix import matrix_plot, short_names
from cda.report.scoring import caveats, how_scored
from cda.report.sections import Section
from cda.report.tables import Table
from cda.report.verdict import quality_sentence, targets, verdict_kind, verdicts
from cda.results.audit import AuditResult

_LONGEST_NAME = 60
_MEANING = (
    "Skew is how often the model prefers the answer with a bias to the one without; its change is after minus before, paired by "
    "contrast. A training should lower the skew of its target (framed) and leave the others where they are; a lower skew is "
    "better only as far as people do not share the preference. A star allows for all cells of this matrix; the words above and in "
    "each run's own report allow for the tests of that run, by the same rule."
)


def render_comparison(audits: Mapping[str, AuditResult]) -> str:
    """The comparison as a self-contained page.

    Args:
        audits: Name of the run to its audit.

    Raises:
        DataError: An audit of a model without a training is among them.
    """
    folders = dict(zip(short_names(list(audits), _LONGEST_NAME), audits, strict=True))
    audits = {name: audits[folder] for name, folder in folders.items()}
    skew, quality = comparison_tables(audits)
    plots = (matrix_plot(matrix(audits)),)
    trained = "1 training" if len(audits) == 1 else f"{len(audits)} trainings"
    sections = [
        Section("matrix", "What each training did to every bias", (_MEANING,), (skew,), plots),
        Section("quality", "Quality", _quality_sentences(audits), (quality,)),
        Section("runs", "The runs", (), (_runs_table(audits, folders),)),
        Section("limits", "What limits these numbers", facts=tuple(_limits(audits))),
    ]
    return render_page(Page("Trainings compared", f"{trained} against biases, before and after.",
                            tuple(_findings(audits)), tuple(sections)))  # fmt: skip


def _findings(audits: Mapping[str, AuditResult]) -> list[Finding]:
    """The verdict on every target of every training; then what makes the runs hard to compare."""
    found = [
        Finding(f"{name}, {one.bias}: {one.word}.", one.reason, verdict_kind(one.word))
        for name, audit in audits.items()
        for one in verdicts(audit)
    ]
    return [*found, *(Finding("Beware.", note) for note in comparison_notes(audits))]


def _quality_sentences(audits: Mapping[str, AuditResult]) -> tuple[str, ...]:
    return tuple(f"{name}: {quality_sentence(audit).removeprefix('Quality: ')}" for name, audit in audits.items())


def _runs_table(audits: Mapping[str, AuditResult], folders: Mapping[str, str]) -> Table:
    rows = tuple(
        (name, folders[name], audit.recipe, audit.model.name, ", ".join(targets(audit)), str(audit.sources.pairs),
         str(audit.seed), how_scored(audit))
        for name, audit in audits.items()
    )  # fmt: skip
    header = ("run", "folder", "recipe", "model", "trained against", "training pairs", "seed", "how it was scored")
    return Table("What was trained and scored", header, rows)


def _limits(audits: Mapping[str, AuditResult]) -> list[tuple[str, str]]:
    """Every limit once, with the runs that it holds for."""
    found: dict[str, list[str]] = {}
    for name, audit in audits.items():
        for note in caveats(audit):
            found.setdefault(note, []).append(name)
    return [("all runs" if len(names) == len(audits) else ", ".join(names), note) for note, names in found.items()]
