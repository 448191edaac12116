"""The audit report as a reader's browser shows it: keys, colours, paper, phones, hostile texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from cda.auditing import report as report_forms
from cda.auditing.first_screen import SHAPES
from cda.auditing.report import audit_document
from cda.results.base import PerScoring
from cda.results.facts import Example, RunFacts, StageRun

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
RUN = RunFacts(git="0123abc", python="3.11", platform="Linux",
               stages={"label": StageRun(seconds=100.0, finished="2026-11-21T10:00:00Z", llm={})})  # fmt: skip
Open = Callable[[str], Page]
Rendered = Callable[[str], str]


def _example(prompt: str, bias: str, before: float, after: float, preferred: Any) -> Example:
    return Example(bias=bias, prompt=prompt, perturbed="Utilize a pan.", base="Use a pan.", preferred=preferred,
                   margins=PerScoring[float](before=before, after=after))  # fmt: skip


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Pages by name: drawing their figures takes longer than all else here."""
    return {}


@pytest.fixture
def rendered(pages: dict[str, str], request: pytest.FixtureRequest) -> Rendered:
    """The page of an audit, by the name of its fixture."""

    def render(name: str) -> str:
        if name not in pages:
            pages[name] = audit_document(request.getfixturevalue(name)).page()
        return pages[name]

    return render


@pytest.fixture
def four_examples(voted: Any) -> Any:
    """Falls of 3, 2.5, 2 and 1."""
    examples = (
        _example("rice", "jargon", 1.0, -2.0, "base"),  # disagreed, agrees
        _example("beans", "vagueness", 2.0, -0.5, "perturbed"),  # agreed, disagrees
        _example("oats", "jargon", 3.0, 1.0, "base"),  # disagreed, disagrees
        _example("peas", "vagueness", 0.5, -0.5, None),
    )
    return voted.model_copy(update={"examples": examples, "run": RUN})


@pytest.fixture
def report(rendered: Rendered) -> str:
    """The page of five examples."""
    return rendered("four_examples")


def _at_examples(page: Page) -> Page:
    """The page with the folded examples open, as the list of sections opens them."""
    page.get_by_role("link", name="Examples", exact=True).click()
    page.locator("#examples-list").wait_for(state="visible")
    return page


def _shown(page: Page) -> list[str]:
    return page.locator(".example:visible .title").all_inner_texts()


def test_everything_works_by_keyboard(report: str, opened: Open) -> None:
    page = opened(report)
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    _tab_to(page, "document.activeElement.textContent === 'How to read this'")
    page.keyboard.press("Enter")
    assert page.get_by_text("Holm's correction for all").first.is_visible()
    _tab_to(page, "document.activeElement.textContent === 'Examples' && document.activeElement.tagName === 'A'")
    page.keyboard.press("Enter")
    _tab_to(page, "document.activeElement.textContent.includes('peas') && document.activeElement.tagName === 'SUMMARY'")
    assert not page.locator(".example", has_text="peas").evaluate("one => one.open")
    page.keyboard.press("Enter")
    assert page.locator(".example", has_text="peas").evaluate("one => one.open")
    assert page.locator(".example", has_text="peas").locator("ins").first.is_visible()


def _tab_to(page: Page, reached: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(reached):
            return
    raise AssertionError(f"never reached by Tab: {reached}")


@pytest.mark.parametrize(
    ("scheme", "background", "after"),
    [("light", "rgb(255, 255, 255)", "rgb(0, 103, 168)"), ("dark", "rgb(20, 23, 27)", "rgb(92, 184, 242)")],
)
def test_colours_follow_the_scheme_and_text_stands_out(
    report: str, opened: Open, scheme: Any, background: str, after: str
) -> None:
    page = opened(report)
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
    assert page.evaluate("getComputedStyle(document.querySelector('.chart .dot.after')).fill") == after
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = page.evaluate(CONTRAST, 4.5)
    assert found["texts"] > 100 and found["low"] == []


@pytest.mark.parametrize("name", ["four_examples", "hostile"])
def test_nothing_is_wider_than_the_screen(name: str, opened: Open, rendered: Rendered) -> None:
    page = opened(rendered(name))
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for width in (360, 390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_shows_everything_and_folds_are_as_before(report: str, opened: Open) -> None:
    page = _at_examples(opened(report))
    opened_before = page.locator(".example[open]").count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".example[open]").count() == 4
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".example[open]").count() == opened_before
    page.emulate_media(media="print")
    assert _shown(page) == ["rice", "beans", "oats", "peas"]
    texts = page.locator(".example .text:has(ins)")
    assert texts.count() == 4 and all(box.bounding_box()["height"] > 10 for box in texts.all())  # type: ignore[index]
    assert not page.locator(".section-nav").is_visible()
    page.set_viewport_size({"width": 700, "height": 1000})  # a page of A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    cells = page.locator("td", has_text="[").all()
    heights = [cell.evaluate("one => one.getClientRects()[0].height") for cell in cells if cell.is_visible()]
    assert len(heights) > 30 and max(heights) < 60, "no interval stands in pieces"


@pytest.fixture
def eight_biases(make_audit: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first screen of one model with as many biases as `cda audit embedded` measures, under names as long as its longest;
    without the sections, which take long to draw."""
    names = ["length", "structure", "jargon", "sycophancy", "vagueness"]
    names += [f"{name}-second-turn" for name in ("length", "vagueness", "sycophancy")]
    shares = dict(zip(names, [(0.88,), (0.5,), (0.1,), (0.8,)] * 2, strict=True))
    monkeypatch.setattr(report_forms, "sections", lambda audit: [])  # noqa: ARG005
    return audit_document(make_audit(shares, quality=(0.7,), others=())).page()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize(("name", "biases"), [("report", 4), ("eight_biases", 8)])
def test_chips_and_the_shared_axis_are_seen_without_scrolling(
    name: str, biases: int, width: int, height: int, opened: Open, request: pytest.FixtureRequest
) -> None:
    page = opened(request.getfixturevalue(name))
    page.set_viewport_size({"width": width, "height": height})
    chips, axes = page.locator(".glance .chip").all(), page.locator(".glance .axis svg[role=img]").all()
    assert (len(chips), len(axes)) == (biases, biases + 1)
    boxes = [found.bounding_box() for found in (*chips, *axes)]
    assert max(box["y"] + box["height"] for box in boxes if box) <= height and all(boxes)
    drawn = {(box["x"], box["width"]) for axis in axes if (box := axis.bounding_box())}
    assert len(drawn) == 1 and drawn.pop()[1] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert all(chip.inner_text()[0] in SHAPES.values() for chip in chips)  # no chip by colour alone


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_no_violation(report: str, opened: Open, width: int, scheme: Any) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="needs axe-core-python (the test extra)")
    page = opened(report)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    if width < 400:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    # The figures and the glossary are more of the same, and take axe most of its time.
    page.evaluate("document.querySelectorAll('.plots, #meaning').forEach((each) => each.remove())")
    found = axe.Axe().run(page)
    assert len(found["passes"]) > 15
    assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in found["violations"]] == []


def test_the_list_of_sections_stays_at_the_side_and_sections_after_quality_are_folded(
    report: str, opened: Open
) -> None:
    page = opened(report)
    ids = "[...document.querySelectorAll('section')].map((each) => [each.querySelector('h2').textContent, Boolean(each.querySelector('.fold'))])"
    folds = dict(page.evaluate(ids))
    names = list(folds)
    assert [folds[name] for name in names] == [at >= names.index("Effects and confounds") for at in range(len(names))]
    assert {"Data correlations", "Examples", "Cost and time"} <= {name for name in names if folds[name]}
    page.evaluate("scrollTo(0, 1500)")
    nav = page.get_by_role("navigation", name="Sections")
    assert nav.bounding_box()["y"] >= 0 and nav.is_visible()  # type: ignore[index]
    page.get_by_role("link", name="Effects and confounds").click()
    assert page.get_by_role("heading", name="Effects and confounds").is_visible()
    assert page.locator("#effects p").first.is_visible()


def test_without_scripts_all_examples_show(browser: Any, report: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(report, encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator(".glance .chip:visible").count() == 4
    assert _at_examples(page).locator(".example:visible").count() == 4
    context.close()


def test_hostile_texts_are_inert(opened: Open, rendered: Rendered) -> None:
    page = _at_examples(opened(rendered("hostile")))
    assert page.locator("script").count() == 1
    assert page.locator("img, iframe, object, embed, link, form, base, body i").count() == 0
    names = "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
    assert not [name for name in page.evaluate(names) if name.startswith("on")]
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page.get_by_text("<script>alert(1)</script>").first.is_visible()
    links = page.locator("a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert all(href.startswith("#") for href in links)
