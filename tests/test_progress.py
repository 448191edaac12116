"""Progress: the time left for a run by known speeds, bars on a real terminal, few lines in a log, and one process that shows any."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from typing import Any

import pytest

from cda import progress
from cda.progress import Bar, RunProgress, StageWork, run_progress
from cda.terminal import progress_bars


@dataclass(eq=False)
class Part:
    """A bar that did so much of its amount in so many seconds."""

    kind: Any
    amount: float
    amount_done: float = 0.0
    seconds: float = 0.0

    @property
    def amount_left(self) -> float:
        return self.amount - self.amount_done


def run(**more: float) -> RunProgress:
    """Two trainings of 100 steps, 30 calls before them, 500 texts after."""
    stages = [
        StageWork("label", calls=30), StageWork("train", trainings=1), StageWork("train-seed-2", trainings=1),
        StageWork("audit", texts=500),
    ]  # fmt: skip
    return RunProgress(stages, **{"steps": 100, "texts_a_step": 10, **more})


def test_the_time_left_is_the_work_left_at_the_speed_so_far() -> None:
    found = run()
    assert found.seconds_left() is None and found.place == "stage 1/4"
    calls = Part("calls", 30)
    found.opened(calls)
    assert found.seconds_left() is None  # nothing is done yet
    calls.amount_done, calls.seconds = 10, 20
    assert found.seconds_left() == (40, True)  # at least: no step or text was timed
    found.closed(calls)
    found.begin("train")
    steps = Part("steps", 50)  # fewer than planned, in the second training too
    found.opened(steps)
    steps.amount_done, steps.seconds = 10, 20
    # 40 + 50 steps at 2 s, and 500 texts at a tenth of a step each.
    assert found.seconds_left() == (90 * 2 + 500 * 0.2, False)
    found.closed(steps)
    found.begin("audit")
    texts = Part("texts", 400, 100, 50)
    found.opened(texts)
    assert found.seconds_left() == (400 * 0.5, False)  # 300 of this bar, and 100 that are planned beyond it


def test_a_stage_left_out_is_no_stage_and_one_that_cannot_be_counted_makes_it_the_least() -> None:
    found = run()
    found.leave_out("train-seed-2")
    found.begin("audit")
    assert found.place == "stage 3/3"
    open_ = RunProgress([StageWork("label", calls=10), StageWork("audit", is_open=True)])
    open_.opened(Part("calls", 10, 5, 5))
    assert open_.seconds_left() == (5, True)
    assert RunProgress([]).seconds_left() is None


PROGRAM = """
from cda.progress import Bar, RunProgress, StageWork, run_progress
with run_progress(RunProgress([StageWork("train", trainings=1), StageWork("audit", texts=10)], 5)):
    with Bar("  training", 5, "steps", "steps", initial=1) as bar:
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
    assert not Bar("  training", 5, "steps", "steps").disable
    monkeypatch.setenv("RANK", "1")
    assert Bar("  training", 5, "steps", "steps").disable


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


def test_a_log_gets_a_line_at_a_tenth_of_the_work_and_30_seconds_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.delitem(
        sys.modules, "ipykernel", raising=False
    )  # a test of notebooks leaves it, and with it bars are shown
    with run_progress(RunProgress([StageWork("audit", texts=1000)])), Bar("  scoring", 1000, "texts", "texts") as bar:
        for _ in range(1000):
            clock[0] += 1
            bar.n += 1
            bar.display()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "scoring: 10%, 100/1000 texts; 2 min so far; stage 1/1; about 15 min left"
    assert len(lines) == 10 and lines[-1] == "scoring: 100%, 1000/1000 texts; done in 17 min"
    clock[0] = 0.0
    with Bar("  asking", 10_000, "calls", "calls") as bar:
        bar.n = 500
        for clock[0] in (599.0, 600.0, 601.0):
            bar.display()
        bar.disable = True
    assert capsys.readouterr().err == "asking: 5%, 500/10000 calls; 10 min so far; about 3.2 h left\n"


def test_progress_that_is_switched_off_counts_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(False), run_progress(found := run()), Bar("  training", 5, "steps", "steps") as bar:
        bar.update(5)
    assert capsys.readouterr().err == "" and found.seconds_left() is None
