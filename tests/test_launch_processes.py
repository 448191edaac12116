"""A launch of several processes that starts one is refused; torchrun's and accelerate's real ones are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cda import launch
from cda.cli import app
from cda.cli.commands import ended_by
from cda.errors import RunError
from cda.launch import asked_processes, check_processes, check_running

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
ACCELERATE = ["/usr/bin/python", "/usr/bin/accelerate", "launch"]
CHECK = """
import os
import sys
from pathlib import Path
from cda.launch import check_processes, world_size
check_processes()
Path(sys.argv[1], os.environ.get("RANK", "0")).write_text(str(world_size()))
if sys.argv[2:]:
    from cda.cli import main
    main(["train", *sys.argv[2:]])
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if started by hand."""
    for name in list(os.environ):
        if name.startswith(("WORLD_SIZE", "RANK", "MASTER_", "ACCELERATE_", "OMPI_", "PMI_")):
            monkeypatch.delenv(name)


def parent(monkeypatch: pytest.MonkeyPatch, words: list[str], environment: list[str] | None = None) -> None:
    """The process above is one with this command line and environment."""
    shown = {"cmdline": words, "environ": environment or []}
    monkeypatch.setattr(launch, "_parent_words", lambda file: shown[file])


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([*ACCELERATE, "--cpu", "--num_processes", "2", "train.py"], 2),
        ([*ACCELERATE, "--num-processes=16", "train.py"], 16),
        (["/usr/bin/python", "-m", "accelerate.commands.launch", "--num_processes", "3", "train.py"], 3),
        ([*ACCELERATE, "train.py"], None),
        (["/bin/bash", "-c", "other --num_processes 2", "--num_processes", "2"], None),
        ([], None),  # a system that does not show it
    ],
)
def test_what_was_asked_for_is_read_off_the_launcher(
    words: list[str], asked: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent(monkeypatch, words)
    assert asked_processes() == asked


def test_a_real_launch_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    parent(monkeypatch, [*ACCELERATE, "--num_processes", "2"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert asked_processes() == 2
    check_processes()
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    for words in ([*ACCELERATE, "train.py"], [*ACCELERATE, "--num_processes", "1", "train.py"], []):
        parent(monkeypatch, words)
        check_processes()  # one process is fine


def test_several_from_a_config_file_are_seen_by_the_meeting_place(monkeypatch: pytest.MonkeyPatch) -> None:
    parent(monkeypatch, [*ACCELERATE, "--config_file", "mine.yaml", "train.py"])
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(RunError, match=r"asked for several processes.*runs alone.*torchrun .*give --num_processes 1"):
        check_processes()
    parent(monkeypatch, [*ACCELERATE, "--config_file", "mine.yaml", "--num_processes", "1", "train.py"])
    check_processes()  # as the message advises
    parent(monkeypatch, [*ACCELERATE, "train.py"], ["MASTER_ADDR=127.0.0.1"])  # the cluster's own says nothing
    check_processes()


def test_copies_under_mpi_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(RunError, match=r"asked for 4 processes.*torchrun --nproc_per_node 4 "):
        check_processes()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    check_processes()


def test_the_trainer_has_to_see_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_running(2)
    with pytest.raises(RunError, match="2 processes were launched, but the trainer sees 1"):
        check_running(1)


def start(program: list[str], folder: Path, *more: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """The end of a launch of what a stage does first, and of `cda train` with `more` words; and how many processes each process
    that went on saw, by rank.

    Each writes a file of its own: lines of several processes run into each other in one pipe.
    """
    script, seen = folder / "check.py", folder / "seen"
    script.write_text(CHECK, encoding="utf-8")
    seen.mkdir()
    words = [*program, str(script), str(seen), *more]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=ROOT)
    return result, {path.name: path.read_text(encoding="utf-8") for path in seen.iterdir()}


def test_accelerate_on_cpu_starts_one_and_is_refused(tmp_path: Path) -> None:
    result, seen = start([str(BIN / "accelerate"), "launch", "--cpu", "--num_processes", "2"], tmp_path)
    assert result.returncode != 0 and not seen
    assert "RunError: the launch asked for 2 processes, but this one runs alone." in result.stderr
    assert "torchrun --nproc_per_node 2 -m cda train" in result.stderr


def test_a_training_is_refused_before_its_settings_wait_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    result = CliRunner().invoke(app, ["train", "jargon", f"run.folder={tmp_path / 'run'}", "--dry-run"])
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("error: the launch asked for 2 processes, but this one runs alone.")
    assert not (tmp_path / "run").exists()


DEFAULTS = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
SEVERAL = [str(BIN / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"]


MISTAKE = "error: jargn: no such recipe. Did you mean 'jargon'?"


def test_a_mistake_is_one_line_and_no_traceback() -> None:
    words = [sys.executable, "-m", "cda", "launch", "--num_processes", "2", "train", "jargn"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(MISTAKE) and result.stderr.count("\n") == 1


def test_where_torch_adds_its_traceback_the_message_comes_first_once_and_ends_it(tmp_path: Path) -> None:
    result, seen = start([*SEVERAL, *DEFAULTS], tmp_path, "jargn")
    status, lines = result.returncode, result.stderr.splitlines()
    assert seen == {"0": "2", "1": "2"} and result.stdout == ""
    assert status == 1 and lines[0].startswith(MISTAKE) and sum(line.startswith("error") for line in lines) == 1
    assert lines[-2].strip().startswith(f"traceback : {MISTAKE.removeprefix('error: ')}")


def test_a_launch_needs_a_command_of_ours_and_the_status_of_a_killed_process_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = CliRunner().invoke(app, ["launch", "--num_processes", "2", "trian", "jargon"])
    assert result.exit_code == 2 and "cda launch: 'trian' is no command of cda." in result.stderr
    with pytest.raises(SystemExit) as ended:
        ended_by(3, -9)
    assert ended.value.code == 137
    assert capsys.readouterr().err == "error: process 3 was ended by SIGKILL, as the system does when memory runs out\n"


# The launcher of one process stands in for accelerate's, which waits in the same way; what it starts says where it is, and sleeps.
KILLED = """
import subprocess, sys
from accelerate.commands import launch as accelerate
from cda.cli import commands as launch

def simple(arguments):
    child = subprocess.Popen([sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"])
    child.wait()
    raise subprocess.CalledProcessError(child.returncode, "command")

accelerate.launch_command = simple
assert not launch._arguments(["--quiet", "train", "jargon"]).quiet
launch.start(["train", "jargon"])
"""


def test_a_launcher_that_is_terminated_ends_its_command_first() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        child = int(run.stdout.readline())
        run.terminate()
        assert run.wait(30) == 143
        assert run.stderr.read() == "error: process 0 was ended by SIGTERM\n"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
