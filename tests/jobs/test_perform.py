"""What every job does: a dry run plans and does nothing, a folder that holds something else is refused, files are written."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from cda.errors import RunError
from cda.jobs.perform import Job, Made, perform
from cda.recipe.schema import LlmSection
from cda.resources.dry_run import planning
from cda.resources.llm_access import Planned
from cda.results.base import Saved
from cda.results.commands import Plan


class Painted(Saved):
    """A result."""

    schema_version: int = 1
    text: str


def painting(worked: list[Path]) -> Job[Painted]:
    def work(out: Path) -> Made[Painted]:
        worked.append(out)
        result = Painted(text="painted")
        rows = [{"row": 1}, {"row": 2}]
        return Made(
            result, None, {"paint.json": result, "rows.jsonl": rows, "note.txt": lambda: "dry"}, "It is painted."
        )

    def costs() -> list[tuple[LlmSection, Planned]]:
        return [(LlmSection(model="m", base_url="http://localhost:1/v1"), Planned("painting", 7, 10.0, 1.0))]

    return Job("cda paint", "paint.json", lambda out: [f"paints      {out.name}"], work, costs)


def test_a_job_writes_its_files_and_says_where(tmp_path: Path) -> None:
    worked: list[Path] = []
    done = perform(painting(worked), None, tmp_path / "new")
    assert done.folder == tmp_path / "new" and worked == [done.folder]
    assert done.summary == f"It is painted.\nWritten: {done.folder / 'paint.json'}, rows.jsonl, note.txt"
    assert Painted.model_validate_json((done.folder / "paint.json").read_text()) == done.result
    assert (done.folder / "rows.jsonl").read_text().count("\n") == 2
    assert (done.folder / "note.txt").read_text() == "dry"
    assert perform(painting(worked), None, done.folder).result == done.result  # replaced


def test_a_full_disk_leaves_the_files_of_an_earlier_call(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def write(text: str, sizes: dict[str, object], last: Callable[[], str]) -> str:
        result = Painted(text=text)
        made = Made(
            result, None, {"note.txt": lambda: text, "paint.json": result, "sizes/": sizes, "last.txt": last}, text
        )
        return perform(Job("cda paint", "paint.json", lambda _: [], lambda _: made), None, out).summary

    def full() -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    def files() -> dict[str, str]:
        return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}

    with pytest.raises(OSError, match="No space"):
        write("first", {"a/one.json": {"n": 1}}, full)
    assert files() == {}
    assert "sizes/" in write("first", {"a/one.json": {"n": 1}, "rows.jsonl": [{"n": 2}]}, lambda: "first")
    before = files()
    assert set(before) == {"note.txt", "paint.json", "last.txt", "sizes/a/one.json", "sizes/rows.jsonl"}
    with pytest.raises(OSError, match="No space"):
        write("second", {"b.json": {"n": 2}}, full)
    assert files() == before
    (out / "paint.json.partial" / "sizes").mkdir(parents=True)  # a kill left it
    assert "sizes/" not in write("third", {}, lambda: "third")
    assert set(files()) == {"note.txt", "paint.json", "last.txt"} and files()["note.txt"] == "third"


def test_a_dry_run_says_plan_and_cost_and_does_nothing(tmp_path: Path) -> None:
    worked: list[Path] = []
    plans: list[Plan] = []
    with planning(False, {"size": 3}, lambda plan, _: plans.append(plan)):
        perform(painting(worked), None, tmp_path / "new")
    assert not worked and not (tmp_path / "new").exists()
    assert plans[0].settings == {"size": 3} and plans[0].lines[0] == "paints      new"
    assert plans[0].lines[1].startswith("llm         ") and "7 calls" in plans[0].lines[1]


def test_a_folder_of_something_else_is_refused_before_any_work(tmp_path: Path) -> None:
    worked: list[Path] = []
    (tmp_path / "mine.txt").write_text("mine")
    for dry in (False, True):
        with pytest.raises(
            RunError, match=r"holds something other than results of `cda paint`\. Choose another folder"
        ):
            if dry:
                with planning(False, {}, lambda *_: None):
                    perform(painting(worked), None, tmp_path)
            else:
                perform(painting(worked), None, tmp_path)
    assert not worked and (tmp_path / "mine.txt").read_text() == "mine"
