"""A figure in its two forms: inline under the page's policy, and as a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes

from cda.report.drawing import FigureForm, inline_svg, save_plot
from cda.report.plots import AFTER, BEFORE, PAGE, Plot


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
