"""Claim: the first screen of every page says the result: headline, chips and the shared axis are seen without scrolling, on a wide
screen and on a phone, in light and dark; nothing scrolls sideways; pages are short; no key or path of ours is read.

Makes sixteen pages by real commands on the small inputs of tests/golden (training and audit of the embedded model, local servers in
place of LLMs) and opens each in Chromium.

    python -m evals.reliability.first_screens [--pictures FOLDER]            (2 to 3 minutes)
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evals.shared import ROOT, Check, finish

for folder in ("tests", "tests/golden", "tests/discovery", "tests/studies"):
    sys.path.insert(0, str(ROOT / folder))

from bench import Bench, named  # noqa: E402
from cases import Case  # noqa: E402
from serving import serving  # noqa: E402

PAGES = {
    "audit": ("audit-votes", "run/report/report.html"), "compare": ("compare-models", "run/comparison/report.html"),
    "data": ("data", "run/report.html"), "discover": ("discover-offline", "run/report.html"),
    "discover --by-topic": ("discover-by-topic", "run/report.html"), "dose": ("dose-scores", "run/report.html"),
    "calibrate": ("calibrate", "run/report.html"), "quality": ("quality", "run/report.html"),
    "quality --over": ("win-rate-judge", "run/report.html"), "best-of": ("best-of", "run/report.html"),
    "inspect": ("inspect-run", "run.html"), "study import": ("study-import", "run.summary.html"),
    "compare discoveries": ("compare-discoveries", "run/**/report.html"), "train": ("train", "run/report/report.html"),
    "train with seeds": ("train-seeds", "run/report/report.html"), "compare trainings": ("compare-trainings", "run/comparison/report.html"),
}  # fmt: skip
"""Page to the recorded command that makes it, and its file."""
DISCOVERIES = Case(
    "compare-discoveries", ("compare discover-offline/run discover-attribute/run --out {out}",), ("discover-offline", "discover-attribute")
)  # fmt: skip
SCREENS = ((1280, 900, "light"), (390, 844, "light"), (1280, 900, "dark"), (390, 844, "dark"))
MOST_VISIBLE, MOST_OPEN, MOST_ROWS, MOST_HEADLINE = 1_000, 3_000, 6, 45
KEYS = {
    "name of a scorer": re.compile(r"\b(?:memory|scores|dpo|served|judge|grade):\w|\w\.py[:\-]\w"),
    "path": re.compile(r"(?<![\w.])(?:~|\.{1,2})?/(?:[\w.-]+/)+[\w.-]+|\b[\w-]+\.(?:jsonl?|csv|ya?ml|parquet)\b"),
    "key": re.compile(r"(?<![\w./:‘])[a-z]+(?:_[a-z0-9]+)+(?![\w./(’])"),
}
"""What no reader should meet in visible text but the command of a next step."""
ROWS = """() => { const bottom = (each) => each.getBoundingClientRect().bottom, all = (s) => [...document.querySelectorAll(s)];
  return {headline: bottom(document.querySelector('h1')), words: document.querySelector('h1').innerText.split(/\\s+/).length,
    rows: all('.glance tbody tr').map(bottom), chips: all('.glance .chip').length,
    axis: bottom(document.querySelector('.glance thead .axis svg') ?? document.body),
    width: document.documentElement.scrollWidth}; }"""


def made(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every page, made by its command."""
    with serving() as start:
        bench = Bench(folder, start)
        for page, (case, file) in PAGES.items():
            bench.output(DISCOVERIES if case == DISCOVERIES.name else named(case))
            (found,) = (folder / case).glob(file)
            yield page, found


def looked_at(browser: Any, page: str, file: Path, pictures: Path | None) -> dict[str, Any]:
    """What is seen of a page on every screen."""
    from axe_core_python.sync_playwright import Axe

    found: dict[str, Any] = {}
    for width, height, scheme in SCREENS:
        opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        opened.goto(file.as_uri())
        seen = opened.evaluate(ROWS)
        if pictures:
            opened.screenshot(path=str(pictures / f"{page.replace(' ', '-')}-{width}-{scheme}.png"))
        text = opened.inner_text("body")
        read = opened.evaluate(
            "[...document.querySelectorAll('.next code')].reduce((t, each) => t.replace(each.innerText, ''), document.body.innerText)"
        )
        needed = seen["rows"][: MOST_ROWS if width > 1000 else 1]
        faults = [name for name in ("headline", "axis") if seen[name] > height]
        faults += [] if needed and max(needed) <= height else ["rows"]
        faults += [] if seen["chips"] else ["no chip"]
        faults += [f"{seen['width'] - width} px too wide"] if seen["width"] > width else []
        faults += [f"{name}: {hit[0]}" for name, pattern in KEYS.items() for hit in pattern.finditer(read)]
        faults += [f"axe: {each['id']}" for each in Axe().run(opened)["violations"]]
        found |= {"headline": seen["words"], "visible": len(text.split())} if width > 1000 else {}
        opened.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        found["open"] = len(opened.inner_text("body").split())
        found[f"{width} {scheme}"] = faults
        opened.close()
    return found


def main() -> int:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=Path, help="folder for a picture of every first screen")
    pictures = parser.parse_args().pictures
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("CDA_CHROMIUM") or shutil.which("chromium")
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        files = dict(made(Path(folder)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            found = {page: looked_at(browser, page, file, pictures) for page, file in files.items()}
            browser.close()
    checks = []
    for width, height, scheme in SCREENS:
        at = f"{width} {scheme}"
        bad = {page: own[at] for page, own in found.items() if own[at]}
        rows = f"up to {MOST_ROWS} rows" if width > 1000 else "the first row"
        asked = f"{width}x{height}, {scheme}: headline, axis and {rows} without scrolling, none sideways, no key or path, axe finds nothing"
        said = "; ".join(f"{page}: {', '.join(map(str, faults[:4]))}" for page, faults in bad.items())
        checks.append(Check(asked, said or f"all {len(found)} pages", not bad and len(found) == len(PAGES)))
    for word, most in (("visible", MOST_VISIBLE), ("open", MOST_OPEN), ("headline", MOST_HEADLINE)):
        worst = max(found, key=lambda page, word=word: found[page][word])  # type: ignore[misc]
        checks.append(
            Check(f"words, {word}: at most {most:,}", f"{found[worst][word]:,} ({worst})", found[worst][word] <= most)
        )
    claim = (
        "the first screen of every page says the result in a headline, chips and one axis, without scrolling, on a wide screen and a "
        "phone, light and dark; pages are short, and show no key or path."
    )
    return finish("first_screens", claim, checks, {"pages": found})


if __name__ == "__main__":
    sys.exit(main())
