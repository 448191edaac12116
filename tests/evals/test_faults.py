"""The fault eval's parts: a fault hits where it is set, two folders are compared but for times, and every kind of loss shows."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cda.run import RunFolder, Stage

TABLES = {
    "label": {"pairs.jsonl": [{"prompt": "p", "chosen": "a", "rejected": "b"}]},
    "synthesize": {"train.jsonl": [{"prompt": "p", "chosen": "a", "rejected": "c", "kind": "k", "bias": "jargon"}]},
    "train": {"history.jsonl": [{"loss": 0.5, "eval_runtime": 1.0}], "adapter/adapter_model.safetensors": [{"w": 1}]},
    "adapter": {"adapter_model.safetensors": [{"w": 1}]},
    "audit": {"margins.jsonl": [{"kind": "contrast", "bias": "jargon", "id": "1"}], "triples.jsonl": [{"t": 1}]},
}


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder with all that a finished run has."""
    folder = RunFolder(tmp_path / "one" / "run")
    for name, files in TABLES.items():
        stage = Stage(name, {}, {})
        partial = folder.begin(stage)
        for file, rows in files.items():
            (partial / file).parent.mkdir(exist_ok=True)
            (partial / file).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        if name == "train":
            (partial / "adapter" / "adapter_config.json").write_text("{}", encoding="utf-8")
        if name == "audit":
            (partial / "audit.json").write_text('{"skew": 0.5, "cached": 0}', encoding="utf-8")
        folder.finish(stage, {}, 1.0)
    folder.write_manifest({}, list(TABLES))
    (folder.path / "report").mkdir()
    (folder.path / "report" / "report.md").write_text("# Report\n\n## What the run took\n\n1 s\n\n## End\n", "utf-8")
    return folder.path


@pytest.fixture
def other(finished: Path, tmp_path: Path) -> Path:
    """The same once more."""
    shutil.copytree(finished, tmp_path / "other" / "run")
    return tmp_path / "other" / "run"


def test_runs_that_differ_in_times_alone_are_the_same(finished: Path, other: Path) -> None:
    from evals.reliability.fault_runs import differences

    report = other / "report" / "report.md"
    report.write_text(report.read_text("utf-8").replace("1 s", "9 s"), "utf-8")
    assert differences(finished, other) == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("label/pairs.jsonl", '{"prompt": "p"}\n{"prompt": "p"}\n', "1 rows twice in label/pairs.jsonl"),
        ("train/adapter/adapter_model.safetensors", '{"w": 2}\n', "train/adapter/adapter_model.safetensors"),
        ("audit/audit.json", '{"skew": 0.6, "cached": 0}', "audit/audit.json"),
        ("train/history.jsonl", '{"loss": 0.4, "eval_runtime": 1.0}\n', "train/history.jsonl"),
        ("report/report.md", "# Report\n\n## What the run took\n\n1 s\n\n## The end\n", "report/report.md"),
        ("manifest.json", '{"stages": {"label": {}}}', "manifest.json"),
        ("label/stage.json", "{", "label/stage.json"),
        (".audit.partial/half", "", "only in one folder: .audit.partial/half"),
    ],
)
def test_every_kind_of_loss_shows(finished: Path, other: Path, file: str, text: str, said: str) -> None:
    from evals.reliability.fault_runs import differences

    (other / file).parent.mkdir(exist_ok=True)
    (other / file).write_text(text, "utf-8")
    assert said in differences(finished, other)


def test_times_and_cache_counts_are_left_out_however_deep() -> None:
    from evals.reliability.fault_runs import timeless

    content: dict[str, Any] = {"a": [{"train_runtime": 1, "cached": 3, "steps": 4}], "seconds": 2}
    assert timeless(content) == {"a": [{"steps": 4}]}


def test_a_refusal_is_a_message_with_a_status_and_no_traceback() -> None:
    from evals.reliability.fault_runs import Ended

    assert Ended(1, "error: x.jsonl: no such file").refused
    assert not Ended(0, "error: x").refused
    assert not Ended(1, "Traceback (most recent call last):\nOSError: error:").refused
    assert not Ended(-9, "error: x").refused


FAULTY = """
import json, os, sys
from pathlib import Path
from evals.reliability.fault_hook import hook
sys.addaudithook(hook(json.loads(sys.argv[1])))
for name in ("a", "b"):
    partial = Path(sys.argv[2], name + ".partial")
    with partial.open("wb") as file:
        file.write(b"x" * 500)
        file.write(b"y" * 1000)
    partial.replace(partial.with_suffix(""))
"""


def faulty(folder: Path, **fault: Any) -> tuple[int, dict[str, int]]:
    """Exit status, and files with their sizes, of two writes with a fault in them."""
    command = [sys.executable, "-c", FAULTY, json.dumps(fault), str(folder)]
    status = subprocess.run(command, capture_output=True, check=False).returncode
    return status, {path.name: path.stat().st_size for path in folder.glob("*")}


def test_a_fault_hits_the_event_it_is_set_to(tmp_path: Path) -> None:
    status, files = faulty(tmp_path, event="os.rename", path=r"\.partial$", nth=2, do="kill")
    assert (status, files) == (-signal.SIGKILL, {"a": 1500, "b.partial": 1500})


def test_a_cut_kills_in_the_middle_of_a_write(tmp_path: Path) -> None:
    status, files = faulty(tmp_path, event="open", path=r"/b\.partial$", do="cut", bytes=700)
    assert (status, files) == (-signal.SIGXFSZ, {"a": 1500, "b.partial": 700})


def test_moments_are_distinct_and_inputs_are_many() -> None:
    from evals.reliability.fault_inputs import WRONG
    from evals.reliability.faults import MOMENTS

    assert len({json.dumps(one, sort_keys=True) for one in MOMENTS}) == len(MOMENTS) >= 20
    assert len({one.words for one in WRONG}) >= 25 and all(one.names for one in WRONG)
