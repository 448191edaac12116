"""Claim: the CPU time of every command grows no faster than its input: the slope in log-log, from the smallest to the largest size, is 1.05 at most.

Each command reads files of our own texts, made here (a number in each text, so that all differ), with a function as the model, so that time is that
of this package. A process of its own for each size; seconds are those of the CPU, which a busy machine moves little, less those of the same
command on the start size, which are those of starting, and the slope is that by the input beyond the start size; memory is the peak of the process.
`data` and `label`, which files of millions of rows are given to, have their seconds extrapolated to 5 million.

    python -m evals.speed.growth [--only NAME]            (about 20 minutes on a core)

The table of docs/reference/growth.md is made from the result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cda.embedded.texts import authored_pairs
from cda.files.jsonl import read_json, write_jsonl
from cda.records import prompt_text
from evals.shared import ROOT, Check, finish

STEEPEST = 1.05
FAR = 5_000_000
MODEL = "def length(prompts, responses):\n    return [float(len(text)) for text in responses]\n"
Row = dict[str, Any]


def pairs(n: int) -> Iterator[Row]:
    own = [authored.pair for authored in authored_pairs("train")]
    for row in range(n):
        pair = own[row % len(own)]
        yield {
            "prompt": f"{prompt_text(pair.prompt)} (question {row})",
            "chosen": f"{pair.chosen} That answers question {row}.",
            "rejected": f"{pair.rejected} That answers question {row}.",
        }


def contrasts(n: int) -> Iterator[Row]:
    for row in pairs(n):
        base = row["rejected"]
        yield {
            "prompt": row["prompt"],
            "base": base,
            "perturbed": f"{base} To utilize it, leverage it.",
            "bias": "jargon",
        }


def samples(n: int) -> Iterator[Row]:
    for row in pairs(n):
        yield {
            "prompt": row["prompt"],
            "responses": [row["chosen"], row["rejected"], *(f"{row['chosen']} {k}." for k in range(6))],
        }


class Growth(NamedTuple):
    """A command at several sizes of one of its inputs."""

    name: str
    of: str
    start: int
    sizes: tuple[int, int, int]
    rows: Callable[[int], Iterator[Row]] | None
    """Rows of in.jsonl at a size; None: the size is in the words alone."""
    words: Callable[[int], Sequence[str]]


def _functions(n: int) -> list[str]:
    return [f"rm.py:length_{at}" for at in range(n)]


def _biases(n: int) -> list[str]:
    return [word for at in range(n) for word in ("--bias", f"bias-{at}.yaml")]


_FEW = ("audit.triples=null", "audit.quality=null", "audit.max_contrasts=null")
GROWTHS = (
    Growth("data", "pairs", 100, (100_000, 200_000, 400_000), pairs, lambda _: ("data", "in.jsonl", "--out", "out")),
    Growth("label", "pairs", 100, (100_000, 200_000, 400_000), pairs, lambda _: ("label", "in.jsonl", "--bias", "jargon", "--out", "out.jsonl")),
    Growth("audit", "contrasts", 100, (2_000, 4_000, 8_000), contrasts,
           lambda _: ("audit", "rm.py:length", "--contrasts", "in.jsonl", "--bias", "jargon", *_FEW, "--out", "out")),
    Growth("quality", "pairs", 100, (5_000, 10_000, 20_000), pairs, lambda _: ("quality", "rm.py:length", "in.jsonl", "--out", "out")),
    Growth("best-of", "prompts of 8 responses", 50, (500, 1_000, 2_000), samples,
           lambda _: ("best-of", "rm.py:length", "in.jsonl", "--bias", "jargon", "--out", "out")),
    Growth("score", "pairs", 100, (10_000, 20_000, 40_000), pairs, lambda _: ("score", "rm.py:length", "in.jsonl", "--out", "out")),
    Growth("audit", "biases", 1, (8, 16, 32), None,
           lambda n: ("audit", "rm.py:length", *_biases(n), "--limit", "60", *_FEW[:2], "--out", "out")),
    Growth("compare", "models", 2, (8, 16, 32), None,
           lambda n: ("compare", *_functions(n), "--bias", "jargon", "--limit", "60", *_FEW[:2], "--out", "out")),
)  # fmt: skip


def measured(growth: Growth, size: int) -> dict[str, float]:
    """CPU seconds and peak memory in megabytes of the command at a size."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        functions = "".join(
            f"\n\ndef length_{at}(prompts, responses):\n    return [float(len(text)) + {at} for text in responses]\n"
            for at in range(40)
        )
        (place / "rm.py").write_text(MODEL + functions, encoding="utf-8")
        for at in range(40 if growth.of == "biases" else 0):
            bias = read_bias().replace("name: jargon", f"name: bias-{at}")
            (place / f"bias-{at}.yaml").write_text(bias, encoding="utf-8")
        if growth.rows is not None:
            write_jsonl(place / "in.jsonl", growth.rows(size))
        command = [sys.executable, "-m", "cda", *growth.words(size)]
        began = time.monotonic()
        with (place / "stdout.txt").open("w") as out, (place / "stderr.txt").open("w") as err:
            process = subprocess.Popen(
                command,
                cwd=place,
                stdout=out,
                stderr=err,
                env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            )
            _, status, used = os.wait4(process.pid, 0)
        if code := os.waitstatus_to_exitcode(status):
            raise SystemExit(
                f"{' '.join(command)}: exit {code}\n{(place / 'stderr.txt').read_text()[-2000:]}{(place / 'stdout.txt').read_text()[-2000:]}"
            )
        unit = 1 if sys.platform == "darwin" else 1024
        return {
            "seconds": used.ru_utime + used.ru_stime,
            "megabytes": used.ru_maxrss * unit / 1e6,
            "wall": time.monotonic() - began,
        }


def read_bias() -> str:
    from cda.files.shipped import FOLDERS

    return (Path(str(FOLDERS["biases"])) / "jargon.yaml").read_text(encoding="utf-8")


def slope(growth: Growth, start: Row, sizes: Mapping[str, Row]) -> float:
    """From the smallest to the largest size: of seconds beyond those of starting, by the input beyond the start size."""
    first, last = (
        (max(sizes[str(size)]["seconds"] - start["seconds"], 1e-3), size - growth.start)
        for size in (growth.sizes[0], growth.sizes[-1])
    )
    return float(np.log(last[0] / first[0]) / np.log(last[1] / first[1]))


def far(growth: Growth, start: Row, sizes: Mapping[str, Row]) -> float:
    """Seconds at `FAR` rows, by the slope. Memory is not told so far ahead: at these sizes much of it is that of the packages."""
    most, times = sizes[str(growth.sizes[-1])], (FAR - growth.start) / (growth.sizes[-1] - growth.start)
    return float(start["seconds"] + (most["seconds"] - start["seconds"]) * times ** slope(growth, start, sizes))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", action="append", default=[], help="commands to measure again; the others stay")
    only = parser.parse_args().only
    kept = ROOT / "evals" / "results" / "growth.json"
    found: dict[str, Any] = read_json(kept)["numbers"] if only and kept.is_file() else {}
    for growth in GROWTHS:
        if only and growth.name not in only:
            continue
        start = measured(growth, growth.start)
        at = {str(size): measured(growth, size) for size in growth.sizes}
        found[f"{growth.name} by {growth.of}"] = {"start": start, "sizes": at}
        print(growth.name, growth.of, json.dumps(found[f"{growth.name} by {growth.of}"]), flush=True)
    checks = []
    for growth in GROWTHS:
        name = f"{growth.name} by {growth.of}"
        if name not in found:
            continue
        own = found[name]
        own["slope"] = slope(growth, own["start"], own["sizes"])
        if growth.name in ("data", "label"):
            own["far"] = {"rows": FAR, "seconds": far(growth, own["start"], own["sizes"])}
        said = ", ".join(
            f"{int(size):,}: {each['seconds']:.0f} s, {each['megabytes']:.0f} MB" for size, each in own["sizes"].items()
        )
        steep = own["slope"]
        checks.append(Check(f"{name}: slope of time at most {STEEPEST}", f"{steep:.2f} ({said})", steep <= STEEPEST))
    return finish("growth", "the time of every command grows no faster than its input.", checks, found)


if __name__ == "__main__":
    sys.exit(main())
