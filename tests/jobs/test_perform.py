"""What every job does: a dry run plans and does nothing, a folder that holds something else is refused, files are written."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from cda.errors import RunError
from cda.jobs.perform import Job, Made, NewFolder, OneFile, Place, ResultsFolder, perform
from cda.recipe.schema import LlmSection
from cda.report.document import Document
from cda.resources.dry_run import planning
from cda.resources.llm_access import Planned
from cda.results.base import MadeBy, Shown
from cda.results.commands import Plan, Written


def painted_document(result: Painted) -> Document:
    return Document("Paint", result.text, (), (), terminal=(result.text,))


class Painted(Shown):
    """A result."""

    made_by = MadeBy("cda paint", "paint.json", f"{__name__}:painted_document")
    schema_version: int = 1
    text: str


def painting(worked: list[Path], place: str | Path) -> Job[Painted]:
    def work(out: Path) -> Made[Painted]:
        worked.append(out)
        rows = [{"row": 1}, {"row": 2}]
        return Made(Painted(text="It is painted."), {"rows.jsonl": rows, "note.txt": lambda: "dry"}, "It dries.")

    def costs() -> list[tuple[LlmSection, Planned]]:
        return [(LlmSection(model="m", base_url="http://localhost:1/v1"), Planned("painting", 7, 10.0, 1.0))]

    return Job(lambda: ["paints      all"], work, ResultsFolder(place, Painted.made_by), costs)


def test_a_job_writes_its_files_and_says_where(tmp_path: Path) -> None:
    worked: list[Path] = []
    done = perform(painting(worked, tmp_path / "new"), None)
    assert done.folder == tmp_path / "new" and worked == [done.folder]
    written = f"{done.folder / 'report.html'}, paint.md, rows.jsonl, note.txt, paint.json"
    assert (
        " ".join(done.summary.split()) == f"It is painted. It dries. Written: {written}"
        and str(done) == "It is painted."
    )
    assert Painted.model_validate_json((done.folder / "paint.json").read_text()).model_dump() == done.model_dump()
    assert "It is painted." in (done.folder / "paint.md").read_text()
    assert (done.folder / "rows.jsonl").read_text().count("\n") == 2
    assert (done.folder / "note.txt").read_text() == "dry"
    assert perform(painting(worked, tmp_path / "new"), None).text == done.text  # replaced


def test_a_full_disk_leaves_the_files_of_an_earlier_call(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def write(text: str, sizes: dict[str, object], last: Callable[[], str]) -> str:
        made = Made(Painted(text=text), {"note.txt": lambda: text, "sizes/": sizes, "last.txt": last})
        return perform(Job(list, lambda _: made, ResultsFolder(out, Painted.made_by)), None).summary

    def full() -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    def files() -> dict[str, str]:
        return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}

    with pytest.raises(OSError, match="No space"):
        write("first", {"a/one.json": {"n": 1}}, full)
    assert files() == {}
    assert "sizes/" in write("first", {"a/one.json": {"n": 1}, "rows.jsonl": [{"n": 2}]}, lambda: "first")
    before = files()
    own = {"report.html", "paint.md", "paint.json", "note.txt", "last.txt"}
    assert set(before) == {*own, "sizes/a/one.json", "sizes/rows.jsonl"}
    with pytest.raises(OSError, match="No space"):
        write("second", {"b.json": {"n": 2}}, full)
    assert files() == before
    (out / "paint.json.partial" / "sizes").mkdir(parents=True)  # a kill left it
    assert "sizes/" not in write("third", {}, lambda: "third")
    assert set(files()) == own and files()["note.txt"] == "third"


def test_a_dry_run_says_plan_and_cost_and_does_nothing(tmp_path: Path) -> None:
    worked: list[Path] = []
    plans: list[Plan] = []
    with planning(False, {"size": 3}, lambda plan, _: plans.append(plan)):
        perform(painting(worked, tmp_path / "new"), None)
    assert not worked and not (tmp_path / "new").exists()
    assert plans[0].settings == {"size": 3} and plans[0].lines[:2] == (
        "paints      all",
        f"report      {tmp_path / 'new' / 'report.html'}",
    )
    assert plans[0].lines[2].startswith("llm         ") and "7 calls" in plans[0].lines[2]


def test_a_folder_of_something_else_is_refused_before_any_work(tmp_path: Path) -> None:
    worked: list[Path] = []
    (tmp_path / "mine.txt").write_text("mine")
    for dry in (False, True):
        with pytest.raises(
            RunError, match=r"holds something other than results of `cda paint`\. Choose another folder"
        ):
            if dry:
                with planning(False, {}, lambda *_: None):
                    perform(painting(worked, tmp_path), None)
            else:
                perform(painting(worked, tmp_path), None)
    assert not worked and (tmp_path / "mine.txt").read_text() == "mine"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        place = NewFolder(tmp_path / name, "all")
        assert place.planned() == [f"writes      {tmp_path / name}: all"]
        with pytest.raises(KeyboardInterrupt), place.opened() as partial:
            (partial / "a").touch()
            raise KeyboardInterrupt
        assert not list(tmp_path.glob(".*.partial"))
        with place.opened() as partial:
            (partial / "b").touch()
            assert not (tmp_path / name / "b").exists()
        assert [file.name for file in (tmp_path / name).iterdir()] == ["b"]
        with pytest.raises(RunError, match="is not empty; nothing is written over"), place.opened():
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]


@pytest.mark.parametrize("planted", ["link", "file"])
def test_nothing_planted_where_a_folder_is_written_is_followed_or_in_the_way(tmp_path: Path, planted: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    place = tmp_path / ".new.partial"
    place.symlink_to(victim) if planted == "link" else place.touch()
    with NewFolder(tmp_path / "new").opened() as partial:
        (partial / "a").touch()
    assert (tmp_path / "new" / "a").is_file() and not (tmp_path / "new").is_symlink()
    assert list(victim.iterdir()) == []


def test_a_file_and_those_next_to_it(tmp_path: Path) -> None:
    place = OneFile(tmp_path / "made" / "rows.jsonl", ("page.html",))
    assert place.planned() == [f"writes      {tmp_path / 'made' / 'rows.jsonl'}, page.html"]
    result = Written(folder=tmp_path, rows={"rows": 1})
    made = Made(result, {"rows.jsonl": [{"row": 1}], "page.html": lambda: "all"}, "It is written.")
    assert perform(Job(list, lambda _: made, place), None) == result and result.summary == "It is written."
    assert (tmp_path / "made" / "rows.jsonl").read_text() == '{"row": 1}\n'
    assert (tmp_path / "made" / "page.html").read_text() == "all"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    places: dict[str, Place] = {
        "no folder can be made there": NewFolder(tmp_path / "file" / "merged"),
        "is a file; nothing is written over": NewFolder(tmp_path / "file"),
        "a folder; name a file": OneFile(tmp_path),
        "is a file, so that no folder can be made": OneFile(tmp_path / "file" / "rows.jsonl"),
    }
    for why, place in places.items():
        with pytest.raises(RunError, match=why):
            place.planned()
        with pytest.raises(RunError, match=why), place.opened():
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
