"""Many independent runs of an eval, each in a file of its own, so that a killed eval goes on where it was."""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outcome import ROOT

from cda.files.jsonl import read_json, write_json
from cda.records import content_id

FIRST_RUN = 1000
"""Runs of the result are numbered from here; lower numbers are for development."""


def code_id() -> str:
    """Names the code and files that decide what a run finds; comments aside."""
    names = (
        "cda/biases/load.py",
        "cda/recipe/discovery.py",
        "cda/discovery/*.py",
        "cda/discovery/*/*.yaml",
        "cda/embedded/rule*.py",
        "cda/embedded/texts/*.jsonl",
        "cda/features.py",
        "cda/rewriting/fidelity.py",
        "cda/discovery/held_out.py",
        "cda/stats/*.py",
        "evals/discover_*.py",
        "evals/planted_world.py",
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
