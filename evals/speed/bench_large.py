"""Claim: time grows in proportion to the input, and memory stays modest, up to 80,000 pairs and 200,000 texts.

Pairs: `cda synthesize jargon` on a file of our own texts with a number in each, so that all differ: load and clean, label by the measure,
rewrite every eligible pair by rules, gate, and make the training mix. Texts: the scoring engine with its tokenizer, batches, order and cache on
disk, and a model that takes no time (the reward of a text is its number of tokens). A process of its own for every size; time is that of the CPU, which a busy
machine moves little. Every run is checked to have made what it should: as many labels and scores as rows.

Thresholds: time of a row at the largest size at most 1.3 times that at the second (the first carries start-up); what the process adds
in memory at most 12 kB a pair and 3 kB a text (a pair itself is 2 kB of text, a text 0.5).

    python -m evals.speed.bench_large            (about 10 minutes on a core)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cda.arrays import FloatArray
from cda.embedded.texts import authored_pairs
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.records import prompt_text, user_prompt
from evals.shared import ROOT, Check, finish, peak_bytes, restart_peak

SIZES = {"pairs": (5_000, 20_000, 80_000), "texts": (12_500, 50_000, 200_000)}
LINEAR, BYTES_A_ROW = 1.3, {"pairs": 12_000, "texts": 3_000}


def pair_rows(n: int) -> list[dict[str, str]]:
    """Pairs of the embedded texts, again and again, each with its number."""
    own = [authored.pair for authored in authored_pairs("train")]
    return [
        {
            "prompt": f"{prompt_text(pair.prompt)} (question {row})",
            "chosen": f"{pair.chosen} That answers question {row}.",
            "rejected": f"{pair.rejected} That answers question {row}.",
        }
        for row, pair in ((row, own[row % len(own)]) for row in range(n))
    ]


def of_pairs(n: int) -> dict[str, float]:
    """CPU seconds and peak bytes of one command on n pairs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.jsonl"
        write_jsonl(file, pair_rows(n))
        command = [
            sys.executable,
            "-m",
            "cda",
            "synthesize",
            "jargon",
            f"data.pairs={file}",
            "synthesize.counterfactuals=null",
        ]
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        run = Path(folder) / "runs" / "jargon"
        n_labels = sum(1 for _ in read_jsonl(run / "label" / "pairs.jsonl"))
        if status or n_labels != n:
            raise SystemExit(f"{' '.join(command)}: ended with {status}, and {n_labels} of {n} labels")
        return {"seconds": used.ru_utime + used.ru_stime, "bytes": used.ru_maxrss * 1024}


def of_texts(n: int) -> dict[str, float]:
    """CPU seconds and added bytes of scoring n texts in a process of its own."""
    command = [sys.executable, "-m", "evals.speed.bench_large", "--score", str(n)]
    found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return {name: float(value) for name, value in json.loads(found.stdout.splitlines()[-1]).items()}


def scored(n: int) -> dict[str, float]:
    """The same, in this process."""
    from cda.embedded.model import embedded_model_folder
    from cda.models.config import ModelSpec
    from cda.models.load import load_reward_model
    from cda.scorers.classifier import ClassifierScorer
    from cda.scorers.engine import ScoreCache, score_texts

    class NoTime(ClassifierScorer):
        def _forward(self, ids: list[list[int]]) -> FloatArray:
            return np.array([float(len(row)) for row in ids])

    scorer = NoTime(load_reward_model(ModelSpec(str(embedded_model_folder()), "fp32")))
    own = [authored.pair.chosen for authored in authored_pairs("train")]
    texts = ((user_prompt(f"Question {row}?"), f"Answer {row}. {own[row % len(own)][:400]}") for row in range(n))
    score_texts(scorer, [(user_prompt("Begin?"), "Yes.")])  # what the first call loads is no part of it
    before, began = restart_peak(), time.process_time()
    with tempfile.TemporaryDirectory() as folder, ScoreCache(Path(folder) / "scores.sqlite") as cache:
        rewards = score_texts(scorer, texts, cache=cache, scope="no time")
        seconds, n_kept = time.process_time() - began, len(cache)
    if (len(rewards.by_text), n_kept) != (n, n):
        raise SystemExit(f"{len(rewards.by_text)} rewards and {n_kept} kept, of {n} texts")
    return {"seconds": seconds, "bytes": peak_bytes() - before}


def checks(name: str, sizes: Sequence[int], found: dict[int, dict[str, float]]) -> list[Check]:
    """Growth of time from the second size to the largest, and memory a row between them."""
    second, most = sizes[-2:]
    row_s = {size: found[size]["seconds"] / size for size in sizes}
    bytes_a_row = (found[most]["bytes"] - found[second]["bytes"]) / (most - second)
    return [
        Check(
            f"{name}: time of a row at {most:,} at most {LINEAR} times that at {second:,}",
            f"{row_s[most] / row_s[second]:.2f} times ({1e3 * row_s[most]:.2f} ms; {found[most]['seconds']:.0f} s in all)",
            row_s[most] <= LINEAR * row_s[second],
        ),
        Check(
            f"{name}: at most {BYTES_A_ROW[name]:,} bytes more a row",
            f"{bytes_a_row:,.0f} bytes ({found[most]['bytes'] / 2**20:,.0f} MB in all)",
            bytes_a_row <= BYTES_A_ROW[name],
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of every size, to try it")
    parser.add_argument("--score", type=int, help="used by itself")
    asked = parser.parse_args()
    if asked.score:
        print(json.dumps(scored(asked.score)))
        return 0
    sizes = {name: [int(size * asked.share) for size in given] for name, given in SIZES.items()}
    made: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(asked.rounds):
        for name, measure in (("texts", of_texts), ("pairs", of_pairs)):
            for size in sizes[name]:
                made.setdefault((name, size), []).append(measure(size))
                print(name, size, {key: round(value) for key, value in made[name, size][-1].items()}, flush=True)
    medians = {
        key: {field: statistics.median(run[field] for run in runs) for field in runs[0]} for key, runs in made.items()
    }
    by_name = {name: {size: medians[name, size] for size in given} for name, given in sizes.items()}
    found = [check for name, given in sizes.items() for check in checks(name, given, by_name[name])]
    if asked.share != 1:
        print(*found, sep="\n")
        return 0
    return finish(
        "bench_large",
        "Time grows in proportion to the input, and memory stays modest, up to 80,000 pairs and 200,000 texts.",
        found,
        {
            "rounds": asked.rounds,
            "sizes": {name: {str(size): row for size, row in rows.items()} for name, rows in by_name.items()},
        },
    )


if __name__ == "__main__":
    raise SystemExit(main())
