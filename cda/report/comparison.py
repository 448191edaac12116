"""Several trainings side by side: the cross-bias matrix and quality, as a table for terminals and files."""

from __future__ import annotations

from collections.abc import Mapping

from cda.errors import DataError
from cda.metrics.cross_bias import Cell, cross_bias
from cda.report.numbers import Json, inert, percent, points
from cda.report.tables import Table
from cda.report.verdict import targets

SIGNIFICANT = 0.05


def matrix(audits: Mapping[str, Json]) -> list[Cell]:
    """Change of skew of every bias by every training, all cells tested together.

    Args:
        audits: Name of the run to its audit.

    Raises:
        DataError: An audit of a model without a training is among them.
    """
    alone = [name for name, audit in audits.items() if len(audit["scorings"]) < 2]
    if alone:
        raise DataError(f"{', '.join(alone)}: an audit of one model, without a training; there is nothing to compare")
    return cross_bias(
        {name: audit["skew"] for name, audit in audits.items()},
        {name: targets(audit) for name, audit in audits.items()},
    )


def comparison_tables(audits: Mapping[str, Json]) -> list[Table]:
    """Skew before → after and its change in points, trainings by biases; then quality."""
    cells = matrix(audits)
    biases = list(dict.fromkeys(cell.bias for cell in cells))
    found = {(cell.training, cell.bias): cell for cell in cells}
    rows = [(inert(name), *(_cell(found.get((name, bias))) for bias in biases)) for name in audits]
    caption = (
        f"Change of skew in points by each training, with 95% intervals; [target], and * where the Holm-adjusted p over all "
        f"{len(cells)} cells is below {SIGNIFICANT}"
    )
    quality = [(inert(name), *_quality(audit)) for name, audit in audits.items()]
    return [
        Table(caption, ("training", *map(inert, biases)), tuple(rows)),
        Table("Held-out quality accuracy", ("training", "before → after", "change (points)"), tuple(quality)),
    ]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "not measured"
    star = "*" if cell.p_holm < SIGNIFICANT else ""
    text = f"{points(cell.change['change'], '')}{star}"
    return f"[{text}]" if cell.is_target else text


def _quality(audit: Json) -> tuple[str, str]:
    quality = audit["quality"]
    if quality is None:
        return "not measured", ""
    before, after = percent(quality["before"]["value"])[:-1], percent(quality["after"]["value"])
    return f"{before} → {after}", points(quality["change"], "")
