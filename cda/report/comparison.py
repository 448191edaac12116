"""Several trainings side by side: the cross-bias matrix and quality, as a table for terminals and files."""

from __future__ import annotations

from collections.abc import Mapping

from cda.errors import DataError
from cda.metrics.cross_bias import Cell, cross_bias
from cda.metrics.verdict import SIGNIFICANT, TOLERATED_LOSS
from cda.report.numbers import count, inert, points
from cda.report.tables import Table, change_cells
from cda.report.verdict import targets
from cda.results.audit import AuditResult


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
