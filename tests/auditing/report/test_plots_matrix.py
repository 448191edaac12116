"""The cross-bias matrix as a figure: numbers, frames, colours that can be read through."""

from __future__ import annotations

import re
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from cda.auditing.comparison import matrix, matrix_plot, short_names
from cda.report.page import resource
from cda.report.plots import AFTER, BEFORE, COLUMN_INCHES, INK, PAGE_INCHES, inline_svg


@pytest.fixture
def audits(make_audit: Any) -> dict[str, Any]:
    return {
        "runs/one": make_audit({"jargon": (0.88, 0.40)}, others=("length", "structure")),
        "runs/two": make_audit({"length": (0.50, 0.60)}, others=("structure",)),
    }


def _axes(audits: Any) -> Any:
    axes = Figure().add_subplot()
    matrix_plot(matrix(audits)).draw(axes)
    return axes


def test_every_cell_holds_its_change_and_interval(audits: Any) -> None:
    axes = _axes(audits)
    texts = {(round(one.get_position()[0]), round(one.get_position()[1]), one.get_text()) for one in axes.texts}
    assert {(0, 0, "−48*"), (0, 0, "[−57, −37]"), (0, 1, "not\nmeasured"), (1, 1, "+10*"), (2, 1, "−1")} <= texts
    assert [one.get_text() for one in axes.get_yticklabels()] == ["one", "two"]
    assert [one.get_text() for one in axes.get_xticklabels()] == ["jargon", "length", "structure"]


def test_targets_are_framed_and_colours_say_the_direction(audits: Any) -> None:
    patches = _axes(audits).patches
    framed = [
        tuple(one.get_center().round(6))
        for one in patches
        if to_hex(one.get_edgecolor()) == INK and one.get_linewidth() > 1
    ]
    assert framed == [(0, 0), (1, 1)]
    filled = {tuple(one.get_center().round()): one for one in patches if one.get_facecolor()[3] > 0}
    assert to_hex(filled[0, 0].get_facecolor()) == AFTER and to_hex(filled[1, 1].get_facecolor()) == BEFORE
    assert filled[0, 0].get_alpha() == pytest.approx(0.48)
    assert filled[1, 1].get_alpha() == pytest.approx(0.10)


def test_words_for_those_who_do_not_see_it(audits: Any) -> None:
    plot = matrix_plot(matrix(audits))
    assert "runs/one: jargon −48 [−57, −37] points (n = 100, trained against, significant);" in plot.description
    assert plot.width == COLUMN_INCHES


def test_many_biases_take_a_page(make_audit: Any) -> None:
    names = tuple(f"bias{n}" for n in range(6))
    assert matrix_plot(matrix({"a": make_audit(others=names)})).width == PAGE_INCHES


def test_hostile_names_are_inert(hostile: Any) -> None:
    svg = inline_svg(matrix_plot(matrix({"<script>alert(1)</script>\x1b[31m": hostile})))
    assert "<script>" not in svg and "<i>" not in svg and "\x1b" not in svg


def test_short_names() -> None:
    assert short_names(["runs/a/", "runs/b"]) == ["a", "b"]
    assert short_names(["x/run", "y/run"]) == ["x/run", "y/run"]
    assert short_names(["run-of-today-1", "run-of-today-2"], 8) == ["run-of-today-1", "run-of-today-2"]
    assert short_names(["a-very-long-name"], 8) == ["a-very-…"]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("colour", ["before", "after"])
def test_numbers_stand_out_on_the_fullest_colour(scheme: int, colour: str) -> None:
    def of(name: str) -> list[int]:
        found = re.findall(rf"--{name}: #(\w{{6}});", resource("report.css"))[scheme]
        return [int(found[at : at + 2], 16) for at in (0, 2, 4)]

    cell = [0.5 * over + 0.5 * under for over, under in zip(of(colour), of("page"), strict=True)]
    light, dark = sorted((_luminance(cell), _luminance(of("ink"))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def _luminance(rgb: Any) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in (v / 255 for v in rgb)
    ]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
