"""Trainings compared: the change of every bias by each, as the cross-bias matrix, its tables and its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cda.auditing.report_cells import change_cells, compares, targets
from cda.errors import DataError
from cda.report.numbers import NOT_MEASURED, clipped, count, inert, points, visible
from cda.report.plots import AFTER, BEFORE, COLUMN_INCHES, FAINT, INK, LINE, PAGE_INCHES, Plot
from cda.report.tables import Table
from cda.results.audit import AuditResult
from cda.stats.verdict import SIGNIFICANT, TOLERATED_LOSS, Cell, cross_bias

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STRONGEST = 0.5
"""Change of skew that has the full colour; a larger one has no more."""
_FULL = 0.5
"""Opacity of the full colour, through which the numbers stay readable."""
_MOST_IN_A_COLUMN = 4


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
