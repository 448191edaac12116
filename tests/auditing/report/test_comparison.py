"""The cross-bias matrix of several trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from changed import changed
from pydantic_core import to_jsonable_python
from typer.testing import CliRunner

from cda.auditing.comparison import compare_runs, comparison_notes, comparison_tables, matrix, render_comparison
from cda.cli import app
from cda.errors import DataError, RunError
from cda.files.jsonl import write_json


def _write(folder: Path, content: object) -> str:
    (folder / "audit").mkdir(parents=True)
    write_json(folder / "audit" / "audit.json", to_jsonable_python(content))
    return str(folder)


def test_all_cells_are_tested_together(make_audit: Any) -> None:
    audits = {
        "one": make_audit({"jargon": (0.88, 0.40)}, others=("length", "structure")),
        "two": make_audit({"length": (0.90, 0.60)}, others=("structure",)),
    }
    cells = {(cell.training, cell.bias): cell for cell in matrix(audits)}
    assert len(cells) == 5
    assert [key for key, cell in cells.items() if cell.is_target] == [("one", "jargon"), ("two", "length")]
    alone = audits["two"].skew["length"].test.p_value
    assert alone < cells["two", "length"].p_holm < 0.05
    assert cells["one", "structure"].p_holm == 1.0
    assert all(cell.p_bh <= cell.p_holm for cell in cells.values())
    table, quality = comparison_tables(audits)
    assert table.header == ("training", "jargon", "length", "structure")
    assert table.rows[0][1] == "−48 [−57, −37]*, n 100 (target)"
    assert table.rows[1][1] == "not measured"
    assert quality.header == ("training", "before", "after", "change (points)", "n")
    assert quality.rows[0][:3] == ("one", "75% [71, 79]", "74% [69, 78]")
    assert quality.rows[0][4] == "400"
    assert comparison_notes(audits) == []


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


def test_the_command(make_audit: Any, tmp_path: Path) -> None:
    for name, target in (("a", "jargon"), ("b", "length")):
        _write(tmp_path / name, make_audit({target: (0.88, 0.40)}, others=("structure",)))
    done = CliRunner().invoke(app, ["report", "--compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert done.exit_code == 0, done.output
    assert "−48 [−57, −37]*, n 100 (target)" in done.output
    assert done.output.splitlines()[-1] == f"Page: {tmp_path / 'comparison.html'}"
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert (
        "<h1>Trainings compared</h1>" in page and "a, jargon: less biased." in page and 'id="cross-bias-title"' in page
    )
    missing = CliRunner().invoke(app, ["report", "--compare", str(tmp_path / "x"), str(tmp_path / "y")])
    assert missing.exit_code == 1
    assert missing.output.count("no finished audit here") == 2


def test_a_run_given_twice_is_used_once(make_audit: Any, tmp_path: Path) -> None:
    one = _write(tmp_path / "a", make_audit())
    other = make_audit({"jargon": (0.88, 0.50)})
    other = changed(other, "model.name", "big")
    two = _write(tmp_path / "b", other)
    text = compare_runs([one, f"{one}/", two, str(tmp_path / "b" / ".." / "a")])
    lines = [line for line in text.splitlines() if line.startswith(str(tmp_path))]
    assert [line.split()[0] for line in lines] == [one, two] * 2  # two tables
    assert "over all 6 cells" in text
    assert text.splitlines()[-3].startswith("The runs are of different models")


def test_the_page_lies_where_it_is_asked_for(make_audit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [_write(tmp_path / name, make_audit()) for name in "ab"]
    asked = tmp_path / "new" / "page.html"
    assert compare_runs(runs, str(asked)).endswith(f"Page: {asked}")
    assert asked.is_file() and not (tmp_path / "comparison.html").exists()
    with pytest.raises(RunError, match="a folder; name a file with --out"):
        compare_runs(runs, str(tmp_path))
    with pytest.raises(RunError, match=r"cannot be written: .* Choose another with --out"):
        compare_runs(runs, str(asked / "below-a-file.html"))
    monkeypatch.chdir(runs[0])
    assert compare_runs([".", runs[1]]).endswith(f"Page: {tmp_path / 'comparison.html'}")


def test_a_link_in_the_pages_place_is_replaced_and_not_followed(make_audit: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", encoding="utf-8")
    (tmp_path / "comparison.html").symlink_to(victim)
    compare_runs([_write(tmp_path / name, make_audit()) for name in "ab"])
    assert victim.read_text(encoding="utf-8") == "theirs"
    assert "<html" in (tmp_path / "comparison.html").read_text(encoding="utf-8")


def test_out_needs_compare(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", "jargon", "--out", str(tmp_path / "page.html")])
    assert done.exit_code == 1
    assert "--out: only with --compare" in done.output


def test_the_page_warns_and_lists_limits_once(make_audit: Any) -> None:
    audits = {"runs/a": make_audit(), "runs/b": make_audit({"length": (0.90, 0.60)}, others=("structure",))}
    audits["runs/b"] = changed(audits["runs/b"], "model.name", "big")
    text = render_comparison(audits)
    assert "<strong>Beware.</strong> The runs are of different models" in text
    assert text.count("Rules see word lists and counts, not meaning") == 1
    assert "<dt>all runs</dt>" in text and "<dt>a</dt>" in text
    assert '<td data-column="folder">runs/b</td>' in text
    assert "b: a loss of more than 5 points is excluded" in text


def test_hostile_names_stay_text_on_the_page(hostile: Any) -> None:
    text = render_comparison({"runs/<script>alert(1)</script>\x1b[31m": hostile})
    assert "<script>alert" not in text and "\x1b" not in text and "<i>" not in text
    assert text.count("<script>") == 1


@pytest.mark.parametrize("broken", ["no scorings", "a list", "earlier", "newer"])
def test_an_audit_of_another_version_is_refused(make_audit: Any, tmp_path: Path, broken: str) -> None:
    whole = make_audit().model_dump()
    content, said = {
        "no scorings": (
            {name: one for name, one in whole.items() if name != "scorings"},
            "at scorings: Field required",
        ),
        "a list": ([whole], "no AuditResult as this version of cda writes it"),
        "earlier": (whole | {"schema_version": 1}, "written by an earlier version of cda"),
        "newer": (whole | {"schema_version": 99}, "written by a newer version of cda"),
    }[broken]
    old = _write(tmp_path / "old", content)
    with pytest.raises(RunError, match=rf"audit\.json: .*{said}.*`cda audit` again"):
        compare_runs([old, _write(tmp_path / "new", make_audit())])
    done = CliRunner().invoke(app, ["report", "--compare", old])
    assert done.exit_code == 1
    assert "Traceback" not in done.output
