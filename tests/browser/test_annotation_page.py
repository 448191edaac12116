"""A participant in a real browser: items by keyboard, a reload in the middle, a file that the import accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from cda.cli import app

ATTACK = "</script><img src=x onerror=alert(1)><script>alert(2)</script> {{7*7}} =1+1"


def export(folder: Path, *options: str) -> Path:
    """A study of three contrasts, every text of which would run something if it could."""
    rows = [
        {"id": f"c{at}", "prompt": f"Question {at} {ATTACK}", "base": f"base {at} {ATTACK}", "perturbed": f"more {at}"}
        for at in range(3)
    ]
    contrasts = folder / "contrasts.jsonl"
    contrasts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = CliRunner().invoke(app, ["study", "export", str(contrasts), str(folder / "out"), *options])
    assert result.exit_code == 0, result.output
    return folder / "out"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reasons are optional, no attention checks."""
    return export(tmp_path_factory.mktemp("crowd"), "--participants", "crowd", "--attention", "0")


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reasons are required."""
    return export(tmp_path_factory.mktemp("experts"))


def start(page: Page, study: Path, code: str) -> None:
    page.goto(f"{(study / 'index.html').as_uri()}?participant={code}")
    page.click("#begin")


def saved(page: Page, button: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    with page.expect_download() as download:
        page.click(button)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path, json.loads(path.read_text(encoding="utf-8"))


def test_three_items_by_keyboard_with_a_reload_become_votes(page: Page, crowd: Path, tmp_path: Path) -> None:
    start(page, crowd, "p02")
    assert page.inner_text("#position") == "Item 1 of 3"
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.keyboard.press("b")
    page.focus("#justification")
    page.keyboard.type("b is 2 better, Tom")  # no shortcut while writing
    page.keyboard.press("Control+Enter")
    assert page.inner_text("#position") == "Item 3 of 3"
    page.reload()
    assert page.inner_text("#position") == "Item 3 of 3", "progress is kept"
    page.click("#back")
    assert page.input_value("#justification") == "b is 2 better, Tom" and page.is_checked("input[value=B]")
    page.click("#next")
    page.keyboard.press("Enter")
    assert page.inner_text("#task-note") == "Choose one of the three first."
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    assert page.inner_text("#end-title") == "All 3 items are answered. Thank you."
    path, result = saved(page, "#download", tmp_path)
    assert path.name.startswith("results-") and path.name.endswith("-p02.json")
    assert [one["choice"] for one in result["answers"]] == ["A", "B", "tie"]
    assert result["complete"] is True and result["participant"] == "p02"
    assert all(one["seconds"] >= 0 for one in result["answers"])
    imported = CliRunner().invoke(app, ["study", "import", str(crowd), str(path), "--out", str(tmp_path / "v.jsonl")])
    assert imported.exit_code == 0, imported.output
    votes = {row["id"]: row for row in map(json.loads, (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines())}
    key = {one["id"]: one for one in json.loads((crowd / "key.json").read_text(encoding="utf-8"))["items"]}
    for one in result["answers"]:
        item = key[one["item"]]
        a_is_perturbed = item["perturbed"] == one["a"]
        wanted = {"A": "perturbed" if a_is_perturbed else "base", "B": "base" if a_is_perturbed else "perturbed"}
        assert votes[item["contrast"]]["vote"] == wanted.get(one["choice"], "tie")


def test_what_is_shown_is_what_was_given_out_and_inert(page: Page, crowd: Path) -> None:
    key = {one["id"]: one for one in json.loads((crowd / "key.json").read_text(encoding="utf-8"))["items"]}
    given = json.loads((crowd / "assignments.json").read_text(encoding="utf-8"))["participants"]["p01"]
    start(page, crowd, "p01")
    for one in given:
        texts = key[one["item"]]["texts"]
        assert page.text_content("#answer-a") == texts[one["a"]]
        assert page.text_content("#answer-b") == texts[1 - one["a"]]
        assert page.text_content("#prompt") == key[one["item"]]["prompt"] and ATTACK in key[one["item"]]["prompt"]
        page.keyboard.press("t")
        page.keyboard.press("Enter")
    assert page.locator("main img, main script:not(#study)").count() == 0


def test_experts_are_asked_for_a_reason(page: Page, experts: Path, tmp_path: Path) -> None:
    page.clock.install()
    start(page, experts, "p01")
    page.clock.fast_forward(7_000)
    page.keyboard.press("2")
    page.click("#next")
    assert page.inner_text("#task-note") == "Please write a few words on what decided it."
    assert page.inner_text("#position") == "Item 1 of 3"
    page.fill("#justification", "It answers the question.")
    page.click("#next")
    assert page.inner_text("#position") == "Item 2 of 3"
    page.keyboard.press("1")
    _, result = saved(page, "#early", tmp_path)
    assert result["complete"] is False and len(result["answers"]) == 2
    assert result["answers"][0]["seconds"] >= 7 > result["answers"][1]["seconds"], "by the page's own clock"


def test_two_windows_with_one_code_lose_nothing_of_each_other(browser: Browser, crowd: Path, tmp_path: Path) -> None:
    context = browser.new_context(accept_downloads=True)
    one, other = context.new_page(), context.new_page()
    start(one, crowd, "p01")
    one.keyboard.press("1")
    one.keyboard.press("Enter")
    other.goto(one.url)
    assert other.inner_text("#position") == "Item 2 of 3", "it goes on where the first one is"
    for key in ("2", "Enter", "2", "Enter"):
        other.keyboard.press(key)
    assert other.inner_text("#end-title").startswith("All 3 items")
    one.wait_for_function("document.getElementById('bar').value === 3")
    assert one.is_checked("input[value=B]"), "what the other window chose for the item on screen"
    one.keyboard.press("3")
    other.wait_for_function(
        """JSON.stringify({...localStorage}).includes('tie')"""
    )  # browsers tell other windows in their own time
    one.close()
    _, result = saved(other, "#download", tmp_path)
    context.close()
    assert [row["choice"] for row in result["answers"]] == ["A", "tie", "B"], "the last choice for each item"


def test_nobody_leaves_without_a_warning_where_nothing_is_kept(browser: Browser, crowd: Path, tmp_path: Path) -> None:
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no'); }});")
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    start(page, crowd, "p01")
    page.click("input[value=A]")
    page.reload()
    assert asked == ["beforeunload"]
    page.click("#begin")
    page.click("input[value=A]")
    saved(page, "#early", tmp_path)
    page.reload()
    context.close()
    assert asked == ["beforeunload"], "what was saved as a file needs no warning"


def test_codes_are_chosen_and_unknown_ones_refused(page: Page, crowd: Path) -> None:
    page.goto(f"{(crowd / 'index.html').as_uri()}?participant=toString")
    assert "none of this study" in page.inner_text("#start-note") and page.is_disabled("#begin")
    assert page.locator("#participant option").all_inner_texts() == ["choose", "p01", "p02", "p03"]
    page.select_option("#participant", "p03")
    page.click("#begin")
    page.keyboard.press("1")
    page.goto((crowd / "index.html").as_uri())
    page.select_option("#participant", "p03")
    assert page.inner_text("#begin") == "Go on" and page.inner_text("#start-note").startswith("1 of 3 items")


def test_without_storage_or_clipboard_the_answers_are_still_handed_out(browser: Browser, crowd: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }});"
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
    )
    start(page, crowd, "p01")
    assert page.is_visible("#storage")
    a, b = page.locator("#answer-a").bounding_box(), page.locator("#answer-b").bounding_box()
    assert a and b and b["y"] > a["y"] + a["height"] - 1, "stacked on a phone"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for _ in range(3):
        page.keyboard.press("1")
        page.keyboard.press("Enter")
    page.click("#copy")
    page.wait_for_selector("#by-hand:not([hidden])")
    result = json.loads(page.input_value("#copied"))
    context.close()
    assert len(result["answers"]) == 3 and result["complete"] is True


def test_single_keys_can_be_switched_off(page: Page, crowd: Path) -> None:
    """WCAG 2.1.4: who dictates to the browser would choose by speaking."""
    start(page, crowd, "p03")
    page.uncheck("#shortcuts")
    page.keyboard.press("1")
    page.keyboard.press("t")
    assert not page.is_checked("input[value=A]") and not page.is_checked("input[value=tie]")
    page.check("#shortcuts")
    page.keyboard.press("t")
    assert page.is_checked("input[value=tie]")
