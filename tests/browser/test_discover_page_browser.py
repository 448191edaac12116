"""The page of a discovery in a browser: its examples by attribute and in other orders; none of that for one attribute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_discover import discovered
from playwright.sync_api import Page

from cda.discovery.discovery_page import discover_document
from cda.records import user_prompt
from cda.results.discover import DiscoverResult, Measured, TestedAttribute

Open = Callable[[str], Page]
HOSTILE = "Ends with <b>a question</b>\u202e " + "and a long account of itself " * 10


def _example(prompt: str, margin: float, preference: float | None) -> Measured:
    return Measured("x", "rules", "add", user_prompt(prompt), "So.", "Sure! So.", margin, preference)


def _tested(attribute: str, *examples: Measured) -> TestedAttribute:
    """Of an attribute without numbers, so that no figure is drawn."""
    return TestedAttribute(
        candidate=attribute, attribute=attribute, name="name", confirmed=False, pooled=None, p_value=None, p_corrected=None,
        untested="too few", warnings=(), rewriters=(), examples=examples, topics={}, same_by_all=None, r=2, k=2, n_entered=2,
        smallest_detectable=None, correct="bonferroni",
    )  # fmt: skip


@pytest.fixture
def result() -> DiscoverResult:
    """Two given attributes with two examples each."""
    tested = (
        _tested("Opens with praise", _example("rice", 1.0, 0.0), _example("beans", 3.0, None)),
        _tested(HOSTILE, _example("oats", 2.0, 0.25), _example("corn", -1.0, 1.0)),
    )
    return discovered(given=True, by="rules", rewriters=("rules",), tested=tested)


def _shown(page: Page) -> list[str]:
    """Prompts of the examples that show, folded or not."""
    return [one.locator(".text").first.text_content() or "" for one in page.locator(".example:visible").all()]


def test_examples_are_chosen_by_attribute_sorted_and_opened(result: DiscoverResult, opened: Open) -> None:
    page = opened(discover_document(result).page())
    assert _shown(page) == ["rice", "beans", "oats", "corn"] and page.locator(".example[open]").count() == 1
    attribute, order = page.get_by_label("Attribute", exact=True), page.get_by_label("First", exact=True)
    order.select_option("margin")
    assert _shown(page) == ["beans", "oats", "rice", "corn"]
    order.select_option(label="what the judge likes least")
    assert _shown(page) == ["rice", "oats", "beans", "corn"]
    attribute.select_option(index=2)
    assert _shown(page) == ["oats", "corn"] and page.get_by_role("status").inner_text() == "2 of 4 shown"
    page.get_by_role("button", name="Open all").click()
    attribute.select_option(label="every attribute")
    order.select_option("place")
    assert _shown(page) == ["rice", "beans", "oats", "corn"] and page.locator(".example[open]").count() == 3
    page.get_by_role("button", name="Close all").click()
    assert page.locator(".example[open]").count() == 0
    # A long attribute from outside is neither markup nor wider than a phone.
    assert page.locator("body b").count() == 0 and "[U+202E]" in attribute.inner_text()
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_label("Attribute", exact=True).select_option("1")
    page.emulate_media(media="print")
    assert len(_shown(page)) == 4 and not page.locator("#filter-row").is_visible()


def test_one_attribute_has_nothing_to_choose(result: DiscoverResult, opened: Open) -> None:
    page = opened(discover_document(result.model_copy(update={"tested": result.tested[:1]})).page())
    assert _shown(page) == ["rice", "beans"] and page.get_by_role("combobox").count() == 0
