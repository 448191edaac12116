"""The leaderboard's tables in a browser: sorted by a press on a column's name, readable on a phone and without a script."""

from __future__ import annotations

import re
from collections.abc import Callable

from cda.panels.leaderboard import leaderboard_document, ranked
from cda.results.panel import BiasRow, LeaderboardResult, LeaderboardRow, MeasuredTexts, ScoredAs
from playwright.sync_api import Page

from cda.results.base import Estimate, Missing


def _row(model: str, skew: float, quality: float | None) -> LeaderboardRow:
    def number(value: float) -> Estimate:
        return Estimate(value=value, low=0.0, high=1.0, n=9, n_prompts=9, unit="share", method="made")

    none, texts = Missing(reason="none"), MeasuredTexts(name="embedded", n=9, content="c" * 16)
    bias = BiasRow(contrasts=texts, skew=number(skew), people=none, distance=none, miscalibration=none, rate=none)
    return LeaderboardRow(
        cda_version="0.1.0", date="2026-11-24", model=model, revision=None, content=None, training=None, text_set="a" * 16,
        scored=ScoredAs(kind="reward model", precision="bf16"), biases={"jargon": bias},
        quality=none if quality is None else number(quality), quality_pairs=None if quality is None else texts,
    )  # fmt: skip


def test_columns_sort_both_ways_and_words_come_last(opened: Callable[[str], Page]) -> None:
    rows = {"a.json": _row("nine", 0.59, 0.9), "b.json": _row("ten", 0.6, 1.0), "c.json": _row("none", 0.7, None)}
    html = leaderboard_document(LeaderboardResult(name="rows", groups=(ranked("a" * 16, rows),))).page()
    page = opened(html)
    table = page.locator("table").first

    def models() -> list[str]:
        return table.locator("tbody th").all_inner_texts()

    quality = table.get_by_role("button", name="quality", exact=True)
    quality.click()
    assert models() == ["nine", "ten", "none"]
    assert table.locator("th[aria-sort=ascending]").inner_text().startswith("quality")
    quality.click()
    assert models() == ["ten", "nine", "none"]
    table.get_by_role("button", name="model", exact=True).click()
    assert models() == ["nine", "none", "ten"] and table.locator("th[aria-sort]").count() == 1
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert quality.is_visible()
    bare = re.sub(r"<script>.*</script>", "", html, flags=re.DOTALL)
    plain = opened(bare).locator("table").first
    assert plain.locator("button").count() == 0 and plain.get_by_text("100%").first.is_visible()
