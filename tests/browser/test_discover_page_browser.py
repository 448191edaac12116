"""The page of a discovery in a browser: its examples by attribute and in other orders; none of that for one attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from cda.report.discover_page import discover_page

Open = Callable[[str], Page]
HOSTILE = "Ends with <b>a question</b>\u202e " + "and a long account of itself " * 10


def _example(prompt: str, margin: float, preference: float | None) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": prompt}], "original": "So.", "rewrite": "Sure! So.", "margin": margin,
            "preference": preference, "direction": "add", "rewriter": "rules"}  # fmt: skip


def _tested(attribute: str, examples: list[dict[str, Any]]) -> dict[str, Any]:
    """Of an attribute without numbers, so that no figure is drawn."""
    return {"candidate": attribute, "attribute": attribute, "name": "name", "confirmed": False, "pooled": None, "p_value": None, "p_corrected": None,
            "untested": "too few", "warnings": [], "rewriters": [], "examples": examples, "topics": {}, "same_by_all": None, "file": None,
            "r": 2, "k": 2}  # fmt: skip


@pytest.fixture
def result() -> dict[str, Any]:
    """Two given attributes with two examples each."""
    model = {"name": "embedded", "adapter": None, "dose": None}
    tested = [
        _tested("Opens with praise", [_example("rice", 1.0, 0.0), _example("beans", 3.0, None)]),
        _tested(HOSTILE, [_example("oats", 2.0, 0.25), _example("corn", -1.0, 1.0)]),
    ]
    return {
        "name": "discover", "given": True, "model": model, "judge": {**model, "name": "judge:some"}, "by": "rules",
        "rewriters": ["rules"], "settings": {"required_rewriters": 2, "test_alpha": 0.01, "correct": "bonferroni"},
        "search": {"populations": [2, 1], "prompts": [16], "directions": ["add"]},
        "material": {"prompts": {"test": 12}, "responses": 24, "sampled": {}, "rewards": {"seen": 24, "reasons": {}}},
        "generations": [], "candidates": {}, "validation": None, "tested": tested, "n_test_prompts": 12, "already": {},
        "pairs": {}, "strength": None, "lineage": {}, "seed": 42, "versions": {},
        "seconds": {"material": 1.0, "search": None, "validate": None, "confirm": 1.0},
    }  # fmt: skip


def _shown(page: Page) -> list[str]:
    """Prompts of the examples that show, folded or not."""
    return [one.locator(".text").first.text_content() or "" for one in page.locator(".example:visible").all()]


def test_examples_are_chosen_by_attribute_sorted_and_opened(result: dict[str, Any], opened: Open) -> None:
    page = opened(discover_page(result))
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


def test_paper_shows_every_example(result: dict[str, Any], opened: Open) -> None:
    page = opened(discover_page(result))
    page.get_by_label("Attribute", exact=True).select_option("1")
    page.emulate_media(media="print")
    assert len(_shown(page)) == 4 and not page.locator("#filter-row").is_visible()


def test_one_attribute_has_nothing_to_choose(result: dict[str, Any], opened: Open) -> None:
    page = opened(discover_page({**result, "tested": result["tested"][:1]}))
    assert _shown(page) == ["rice", "beans"] and page.get_by_role("combobox").count() == 0
