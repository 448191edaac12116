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
