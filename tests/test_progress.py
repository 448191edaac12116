"""Progress: bars on a real terminal, few lines in a log, and one process that shows any."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from cda import progress
from cda.progress import Bar, RunProgress, run_progress
from cda.quiet import progress_bars


def test_a_stage_left_out_is_no_stage() -> None:
    found = RunProgress(["label", "train", "train-seed-2", "audit"])
    assert found.place == "stage 1/4"
    found.begin("train-seed-2")
    found.leave_out("train-seed-2")
    found.begin("audit")
    assert found.place == "stage 3/3"


PROGRAM = """
from cda.progress import Bar, RunProgress, run_progress
with run_progress(RunProgress(["train", "audit"])):
    with Bar("  training", 5, "steps", initial=1) as bar:
        for _ in range(4):
            bar.update()
"""


def shown(**environment: str) -> tuple[str, str]:
    """Standard error of the program on a terminal, and in a file."""
    words, env = [sys.executable, "-c", PROGRAM], os.environ | environment
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    with open(terminal, "wb") as stream:  # noqa: PTH123
        subprocess.run(words, stderr=stream, check=True, env=env)
    return os.read(main, 2**16).decode(), subprocess.run(
        words, capture_output=True, text=True, check=True, env=env
    ).stderr


def test_a_terminal_gets_a_bar_with_the_stage_and_a_log_nothing_of_short_work() -> None:
    on_terminal, in_log = shown()
    assert (
        "training:  20%" in on_terminal and "5/5 steps" in on_terminal and "1/5 steps [00:00, stage 1/2" in on_terminal
    )
    assert in_log == ""


def test_only_the_main_process_shows_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    assert not Bar("  training", 5, "steps").disable
    monkeypatch.setenv("RANK", "1")
    assert Bar("  training", 5, "steps").disable


def test_silence_is_explained_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        progress.say_waiting("Loading libraries")
        return capsys.readouterr().err

    assert said() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert said() == "Loading libraries ...\n"
    monkeypatch.setenv("RANK", "1")
    assert said() == ""


def test_a_log_gets_a_line_every_two_minutes_and_one_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    # A test of notebooks leaves it, and with it bars are shown.
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with run_progress(RunProgress(["audit"])), Bar("  scoring", 1000, "texts") as bar:
        for _ in range(1000):
            clock[0] += 1
            bar.n += 1
            bar.display()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("scoring: 12%, 120/1000 texts [") and lines[0].endswith(
        ", about 15 min left, stage 1/1]"
    )
    assert len(lines) == 9 and lines[-1].startswith("scoring: 100%, 1000/1000 texts [") and "left" not in lines[-1]


def test_what_was_known_before_says_nothing_about_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Bar("  asking", 100, "calls") as bar:
        for known in (True, False, False):
            if known:
                bar.skip()
            bar.n += 1
        clock[0] = 20.0
        assert bar.format_dict["left"] == ", about 16 min left"  # 97 calls at 10 s
        bar.disable = True


def test_progress_that_is_switched_off_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(False), Bar("  training", 5, "steps") as bar:
        bar.update(5)
    assert capsys.readouterr().err == ""
