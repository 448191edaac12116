"""The page of a comparison, in a browser: read on every screen and on paper, its tables sorted by a press on a column's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from cda.comparing.compare import compare_audits
from cda.comparing.members import Gathered, Member
from cda.comparing.page import comparison_document
from cda.comparing.row import audit_row

BROKEN = """() => [...document.querySelectorAll('th, td')].flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[^\\s-]+-?/g)) {
    const range = document.createRange();
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(word[0]);
  }
  return found;
})"""
"""Words and numbers in the cells of tables that a line ends within."""


def test_reads_on_every_screen_and_sorts(make_audit: Any, opened: Callable[[str], Page]) -> None:
    others = tuple(f"bias{number}" for number in range(7))
    audits = {
        "runs/<b>one</b>": make_audit(others=others),
        "runs/two": make_audit({"bias0": (0.5, 0.6)}, quality=(0.8, 0.9), others=others[1:]),
    }
    members = tuple(Member(name, name, audit_row(audit, None), audit=audit) for name, audit in audits.items())
    html = comparison_document(compare_audits(Gathered(members, {}, ()), 42)).page()
    page = opened(html)
    assert page.locator("body b").count() == 0
    table = page.locator("table.wide").first
    assert table.get_by_text("−48 [−57,\u00a0−37]*").count() == 1
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate(BROKEN) == []
    quality = table.get_by_role("button", name="quality")
    quality.click()
    assert re.search(r"one.*, change$", table.locator("tbody th").all_inner_texts()[0])
    quality.click()
    assert re.search(r"\(two\), after$", table.locator("tbody th").all_inner_texts()[0])
    assert table.locator("th[aria-sort]").count() == 1
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("section").count() == page.locator("section:visible").count()
    bare = re.sub(r"<script>.*</script>", "", html, flags=re.DOTALL)
    assert opened(bare).locator("table.wide").first.locator("button").count() == 0
