"""The cross-bias matrix of several trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import DataError
from cda.report.comparison import comparison_tables, matrix


def test_all_cells_are_tested_together(make_audit: Any) -> None:
    audits = {
        "one": make_audit({"jargon": (0.88, 0.40)}, others=("length", "structure")),
        "two": make_audit({"length": (0.90, 0.60)}, others=("structure",)),
    }
    cells = {(cell.training, cell.bias): cell for cell in matrix(audits)}
    assert len(cells) == 5
    assert [key for key, cell in cells.items() if cell.is_target] == [("one", "jargon"), ("two", "length")]
    alone = audits["two"]["skew"]["length"]["p_value"]
    assert alone < cells["two", "length"].p_holm < 0.05
    assert cells["one", "structure"].p_holm == 1.0
    assert all(cell.p_bh <= cell.p_holm for cell in cells.values())
    table, quality = comparison_tables(audits)
    assert table.header == ("training", "jargon", "length", "structure")
    assert table.rows[0][1] == "[−48 [−57, −37]*]"
    assert table.rows[1][1] == "not measured"
    assert quality.rows[0][:2] == ("one", "75 → 74%")


def test_a_model_alone_cannot_be_compared(one_model: Any, audit: Any) -> None:
    with pytest.raises(DataError, match="alone: an audit of one model"):
        matrix({"alone": one_model, "trained": audit})


def test_the_command(make_audit: Any, tmp_path: Path) -> None:
    for name, target in (("a", "jargon"), ("b", "length")):
        (tmp_path / name / "audit").mkdir(parents=True)
        audit = make_audit({target: (0.88, 0.40)}, others=("structure",))
        (tmp_path / name / "audit" / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    done = CliRunner().invoke(app, ["report", "--compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert done.exit_code == 0, done.output
    assert "[−48 [−57, −37]*]" in done.output
    missing = CliRunner().invoke(app, ["report", "--compare", str(tmp_path / "x"), str(tmp_path / "y")])
    assert missing.exit_code == 1
    assert missing.output.count("no finished audit here") == 2
