"""The run folder: finished or not there at all, never reused for other settings, one run at a time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cda import provenance
from cda.errors import DataError, RunError
from cda.files.reads import contents, states
from cda.provenance import git_commit
from cda.run import RunFolder, Stage, file_fingerprint, fingerprint

STAGE = Stage("label", {"seed": 1, "data": {"pairs": "a"}}, {"pairs": "f00"})
PROJECT = '[project]\nname = "{}"\n'
OTHER = Stage("label", {"seed": 2, "data": {"pairs": "a"}}, {"pairs": "f00"})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def make(folder: RunFolder, stage: Stage = STAGE, text: str = "content") -> Path:
    (folder.begin(stage) / "rows.jsonl").write_text(text, encoding="utf-8")
    return folder.finish(stage, {"rows": 1}, 0.26)


def as_killed(folder: RunFolder) -> None:
    """A stage whose run was killed right before its last step."""
    make(folder).replace(folder.partial("label"))


def test_begin_and_finish(folder: RunFolder) -> None:
    partial = folder.begin(STAGE)
    assert folder.has_begun(STAGE) and not folder.is_done(STAGE) and not folder.record("label")
    final = make(folder)
    assert folder.is_done(STAGE) and not folder.has_begun(STAGE) and not partial.exists()
    assert sorted(path.name for path in final.iterdir()) == ["rows.jsonl", "stage.json"]
    record = folder.record("label")
    assert (record.counts, record.settings, record.seconds) == ({"rows": 1}, STAGE.settings, 0.3)
    assert record.contents == contents(final, leave_out=("stage.json",)) and list(record.contents) == ["rows.jsonl"]


def test_other_settings_or_inputs_are_another_stage(folder: RunFolder) -> None:
    make(folder)
    assert not folder.is_done(OTHER) and not folder.is_done(Stage("label", STAGE.settings, {"pairs": "f01"}))
    assert folder.is_done(Stage("label", {"data": {"pairs": "a"}, "seed": 1}, {"pairs": "f00"}))  # the order is free
    assert STAGE.fingerprint != Stage("train", STAGE.settings, STAGE.inputs).fingerprint


def test_it_says_why_a_stage_is_made_again(folder: RunFolder) -> None:
    assert folder.why_redo(STAGE) is None
    make(folder)
    assert folder.why_redo(STAGE) is None
    assert folder.why_redo(OTHER) == "seed: 1 → 2"
    changed = Stage("label", {"seed": 1, "data": {"pairs": "b"}}, {"pairs": "f01"})
    assert folder.why_redo(changed) == "data.pairs: a → b; pairs has changed"
    unread = Stage("label", {"seed": 1, "data": {"pairs": "a"}}, {"votes": "f02"})
    assert folder.why_redo(unread) == "votes is new"


def test_it_says_why_what_was_begun_is_not_taken_up(folder: RunFolder) -> None:
    (folder.begin(STAGE) / "checkpoint").write_text("half", encoding="utf-8")
    assert folder.why_redo(STAGE) is None and folder.why_redo(OTHER) == "seed: 1 → 2"
    folder.begin(OTHER)
    assert folder.why_redo(OTHER) is None


def test_a_stage_is_not_done_once_something_that_was_read_for_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, weights = RunFolder(tmp_path / "run"), tmp_path / "weights"
    weights.write_text("1")
    monkeypatch.setenv("MY_FACTOR", "secret")
    folder.begin(STAGE)
    folder.finish(STAGE, {}, 0.0, states([str(weights), "environment variable MY_FACTOR"]))
    assert folder.is_done(STAGE) and folder.why_redo(STAGE) is None
    assert "secret" not in (folder.stage("label") / "stage.json").read_text()
    weights.write_text("2")
    assert not folder.is_done(STAGE) and folder.why_redo(STAGE) == f"{weights} has changed"
    weights.write_text("1")
    monkeypatch.delenv("MY_FACTOR")
    assert not folder.is_done(STAGE) and folder.why_redo(STAGE) == "environment variable MY_FACTOR has changed"


def test_a_finished_stage_of_other_settings_is_kept_aside(folder: RunFolder) -> None:
    for stage, text in ((STAGE, "one"), (OTHER, "two"), (STAGE, "three")):
        make(folder, stage, text)
    places = ("superseded/label-1", "superseded/label-2", "label")
    assert [(folder.path / place / "rows.jsonl").read_text() for place in places] == ["one", "two", "three"]
    assert folder.is_done(STAGE)


def test_a_partial_stage_is_taken_up_only_by_the_same_settings(folder: RunFolder) -> None:
    (folder.begin(STAGE) / "checkpoint").write_text("half", encoding="utf-8")
    assert (folder.begin(STAGE) / "checkpoint").read_text() == "half"
    assert not (folder.begin(OTHER) / "checkpoint").exists() and not folder.has_begun(STAGE)
    assert (folder.path / "superseded" / "label-partial-1" / "checkpoint").read_text() == "half"
    (folder.begin(OTHER) / "checkpoint").write_text("half", encoding="utf-8")
    (folder.partial("label") / ".begun.json").write_text("{", encoding="utf-8")  # does not say what it is of
    assert not folder.has_begun(OTHER) and not (folder.begin(OTHER) / "checkpoint").exists()


def test_a_kill_in_the_middle_of_a_write_leaves_no_finished_stage(folder: RunFolder) -> None:
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from cda.files.jsonl import write_jsonl\n"
        "from cda.run import RunFolder, Stage\n"
        "folder = RunFolder(Path(sys.argv[1]))\n"
        "stage = Stage('label', {'seed': 1, 'data': {'pairs': 'a'}}, {'pairs': 'f00'})\n"
        "def rows():\n"
        "    yield {'a': 1}\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "with folder.lock():\n"
        "    write_jsonl(folder.begin(stage) / 'rows.jsonl', rows())\n"
        "    folder.finish(stage, {}, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert folder.has_begun(STAGE) and not folder.is_done(STAGE) and not folder.stage("label").exists()
    assert not (folder.partial("label") / "rows.jsonl").exists()
    with folder.lock():  # the dead process holds nothing
        make(folder)
    assert folder.is_done(STAGE)


def test_a_stage_that_lacks_the_last_step_alone_is_not_being_written(folder: RunFolder) -> None:
    """Another process of the launch must not work in it: the main one is about to declare it finished."""
    as_killed(folder)
    (folder.partial("label") / ".begun.json").write_text(json.dumps({"fingerprint": STAGE.fingerprint}), "utf-8")
    assert not folder.has_begun(STAGE) and not folder.is_done(STAGE)
    (folder.partial("label") / "rows.jsonl").write_text("changed", encoding="utf-8")
    assert not folder.complete(STAGE)
    folder.begin(STAGE)
    assert folder.has_begun(STAGE)


def test_a_stage_killed_right_before_its_last_step_is_completed_and_not_made_again(folder: RunFolder) -> None:
    as_killed(folder)
    assert not folder.complete(OTHER) and folder.complete(STAGE)
    assert folder.is_done(STAGE) and not folder.partial("label").exists() and not folder.complete(STAGE)


def test_one_run_at_a_time(folder: RunFolder) -> None:
    held = pytest.raises(RunError, match=r"another run is working in this folder.*run\.folder=")
    with folder.lock(), held, RunFolder(folder.path).lock():
        pass
    with folder.lock():
        pass
    (folder.path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be written"), RunFolder(folder.path / "file" / "run").lock():
        pass


def test_the_output_of_a_stage_is_named_by_its_content(folder: RunFolder) -> None:
    with pytest.raises(RunError, match=r"stage 'label' has not been run; start with `cda label <recipe>`"):
        folder.output_of("label")
    outputs = []
    for stage, text in ((STAGE, "one"), (OTHER, "one"), (OTHER, "two")):
        make(folder, stage, text)
        outputs.append(folder.output_of("label"))
    assert outputs[0] == outputs[1] != outputs[2]


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=5))
def test_fingerprints_do_not_depend_on_the_order_of_keys(content: dict[str, object]) -> None:
    assert fingerprint(dict(reversed(content.items()))) == fingerprint(content)
    assert fingerprint(content | {"new key": 1}) != fingerprint(content)
    assert len(fingerprint(content)) == 16


def test_file_fingerprints_follow_contents_and_names(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for made in (folder, elsewhere):
        (made / "sub").mkdir(parents=True)
        (made / "sub" / "a").write_text("text", encoding="utf-8")
    os.utime(elsewhere / "sub" / "a", (0, 0))
    before = file_fingerprint(folder)
    assert file_fingerprint(elsewhere) == before
    (elsewhere / "sub" / "a").rename(elsewhere / "sub" / "b")
    assert file_fingerprint(elsewhere) != before
    # Loaders follow links, so that a change behind one changes what is read.
    (folder / "data").symlink_to(elsewhere)
    (folder / "around").symlink_to(folder)
    linked = file_fingerprint(folder)
    (elsewhere / "sub" / "b").write_text("texT", encoding="utf-8")
    assert len({before, linked, file_fingerprint(folder)}) == 3
    with pytest.raises(DataError, match="cannot be read"):
        file_fingerprint(tmp_path / "none")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "m")
    return git(folder, "rev-parse", "HEAD")


def package_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the package lie in a folder, as far as it knows."""
    (folder / "cda").mkdir(parents=True)
    (folder / "cda" / "provenance.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(provenance, "__file__", str(folder / "cda" / "provenance.py"))


def test_the_commit_is_that_of_a_checkout_of_cda_and_of_no_other_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "cda-checkout"
    package_in(theirs / ".venv" / "lib" / "python3.11" / "site-packages", monkeypatch)
    commit(theirs)  # even where somebody has committed the environment
    assert git_commit() is None
    (theirs / "pyproject.toml").write_text(PROJECT.format("cda-debias"), encoding="utf-8")
    package_in(theirs, monkeypatch)
    assert git_commit() is None  # a copy that is not tracked
    (theirs / "pyproject.toml").write_text(PROJECT.format("theirs"), encoding="utf-8")
    commit(theirs)
    assert git_commit() is None  # it is tracked now, and yet the commit is another project's
    package_in(own, monkeypatch)
    (own / "pyproject.toml").write_text(PROJECT.format("cda-debias"), encoding="utf-8")
    here = commit(own)
    assert git_commit() == here
    monkeypatch.setenv("GIT_DIR", str(theirs / ".git"))  # as hooks and `git rebase --exec` set it
    assert git_commit() == here
    (own / "cda" / "provenance.py").write_text("changed", encoding="utf-8")
    assert git_commit() == f"{here}-dirty"


def test_a_finished_stage_with_a_damaged_file_counts_as_not_made(folder: RunFolder) -> None:
    final = make(folder)
    (final / "rows.jsonl").write_text("conte", encoding="utf-8")
    assert not folder.is_done(STAGE) and folder.damaged("label") == ["rows.jsonl"]
    assert folder.why_redo(STAGE) == "rows.jsonl: cut, changed or gone since it was finished"
    make(folder)
    assert folder.is_done(STAGE) and folder.damaged("label") == []
    assert (folder.path / "superseded" / "label-1" / "rows.jsonl").read_text() == "conte"
    (final / "stage.json").write_text("{", encoding="utf-8")
    assert not folder.record("label") and not folder.is_done(STAGE) and folder.damaged("label") == ["stage.json"]


def test_what_a_kill_left_half_written_is_no_part_of_a_finished_stage(folder: RunFolder) -> None:
    partial = folder.begin(STAGE)
    (partial / "stage.json.partial").write_text("{", encoding="utf-8")
    (partial / "rows.jsonl.partial").write_text("half", encoding="utf-8")
    make(folder)
    assert sorted(path.name for path in folder.stage("label").iterdir()) == ["rows.jsonl", "stage.json"]
    assert folder.is_done(STAGE)


def test_a_folder_that_is_deleted_under_way_is_said(folder: RunFolder) -> None:
    with pytest.raises(RunError, match=r"run: was deleted or moved while the run was working"), folder.lock():
        partial = folder.begin(STAGE)
        shutil.rmtree(folder.path)
        (partial / "rows.jsonl").write_text("content", encoding="utf-8")
    with pytest.raises(RunError, match=r"label\.partial: was deleted or replaced"):
        folder.begin(STAGE)
        (folder.partial("label") / ".begun.json").unlink()
        folder.finish(STAGE, {}, 0)
