"""The audit report as a reader's browser shows it: choices, keys, colours, paper, phones, hostile texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from cda.auditing.report_forms import render_html
from cda.results.base import PerScoring
from cda.results.facts import Example, RunFacts, StageRun

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
RUN = RunFacts(git="0123abc", python="3.11", platform="Linux",
               stages={"label": StageRun(seconds=100.0, finished="2026-11-21T10:00:00Z", llm={})})  # fmt: skip
Open = Callable[[str], Page]
Rendered = Callable[[str], str]


def _example(prompt: str, bias: str, before: float, after: float, preferred: Any) -> Example:
    return Example(bias=bias, prompt=prompt, perturbed="Utilize a pan.", base="Use a pan.", preferred=preferred,
                   margins=PerScoring[float](before=before, after=after), kept_for="largest fall")  # fmt: skip


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Pages by name: drawing their figures takes longer than all else here."""
    return {}


@pytest.fixture
def rendered(pages: dict[str, str], request: pytest.FixtureRequest) -> Rendered:
    """The page of an audit, by the name of its fixture."""

    def render(name: str) -> str:
        if name not in pages:
            pages[name] = render_html(request.getfixturevalue(name))
        return pages[name]

    return render


@pytest.fixture
def five_examples(voted: Any) -> Any:
    """Falls of 3, 2.5, 2, 1 and −1."""
    examples = (
        _example("rice", "jargon", 1.0, -2.0, "base"),  # disagreed, agrees
        _example("beans", "vagueness", 2.0, -0.5, "perturbed"),  # agreed, disagrees
        _example("oats", "jargon", 3.0, 1.0, "base"),  # disagreed, disagrees
        _example("peas", "vagueness", 0.5, -0.5, None),
        _example("corn", "jargon", -1.0, 0.0, "tie"),
    )
    return voted.model_copy(update={"examples": examples, "run": RUN})


@pytest.fixture
def report(rendered: Rendered) -> str:
    """The page of five examples."""
    return rendered("five_examples")


def _shown(page: Page) -> list[str]:
    return page.locator(".example:visible .title").all_inner_texts()


def test_filters_by_bias_and_by_people_and_sorts_by_margin(report: str, opened: Open) -> None:
    page = opened(report)
    assert _shown(page) == ["rice", "beans", "oats", "peas", "corn"]
    unnamed = "[...document.querySelectorAll('select')].filter((one) => one.labels.length === 0).length"
    assert page.evaluate(unnamed) == 0 and page.get_by_role("combobox").count() == 3
    assert page.get_by_role("group", name="Which examples, in which order").count() == 1
    page.get_by_label("Bias", exact=True).select_option("jargon")
    assert _shown(page) == ["rice", "oats", "corn"]
    assert page.get_by_role("status").inner_text() == "3 of 5 shown"
    people = page.get_by_label("People", exact=True)
    people.select_option(label="model and people disagree after")
    assert _shown(page) == ["oats"]
    page.get_by_label("Bias", exact=True).select_option("")
    assert _shown(page) == ["beans", "oats"]
    people.select_option(label="model and people disagree before")
    assert _shown(page) == ["rice", "oats"]
    people.select_option(label="nobody voted")
    assert _shown(page) == ["peas"]
    people.select_option(label="people saw no difference")
    page.get_by_label("Bias", exact=True).select_option("vagueness")
    assert _shown(page) == []
    assert page.get_by_role("status").inner_text() == "None of 5 fits"
    page.get_by_label("Bias", exact=True).select_option("")
    people.select_option("")
    order = page.get_by_label("First", exact=True)
    order.select_option("before")
    assert _shown(page) == ["oats", "beans", "rice", "peas", "corn"]
    order.select_option("after")
    assert _shown(page) == ["oats", "corn", "beans", "peas", "rice"]
    order.select_option("fall")
    assert _shown(page) == ["rice", "beans", "oats", "peas", "corn"]


def test_everything_works_by_keyboard(report: str, opened: Open) -> None:
    page = opened(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    _tab_to(page, "document.activeElement.id === 'example-filter'")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("v")  # vagueness
    assert _shown(page) == ["beans", "peas"]
    _tab_to(page, "document.activeElement.id === 'example-order'")
    _tab_to(page, "document.activeElement.textContent.includes('peas') && document.activeElement.tagName === 'SUMMARY'")
    assert not page.locator(".example", has_text="peas").evaluate("one => one.open")
    page.keyboard.press("Enter")
    assert page.locator(".example", has_text="peas").evaluate("one => one.open")
    assert page.locator(".example", has_text="peas").locator("mark").first.is_visible()


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
    page.get_by_role("button", name="Open all").click()
    found = page.evaluate(CONTRAST, 4.5)
    assert found["texts"] > 100 and found["low"] == []


@pytest.mark.parametrize("name", ["five_examples", "hostile"])
def test_nothing_is_wider_than_the_screen(name: str, opened: Open, rendered: Rendered) -> None:
    page = opened(rendered(name))
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_shows_everything_and_folds_are_as_before(report: str, opened: Open) -> None:
    page = opened(report)
    opened_before = page.locator(".example[open]").count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".example[open]").count() == 5
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".example[open]").count() == opened_before
    page.get_by_role("button", name="Close all").click()
    page.get_by_label("Bias", exact=True).select_option("vagueness")
    page.emulate_media(media="print")
    assert _shown(page) == ["rice", "beans", "oats", "peas", "corn"]
    assert page.locator(".example .sides:visible").count() == 5
    assert all(box.bounding_box()["height"] > 10 for box in page.locator(".example .sides").all())  # type: ignore[index]
    assert not page.locator("#filter-row").is_visible()


def test_without_scripts_all_examples_show(browser: Any, report: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(report, encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator(".example:visible").count() == 5
    assert not page.locator("#filter-row").is_visible()
    context.close()


def test_hostile_texts_are_inert(opened: Open, rendered: Rendered) -> None:
    page = opened(rendered("hostile"))
    assert page.locator("script").count() == 1
    assert page.locator("img, iframe, object, embed, link, form, base, body i").count() == 0
    names = "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
    assert not [name for name in page.evaluate(names) if name.startswith("on")]
    page.get_by_label("Bias", exact=True).select_option(index=2)
    assert page.locator(".example:visible").count() == 2
    page.get_by_role("button", name="Open all").click()
    assert page.get_by_text("<script>alert(1)</script>").first.is_visible()
    links = page.locator("a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert all(href.startswith("#") for href in links)
