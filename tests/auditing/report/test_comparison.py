"""The cross-bias matrix of several trainings: as tables, as a figure, and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cda.auditing.comparison import comparison_notes, comparison_tables, matrix, matrix_plot
from cda.auditing.comparison_page import compare_runs
from changed import changed
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pydantic_core import to_jsonable_python
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import DataError, RunError
from cda.files.jsonl import write_json
from cda.report.plots import AFTER, BEFORE, COLUMN_INCHES, INK, PAGE_INCHES


def _write(folder: Path, content: object) -> str:
    (folder / "audit").mkdir(parents=True)
    write_json(folder / "audit" / "audit.json", to_jsonable_python(content))
    return str(folder)


@pytest.fixture
def audits(make_audit: Any) -> dict[str, Any]:
    return {
        "runs/one": make_audit({"jargon": (0.88, 0.40)}, others=("length", "structure")),
        "runs/two": make_audit({"length": (0.90, 0.60)}, others=("structure",)),
    }


def test_all_cells_are_tested_together(audits: Any) -> None:
    cells = {(cell.training.removeprefix("runs/"), cell.bias): cell for cell in matrix(audits)}
    assert len(cells) == 5
    assert [key for key, cell in cells.items() if cell.is_target] == [("one", "jargon"), ("two", "length")]
    alone = audits["runs/two"].skew["length"].test.p_value
    assert alone < cells["two", "length"].p_holm < 0.05
    assert cells["one", "structure"].p_holm == 1.0 and all(cell.p_bh <= cell.p_holm for cell in cells.values())
    table, quality = comparison_tables(audits)
    assert table.header == ("training", "jargon", "length", "structure")
    assert table.rows[0][1] == "−48 [−57, −37]*, n 100 (target)" and table.rows[1][1] == "not measured"
    assert quality.rows[0] == ("runs/one", "75% [71, 79]", "74% [69, 78]", quality.rows[0][3], "400")
    assert comparison_notes(audits) == []


def test_the_figure_holds_change_and_interval_and_frames_targets(make_audit: Any, audits: Any) -> None:
    audits["runs/two"] = make_audit({"length": (0.50, 0.60)}, others=("structure",))
    plot = matrix_plot(matrix(audits))
    axes = Figure().add_subplot()
    plot.draw(axes)
    texts = {(round(text.get_position()[0]), round(text.get_position()[1]), text.get_text()) for text in axes.texts}
    assert {(0, 0, "−48*"), (0, 0, "[−57, −37]"), (0, 1, "not\nmeasured"), (1, 1, "+10*"), (2, 1, "−1")} <= texts
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["jargon", "length", "structure"]
    squares: Any = axes.patches
    framed = [tuple(square.get_center().round(6)) for square in squares
              if to_hex(square.get_edgecolor()) == INK and square.get_linewidth() > 1]  # fmt: skip
    assert framed == [(0, 0), (1, 1)]
    filled = {tuple(square.get_center().round()): square for square in squares if square.get_facecolor()[3] > 0}
    assert to_hex(filled[0, 0].get_facecolor()) == AFTER and to_hex(filled[1, 1].get_facecolor()) == BEFORE
    assert (filled[0, 0].get_alpha(), filled[1, 1].get_alpha()) == pytest.approx((0.48, 0.10))
    assert "runs/one: jargon −48 [−57, −37] points (n = 100, trained against, significant);" in plot.description
    wide = matrix_plot(matrix({"a": make_audit(others=tuple(f"bias{n}" for n in range(6)))}))
    assert (plot.width, wide.width) == (COLUMN_INCHES, PAGE_INCHES)


def test_a_model_alone_cannot_be_compared(one_model: Any, audit: Any) -> None:
    with pytest.raises(DataError, match="alone: an audit of one model"):
        matrix({"alone": one_model, "trained": audit})


def test_other_models_and_other_contrasts_are_said(make_audit: Any) -> None:
    audits = {"a": make_audit(), "b": make_audit(), "c": make_audit()}
    audits["b"] = changed(audits["b"], "model.name", "big")
    (models,) = comparison_notes(audits)
    assert "different models" in models
    assert "a: embedded, b: big, c: embedded" in models
    audits["b"] = changed(audits["b"], "model.name", "embedded")
    audits["c"] = changed(audits["c"], "skew.length.source", "file")
    audits["c"] = changed(audits["c"], "sources.contrasts", "mine.jsonl")
    (contrasts,) = comparison_notes(audits)
    assert contrasts.startswith("The runs measured length on different contrasts")


def test_a_run_given_twice_is_used_once(make_audit: Any, tmp_path: Path) -> None:
    one = _write(tmp_path / "a", make_audit())
    other = make_audit({"jargon": (0.88, 0.50)})
    other = changed(other, "model.name", "big")
    two = _write(tmp_path / "b", other)
    text = compare_runs([one, f"{one}/", two, str(tmp_path / "b" / ".." / "a")])[1]
    lines = [line.split()[0] for line in text.splitlines() if line.startswith(("a  ", "b  "))]
    assert lines == ["a", "b"] * 2  # two tables
    assert "over all 6 cells" in text
    assert "The runs are of different models" in text


def test_the_page_lies_where_it_is_asked_for(make_audit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [_write(tmp_path / name, make_audit()) for name in "ab"]
    asked = tmp_path / "new" / "page.html"
    assert compare_runs(runs, str(asked))[1].endswith(f"Page: {asked}")
    assert asked.is_file() and not (tmp_path / "comparison.html").exists()
    with pytest.raises(RunError, match=r"(?s)x: no finished audit here.*y: no finished audit here"):
        compare_runs([str(tmp_path / "x"), str(tmp_path / "y")])
    with pytest.raises(RunError, match="a folder; name a file"):
        compare_runs(runs, str(tmp_path))
    with pytest.raises(RunError, match=r"cannot be written .*; choose another place"):
        compare_runs(runs, str(asked / "below-a-file.html"))
    monkeypatch.chdir(runs[0])
    assert compare_runs([".", runs[1]])[1].endswith(f"Page: {tmp_path / 'comparison.html'}")


def test_a_link_in_the_pages_place_is_replaced_and_not_followed(make_audit: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", encoding="utf-8")
    (tmp_path / "comparison.html").symlink_to(victim)
    compare_runs([_write(tmp_path / name, make_audit()) for name in "ab"])
    assert victim.read_text(encoding="utf-8") == "theirs"
    assert "<html" in (tmp_path / "comparison.html").read_text(encoding="utf-8")


def test_an_audit_of_another_version_is_refused(make_audit: Any, tmp_path: Path) -> None:
    old = _write(tmp_path / "old", make_audit().model_dump() | {"schema_version": 1})
    with pytest.raises(RunError, match=r"audit\.json: .*written by an earlier version of cda.*`cda audit` again"):
        compare_runs([old, _write(tmp_path / "new", make_audit())])
    done = CliRunner().invoke(app, ["report", "--compare", old])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
