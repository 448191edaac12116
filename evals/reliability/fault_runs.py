"""An attempt to break `cda`; one small run of `cda train` with or without a fault in it; whether two finished runs are the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cda.files.reads import changed
from evals.shared import ROOT

# Every stage, eight steps' worth of files, and about ten seconds on one core.
SMALL = (
    "data.max_pairs=20", "audit.max_contrasts=4", "audit.max_quality=6", "audit.rate=2", "model.max_length_tokens=64",
    "train.num_train_epochs=2", "train.per_device_train_batch_size=4", "train.eval_steps=2", "train.save_steps=2",
    "train.logging_steps=1", "score.batch_tokens=512",
)  # fmt: skip
STAGES = ("label", "synthesize", "train", "adapter", "audit")
SAME_BYTES = (
    "label/pairs.jsonl", "synthesize/train.jsonl", "train/adapter/adapter_model.safetensors",
    "train/adapter/adapter_config.json", "audit/margins.jsonl", "audit/triples.jsonl",
)  # fmt: skip
"""What has to be the same to the byte: the weights too, since every checkpoint holds all states of the training."""
_TIMES = re.compile(r"_runtime$|_per_second$|^seconds$|^finished$|^cached$")
"""Keys of times, and of how many scores were found in the cache: what a run takes, and not what it finds."""
_TOOK = "## Cost and time"


Kind = Literal[
    "wrong numbers",
    "kills",
    "disks and files",
    "endpoint faults",
    "hostile text",
    "limits",
    "commands",
    "languages",
    "encodings",
    "identity",
]


@dataclass(frozen=True)
class Attempt:
    """`attack` works in an empty folder of its own and returns what went wrong, or `None` where `cda` survived."""

    kind: Kind
    name: str
    attack: Callable[[Path], str | None]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: exit status (negative: killed by that signal) and everything it printed."""

    status: int
    said: str

    @property
    def refused(self) -> bool:
        """True if it ended with a message and a status, as a user's mistake or a full disk should."""
        return self.status in (1, 2) and "error" in self.said.lower() and "Traceback" not in self.said

    @property
    def message(self) -> str:
        """The lines of the error."""
        return "\n".join(line for line in self.said.splitlines() if "error" in line.lower())[:400]


def words(folder: Path, *overrides: str) -> list[str]:
    """The command of the small run in a folder."""
    return ["train", "jargon", *SMALL, f"run.folder={folder}", *overrides]


def start(command: Sequence[str], fault: Mapping[str, Any] | None = None, cwd: Path = ROOT) -> subprocess.Popen[str]:
    """A process of `cda` with these words, with a fault in it or none."""
    hooked = [
        sys.executable,
        str(ROOT / "evals" / "reliability" / "fault_hook.py"),
        json.dumps(dict(fault or {})),
        *command,
    ]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "200",
    }
    return subprocess.Popen(
        hooked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env=environment
    )


def run(command: Sequence[str], fault: Mapping[str, Any] | None = None, cwd: Path = ROOT) -> Ended:
    """The same, until it ends."""
    process = start(command, fault, cwd)
    said, _ = process.communicate(timeout=600)
    return Ended(process.returncode, said)


def differences(unbroken: Path, other: Path) -> list[str]:
    """What differs between two finished run folders, times and host left out; empty where nothing does."""
    found = [name for name in SAME_BYTES if not _same_bytes(unbroken / name, other / name)]
    found += [
        name
        for name in ("audit/audit.json", "train/history.jsonl", "report/report.md")
        if _told(unbroken / name) != _told(other / name)
    ]
    found += [f"only in one folder: {name}" for name in sorted(_files(unbroken) ^ _files(other))]
    return found + _faults_of(other)


def _faults_of(folder: Path) -> list[str]:
    """What is wrong in a finished folder by itself: manifest, records, rows that are there twice."""
    manifest = _json(folder / "manifest.json")
    found = [] if isinstance(manifest, dict) and tuple(manifest.get("stages", ())) == STAGES else ["manifest.json"]
    for stage in STAGES:
        record = _json(folder / stage / "stage.json")
        if not isinstance(record, dict) or not record.get("contents") or changed(folder / stage, record["contents"]):
            found.append(f"{stage}/stage.json")
        elif not isinstance(manifest, dict) or manifest["stages"].get(stage) != record:
            found.append(f"{stage} in manifest.json")
    return found + [f"{n} rows twice in {name}" for name, n in repeated(folder).items() if n]


def repeated(folder: Path) -> dict[str, int]:
    """Rows of the same identity in each table of rows."""
    keys = {
        "label/pairs.jsonl": ("prompt", "chosen", "rejected"),
        "synthesize/train.jsonl": ("prompt", "chosen", "rejected", "kind", "bias"),
        "audit/margins.jsonl": ("kind", "bias", "id"),
    }
    return {name: _n_repeated(folder / name, key) for name, key in keys.items()}


def _n_repeated(path: Path, keys: Sequence[str]) -> int:
    identities = [json.dumps([row.get(key) for key in keys]) for row in rows(path)]
    return len(identities) - len(set(identities))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSONL file; none where there is no file."""
    if path.is_file():
        yield from (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def timeless(content: Any) -> Any:
    """JSON without times and cache counts, however deep."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if not _TIMES.search(key)}
    return [timeless(value) for value in content] if isinstance(content, list) else content


def _told(path: Path) -> Any:
    if not path.is_file():
        return None
    if path.suffix == ".jsonl":
        return timeless(list(rows(path)))
    text = path.read_text(encoding="utf-8")
    return timeless(json.loads(text)) if path.suffix == ".json" else without_times(text)


def without_times(report: str) -> str:
    """A Markdown report without its section on what the run took."""
    before, _, took = report.partition(_TOOK)
    _, heading, after = took.partition("\n## ")
    return before + heading + after


def _same_bytes(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
