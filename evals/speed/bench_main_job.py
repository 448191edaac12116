"""Claim: the first command, `cda train jargon`, takes at most 0.4 times the time of the version before, and under a minute.

Two trees by turns, each from start to end in a folder of its own: this one, and the commit that is named (the version before this
work). Wall time and CPU time of the whole process tree, and the time between the headings that the command prints. Medians over rounds of
the ratio within a round. Every run is checked to have ended with a report.

    python -m evals.speed.bench_main_job --before COMMIT      (about 15 minutes on 2 cores that do nothing else)
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

from evals.shared import ROOT, Check, finish

BEFORE = "731e1ac"
AT_MOST, GOAL_S = 0.4, 60.0
HEADINGS = ("label", "synthesize", "train", "adapter", "audit", "measure")
RESULT = ("measure ", "Training ")
"""The result begins with one of these: the table of earlier versions, or the headline."""


def exported(commit: str, folder: Path) -> Path:
    """The files of a commit."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def timed(tree: Path, settings: list[str]) -> dict[str, float]:
    """Seconds of one run in all, of the CPU, and of every stage; `start` is until the first stage begins."""
    command = [sys.executable, "-m", "cda", "train", "jargon", *settings]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    marks: dict[str, float] = {"start": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            # The plan above the stages names them too, with words behind.
            heading = "measure" if line.startswith(RESULT) else line.strip()
            if heading in HEADINGS and heading not in marks:
                marks[heading] = time.monotonic() - began
        if process.wait() or not (Path(folder) / "runs" / "jargon" / "report" / "report.html").is_file():
            raise SystemExit(f"{' '.join(command)} failed in {tree}")
    total = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ends = [*list(marks.values())[1:], total]
    stages = {name: end - start for (name, start), end in zip(marks.items(), ends, strict=True)}
    return {"wall": total, "cpu": sum(after[:2]) - sum(before[:2])} | stages


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--before", default=BEFORE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("settings", nargs="*", help="for both, as train.num_train_epochs=1")
    asked = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    with tempfile.TemporaryDirectory() as folder:
        trees = {"before": exported(asked.before, Path(folder)), "after": ROOT}
        for number in range(asked.rounds):
            for name in sorted(trees, reverse=bool(number % 2)):
                rounds[name].append(timed(trees[name], asked.settings))
                print(name, {key: round(value, 1) for key, value in rounds[name][-1].items()}, flush=True)
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in rounds.items()
    }
    ratio = {
        key: statistics.median(after[key] / before[key] for before, after in zip(*rounds.values(), strict=True))
        for key in ("wall", "cpu")
    }
    checks = [
        Check(f"wall time at most {AT_MOST:g} times", f"{ratio['wall']:.2f}", ratio["wall"] <= AT_MOST),
        Check(f"CPU time at most {AT_MOST:g} times", f"{ratio['cpu']:.2f}", ratio["cpu"] <= AT_MOST),
        Check(f"under {GOAL_S:g} s", f"{medians['after']['wall']:.0f} s", medians["after"]["wall"] < GOAL_S),
    ]
    numbers = {"before": asked.before, "medians": medians, "ratio": ratio, "rounds": rounds, "load": os.getloadavg()[0]}
    return finish("bench_main_job", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
