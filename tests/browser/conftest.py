"""Chromium for the tests of our pages: a page that fails its test on anything that a reader's browser would complain about.

Without Chromium these tests are skipped; where CDA_NEED_BROWSER=1 they fail instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_audits
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip


voted, hostile = map(made_audits.fixture_of, ("voted", "hostile"))


@pytest.fixture
def make_audit() -> Any:
    """Builds an audit."""
    return made_audits.make_audit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a file; playwright's event loop ends with it."""
    path = os.environ.get("CDA_CHROMIUM") or shutil.which("chromium")
    if not path:
        reason = "no Chromium: install Debian's package `chromium`, or name a browser in CDA_CHROMIUM"
        if os.environ.get("CDA_NEED_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page, 1280 wide. Its test fails on console errors (blocked styles and scripts are such), errors of scripts,
    dialogs, and requests for anything that is not a file."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    made = context.new_page()
    made.set_default_timeout(10_000)
    made.on(
        "console", lambda one: complaints.append(f"console: {one.text}") if one.type in ("error", "warning") else None
    )
    made.on("pageerror", lambda one: complaints.append(f"script: {one}"))
    made.on("dialog", lambda one: (complaints.append(f"dialog: {one.message}"), one.dismiss()))
    made.on("request", lambda one: None if _is_local(one.url) else complaints.append(f"request: {one.url}"))
    yield made
    context.close()
    assert not complaints


def _is_local(url: str) -> bool:
    return url.startswith(("file:", "blob:", "data:"))


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Callable[[str], Page]:
    """Opens HTML as a file in the page."""

    def open_page(html: str) -> Page:
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        page.goto(file.as_uri())
        return page

    return open_page
