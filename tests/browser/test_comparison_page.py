"""The page that compares trainings, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cda.auditing.comparison_page import comparison_document
from cda.auditing.comparison_result import compare_audits
from cda.auditing.row import AuditFolder
from playwright.sync_api import Page


def test_reads_on_every_screen_and_on_paper(make_audit: Any, opened: Callable[[str], Page]) -> None:
    others = tuple(f"bias{number}" for number in range(7))
    audits = {
        "runs/<b>one</b>": make_audit(others=others),
        "runs/two": make_audit({"bias0": (0.5, 0.6)}, others=others[1:]),
    }
    page = opened(
        comparison_document(compare_audits({name: AuditFolder(audit) for name, audit in audits.items()})).page()
    )
    figure = page.get_by_role("img", name="Change of skew in percentage points")
    assert figure.get_by_text("−48*").count() == 1
    assert figure.get_by_text("+10*").count() == 1
    assert page.locator("body b").count() == 0
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert figure.is_visible()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("section").count() == page.locator("section:visible").count() == 7
