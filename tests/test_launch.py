"""Several processes: who speaks, and waiting for the main one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cda import launch
from cda.errors import RunError
from cda.launch import is_main, rank, say, tell_failure, wait_until, world_size

MARKER = ".failed.json"


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main one of two processes."""
    values = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "here", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "r"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def waits(folder: Path, at: int) -> bool:
    """True if a process waits until the n-th time that it asks; fails the test rather than waiting for ever."""
    asked = []

    def ready() -> bool:
        asked.append(1)
        assert len(asked) <= 50, "waited past the end of the test"
        return len(asked) >= at

    wait_until(ready, folder, poll_s=0)
    return len(asked) == at


def test_it_waits_until_ready_or_the_main_process_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits(tmp_path, 4)
    tell_failure(tmp_path)
    assert waits(tmp_path, 1)  # it is ready, although the main process failed later
    with pytest.raises(RunError, match="the main process failed; see its message"):
        waits(tmp_path, 40)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "next")
    assert waits(tmp_path, 3)  # the failure of another launch
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "r")
    os.utime(tmp_path / MARKER, (0, 0))
    assert waits(tmp_path, 3)  # an old one
    (tmp_path / MARKER).write_text("{", encoding="utf-8")
    assert waits(tmp_path, 3)  # a half-written one


@pytest.mark.parametrize(("world", "process"), [("2", "1"), ("1", "0")])
def test_only_the_main_one_of_several_leaves_a_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: str, process: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    monkeypatch.setenv("RANK", process)
    tell_failure(tmp_path)
    assert not (tmp_path / MARKER).exists()
    tell_failure(tmp_path / "none")  # no folder, nothing to tell


def test_only_the_main_process_speaks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    say("main")
    monkeypatch.setenv("RANK", "1")
    say("other")
    assert capsys.readouterr().out == "main\n"
    assert (world_size(), rank(), is_main()) == (2, 1, False)
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.delenv("RANK")
    assert (world_size(), rank(), is_main()) == (1, 0, True)


def test_a_failure_is_dated_by_the_clock_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's machine is an hour behind this one: a failure of now looks older than this process."""
    monkeypatch.setattr(launch.time, "time", lambda now=time.time: now() + 3600)
    monkeypatch.setattr(launch, "_STARTED", time.time() - 1)  # files are dated some milliseconds early
    tell_failure(tmp_path)
    with pytest.raises(RunError, match="the main process failed"):
        waits(tmp_path, 40)
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]
