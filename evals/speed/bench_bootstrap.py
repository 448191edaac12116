"""Claim: 25,000 triples × 10,000 draws take no longer than `scipy.stats.bootstrap`, and a fraction of its memory.

The work: the 95% interval of a mean, percentile method, one triple a prompt; once on real-valued margins (an effect),
once on hits and misses (a skew). scipy draws all samples at once by default, which takes 2 × 8 bytes × 25,000 × 10,000
= 4 GB; it is given `batch=100` instead, the fastest of 20, 100 and 500. Runs alternate, each in a process of its own
with one thread, so that peak memory is the run's and not its neighbour's: it is what the run adds to an imported scipy.
Time is that of the processor, which other work on the machine moves less than the clock; both are written down.
Clustered rows (5 triples a prompt) are timed for ours alone: scipy has no clusters.
Threshold: median time at most 1.1 times scipy's on the effect (both are bound by drawing 250 million numbers) and a
tenth of it on the skew (where prompts that are alike are drawn together); peak memory at most half of scipy's on both;
intervals agree within 5% of their width.

    python -m evals.speed.bench_bootstrap      (2 to 4 minutes)
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy import stats

from cda.files.jsonl import write_json
from cda.stats.estimators import mean_of
from evals.shared import ROOT, peak_bytes, restart_peak

RESULT = ROOT / "evals" / "results" / "bench_bootstrap.json"
N_TRIPLES, N_DRAWS, BATCH = 25_000, 10_000, 100
SLOWEST = {"effect": 1.1, "skew": 0.1}  # of scipy's processor time


def margins(kind: str, n_triples: int) -> np.ndarray:
    """Margins of a simulated scorer, or whether they are above 0. Shape (n,)."""
    values = np.random.default_rng(1).normal(0.3, 1.0, n_triples)
    return (values > 0).astype(float) if kind == "skew" else values


def ours(values: np.ndarray, n_draws: int, rows_a_prompt: int = 1) -> tuple[float, float]:
    prompts = [f"p{row // rows_a_prompt}" for row in range(len(values))]
    found = bootstrap_mean(values, prompts, np.random.default_rng(2), n_draws=n_draws)
    return found.low, found.high


def scipys(values: np.ndarray, n_draws: int) -> tuple[float, float]:
    found = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=n_draws,
        batch=BATCH,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(2),
    )
    return found.confidence_interval.low, found.confidence_interval.high


RUNS: dict[str, Callable[[np.ndarray, int], tuple[float, float]]] = {
    "cda": ours,
    "scipy": scipys,
    "cda clustered": lambda values, n_draws: ours(values, n_draws, rows_a_prompt=5),
}


def one_run(name: str, kind: str, n_triples: int, n_draws: int) -> dict[str, Any]:
    """Seconds, extra peak memory and interval of one run in this process."""
    values = margins(kind, n_triples)
    RUNS[name](values[:50], 200)  # imports and first-call costs are nobody's work
    before = restart_peak()
    start, clock = time.process_time(), time.perf_counter()
    low, high = RUNS[name](values, n_draws)
    seconds, clock = time.process_time() - start, time.perf_counter() - clock
    added = peak_bytes() - before
    return {
        "seconds": seconds,
        "clock_seconds": clock,
        "megabytes": added / 2**20,
        "low": float(low),
        "high": float(high),
    }


def measured(name: str, kind: str, n_triples: int, n_draws: int) -> dict[str, Any]:
    """The same in a fresh process with one thread."""
    command = [sys.executable, "-m", "evals.speed.bench_bootstrap", "--one", name, kind, str(n_triples), str(n_draws)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    answer = subprocess.run(
        command, env={**os.environ, **threads}, capture_output=True, text=True, check=True, cwd=ROOT
    )
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def compared(kind: str, repeats: int, n_triples: int, n_draws: int) -> dict[str, Any]:
    """Medians over alternating runs, and ratios of scipy to ours (above 1: ours is smaller)."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in RUNS}
    for repeat in range(repeats):
        # Who goes first changes, so that a machine that slows down slows both.
        for name in list(RUNS) if repeat % 2 == 0 else list(RUNS)[::-1]:
            runs[name].append(measured(name, kind, n_triples, n_draws))
    table: dict[str, Any] = {
        name: {
            "seconds_median": round(statistics.median(one["seconds"] for one in found), 4),
            "seconds": [round(one["seconds"], 4) for one in found],
            "clock_seconds_median": round(statistics.median(one["clock_seconds"] for one in found), 4),
            "megabytes_median": round(statistics.median(one["megabytes"] for one in found), 1),
            "interval": [found[0]["low"], found[0]["high"]],
        }
        for name, found in runs.items()
    }
    mine, theirs = table["cda"], table["scipy"]
    table["time_ratio"] = round(theirs["seconds_median"] / mine["seconds_median"], 2)
    # A run that adds less than a page or two would make the ratio infinite.
    table["memory_ratio"] = round(theirs["megabytes_median"] / max(mine["megabytes_median"], 1.0), 1)
    width = theirs["interval"][1] - theirs["interval"][0]
    table["interval_difference_in_widths"] = round(
        max(abs(a - b) for a, b in zip(mine["interval"], theirs["interval"], strict=True)) / width, 4
    )
    table["passed"] = (
        mine["seconds_median"] <= SLOWEST[kind] * theirs["seconds_median"]
        and mine["megabytes_median"] <= 0.5 * theirs["megabytes_median"]
        and table["interval_difference_in_widths"] <= 0.05
    )
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--triples", type=int, default=N_TRIPLES)
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    parser.add_argument("--result", type=Path, default=RESULT, help="where the JSON goes")
    options = parser.parse_args(arguments)
    if options.one:
        name, kind, n_triples, n_draws = options.one
        print(json.dumps(one_run(name, kind, int(n_triples), int(n_draws))))
        return 0
    print(__doc__)
    kinds = {kind: compared(kind, options.repeats, options.triples, options.draws) for kind in SLOWEST}
    passed = all(table["passed"] for table in kinds.values())
    for kind, table in kinds.items():
        for name in RUNS:
            one = table[name]
            print(f"{kind:7} {name:14} {one['seconds_median']:8.3f} s  {one['megabytes_median']:8.1f} MB")
        print(f"{kind:7} scipy / cda: time {table['time_ratio']}, memory {table['memory_ratio']}")
    options.result.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        options.result,
        {
            "claim": (__doc__ or "").split("\n\n")[0],
            "passed": passed,
            "date": date.today().isoformat(),
            "hardware": f"{os.cpu_count()} CPU cores, one thread a run",
            "versions": {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
            "triples": options.triples,
            "draws": options.draws,
            "scipy_batch": BATCH,
            "scipy_batch_reason": "all draws at once would take about 4 GB",
            "kinds": kinds,
        },
    )
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
