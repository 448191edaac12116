"""Figures as files: all of them, at paper size, with a list that says what each shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda.cli import app
from cda.errors import RecipeError
from cda.report.document import CAPTIONS, Document
from cda.report.plots import COLUMN_INCHES, Plot
from cda.resources.artifacts import check_form

PLOTS = (
    Plot("skew", "Skew of <b>", "jargon: 80% [70, 88] (n = 100).", lambda axes: axes.set_title("x"), 2.0),  # type: ignore[arg-type, return-value]
    Plot("quality", "Quality", "all: 75% [70, 80] (n = 400).", lambda axes: axes.set_title("y"), 1.5),  # type: ignore[arg-type, return-value]
)


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_files_have_the_width_of_a_column(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "report" / "figures"
    assert (
        Document("", "", (), (), figures=PLOTS)
        .write_figures(folder.parent, form)
        .startswith(f"Figures: 2 files at paper size in {folder} (")
    )
    assert {file.name for file in folder.iterdir()} == {f"skew.{form}", f"quality.{form}", CAPTIONS}
    text = (folder / f"skew.{form}").read_bytes().decode("latin-1")
    size = re.search(
        r'width="([\d.]+)pt" height="([\d.]+)pt"' if form == "svg" else r"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", text
    )
    assert size and [float(one) / 72 for one in size.groups()] == pytest.approx([COLUMN_INCHES, 2.0], abs=0.01)
    captions = (folder / CAPTIONS).read_text(encoding="utf-8")
    assert f"skew.{form} (3.4 × 2.0 inches)" in captions
    assert "Skew of &lt;b&gt;." in captions and "all: 75% \\[70, 80\\] (n = 400)." in captions


@pytest.mark.parametrize(
    "words",
    [("report", "jargon"), ("quality", "embedded", "none.jsonl"), ("best-of", "embedded", "none.jsonl"), ("discover", "embedded")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_another_format_is_refused_before_anything_runs(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match="svg or pdf"):
        check_form("png")
    asked = CliRunner().invoke(app, [*words, "--figures", "png"])
    assert asked.exit_code == 2 and "figures are written as svg or pdf" in asked.output
    assert "none.jsonl" not in asked.output and not list(tmp_path.iterdir())
