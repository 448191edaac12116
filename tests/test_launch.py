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


class Ready:
    """Ready when asked for the n-th time; fails the test rather than waiting for ever."""

    def __init__(self, at: int) -> None:
        self.at, self.asked = at, 0

    def __call__(self) -> bool:
        self.asked += 1
        assert self.asked <= 50, "waited past the end of the test"
        return self.asked >= self.at


def test_it_waits_until_ready(tmp_path: Path) -> None:
    ready = Ready(at=4)
    wait_until(ready, tmp_path, poll_s=0)
    assert ready.asked == 4


def test_it_stops_when_the_main_process_failed(tmp_path: Path) -> None:
    tell_failure(tmp_path)
    with pytest.raises(RunError, match="the main process failed; see its message"):
        wait_until(Ready(at=40), tmp_path, poll_s=0)


def test_what_is_ready_is_taken_although_the_main_process_failed_later(tmp_path: Path) -> None:
    tell_failure(tmp_path)
    ready = Ready(at=1)
    wait_until(ready, tmp_path, poll_s=0)
    assert ready.asked == 1


def test_the_failure_of_another_launch_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_failure(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "next")
    ready = Ready(at=3)
    wait_until(ready, tmp_path, poll_s=0)
    assert ready.asked == 3


def test_an_old_failure_is_not_ours(tmp_path: Path) -> None:
    tell_failure(tmp_path)
    os.utime(tmp_path / MARKER, (0, 0))
    ready = Ready(at=3)
    wait_until(ready, tmp_path, poll_s=0)
    assert ready.asked == 3


def test_a_half_written_marker_does_not_end_the_wait(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text("{", encoding="utf-8")
    ready = Ready(at=3)
    wait_until(ready, tmp_path, poll_s=0)
    assert ready.asked == 3


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


def test_without_a_launcher_there_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.delenv("RANK")
    assert (world_size(), rank(), is_main()) == (1, 0, True)


def test_a_failure_is_dated_by_the_clock_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's machine is an hour behind this one: a failure of now looks older than this process."""
    monkeypatch.setattr(launch.time, "time", lambda now=time.time: now() + 3600)
    monkeypatch.setattr(launch, "_STARTED", time.time() - 1)  # files are dated some milliseconds early
    tell_failure(tmp_path)
    with pytest.raises(RunError, match="the main process failed"):
        wait_until(Ready(at=40), tmp_path, poll_s=0)
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]
