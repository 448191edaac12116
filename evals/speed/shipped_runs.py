"""Claim: every shipped recipe of embedded texts, and each command of the tutorial, ends within its time and memory on two CPU cores.

Each command is started by itself, as a user does, at the precision that `auto` takes on this machine; those of the tutorial go on in the
folder of its training. Wall time and peak memory are those of the process. What a command prints at the end (below the last empty line)
is kept: README, tutorial and the times in recipes/README.md are made from it by `python tests/documents.py`.

    python -m evals.speed.shipped_runs                       (20 minutes on 2 cores that do nothing else)
    python -m evals.speed.shipped_runs --only CARD           (again: TUTORIAL, FIRST, RECIPES, CARD, or one recipe; the others stay)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cda.files.jsonl import read_json
from evals.shared import ROOT, Check, finish

MOST_S, MOST_GIGABYTES = 300, 3.0
FIRST = "train jargon train.seeds=3"
"""The command that README shows."""
TUTORIAL = (
    "audit embedded --bias jargon --bias length",
    "train jargon",
    "inspect runs/jargon --worst reward",
    "merge runs/jargon --out merged",
)
CARD = ("audit embedded model.precision=fp32",)
"""What the card of the embedded model says."""
RECIPES = ("length", "structure", "sycophancy", "vagueness", "joint", "worth-noting")


def ended(command: str, folder: Path) -> dict[str, Any]:
    """One command in a folder: seconds, peak memory, precision, and what it printed at the end."""
    began = time.monotonic()
    with (folder / "stdout.txt").open("w+", encoding="utf-8") as out, (folder / "stderr.txt").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "cda", *command.split()], cwd=folder, stdout=out, stderr=err,
            env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        out.seek(0)
        printed = out.read().rstrip()
        err.seek(0)
        said = err.read()
    unit = 1 if sys.platform == "darwin" else 1024
    found = {"exit": process.returncode, "seconds": round(seconds, 1), "megabytes": round(used.ru_maxrss * unit / 1e6)}
    if process.returncode:
        print(said[-2000:], file=sys.stderr)
    print(command, found, flush=True)
    return {**found, "printed": printed.rpartition("\n\n")[2].splitlines()}


def shares(folder: Path) -> dict[str, Any]:
    """Shares of an audit by measure and bias, as its file has them."""
    audit = json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))
    found = {"skew": {name: skew["before"]["value"] for name, skew in audit["skew"].items()}}
    for number in audit["measured"]:
        if number["measure"] in ("skew_added", "skew_removed", "accuracy") and "value" in number["found"]:
            found.setdefault(number["measure"], {})[number["at"].get("bias", "")] = number["found"]["value"]
    return found


def precision(folder: Path) -> str:
    """The precision that a run's audit says."""
    return str(json.loads((folder / "audit" / "audit.json").read_text(encoding="utf-8"))["model"]["precision"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", choices=("TUTORIAL", "FIRST", "RECIPES", "CARD", *RECIPES))
    only = parser.parse_args().only
    kept = read_json(ROOT / "evals" / "results" / "shipped_runs.json")["numbers"] if only else {}
    runs: dict[str, dict[str, Any]] = dict(kept.get("runs", {}))
    auto = str(kept.get("precision", ""))
    if only in (None, "TUTORIAL"):
        with tempfile.TemporaryDirectory() as place:
            for command in TUTORIAL:
                runs[command] = ended(command, Path(place))
            auto = precision(Path(place) / "runs" / "jargon")
    alone = {"FIRST": (FIRST,), "RECIPES": tuple(f"train {name}" for name in RECIPES), "CARD": CARD}
    alone |= {only: (f"train {only}",)} if only in RECIPES else {}
    for command in (each for name, own in alone.items() if only in (None, name) for each in own):
        with tempfile.TemporaryDirectory() as place:
            runs[command] = ended(command, Path(place))
            if command in CARD:
                runs[command]["shares"] = shares(Path(place) / "runs" / "audit-embedded")
    broken = [command for command, run in runs.items() if run["exit"]]
    slow = {c: run["seconds"] for c, run in runs.items() if run["seconds"] > MOST_S * (3 if c == FIRST else 1)}
    large = {c: run["megabytes"] for c, run in runs.items() if run["megabytes"] > 1000 * MOST_GIGABYTES}
    checks = [
        Check("every command ends with exit status 0", ", ".join(broken) or f"all {len(runs)}", not broken),
        Check(f"each within {MOST_S} s, three trainings within {3 * MOST_S}", str(slow or "all"), not slow),
        Check(f"each in at most {MOST_GIGABYTES:g} GB", str(large or "all"), not large),
    ]
    numbers = {"precision": auto, "load": round(os.getloadavg()[0], 2), "runs": runs}
    return finish("shipped_runs", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
