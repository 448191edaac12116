"""Finished runs compared: the cross-bias matrix as text, figure and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cda.auditing.audit import RESULT
from cda.auditing.report_cells import change_cells
from cda.auditing.report_evidence import targets
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.report_verdict import quality_sentence, verdict_kind, verdicts
from cda.errors import DataError, RunError
from cda.files.jsonl import write_page
from cda.files.paths import user_path
from cda.report.numbers import clipped, count, inert, points, visible
from cda.report.page import Headline, Page, Section, render_page
from cda.report.plots import AFTER, BEFORE, COLUMN_INCHES, FAINT, INK, LINE, PAGE_INCHES, Plot
from cda.report.tables import Table, plain_table
from cda.resources.artifacts import of_this_version
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.stats.verdict import SIGNIFICANT, TOLERATED_LOSS, Cell, cross_bias

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def matrix(audits: Mapping[str, AuditResult]) -> list[Cell]:
    """Change of skew of every bias by every training, all cells tested together.

    Args:
        audits: Name of the run to its audit.

    Raises:
        DataError: An audit of a model without a training is among them.
    """
    alone = [name for name, audit in audits.items() if len(audit.scorings) < 2]
    if alone:
        raise DataError(f"{', '.join(alone)}: an audit of one model, without a training; there is nothing to compare")
    return cross_bias(
        {
            name: {
                bias: (one.change, one.test.p_value) for bias, skew in audit.skew.items() if (one := skew.of_training())
            }
            for name, audit in audits.items()
        },
        {name: targets(audit) for name, audit in audits.items()},
    )


def comparison_tables(audits: Mapping[str, AuditResult]) -> list[Table]:
    """Change of skew in points, trainings by biases; then quality before and after."""
    cells = matrix(audits)
    biases = list(dict.fromkeys(cell.bias for cell in cells))
    found = {(cell.training, cell.bias): cell for cell in cells}
    rows = [(inert(name), *(_cell(found.get((name, bias))) for bias in biases)) for name in audits]
    caption = (
        "Change of skew in percentage points by each training, with 95% intervals and the number n of contrasts; (target): the "
        f"bias that was trained on; *: the interval excludes 0 and the Holm-adjusted p over all {len(cells)} cells is below {SIGNIFICANT}"
    )
    quality = [(inert(name), *_quality(audit)) for name, audit in audits.items()]
    header = ("training", "before", "after", "change (points)", "n")
    return [
        Table(caption, ("training", *map(inert, biases)), tuple(rows)),
        Table("Held-out quality accuracy, with 95% intervals", header, tuple(quality)),
    ]


def comparison_notes(audits: Mapping[str, AuditResult]) -> list[str]:
    """What makes the runs hard to compare: other models, or other contrasts of the same bias."""
    notes = []
    models = {name: audit.model.name for name, audit in audits.items()}
    if len(set(models.values())) > 1:
        named = ", ".join(f"{inert(name)}: {inert(model)}" for name, model in models.items())
        notes.append(
            f"The runs are of different models, so a difference between rows need not come from the training ({named})."
        )
    differing = [bias for bias in _biases(audits) if len(_contrasts(audits, bias)) > 1]
    if differing:
        notes.append(
            f"The runs measured {', '.join(map(inert, differing))} on different contrasts, so a difference within a column need "
            "not come from the training."
        )
    return notes


def _biases(audits: Mapping[str, AuditResult]) -> list[str]:
    return list(dict.fromkeys(bias for audit in audits.values() for bias in audit.skew))


def _contrasts(audits: Mapping[str, AuditResult], bias: str) -> set[tuple[str, int, int]]:
    """Where the runs have a bias's contrasts from, how many there were and how many were scored."""
    found = set()
    for audit in audits.values():
        if bias in audit.skew:
            skew = audit.skew[bias]
            origin = audit.sources.contrasts if skew.source == "file" else skew.source
            found.add((str(origin), skew.available, skew.before.n))
    return found


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "not measured"
    change = cell.change
    star = "*" if cell.is_shown else ""
    return f"{points(change, '')}{star}, n {count(change)}{' (target)' if cell.is_target else ''}"


def _quality(audit: AuditResult) -> tuple[str, ...]:
    return ("not measured", "", "", "") if audit.quality is None else change_cells(audit.quality, -TOLERATED_LOSS)


STRONGEST = 0.5
"""Change of skew that has the full colour; a larger one has no more."""
_FULL = 0.5
"""Opacity of the full colour, through which the numbers stay readable."""
_MOST_IN_A_COLUMN = 4


def matrix_plot(cells: Sequence[Cell]) -> Plot:
    """Change of skew in percentage points: blue fell, orange rose; a frame is a target, a star a change that is shown.

    Args:
        cells: Of `cda.stats.verdict.cross_bias`.
    """
    trainings = list(dict.fromkeys(cell.training for cell in cells))
    biases = list(dict.fromkeys(cell.bias for cell in cells))
    width = COLUMN_INCHES if len(biases) <= _MOST_IN_A_COLUMN else PAGE_INCHES
    height = 1.0 + 0.42 * len(trainings)
    title = (
        "Change of skew in percentage points with 95% intervals, by training (rows) and bias (columns). Blue fell, orange "
        f"rose; framed: trained against; *: interval excludes 0 and Holm-adjusted p over all {len(cells)} cells below {SIGNIFICANT}"
    )
    draw = partial(_draw, {(cell.training, cell.bias): cell for cell in cells}, trainings, biases)
    return Plot("cross-bias", title, _description(cells), draw, height, width)


def short_names(names: Sequence[str], most: int = 20) -> list[str]:
    """The last part of each path where that tells them apart, cut to so many columns where that still does.

    >>> short_names(["runs/jargon", "runs/length/"])
    ['jargon', 'length']
    """
    ends = [name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name for name in names]
    chosen = [_lined(name) for name in (ends if len(set(ends)) == len(names) else names)]
    cut = [clipped(name, most) for name in chosen]
    return cut if len(set(cut)) == len(names) else chosen


def _draw(cells: dict[tuple[str, str], Cell], trainings: list[str], biases: list[str], axes: Axes) -> None:
    for y, training in enumerate(trainings):
        for x, bias in enumerate(biases):
            _draw_cell(cells.get((training, bias)), x, y, axes)
    # Frames last, so that no neighbour covers them.
    for y, training in enumerate(trainings):
        for x, bias in enumerate(biases):
            cell = cells.get((training, bias))
            if cell is not None and cell.is_target:
                axes.add_patch(_rectangle(x, y, 0.46, facecolor="none", edgecolor=INK, linewidth=1.6))
    axes.set_xlim(-0.5, len(biases) - 0.5)
    axes.set_ylim(len(trainings) - 0.5, -0.5)
    axes.set_xticks(range(len(biases)), [clipped(_lined(name), 14) for name in biases], rotation=30, ha="left")
    axes.set_yticks(range(len(trainings)), short_names(trainings))
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_cell(cell: Cell | None, x: int, y: int, axes: Axes) -> None:
    if cell is None:
        axes.add_patch(_rectangle(x, y, 0.48, facecolor="none", edgecolor=LINE, linewidth=0.6))
        axes.text(x, y, "not\nmeasured", ha="center", va="center", fontsize=6, color=FAINT)
        return
    change = cell.change
    value = float(change.value)
    strength = _FULL * min(abs(value) / STRONGEST, 1.0)
    axes.add_patch(_rectangle(x, y, 0.48, facecolor=AFTER if value < 0 else BEFORE, alpha=strength, linewidth=0))
    axes.add_patch(_rectangle(x, y, 0.48, facecolor="none", edgecolor=LINE, linewidth=0.6))
    number, _, interval = points(change, "").partition(" ")
    star = cell.is_shown
    weight = "bold" if star else "normal"
    axes.text(x, y - 0.16, number + "*" * star, ha="center", va="center", fontsize=9, fontweight=weight)
    axes.text(x, y + 0.24, interval, ha="center", va="center", fontsize=6)


def _rectangle(x: int, y: int, half: float, **style: object):  # type: ignore[no-untyped-def]  # Matplotlib comes late
    from matplotlib.patches import Rectangle

    return Rectangle((x - half, y - half), 2 * half, 2 * half, **style)  # type: ignore[arg-type]


def _description(cells: Sequence[Cell]) -> str:
    """The matrix in words, training by training."""
    parts: dict[str, list[str]] = {}
    for cell in cells:
        change = cell.change
        marks = (", trained against" if cell.is_target else "") + (", significant" if cell.is_shown else "")
        parts.setdefault(cell.training, []).append(f"{cell.bias} {points(change)} (n = {count(change)}{marks})")
    return " ".join(f"{training}: {'; '.join(found)}." for training, found in parts.items())


def _lined(text: str) -> str:
    return visible(text).replace("\n", " ")


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


def _findings(audits: Mapping[str, AuditResult]) -> list[Headline]:
    """The verdict on every target of every training; then what makes the runs hard to compare."""
    found = [
        Headline(f"{name}, {one.bias}: {one.word}.", one.reason, verdict_kind(one.word))
        for name, audit in audits.items()
        for one in verdicts(audit)
    ]
    return [*found, *(Headline("Beware.", note) for note in comparison_notes(audits))]


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
