"""A figure in its forms: inline under the page's policy, as files at the width of a column, and as axes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from cda.errors import DataError, RecipeError
from cda.report.drawing import (
    CAPTIONS,
    SNIPPETS,
    FigureForm,
    axes_of,
    font,
    inline_svg,
    plotted,
    save_plot,
    write_plots,
)
from cda.report.plots import AFTER, BEFORE, PAGE, Column, Mark, Plot, named, panels_plot, percent_scale, rows_plot
from cda.results.base import Estimate


def _draw(axes: Axes) -> None:
    axes.barh([0, 1], [0.8, 0.5], color=BEFORE)
    axes.plot([0.1, 0.5], [0, 1], "o", color=AFTER)
    axes.set_yticks([0, 1], ["<script>", "$x^2$ &"])


PLOT = Plot("skew", "Skew <b>", "jargon: 80%\x1b[31m", _draw)


def test_inline_svg_needs_nothing_that_the_policy_blocks() -> None:
    svg = inline_svg(PLOT)
    assert "style" not in svg and "<script>" not in svg and "\x1b" not in svg
    assert "var(--before)" in svg and "var(--after)" in svg and BEFORE not in svg


def test_references_stay_inside_the_figure() -> None:
    svg = inline_svg(PLOT)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids)) and all(name.startswith("skew-") for name in ids)
    referred = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
    assert referred and {first or second for first, second in referred} <= set(ids)


def test_a_file_says_what_it_shows_and_can_be_read_on_dark_ground(tmp_path: Path) -> None:
    root = ElementTree.parse(save_plot(PLOT, tmp_path, FigureForm("svg")).path).getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith(("}title", "}description"))]
    assert texts == ["Skew <b>", "Skew <b>", "jargon: 80%[U+001B][31m"]
    ground = next(element for element in root.iter() if element.tag.endswith("}path"))
    assert ground.attrib["style"].startswith(f"fill: {PAGE}")


@pytest.mark.parametrize("form", ("svg", "pdf"))
def test_files_are_the_same_each_time(form: str, tmp_path: Path) -> None:
    first = save_plot(PLOT, tmp_path, FigureForm.of(form)).path.read_bytes()
    assert first == save_plot(PLOT, tmp_path, FigureForm.of(form)).path.read_bytes() and len(first) > 1000
    assert first.startswith(b"%PDF" if form == "pdf" else b"<?xml")


@pytest.mark.parametrize("form", ("svg", "pdf"))
def test_a_link_in_a_files_place_is_replaced_and_not_followed(form: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs", encoding="utf-8")
    name = save_plot(PLOT, tmp_path, FigureForm.of(form)).path.name
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(victim)
    assert not save_plot(PLOT, tmp_path, FigureForm.of(form)).path.is_symlink()
    assert victim.read_text(encoding="utf-8") == "theirs"


def test_a_home_that_cannot_be_written_is_no_news(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = "from cda.terminal import quiet_libraries; quiet_libraries(); import matplotlib"
    env = {**os.environ, "HOME": str(tmp_path / "file"), "PYTHONPATH": os.pathsep.join(sys.path)}
    kept = {
        name: value for name, value in env.items() if name not in ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    }
    done = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def _estimate(value: float, n: int = 40, method: str = "Wilson 95%") -> Estimate:
    return Estimate(value=value, low=value - 0.1, high=value + 0.1, n=n, n_prompts=n, unit="share", method=method)


LONG = [
    "mean of 3 reward models in my_trained_models",
    "a reward model with a rather long name, after",
    "short",
]
MARKS = {
    "before, or as it is": Mark("before, or as it is", BEFORE, "o", filled=False),
    "after the training": Mark("after the training", AFTER, "s"),
    "a majority of people": Mark("a majority of people", "#000001", "D"),
}
ROWS = [
    (name, dict(zip(MARKS, (_estimate(0.2), _estimate(0.4), _estimate(0.8)), strict=True))) for name in map(named, LONG)
]
SCALE = percent_scale("how often each prefers the side with the bias, in percent of its contrasts (%)", 50)
WIDE = panels_plot("wide", "Wide", "said", {f"function ‘panel number {at}’": (ROWS, SCALE) for at in range(4)}, MARKS)


def _inches(file: Path) -> tuple[float, float]:
    pattern = (
        r'width="([\d.]+)pt" height="([\d.]+)pt"' if file.suffix == ".svg" else r"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]"
    )
    found = re.search(pattern, file.read_bytes().decode("latin-1"))
    assert found
    return float(found[1]) / 72, float(found[2]) / 72


@pytest.mark.parametrize(("form", "inches"), [("svg", 3.3), ("pdf", 3.3), ("svg:double", 6.8), ("pdf:double", 6.8)])
@pytest.mark.parametrize("plot", [PLOT, WIDE], ids=lambda plot: plot.id)
def test_a_file_has_the_width_of_a_column(form: str, inches: float, plot: Plot, tmp_path: Path) -> None:
    saved = save_plot(plot, tmp_path, FigureForm.of(form))
    assert _inches(saved.path) == pytest.approx(saved.inches, abs=0.01) and saved.inches[0] == inches


@pytest.mark.parametrize("column", ["single", "double"])
def test_every_text_has_eight_points_and_its_own_place(column: Column, tmp_path: Path) -> None:
    svg = save_plot(WIDE, tmp_path, FigureForm("svg", column)).path.read_text(encoding="utf-8")
    assert set(re.findall(r"font(?:-size)?: ([\d.]+)px", svg)) == {"8"}
    panels = axes_of(WIDE, column)
    figure = panels[0].get_figure()
    assert figure is not None
    figure.draw_without_rendering()
    (key,) = figure.legends
    ticks = [
        tick.label1
        for axes in panels
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, sorted(axes.get_ylim())))
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high  # others are not drawn
    ]
    texts = [*ticks, *(text for axes in panels for text in (axes.xaxis.label, axes.yaxis.label))]
    texts += [child for axes in panels for child in axes.get_children() if isinstance(child, Text)]
    boxes = [text.get_window_extent() for text in texts if text.get_visible() and text.get_text().strip()]
    for box in [*boxes, key.get_window_extent()]:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.width + 1 and box.y1 <= figure.bbox.height + 1
    # Half a pixel of each other is touching; overlapping is more.
    for one, other in combinations(boxes, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        along = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(across, along) < 2, (column, one, other)


def test_rows_of_one_mark_each_need_no_lanes() -> None:
    def height(*rows: tuple[str, dict[str, Estimate]]) -> float:
        return rows_plot("rows", "", "", rows, MARKS, SCALE).height

    first, second, _ = MARKS
    alone = height(("a", {first: _estimate(0.2)}), ("b", {second: _estimate(0.2)}))
    assert alone < height(("a", {first: _estimate(0.2), second: _estimate(0.3)}), ("b", {second: _estimate(0.2)}))


def test_captions_say_n_and_method_and_latex_has_them(tmp_path: Path) -> None:
    more = rows_plot(
        "rows_2", "50% & more", "words", [("a", {"b": _estimate(0.5, 7, "bootstrap")})], {"b": Mark("b", AFTER, "o")}, SCALE
    )  # fmt: skip
    said = write_plots([WIDE, more, PLOT], tmp_path, FigureForm("pdf", "double"))
    assert said.startswith(f"Figures: 3 files at paper size in {tmp_path / 'figures'} (") and SNIPPETS in said
    captions = (tmp_path / "figures" / CAPTIONS).read_text(encoding="utf-8")
    assert "Wide. n = 40 for each mark, from 40 prompts; lines are 95% intervals (Wilson)." in captions
    assert "n = 7 for each mark, from 7 prompts; lines are 95% intervals (bootstrap)." in captions
    assert "## skew.pdf (6.8 × 2.4 inches)" in captions and "Skew &lt;b&gt;" in captions and "jargon: 80%" in captions
    latex = (tmp_path / "figures" / SNIPPETS).read_text(encoding="utf-8")
    assert latex.count(r"\begin{figure*}") == latex.count(r"\end{figure*}") == 3
    assert r"\caption{50\% \& more. n = 7" in latex and r"\includegraphics{figures/rows\_2.pdf}" in latex
    assert SNIPPETS not in write_plots([PLOT], tmp_path / "svg", FigureForm("svg"))
    assert {file.name for file in (tmp_path / "svg" / "figures").iterdir()} == {"skew.svg", CAPTIONS}


@pytest.mark.parametrize("text", ["png", "", "svg:", "pdf:triple", "PDF"])
def test_another_form_is_told_what_there_is(text: str) -> None:
    with pytest.raises(RecipeError, match=r"svg or pdf, .* single \(3.3 inches\) or double \(6.8 inches\)"):
        FigureForm.of(text)


def test_without_a_font_or_backend_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    font.cache_clear()
    monkeypatch.setattr("matplotlib.font_manager.fontManager.ttflist", [])
    said = write_plots([PLOT], tmp_path, FigureForm("svg"))
    assert said.startswith("No figure can be drawn: Matplotlib finds no font.") and not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="finds no font"):
        plotted([PLOT], "", "single")
    font.cache_clear()


@pytest.mark.parametrize(("backend", "said"), [("TkAgg", "drawn Axes"), ("nonsense", "MPLBACKEND is 'nonsense'")])
def test_without_a_display(backend: str, said: str) -> None:
    code = """
from cda.errors import DataError
from cda.report.drawing import plotted
from cda.report.plots import Plot
try:
    print("drawn", type(plotted([Plot("a", "A", "a", lambda axes: axes.plot([0, 1]))], "", "single")).__name__)
except DataError as error:
    print(error)
"""
    env = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    env |= {"MPLBACKEND": backend, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert said in done.stdout and "Traceback" not in done.stderr


def test_a_figure_is_asked_for_by_its_id() -> None:
    plots = [PLOT, WIDE]
    one = plotted(plots, "", "single")
    assert isinstance(one, Axes) and one.get_figure().get_size_inches()[0] == 3.3  # type: ignore[union-attr]
    assert plotted(plots, "wide", "double").shape == (4,)  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"no figure 'wid'\. Did you mean 'wide'\? Known: skew, wide"):
        plotted(plots, "wid", "single")
    with pytest.raises(DataError, match=r"no figure 'nope'\. Known: skew, wide"):
        plotted(plots, "nope", "single")
    with pytest.raises(DataError, match="single or double"):
        plotted(plots, "", "triple")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="there is no figure"):
        plotted([], "", "single")
