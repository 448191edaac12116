"""Shared by evals: how one ends, the peak memory of a process, and many independent runs that survive a kill."""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.files.jsonl import read_json, write_json
from cda.records import content_id

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data"))
SKIPPED = 77
"""Exit status of an eval whose data or device are not there: it has neither passed nor failed, and its result stays as it was."""
_STARTED = time.monotonic()


@dataclass(frozen=True, slots=True)
class Check:
    """One threshold: what was asked, what was found, whether it holds."""

    threshold: str
    found: str
    passed: bool


def finish(
    name: str, claim: str, checks: Sequence[Check], numbers: Mapping[str, Any], hardware: str | None = None
) -> int:
    """Print every check, write evals/results/<name>.json, and return the exit status: 0 only where all passed."""
    passed = bool(checks) and all(check.passed for check in checks)
    print(f"{claim}\n")
    for check in checks:
        print(f"  {'passed' if check.passed else 'FAILED'}  {check.threshold}\n          found {check.found}")
    folder = ROOT / "evals" / "results"
    folder.mkdir(exist_ok=True)
    write_json(
        folder / f"{name}.json",
        {
            "claim": claim,
            "passed": passed,
            "date": date.today().isoformat(),
            "seconds": round(time.monotonic() - _STARTED),
            "hardware": hardware or this_cpu(),
            "checks": [to_jsonable_python(check) for check in checks],
            "numbers": dict(numbers),
        },
    )
    print(f"\n{'passed' if passed else 'FAILED'}: evals/results/{name}.json")
    return 0 if passed else 1


def this_cpu() -> str:
    """The cores of this machine, and its units that multiply in bf16, which decide most times, where Linux tells of them."""
    told = Path("/proc/cpuinfo")
    flags = set(told.read_text(encoding="utf-8").split()) if told.is_file() else set()
    units = ", ".join(sorted(flags & {"amx_bf16", "avx512_bf16"}))
    return f"{os.cpu_count()} CPU cores" + (f" ({units})" if units else "")


def on_this_gpu(*packages: str) -> str:
    """The GPU and the cores of this machine, and the versions of torch and of these packages, as a result names them."""
    from importlib.metadata import version

    import torch

    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", *packages))
    return f"one {torch.cuda.get_device_name()}, {os.cpu_count()} CPU cores; {versions}"


# `ru_maxrss` will not do on Linux: a process begins with the peak of its parent, also after `exec`. `VmHWM` is its own.
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    """Most memory that was resident at once, since the start of the process or the last `restart_peak`."""
    if sys.platform == "linux":
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, where a child does not inherit it


def restart_peak() -> int:
    """Count the peak from now on, and return what is resident now; elsewhere than on Linux the peak so far stays."""
    if sys.platform != "linux":
        return peak_bytes()
    _CLEAR.write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{_STATUS} has no {name}"
    return int(found[1]) * 1024


FIRST_RUN = 1000
"""Runs of the result are numbered from here; lower numbers are for development."""


def code_id() -> str:
    """Names the code and files that decide what a run finds; comments aside."""
    names = (
        "cda/biases/__init__.py",
        "cda/recipe/sections.py",
        "cda/discovery/*.py",
        "cda/discovery/*/*.yaml",
        "cda/embedded/rule*.py",
        "cda/embedded/texts/*.jsonl",
        "cda/features.py",
        "cda/rewriting/fidelity.py",
        "cda/discovery/held_out.py",
        "cda/stats/*.py",
        "evals/method/discover_*.py",
        "evals/method/planted_world.py",
    )
    paths = sorted(path for name in names for path in ROOT.glob(name))
    texts = [(path.name, path.read_text("utf-8")) for path in paths]
    return content_id([[name, ast.dump(ast.parse(text)) if name.endswith(".py") else text] for name, text in texts])


Job = tuple[Callable[..., dict[str, Any]], tuple[Any, ...], Path]


def all_runs(
    function: Callable[..., dict[str, Any]], jobs: Mapping[str, tuple[Any, ...]], folder: Path, processes: int
) -> dict[str, dict[str, Any]]:
    """The result of every job by its name: each is written to a file of its own, and read where this code has made it already."""
    folder = folder / code_id()
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.json" for name in jobs}
    missing: list[Job] = [(function, given, paths[name]) for name, given in jobs.items() if not paths[name].is_file()]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} runs are there ({folder})", flush=True)
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for number, name in enumerate(pool.imap_unordered(_made, missing), 1):
            print(f"{number} of {len(missing)}, {time.monotonic() - started:.0f} s: {name}", flush=True)
    return {name: dict(read_json(path)) for name, path in paths.items()}


def _made(job: Job) -> str:
    function, given, path = job
    write_json(path, function(*given))
    return path.stem


def arguments(default_folder: str) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / default_folder, help="folder of single runs")
    parser.add_argument("--first", type=int, default=FIRST_RUN, help="number of the first run of a cell")
    parser.add_argument("--runs", type=int, help="of each cell, at most; then no result is written")
    return parser.parse_args()
