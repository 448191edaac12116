"""Results of another version, or changed by hand: shown, or refused in words that name what is wrong; never a traceback."""

from __future__ import annotations

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from cda.auditing.comparison import compare_runs
from cda.errors import CdaError, DataError
from cda.files.jsonl import write_json
from cda.inspection.sources import rewrites_of_run
from cda.pipeline import report
from cda.resources.artifacts import of_this_version
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.run import RunFolder, Stage

Audit = AuditResult
PARTS = tuple(name for name, one in AuditResult.model_fields.items() if one.is_required())
OTHERS: tuple[Any, ...] = (None, [], {}, "x", 1, [None], {"x": None}, "\x1b[31m\u202e")


def saved(folder: Path, audit: Any) -> RunFolder:
    """A run folder that holds this as its audit."""
    run, stage = RunFolder(folder), Stage("audit", {}, {})
    write_json(run.begin(stage) / "audit.json", to_jsonable_python(audit))
    run.finish(stage, {}, 0.0)
    return run


def holds(run: RunFolder) -> bool:
    """Whether report, comparison and inspection come about; or else are refused by an error fit to be printed."""
    fine = True
    twin = shutil.copytree(run.path, run.path.with_name("twin"), dirs_exist_ok=True)
    for action in (
        lambda: report.run(run),
        lambda: compare_runs([str(run.path), str(twin)], str(run.path / "c.html")),
        lambda: rewrites_of_run(run.path),
    ):
        try:
            action()
        except CdaError as error:
            fine = False
            assert "\x1b" not in str(error) and "\u202e" not in str(error)
    return fine


def test_a_whole_audit_is_shown_and_compared(audit: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = saved(tmp_path / "run", audit)
    assert report.run(run).is_file()
    other = saved(tmp_path / "other", audit)
    assert "jargon" in compare_runs([str(run.path), str(other.path)], str(tmp_path / "c.html"))
    assert "jargon" in capsys.readouterr().out


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_or_other_part_is_named(audit: Audit, tmp_path: Path, part: str) -> None:
    file = tmp_path / "audit.json"
    whole = audit.model_dump()
    write_json(file, {key: value for key, value in whole.items() if key != part})
    with pytest.raises(DataError, match=f"at {part}: Field required.*cda audit"):
        load(AuditResult, file, "cda audit")
    write_json(file, {**whole, f"{part}s and more": 7})
    with pytest.raises(DataError, match=f"at {part}s and more: Extra inputs"):
        load(AuditResult, file, "cda audit")


@pytest.mark.parametrize("content", [[], None, "x", 1, {}])
def test_what_is_no_audit_at_all(content: Any, tmp_path: Path) -> None:
    assert not holds(saved(tmp_path / "run", content))


def test_an_audit_changed_anywhere_is_shown_or_refused(audit: Audit, tmp_path: Path) -> None:
    rng = random.Random(1)
    whole = audit.model_dump()
    tops = [(whole, key) for key in whole]
    deep = rng.sample([place for place in places(whole) if place[0] is not whole], 4)
    for number, (holder, key) in enumerate(tops[1::8] + deep):
        before = copy.deepcopy(holder[key])
        if number % 2 or not isinstance(holder, dict):
            holder[key] = rng.choice(OTHERS)
        else:
            del holder[key]
        holds(saved(tmp_path / f"run-{number}", whole))
        holder[key] = before


def places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += [(value, key), *places(one)]
    return found


def test_a_record_changed_by_hand(audit: Audit, tmp_path: Path) -> None:
    run = saved(tmp_path / "run", audit)
    record = run.stage("audit") / "stage.json"
    whole = json.loads(record.read_text(encoding="utf-8"))
    for change in (
        {"seconds": "x"},
        {"counts": []},
        {"finished": None},
        {"counts": {"llm": 3}},
        {"output": None},
        {"settings": 1},
    ):
        write_json(record, {**whole, **change})
        holds(run)
    for content in ([], None, {}):
        write_json(record, content)
        assert not holds(run)


def test_the_error_names_key_and_place_and_errors_of_ours_pass() -> None:
    said = r"a\.json: .*no 'skew'; test_saved_audits\.py:\d+.*cda audit"
    with pytest.raises(DataError, match=said), of_this_version(Path("a.json")):
        {}["skew"]
    for error in (DataError("said before"), OSError("disk")):
        with pytest.raises(type(error), match=str(error)), of_this_version(Path("a.json")):
            raise error
