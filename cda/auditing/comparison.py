"""Finished runs compared: the cross-bias matrix as text, figure and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cda.auditing.audit import AUDIT_FILE
from cda.auditing.report_cells import NOT_MEASURED, change_cells, compares, targets
from cda.auditing.report_scoring import caveats, how_scored
from cda.auditing.report_verdict import quality_sentence, verdict_kind, verdicts
from cda.errors import DataError, RunError
from cda.files.jsonl import write_page
from cda.files.paths import user_path
from cda.report.numbers import clipped, count, inert, points, visible
from cda.report.page import Headline, Page, ReportSection, render_page
from cda.report.plots import AFTER, BEFORE, COLUMN_INCHES, FAINT, INK, LINE, PAGE_INCHES, Plot
from cda.report.tables import Table, plain_table
from cda.resources.artifacts import of_this_version
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.stats.verdict import SIGNIFICANT, TOLERATED_LOSS, Cell, cross_bias

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PAGE = "comparison.html"
STRONGEST = 0.5
"""Change of skew that has the full colour; a larger one has no more."""
_FULL = 0.5
"""Opacity of the full colour, through which the numbers stay readable."""
_MOST_IN_A_COLUMN = 4
_LONGEST_NAME = 60
_MEANING = (
    "Skew is how often the model prefers the answer with a bias to the one without; its change is after minus before, paired by "
    "contrast. A training should lower the skew of its target (framed) and leave the others where they are; a lower skew is "
    "better only as far as people do not share the preference. A star allows for all cells of this matrix; the words above and in "
    "each run's own report allow for the tests of that run, by the same rule."
)


def matrix(audits: Mapping[str, AuditResult]) -> list[Cell]:
    """Change of skew of every bias by every training, tested together; DataError: an audit of a model without training."""
    alone = [name for name, audit in audits.items() if not compares(audit)]
    if alone:
        raise DataError(f"{', '.join(alone)}: an audit of one model, without a training; there is nothing to compare")
    trained = {name: {bias: skew.of_training() for bias, skew in audit.skew.items()} for name, audit in audits.items()}
    changes = {
        name: {bias: (skew.change, skew.test.p_value) for bias, skew in own.items()} for name, own in trained.items()
    }
    return cross_bias(changes, {name: targets(audit) for name, audit in audits.items()})


def comparison_tables(audits: Mapping[str, AuditResult]) -> list[Table]:
    """Change of skew in points, trainings by biases; then quality before and after."""
    cells = matrix(audits)
    biases = list(dict.fromkeys(cell.bias for cell in cells))
    by_place = {(cell.training, cell.bias): _cell(cell) for cell in cells}
    rows = [(inert(name), *(by_place.get((name, bias), NOT_MEASURED) for bias in biases)) for name in audits]
    caption = (
        "Change of skew in percentage points by each training, with 95% intervals and the number n of contrasts; (target): the "
        f"bias that was trained on; *: the interval excludes 0 and the Holm-adjusted p over all {len(cells)} cells is below {SIGNIFICANT}"
    )
    quality = [
        (inert(name), *(change_cells(audit.quality, -TOLERATED_LOSS) if audit.quality else (NOT_MEASURED, "", "", "")))
        for name, audit in audits.items()
    ]
    header = ("training", "before", "after", "change (points)", "n")
    return [
        Table(caption, ("training", *map(inert, biases)), tuple(rows)),
        Table("Held-out quality accuracy, with 95% intervals", header, tuple(quality)),
    ]


def _cell(cell: Cell) -> str:
    target = " (target)" if cell.is_target else ""
    return f"{points(cell.change, '')}{'*' * cell.is_shown}, n {count(cell.change)}{target}"


def comparison_notes(audits: Mapping[str, AuditResult]) -> list[str]:
    """Differences that make the runs hard to compare: other models, or other contrasts of the same bias."""
    notes = []
    models = {name: audit.model.name for name, audit in audits.items()}
    if len(set(models.values())) > 1:
        each = ", ".join(f"{inert(name)}: {inert(model)}" for name, model in models.items())
        notes.append(
            f"The runs are of different models, so a difference between rows need not come from the training ({each})."
        )
    origins: dict[str, set[tuple[str, int, int]]] = {}
    for audit in audits.values():
        for bias, skew in audit.skew.items():
            origin = audit.sources.contrasts if skew.source == "file" else skew.source
            origins.setdefault(bias, set()).add((origin, skew.available, skew.before.n))
    if differing := [inert(bias) for bias, found in origins.items() if len(found) > 1]:
        notes.append(
            f"The runs measured {', '.join(differing)} on different contrasts, so a difference within a column need "
            "not come from the training."
        )
    return notes


def matrix_plot(cells: Sequence[Cell]) -> Plot:
    """Change of skew in percentage points: blue fell, orange rose; a frame is a target, a star a change that is shown."""
    trainings = list(dict.fromkeys(cell.training for cell in cells))
    biases = list(dict.fromkeys(cell.bias for cell in cells))
    width = COLUMN_INCHES if len(biases) <= _MOST_IN_A_COLUMN else PAGE_INCHES
    title = (
        "Change of skew in percentage points with 95% intervals, by training (rows) and bias (columns). Blue fell, orange "
        f"rose; framed: trained against; *: interval excludes 0 and Holm-adjusted p over all {len(cells)} cells below {SIGNIFICANT}"
    )
    parts: dict[str, list[str]] = {}
    for cell in cells:
        marks = (", trained against" if cell.is_target else "") + (", significant" if cell.is_shown else "")
        words = f"{cell.bias} {points(cell.change)} (n = {count(cell.change)}{marks})"
        parts.setdefault(cell.training, []).append(words)
    description = " ".join(f"{training}: {'; '.join(words)}." for training, words in parts.items())
    draw = partial(_draw, {(cell.training, cell.bias): cell for cell in cells}, trainings, biases)
    return Plot("cross-bias", title, description, draw, 1.0 + 0.42 * len(trainings), width)


def short_names(names: Sequence[str], most: int = 20) -> list[str]:
    """The last part of each path if that tells them apart, cut to `most` columns if that still does.

    >>> short_names(["runs/jargon", "runs/length/"])
    ['jargon', 'length']
    """
    ends = [name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name for name in names]
    chosen = [_lined(name) for name in (ends if len(set(ends)) == len(names) else names)]
    cut = [clipped(name, most) for name in chosen]
    return cut if len(set(cut)) == len(names) else chosen


def _lined(text: str) -> str:
    return visible(text).replace("\n", " ")


def _draw(cells: dict[tuple[str, str], Cell], trainings: list[str], biases: list[str], axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    def square(x: int, y: int, half: float, face: str = "none", edge: str = "none", **style: float) -> None:
        axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, facecolor=face, edgecolor=edge, **style))  # type: ignore[arg-type]

    rows_and_columns = [(x, y) for y in range(len(trainings)) for x in range(len(biases))]
    places = [(x, y, cells.get((trainings[y], biases[x]))) for x, y in rows_and_columns]
    for x, y, cell in places:
        if cell is not None:
            value = cell.change.value
            strength = _FULL * min(abs(value) / STRONGEST, 1.0)
            square(x, y, 0.48, AFTER if value < 0 else BEFORE, alpha=strength, linewidth=0)
        square(x, y, 0.48, edge=LINE, linewidth=0.6)
        if cell is None:
            axes.text(x, y, "not\nmeasured", ha="center", va="center", fontsize=6, color=FAINT)
            continue
        number, _, interval = points(cell.change, "").partition(" ")
        weight = "bold" if cell.is_shown else "normal"
        axes.text(x, y - 0.16, number + "*" * cell.is_shown, ha="center", va="center", fontsize=9, fontweight=weight)
        axes.text(x, y + 0.24, interval, ha="center", va="center", fontsize=6)
    # Frames last, so that no neighbour covers them.
    for x, y, cell in places:
        if cell is not None and cell.is_target:
            square(x, y, 0.46, edge=INK, linewidth=1.6)
    axes.set_xlim(-0.5, len(biases) - 0.5)
    axes.set_ylim(len(trainings) - 0.5, -0.5)
    axes.set_xticks(range(len(biases)), [clipped(_lined(name), 14) for name in biases], rotation=30, ha="left")
    axes.set_yticks(range(len(trainings)), short_names(trainings))
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def render_comparison(audits: Mapping[str, AuditResult]) -> str:
    """The comparison of audits, by their run's folder, as a page; DataError for an audit of a model without a training."""
    folders = dict(zip(short_names(list(audits), _LONGEST_NAME), audits, strict=True))
    audits = {name: audits[folder] for name, folder in folders.items()}
    skew, quality = comparison_tables(audits)
    plots = (matrix_plot(matrix(audits)),)
    trained = "1 training" if len(audits) == 1 else f"{len(audits)} trainings"
    kept = {name: quality_sentence(audit).removeprefix("Quality: ") for name, audit in audits.items()}
    sections = (
        ReportSection("matrix", "What each training did to every bias", (_MEANING,), (skew,), plots),
        ReportSection("quality", "Quality", tuple(f"{name}: {words}" for name, words in kept.items()), (quality,)),
        ReportSection("runs", "The runs", (), (_runs_table(audits, folders),)),
        ReportSection("limits", "What limits these numbers", facts=tuple(_limits(audits))),
    )
    headlines = [
        Headline(f"{name}, {verdict.bias}: {verdict.word}.", verdict.reason, verdict_kind(verdict.word))
        for name, audit in audits.items()
        for verdict in verdicts(audit)
    ]
    headlines += [Headline("Beware.", note) for note in comparison_notes(audits)]
    subtitle = f"{trained} against biases, before and after."
    return render_page(Page("Trainings compared", subtitle, tuple(headlines), sections))


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
    runs: dict[str, list[str]] = {}
    for name, audit in audits.items():
        for note in caveats(audit):
            runs.setdefault(note, []).append(name)
    return [("all runs" if len(names) == len(audits) else ", ".join(names), note) for note, names in runs.items()]


def compare_runs(folders: Sequence[str], out: str | None = None) -> str:
    """Compare finished runs, each once; return tables and notes, and in the last line the path of the page, `out` or
    comparison.html next to the first run's folder. RunError lists all: fewer than two runs, a folder without a finished audit
    or with one of another version; or the page cannot be written. DataError: an audit of one model without a training."""
    audits = _audits(folders)
    with of_this_version(Path(", ".join(audits))):
        parts = [plain_table(table) for table in comparison_tables(audits)]
        parts += comparison_notes(audits)
        content = render_comparison(audits)
    page = _page_path(folders[0], out)
    _write(page, content)
    return "\n\n".join([*parts, f"Page: {page}"])


def _audits(folders: Sequence[str]) -> dict[str, AuditResult]:
    once: dict[Path, str] = {}
    for folder in folders:
        once.setdefault((user_path(folder) / "audit" / AUDIT_FILE).resolve(), folder)
    files = {folder: file for file, folder in once.items()}
    problems = [
        f"{folder}: no finished audit here ({Path('audit') / AUDIT_FILE}); give the folders of finished runs"
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
