"""Claim: `cda compare` of several models averages them as the paper does: over the released reward models of "Flattery, Fluff, and
Fog", as they came and after the paper's fine-tuning, the panel's means equal the known ones.

The three released sizes are audited together on each bias, with their released scores in place of the models, before and after the
fine-tuning. Thresholds: mean skew, mean miscalibration, people's share and its n equal those of paper_numbers.py (0.01 points; n
exactly); the means and their intervals equal those that paper_tables.json has from other code (1e-9), but for a mean skew or distance
from people of models on both sides of a tie or of people, which is not given; and each panel says that its interval holds for these three models alone.

    python -m evals.real_data.panel_release --release ../shared/data/fff      (default $CDA_DATA/fff; about two minutes)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cda
from cda.files.jsonl import read_jsonl
from cda.results.base import Estimate, Missing
from cda.results.comparison import MeanOver
from evals.real_data.paper_numbers import EXPECTED, SIZES
from evals.real_data.paper_outcome import written
from evals.shared import DATA, ROOT, SKIPPED, Check, finish

TABLES = ROOT / "evals" / "results" / "paper_tables.json"
TOLERANCE_POINTS, TOLERANCE = 0.01, 1e-9
Score = Callable[[Sequence[Any], Sequence[str]], list[float]]


def released_model(release: Path, bias: str, size: str, run: str) -> Score:
    """A reward model that gives the released score of each text; other texts have 0 and are not in the comparison."""
    name = f"{bias}_scored_{size}.jsonl" if run == "base" else f"{bias}_scored_fine_tuned_{size}_{run}.jsonl"
    scores: dict[tuple[str, str], float] = {}
    for row in read_jsonl(release / "data" / "fine_tuned_model_scores" / bias / name):
        for side in ("base", "perturbed"):
            scores[row["query"], row[f"{side}_response"]] = float(row[f"{side}_score"])

    def score(prompts: Sequence[Any], responses: Sequence[str]) -> list[float]:
        texts = zip(prompts, responses, strict=True)
        return [scores.get((prompt[-1]["content"], text), 0.0) for prompt, text in texts]

    score.__name__ = f"released_{size}"
    return score


def mean_of(
    release: Path, files: Path, bias: str, run: str, folder: Path
) -> tuple[MeanOver, dict[str, Estimate | Missing]]:
    """The mean over the sizes of one run, and its numbers by measure, or why there is none, by the public API."""
    models: list[Any] = [released_model(release, bias, size, run) for size in SIZES]
    words = [
        f"audit={files / 'audit.yaml'}",
        "audit.quality=null",
        "audit.triples=null",
    ]
    found = cda.compare(*models, biases=bias, out=folder, progress=False, overrides=words)
    (mean,) = (each for each in found.means if each.bias == bias)
    numbers = found.numbers.where(audit=mean.name, bias=bias)
    return mean, {each.measure: each.found for each in numbers if isinstance(each.found, Estimate | Missing)}


def checks(
    bias: str, run: str, at: int, mean: MeanOver, people: dict[str, Estimate | Missing], table: dict[str, Any]
) -> Iterator[Check]:
    """One mean against the known numbers; `at` is the place of its run among the expected ones."""
    (share, n), means, _, _ = EXPECTED[bias]
    where = f"{bias} {run}"
    models = table["labels"]["as_released"]["models"][run]
    known = models["mean_of_2B_3B_8B"]
    names = {
        "human_skew": "human skew",
        "skew_on_voted": "skew",
        "miscalibration": "miscalibration",
        "signed_gap": "distance from people",
    }
    expected = {"human_skew": share, "skew_on_voted": means[at], "miscalibration": means[2 + at]}
    no_effect = {"skew_on_voted": ("skew", 0.5), "signed_gap": ("signed_gap", 0.0)}
    pairs = {}
    for key, what in names.items():
        estimate = people[key]
        if not isinstance(estimate, Estimate):
            # Models that differ in sign have no mean that says anything, and the command gives none.
            column, null = no_effect[key]
            own = [models["sizes"][size][column]["value"] for size in SIZES]
            yield Check(
                f"{where}, {what}: no mean of models on both sides of none", estimate.reason, min(own) < null < max(own)
            )
            continue
        if key in expected:
            off = abs(100 * estimate.value - expected[key])
            yield Check(
                f"{where}, {what}: {expected[key]:.2f}%", f"{100 * estimate.value:.2f}%, n {estimate.n}",
                off <= TOLERANCE_POINTS and (key != "human_skew" or estimate.n == n),
            )  # fmt: skip
        if key != "human_skew":
            pairs["skew" if key == "skew_on_voted" else key] = estimate
    differing = [
        f"{what} {end}: {getattr(estimate, end)} and not {known[what][end]}"
        for what, estimate in pairs.items()
        for end in ("value", "low", "high", "n")
        if abs(getattr(estimate, end) - known[what][end]) > TOLERANCE
    ]
    yield Check(f"{where}: means and intervals as in paper_tables", "; ".join(differing) or "equal", not differing)
    yield Check(
        f"{where}: {len(SIZES)} models, interval over prompts alone", f"{len(mean.audits)} models, over {mean.interval_over}",
        len(mean.audits) == len(SIZES) and mean.interval_over == "prompts",
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--release", type=Path, default=None, help="folder in the layout of the release")
    options = parser.parse_args(arguments)
    release: Path = (options.release or DATA / "fff").resolve()
    if not release.is_dir():
        print(f"{'FAILED' if options.release else 'skipped'}: {release} is absent; give --release or set CDA_DATA")
        return 2 if options.release else SKIPPED
    tables = json.loads(TABLES.read_text(encoding="utf-8"))
    found: list[Check] = []
    numbers: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        os.chdir(temporary)
        files = Path(temporary) / "files"
        written(release, files)
        for bias in EXPECTED:
            for at, run in enumerate(("base", tables["headline_runs"][bias])):
                mean, own = mean_of(release, files, bias, run, Path(temporary) / f"{bias}-{run}")
                found += checks(bias, run, at, mean, own, tables["biases"][bias])
                numbers[f"{bias} {run}"] = {name: each.model_dump() for name, each in own.items()}
                print(f"  {bias} {run}: done", flush=True)
    return finish("panel_release", (__doc__ or "").split("\n\n")[0].removeprefix("Claim: "), found, numbers)


if __name__ == "__main__":
    sys.exit(main())
