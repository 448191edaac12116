"""Several processes: who speaks, and waiting for the main one."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

from cda import launch
from cda.errors import RunError
from cda.launch import check_shared, is_main, rank, say, tell_failure, wait_until, world_size

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


class Store(dict[str, bytes]):
    """Torch's store in one process, with the answers of the others to the first check there already."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def get(self, key: str) -> bytes:  # type: ignore[override]
        return self[key]


def test_a_folder_that_another_machine_does_not_see_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(process: str, folder: Path, **given: str) -> list[str]:
        """Its answers, after those that are given (of `main`: the file that it wrote)."""
        store = Store()
        for name, value in given.items():
            store.set("cda/shared/0" if name == "main" else f"cda/shared/0/{name[1:]}", value)
        monkeypatch.setattr(launch, "_store", lambda: store)
        monkeypatch.setattr(launch, "_CHECKS", itertools.count())
        monkeypatch.setenv("RANK", process)
        check_shared(folder)
        return [store.get(f"cda/shared/0/{number}").decode() for number in range(2)]

    monkeypatch.setattr(launch, "_SEEN_WITHIN_S", 0.0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    check_shared(tmp_path / "none")  # one machine: nobody is asked
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert check("0", tmp_path / "run", _1="") == ["", ""]
    assert [*tmp_path.rglob("*")] == [tmp_path / "run"]
    (tmp_path / "run" / "probe").touch()
    assert check("1", tmp_path / "run", main="probe", _0="") == ["", ""]
    with pytest.raises(
        RunError, match=r"run: node-b does not see a file that the main process wrote there\..*all machines share"
    ):
        check("0", tmp_path / "run", _1="node-b")
    monkeypatch.setattr(launch.platform, "node", lambda: "node-b")
    with pytest.raises(RunError, match="other: node-b does not see"):
        check("1", tmp_path / "other", main="probe", _0="")
