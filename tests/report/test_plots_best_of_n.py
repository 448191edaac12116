"""The figure of all curves of best-of-n: marks lie at the numbers, and the file says in words what it shows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import test_best_of_n_tables as tables
from changed import changed
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cda.benchmarks.best_of_n_report import overview_plot, spaced
from cda.report.plots import AFTER, BEFORE, PAGE_INCHES, save
from cda.results.base import Missing
from cda.results.benchmarks import BestOfResult

result = tables.result
SVG = "{http://www.w3.org/2000/svg}"


def drawn(result: BestOfResult) -> Figure:
    """Its panels, in a figure that nothing has been written of."""
    figure = Figure(layout="constrained")
    overview_plot(result).draw(figure.add_subplot())
    return figure


def marks(panel: Axes, color: str) -> list[list[float]]:
    """Where the marks of one scoring stand: across, then up."""
    found = [line for line in panel.lines if line.get_color() == color and line.get_marker() in ("o", "s")]
    return [np.asarray(line.get_data(), float)[:, 0].tolist() for line in found]


def test_every_curve_has_a_panel_and_marks_lie_at_the_numbers(result: BestOfResult) -> None:
    jargon, words, quality = drawn(result).axes
    titles = [panel.get_title(loc="left") for panel in (jargon, words, quality)]
    assert titles == ["jargon (share)", "words (mean)", "quality (mean)"]
    # n by its logarithm, the two scorings beside each other.
    assert marks(jargon, BEFORE) == [[pytest.approx(at - 0.06), y] for at, y in enumerate((0.25, 0.5, 0.75))]
    assert marks(words, AFTER) == [[pytest.approx(at + 0.06), y] for at, y in enumerate((100, 104, 105))]
    ends = [list(line.get_ydata()) for line in words.lines if line.get_color() == AFTER and len(line.get_xdata()) == 2]  # type: ignore[arg-type]
    assert ends == [[98, 102], [102, 106], [103, 107]]
    assert [one.get_text() for one in jargon.get_xticklabels()] == ["1", "2", "4"]


def test_two_scorings_have_one_key_and_one_has_none(result: BestOfResult) -> None:
    (key,) = drawn(result).legends
    assert [one.get_text() for one in key.get_texts()] == ["before", "after"]
    alone = tables._one_model(result)
    assert not drawn(alone).legends and "after" not in overview_plot(alone).description


def test_a_value_that_is_the_same_everywhere_has_a_mark_and_no_interval(result: BestOfResult) -> None:
    for place in range(3):
        alike = {label: tables._alike(0.0) for label in ("before", "after")}
        result = changed(result, f"attributes.1.at.{place}.complete", alike)
    words = drawn(result).axes[1]
    assert [y for _, y in marks(words, AFTER)] == [0, 0, 0]
    assert {len(line.get_xdata()) for line in words.lines} == {1, 3}  # type: ignore[arg-type]
    assert "words (mean): n = 1: 0 (all alike) before" in overview_plot(result).description


@pytest.mark.parametrize(("n", "rows", "width"), [(1, 1, 3.4), (3, 1, PAGE_INCHES), (7, 3, PAGE_INCHES)])
def test_three_panels_stand_beside_each_other(n: int, rows: int, width: float, result: BestOfResult) -> None:
    result = changed(
        changed(result, "attributes", result.attributes[:1] * n), "quality", Missing(reason="none was given")
    )
    assert overview_plot(result).width == width
    panels = drawn(result).axes
    assert len(panels) == n and panels[-1].get_subplotspec().get_gridspec().nrows == rows  # type: ignore[union-attr]


def test_sizes_that_would_stand_too_close_are_not_labelled() -> None:
    assert spaced([1, 2, 4, 8], 7) == [1, 2, 4, 8]
    assert spaced([1, 2, 4, 8, 16, 32, 64, 128, 256], 7) == [1, 4, 16, 64, 256]
    assert spaced([1, 2, 3, 4, 5, 6, 7, 8], 4) == [1, 2, 4, 8]


def test_the_file_says_in_words_what_it_shows_and_nothing_from_outside_is_markup(
    result: BestOfResult, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    result = changed(result, "attributes.0.name", f"\u4e2d{tables.HOSTILE}\ud800\ufffe")
    file = save(overview_plot(result), tmp_path, "svg")
    assert file.name == "best_of_n.svg"
    text = file.read_text(encoding="utf-8")
    assert "\x1b" not in text and "\u202e" not in text and not recwarn.list
    root = ElementTree.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    assert (root.findtext(f"{SVG}title") or "").startswith("What the reward picks among n responses")
    (described,) = root.iter("{http://purl.org/dc/elements/1.1/}description")
    assert described.text and "words (mean): n = 1: 100.0 [98.0, 102.0] before, 100.0 [" in described.text
    assert any("a<script>" in (one.text or "") for one in root.iter(f"{SVG}text"))
