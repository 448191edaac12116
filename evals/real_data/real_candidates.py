"""Claim: once people's votes choose the dose of an adapter, letting them also choose its stopping step, or a dose for the lower and the upper half
of its blocks, brings the taught biases no nearer to people: neither is worth a setting.

The models, data, halves of the prompts and the choice are those of `real_debias` (MiniLM, jargon and length taught towards people's shares). In place
of one of six doses, votes choose among

    steps     three checkpoints of the training (after a third, two thirds, all of it), each at doses of 0.5, 1 and 1.5
    layers    0.5, 1 or 1.5 for the lower half of the adapter's blocks, and for the upper half and the head

Threshold, for either, means over seeds, held out: its taught gap is not smaller than that of `ours` by 3 points or more while structure and
accuracy stay within the bounds of `real_debias`. The result is of one model, with the soft targets (objective `paired`) that `ours` had before.

    python -m evals.real_data.real_candidates --work FOLDER --seeds 1 2 3     (the folder of `real_debias`; 20 minutes more a seed on a core)
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from evals.real_data.real_debias import (
    DOSES,
    MOST_GROWN,
    MOST_LOST,
    Rewarded,
    asked_texts,
    measured,
    points,
    summary,
    targets,
)
from evals.real_data.real_inputs import missing_data
from evals.real_data.real_model import Scored, Scores, base_model
from evals.real_data.real_ways import ours, trained, trained_on
from evals.shared import DATA, SKIPPED, Check, finish

BETTER = 0.03
LEVELS = (0.5, 1.0, 1.5)
STEPS_SAVED = 3
Json = dict[str, Any]


def numbered(candidates: Mapping[tuple[float, float], Scores], base: Scores) -> dict[float, Scores]:
    """Candidates as doses: 0 the base model, 1 the adapter as it was trained, the others beside 1 in their order."""
    others = (each for each in candidates if each != (1.0, 1.0))
    places = {each: 1 + at / 1000 for at, each in enumerate(others, 1)} | {(1.0, 1.0): 1.0}
    return {0.0: base} | {places[each]: candidates[each] for each in sorted(places, key=lambda each: places[each])}


def by_layers(adapter: Path, scored: Scored) -> dict[tuple[float, float], Scores]:
    texts = asked_texts()
    return {
        (lower, upper): scored.rewards(adapter, upper, texts, None if lower == upper else lower)
        for lower, upper in product(LEVELS, LEVELS)
    }


def by_steps(half: int, seed: int, scored: Scored, folder: Path) -> dict[tuple[float, float], Scores]:
    """By share of the steps and dose."""
    own = ours(targets(half))
    n_steps = trained_on(trained("ours", own, seed, scored, folder))["steps"]
    every = n_steps // STEPS_SAVED
    saving = replace(own, training={"save_strategy": "steps", "save_steps": every, "save_total_limit": STEPS_SAVED + 1})
    last, texts = trained("steps", saving, seed, scored, folder), asked_texts()
    found = {}
    for part in range(1, STEPS_SAVED + 1):
        adapter = last
        if part < STEPS_SAVED:
            adapter = last.parent.with_name(f"{last.parent.name}-{part}") / "adapter"
            shutil.copytree(last.parent / "checkpoints" / f"checkpoint-{part * every}", adapter, dirs_exist_ok=True)
        for dose in LEVELS:
            found[part / STEPS_SAVED, dose] = scored.rewards(adapter, dose, texts)
    return found


def rewarded(seed: int, work: Path) -> dict[str, Rewarded]:
    folder = work / f"seed-{seed}"
    scored, texts = Scored(folder / "scores", base_model(folder, seed)), asked_texts()
    base = scored.rewards(None, 0.0, texts)

    def both(of_half: Iterator[dict[float, Scores]]) -> Rewarded:
        first, second = of_half
        return Rewarded((first, second), chosen=True)

    adapters = [trained("ours", ours(targets(half)), seed, scored, folder) for half in (0, 1)]
    return {
        "ours": both(
            {0.0: base} | {dose: scored.rewards(each, dose, texts) for dose in DOSES["ours"]} for each in adapters
        ),
        "steps": both(numbered(by_steps(half, seed, scored, folder), base) for half in (0, 1)),
        "layers": both(numbered(by_layers(each, scored), base) for each in adapters),
    }


def checks(ways: Mapping[str, Json]) -> Iterator[Check]:
    own = ways["ours"]["taught_gap"]["after"]["value"]
    for name in ("steps", "layers"):
        way = ways[name]
        gap, structure, accuracy = (
            way["taught_gap"]["after"]["value"],
            way["biases"]["structure"]["gap"]["change"],
            way["accuracy"]["change"],
        )
        wins = gap <= own - BETTER and structure["value"] <= MOST_GROWN and accuracy["value"] >= -MOST_LOST
        yield Check(
            f"{name}: no smaller gap than ours by {100 * BETTER:g} points",
            f"{own:.1%} by doses alone, {gap:.1%} by {name} (structure {points(structure)}, accuracy {points(accuracy)})",
            not wins,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of real_debias")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    asked = parser.parse_args()
    if missing := missing_data():
        print(f"skipped: {DATA} holds no {', '.join(missing)}; set CDA_DATA")
        return SKIPPED
    models = {seed: rewarded(seed, asked.work) for seed in asked.seeds}
    ways = {
        way: summary({seed: measured(model[way]) for seed, model in models.items()})
        for way in ("ours", "steps", "layers")
    }
    claim = " ".join((__doc__ or "").split("\n\n")[0].removeprefix("Claim: ").split())
    return finish("real_candidates", claim, list(checks(ways)), {"seeds": asked.seeds, "levels": LEVELS, "ways": ways})


if __name__ == "__main__":
    sys.exit(main())
