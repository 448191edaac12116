"""The first screen of every kind of page, from made results: what a reader sees without scrolling, and the form of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from cda.report.document import Document
from cda.report.glance import Cell, Chip, Glance, GlanceRow, Series, axis_around, marked, percent_axis
from cda.report.numbers import signed
from cda.report.page import Headline, ReportSection
from cda.results.base import Estimate

LONG = "a bias whose name is much longer than any that ships with the package-" + "and-goes-on-" * 6
BEFORE, PEOPLE = Series("before", "before"), Series("people", "people")
CHIPS = (Chip("rewarded", "bad", "▲"), Chip("kept", "good", "✓"), Chip("not shown", "none", "?"))


def _estimate(value: float, half: float, unit: str = "share") -> Estimate:
    return Estimate.symmetric(
        value, half, n=40, n_prompts=20, unit=unit, method="t", bound=1 if unit == "share" else 99
    )


def _row(at: int, n_columns: int, of_reward: bool) -> GlanceRow:
    found = _estimate(at - 2, 1.5, "reward") if of_reward else _estimate(0.2 + 0.1 * (at % 7), 0.1)
    marks = (
        marked(BEFORE, found, signed) if of_reward else (*marked(BEFORE, found), *marked(PEOPLE, _estimate(0.4, 0.2)))
    )
    cells = (
        Cell(CHIPS[at % 3], marks),
        *[Cell(CHIPS[(at + 1) % 3], marks), Cell(instead="not measured")][: n_columns - 1],
    )
    return GlanceRow(
        LONG if at == 1 else f"bias {at}", cells, f"preferred in {20 + 10 * at}% [10, 60]", "target" if at == 0 else ""
    )


def document(n_columns: int = 1, of_reward: bool = False, n_rows: int = 6) -> Document:
    """A page whose rows are in one or more columns."""
    rows = tuple(_row(at, n_columns, of_reward) for at in range(n_rows))
    found = [cell.marks[0].found for row in rows for cell in row.cells if cell.marks]
    axis = axis_around("reward units", found) if of_reward else percent_axis("share of contrasts")
    columns = ("",) if n_columns == 1 else tuple(f"column {at}" for at in range(n_columns))
    glance = Glance(caption="How often.", heading="bias", axis=axis, rows=rows, columns=columns, reading=("A rule.",))
    findings = (Headline("More:", "a finding", "bad"), Headline("", "another"))
    sections = (ReportSection("one", "First", ("Text.",)), ReportSection("two", "Second", ("Hidden text.",)))
    return Document(
        "Title", "How it was asked.", findings, sections, headline="The model rewards three biases.", glance=glance
    )


KINDS = {"alone": document(), "columns": document(3), "reward": document(1, True), "reward columns": document(3, True)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_result_is_seen_without_scrolling(
    kind: str, width: int, height: int, opened: Callable[[str], Page]
) -> None:
    page = opened(KINDS[kind].page())
    page.set_viewport_size({"width": width, "height": height})
    bottom = "one => one.getBoundingClientRect().bottom"
    rows = page.locator(".glance tbody tr").all()
    assert len(rows) == 6 and page.locator("h1").inner_text() == KINDS[kind].headline
    seen = rows if width > 1000 else rows[:1]
    assert max(row.evaluate(bottom) for row in (*seen, page.locator("h1"))) <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".glance .chip").count() == (6 if kind in ("alone", "reward") else 12)
    assert LONG in page.locator(".glance tbody th").nth(1).inner_text()  # wrapped, never cut
    assert not page.get_by_text("Hidden text.").is_visible() and not page.get_by_text("another").is_visible()
    page.get_by_text("2 more findings").click()
    assert page.get_by_text("another").is_visible()


@pytest.mark.parametrize(("kind", "width", "scheme"), [("columns", 1280, "light"), ("alone", 390, "dark")])
def test_axe_finds_no_violation(kind: str, width: int, scheme: Any, opened: Callable[[str], Page]) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="needs axe-core-python (the test extra)")
    page = opened(KINDS[kind].page())
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    assert [fault["id"] for fault in axe.Axe().run(page)["violations"]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_terminal_has_it_in_twelve_lines_of_a_hundred_columns(kind: str) -> None:
    for n_rows in (1, 6, 30):
        made = document(3 if "columns" in kind else 1, "reward" in kind, n_rows)
        screen = made.text().splitlines()
        assert len(screen) <= 12 and max(map(len, screen)) <= 100
        assert screen[0] == made.headline and any("more in the report" in line for line in screen) == (n_rows == 30)
    assert "| bias 0 |" in made.markdown() and f"**{made.headline}**" in made.markdown()
