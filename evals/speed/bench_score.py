"""Claim: `cda score` takes time in proportion to the rows, and memory that does not grow with them, at 10, 20 and 40 thousand rows.

Rows of our own texts, half a kilobyte each, in JSON lines and in parquet, two inputs of one size; the model is a function that takes no time (the length of
a response), so that what is measured is reading, hashing, the engine and writing. Shards of 2,500 rows. A process of its own for every size; time is that of the
CPU, and memory what the call adds to the process at its peak. Every run is checked to have a reward for each row. The slope is that of a line
through the logarithms of the three sizes: 1 is in proportion, 0 flat.

Thresholds: slope of time at most 1.1, slope of memory at most 0.15, at most 100 MB.

    python -m evals.speed.bench_score            (about 2 minutes on a core)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cda.embedded.texts import authored_pairs
from cda.files.jsonl import write_jsonl
from evals.shared import ROOT, Check, finish, peak_bytes, restart_peak

SIZES = (10_000, 20_000, 40_000)
FORMS = ("jsonl", "parquet")
SHARD_ROWS = 2_500
TIME_SLOPE, MEMORY_SLOPE, MOST_BYTES = 1.1, 0.15, 100 * 2**20


def length(_: Sequence[object], responses: Sequence[str]) -> list[float]:
    """The model."""
    return [float(len(response)) for response in responses]


def write_rows(file: Path, n: int, first: int) -> None:
    own = [authored.pair.chosen for authored in authored_pairs("train")]
    rows = [
        {"id": row, "prompt": f"Question {row}?", "response": f"Answer {row}. {own[row % len(own)][:500]}"}
        for row in range(first, first + n)
    ]
    if file.suffix == ".jsonl":
        write_jsonl(file, rows)
        return
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), file, row_group_size=1_000)


def scored(n: int, form: str) -> dict[str, float]:
    """CPU seconds and added bytes of scoring n rows, in this process."""
    import cda

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        # The rows are made by another process, so that their memory is not here to be used again.
        for number in range(2):
            made = [
                sys.executable,
                "-m",
                "evals.speed.bench_score",
                "--make",
                str(n // 2),
                "--first",
                str(number * n // 2),
            ]
            subprocess.run([*made, "--file", str(place / f"part-{number}.{form}")], cwd=ROOT, check=True)
        subprocess.run([*made[:4], "10", "--file", str(place / f"few.{form}")], cwd=ROOT, check=True)
        # What the first call loads is no part of it.
        cda.score(length, str(place / f"few.{form}"), out=place / "few", progress=False)
        before, began = restart_peak(), time.process_time()
        result = cda.score(
            length, str(place / f"part-*.{form}"), out=place / "scored", shard_rows=SHARD_ROWS, progress=False
        )
        seconds, added = time.process_time() - began, peak_bytes() - before
        if result.rewards["reward"].n != n or result.missing:
            raise SystemExit(f"{result.rewards} for {n} rows")
    return {"seconds": seconds, "bytes": added}


def slope(values: Sequence[float]) -> float:
    """Of a line through the logarithms of sizes and values."""
    return float(np.polyfit(np.log(SIZES), np.log(values), 1)[0])


def checks(form: str, found: Sequence[dict[str, float]]) -> list[Check]:
    seconds, held = ([run[name] for run in found] for name in ("seconds", "bytes"))
    of_time, of_memory = slope(seconds), slope(held)
    return [
        Check(
            f"{form}: slope of time at most {TIME_SLOPE}",
            f"{of_time:.2f} ({1e6 * seconds[-1] / SIZES[-1]:.0f} µs a row, {SIZES[-1] / seconds[-1]:,.0f} rows a second)",
            of_time <= TIME_SLOPE,
        ),
        Check(
            f"{form}: slope of memory at most {MEMORY_SLOPE}, and at most {MOST_BYTES / 2**20:.0f} MB",
            f"{of_memory:.2f} ({', '.join(f'{each / 2**20:.0f}' for each in held)} MB)",
            of_memory <= MEMORY_SLOPE and max(held) <= MOST_BYTES,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    for name in ("--score", "--make", "--first"):
        parser.add_argument(name, type=int, default=0, help="used by itself")
    parser.add_argument("--form", help="used by itself")
    parser.add_argument("--file", type=Path, help="used by itself")
    asked = parser.parse_args()
    if asked.make:
        write_rows(asked.file, asked.make, asked.first)
        return 0
    if asked.score:
        print(json.dumps(scored(asked.score, asked.form)))
        return 0
    made: dict[str, list[dict[str, float]]] = {}
    for form in FORMS:
        for size in SIZES:
            command = [sys.executable, "-m", "evals.speed.bench_score", "--score", str(size), "--form", form]
            found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
            made.setdefault(form, []).append(json.loads(found.stdout.splitlines()[-1]))
            print(form, size, made[form][-1], flush=True)
    return finish(
        "bench_score",
        "`cda score` takes time in proportion to the rows, and memory that does not grow with them, at 10, 20 and 40 thousand rows.",
        [check for form, found in made.items() for check in checks(form, found)],
        {form: {str(size): run for size, run in zip(SIZES, found, strict=True)} for form, found in made.items()},
    )


if __name__ == "__main__":
    raise SystemExit(main())
