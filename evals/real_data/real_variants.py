"""Claim: variants of teaching soft targets and ties on the real model (real_debias.py) halve the mean gap to people at some dose
where a loss of 3 points on the pooled human preferences is excluded. Their targets were set with people's votes on these contrasts in
view, and the doses were read off the same curves.

Exploration that real_debias.py's `paired` came from, doses not chosen but all looked at, on the same votes that real_debias.py
measures on: what a variant gains here is partly selected. First (FIRST) one training each on the base model of seed 0; then (NEXT)
on those of seeds 1 to 3: whether answers beside their own first half keep what people like about long answers, since there the
shorter one lacks something, where GPT-4o's contrasts are longer for nothing (`c`); what leaving the length alone, or half of it,
saves (`l`, `h`); and whether keeping preferences on pairs that the base model never saw keeps more (`f`). `p1500` of seeds 1 to 3 is
real_debias.py's `paired`, and its adapters were taken from there.

    python -m evals.real_data.real_variants --work FOLDER      (FOLDER and times as of real_debias.py; 31 adapters more)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evals.real_data.real_debias import DOSES, MAX_WORSE, all_voted, dose_curve, frontier, points, pooled
from evals.real_data.real_inputs import missing_data, quality_sets
from evals.real_data.real_model import Scored, as_pairs, base_model
from evals.real_data.real_ways import WAYS, Way, settings, trained, trained_on
from evals.shared import DATA, SKIPPED, Check, finish

SOFT = WAYS["paired"].targets or {}
TIES = WAYS["neutral"].targets or {}
SOFTER, NEARER = {**SOFT, "jargon": 0.65}, {"jargon": 0.6, "structure": 0.4, "length": 0.5}
HALF, LEFT = {**SOFT, "length": 0.45}, {**SOFT, "length": None}
SLOWER = {"learning_rate": 2e-4, "num_train_epochs": 4}
FIRST: dict[str, Way] = {
    "p600": Way(SOFT, kept=600),
    "p1500": Way(SOFT, kept=1500),
    "p2154": Way(SOFT, kept=2154),
    "p1500x300": Way(SOFT, 300, 1500),
    "p1500s": Way(SOFT, kept=1500, training=SLOWER),
    "p600m": Way(SOFT, kept=600, matched=True),
    "p1500m": Way(SOFT, kept=1500, matched=True),
    "j1500": Way(SOFTER, kept=1500),
    "j1500m": Way(SOFTER, kept=1500, matched=True),
    "j1500ms": Way(SOFTER, kept=1500, matched=True, training=SLOWER),
    "j2154mx300": Way(SOFTER, 300, 2154, True),
    "k1500m": Way(NEARER, kept=1500, matched=True),
    "n600": Way(TIES, kept=600),
    "n600m": Way(TIES, kept=600, matched=True),
    "n1500": Way(TIES, kept=1500),
    "n1500m": Way(TIES, kept=1500, matched=True),
}
"""p: soft targets; j, k: with others; n: ties. Then how many pairs are kept; x300: contrasts of each bias; m: with matched pairs
and the judge's verdict; s: slower steps."""
NEXT: dict[str, Way] = {
    "p1500": FIRST["p1500"],
    "p1500c300": Way(SOFT, kept=1500, cut=300),
    "p1500c600": Way(SOFT, kept=1500, cut=600),
    "h1500c300": Way(HALF, kept=1500, cut=300),
    "l1500": Way(LEFT, kept=1500),
    "p3000f": Way(SOFT, kept=3000, fresh=True),
}
"""c: responses beside their own first half; h: length half as far; l: length left as the base model has it; f: pairs kept that the
base model was not trained on."""
RUNS = [(name, 0) for name in FIRST] + [(name, seed) for name in NEXT for seed in (1, 2, 3)]


def measured(work: Path) -> dict[str, Any]:
    contrasts, pairs = all_voted(), pooled(quality_sets())
    WAYS.update(FIRST | NEXT)
    found = {}
    for name, seed in RUNS:
        folder = work / f"seed-{seed}"
        spec = base_model(folder, seed)
        scored, adapter = Scored(folder / "scores", spec), trained(name, seed, spec, folder)
        rows = [
            (scored.margins(adapter, dose, as_pairs(contrasts)), scored.margins(adapter, dose, pairs)) for dose in DOSES
        ]
        voted, quality = (np.array(side) for side in zip(*rows, strict=True))
        found[f"{name}-{seed}"] = {
            "settings": settings(name),
            "trained_on": trained_on(name, seed, folder),
            "frontier": frontier(dose_curve(voted, quality, contrasts, pairs), contrasts, pairs),
        }
    return found


def check(name: str, curve: dict[str, Any]) -> Check:
    """The claim that some dose does both; the text names the smallest gap among doses that exclude the loss."""
    kept = {dose: one for dose, one in curve.items() if one["quality_change"]["low"] >= -MAX_WORSE}
    dose, best = min(kept.items(), key=lambda one: float(one[1]["mean_gap"]))
    said = f"{curve['0']['mean_gap']:.1%} → {best['mean_gap']:.1%} at dose {dose}, quality {points(best['quality_change'])}"
    return Check(f"{name}: mean gap halved, loss excluded", said, best["mean_gap"] <= curve["0"]["mean_gap"] / 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for the model, adapters and scores")
    work = parser.parse_args().work
    if missing := missing_data():
        print(f"skipped: {DATA} holds no {', '.join(missing)}; set CDA_DATA")
        return SKIPPED
    found = measured(work)
    numbers = {"command": "python -m evals.real_data.real_variants --work FOLDER", "doses": DOSES, "variants": found}
    asked = [check(name, one["frontier"]) for name, one in found.items()]
    return finish("real_variants", (__doc__ or "").split("\n\n")[0].replace("\n", " "), asked, numbers)


if __name__ == "__main__":
    sys.exit(main())
