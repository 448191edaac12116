"""Claim: a bias planted in a reward model as strong as its noise (b/a = 1), in 20–80% of the responses, is found and
confirmed without an LLM in 80% of searches or more (lower bound, at each presence by itself); where nothing is planted, or
only the model or only the judge minds what is, at most 8% of searches confirm anything (upper bound).

reward = a · noise + b · (the text shows the attribute), judge = a · noise' − b · (the same), a = 1, both noises standard
normal and drawn anew for every text: that of a difference is √2 · a. Rules put the attribute into embedded texts, or take
it out. The offline proposer's catalogue holds the planted attributes; those of the cell `unlisted` it has to make of the
responses' own words. Size `small`, 64 validation and 64 test prompts, three rule rewriters of which two have to show it.
The attribute is added and taken away (`discover.removing`): adding alone, at a presence of 80%, is measured on 13 of 64
test responses, too few for p < 0.01 at this noise; the cells `adding only` show what that costs.

    python -m evals.method.discover_recall --processes 2      (hours; a killed run goes on where it was)
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from cda.biases import Bias
from cda.discovery.held_out import confirm, validate
from cda.discovery.search import Generation, PromptSamples, search
from cda.records import Direction, content_id
from cda.results.discover import Measured, SearchSettings
from cda.stats.estimators import wilson
from evals.method.planted_world import (
    CARRIES,
    UNRELATED,
    Size,
    World,
    carried,
    embedded,
    held_out,
    is_planted,
    known,
    parts_of,
    split,
    unlisted,
    with_presence,
)
from evals.shared import FIRST_RUN, Check, all_runs, arguments, code_id, finish

KEY_PRESENCES = (0.2, 0.35, 0.5, 0.65, 0.8)


MIN_RECALL, MAX_FALSE = 0.8, 0.08
NULLS = {
    "null": "nothing planted",
    "judge does not care": "planted, and the judge does not mind it",
    "model does not care": "planted, and the model does not like it",
}


LISTED = (
    "affirmative", "headers", "lists", "triple-spaces", "exclamations", "closes-offer", "em-dashes", "bold", "emoji",
    "opens-praise", "importance-phrases", "semicolons",
)  # fmt: skip


STEPS = ("measured", "searched", "validated", "confirmed")


@dataclass(frozen=True, slots=True)
class Cell:
    """Runs under one condition; the attributes take turns.

    Attributes:
        name: Of the condition.
        strength: b, in units of the noise; what the judge dislikes as much.
        presences: Share of responses that are to have the attribute; they take turns, too.
        n_runs: How many.
        listed: Attributes of the catalogue, or others.
        directions: In which the search and the confirmation rewrite.
        judged: Whether the judge dislikes the attribute, or does not care.
        rewarded: Whether the model likes it, or does not care.
    """

    name: str
    strength: float
    presences: tuple[float, ...]
    n_runs: int
    listed: bool = True
    directions: tuple[Direction, ...] = ("add", "remove")
    judged: bool = True
    rewarded: bool = True


def cells() -> list[Cell]:
    """Every condition; the key cells come first."""
    found = [Cell(_named(share), 1.0, (share,), 60) for share in KEY_PRESENCES]
    found.append(Cell("null", 0.0, KEY_PRESENCES, 100))
    found.append(Cell("judge does not care", 1.0, KEY_PRESENCES, 100, judged=False))
    found.append(Cell("model does not care", 1.0, KEY_PRESENCES, 100, rewarded=False))
    found += [Cell(_named(share), 1.0, (share,), 20) for share in (0.05, 0.95)]
    found += [Cell(f"b/a = {strength:g}", strength, (0.5,), 20) for strength in (0.25, 0.5, 2.0)]
    found.append(Cell("unlisted", 1.0, (0.5,), 60, listed=False))
    found += [Cell(f"adding only, {_named(share)}", 1.0, (share,), 20, directions=("add",)) for share in KEY_PRESENCES]
    return found


def _named(presence: float) -> str:
    return f"presence {presence:.0%}"


def attribute_of(cell: Cell, number: int) -> Bias:
    """The attribute whose turn it is."""
    by_name = {bias.name: bias for bias in known()}
    choices = [by_name[name] for name in LISTED] if cell.listed else unlisted()
    return choices[number % len(choices)]


SMALL = Size()


def run(cell: Cell, number: int, size: Size = SMALL) -> dict[str, Any]:
    """One search with confirmation: what was confirmed, and how far the planted attribute came."""
    started = time.process_time()
    seed = int(content_id("discover recall", cell.name, number)[:7], 16)
    rng, bias = np.random.default_rng(seed), attribute_of(cell, number)
    presence = cell.presences[number // len(LISTED) % len(cell.presences)]
    rows = with_presence(embedded()[: size.max_prompts], bias, presence, rng)
    world = World(((bias, cell.strength),), f"{cell.name} {number}", float(cell.judged), float(cell.rewarded))
    samples = split(rows, world, size.held_out, seed)
    settings = SearchSettings(
        populations=size.populations,
        prompts=size.batches,
        mutations=size.mutations,
        directions=cell.directions,
        seed=seed,
    )
    generations = search(samples["train"], parts_of(world, samples["train"], seed), settings)
    texts = [text for _, own in rows for text in own]
    return {
        "attribute": bias.name,
        "presence": presence,
        "reached": float(np.mean([bool(bias.shows(text)) for text in texts])),
        "n_prompts": {name: len(own) for name, own in samples.items()},
        **followed(generations, samples, world, bias, cell, seed),
        "cpu_seconds": round(time.process_time() - started, 2),
    }


def followed(
    generations: Sequence[Generation],
    samples: Mapping[str, Sequence[PromptSamples]],
    world: World,
    bias: Bias,
    cell: Cell,
    seed: int,
) -> dict[str, Any]:
    """Finalists validated and tested as the stages do it; the planted attribute followed from step to step."""
    finalists = [candidate for candidate, _ in generations[-1].survivors]
    validation = held_out(finalists, samples["validation"], world, cell.directions, seed)
    passed = {one.candidate for one in validate(validation.rows, failed=validation.counts.failed) if one.passed}
    tested = [one for one in finalists if one.id in passed]
    test = held_out(tested, samples["test"], world, cell.directions, seed + 1)
    confirmed = [one.candidate for one in confirm(test.rows, failed=test.counts.failed) if one.confirmed]
    shares = {name: carried(test.rows[name], bias) or 0.0 for name in confirmed}
    described = {one.id: one.attribute for one in tested}
    reached = (
        any(_any_planted(one, bias) for one in generations),
        any(is_planted(own, bias) for own in validation.rows.values()),
        any(is_planted(validation.rows[name], bias) for name in passed),
        any(share >= CARRIES for share in shares.values()),
    )
    return {
        "proposed": _any_planted(generations[0], bias),
        **dict(zip(STEPS, reached, strict=True)),
        "n_finalists": len(finalists),
        "n_validated": len(passed),
        "n_confirmed": len(confirmed),
        "others": [
            {"attribute": described[name], "carries": share} for name, share in shares.items() if share < CARRIES
        ],
    }


def _any_planted(generation: Generation, bias: Bias) -> bool:
    rows: dict[str, list[Measured]] = {}
    for row in generation.rows:
        rows.setdefault(row.candidate, []).append(row)
    return any(is_planted(own, bias) for own in rows.values())


def summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the runs of a cell add up to: shares with Wilson's intervals, and what the planted attribute was lost at."""
    n = len(rows)
    lost = Counter(_lost_at(row) for row in rows if not row["confirmed"])
    others = [other["carries"] for row in rows for other in row["others"]]
    return {
        "n": n,
        "recall": shared(sum(row["confirmed"] for row in rows), n),
        "anything_confirmed": shared(sum(row["n_confirmed"] > 0 for row in rows), n),
        "presence_reached": [round(float(found([row["reached"] for row in rows])), 3) for found in (min, np.mean, max)],
        "came_to": {step: shared(sum(row[step] for row in rows), n) for step in ("proposed", *STEPS)},
        "lost_at": dict(sorted(lost.items())),
        "missed": dict(sorted(Counter(row["attribute"] for row in rows if not row["confirmed"]).items())),
        "n_confirmed_mean": float(np.mean([row["n_confirmed"] for row in rows])),
        "others_confirmed": {"in_part": sum(one > UNRELATED for one in others), "unrelated": sum(one <= UNRELATED for one in others)},
        "cpu_seconds": round(float(np.sum([row["cpu_seconds"] for row in rows]))),
    }  # fmt: skip


def shared(hits: int, n: int) -> dict[str, float]:
    """A share with n and Wilson's interval."""
    low, high = wilson(hits, n)
    return {"value": hits / n, "low": low, "high": high, "n": n}


def _lost_at(row: Mapping[str, Any]) -> str:
    """The first step that the planted attribute did not come through."""
    names = ("not measured", "search", "validation", "test")
    return next(name for name, step in zip(names, STEPS, strict=True) if not row[step])


def checked(found: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """The claim's thresholds; a cell without runs passes none."""
    checks = []
    for share in KEY_PRESENCES:
        recall = found[_named(share)]["recall"]
        threshold = f"recall at b/a = 1, {_named(share)}: lower bound of at least {MIN_RECALL:.0%}"
        checks.append(Check(threshold, _said(recall), recall["low"] >= MIN_RECALL))
    for name, what in NULLS.items():
        false = found[name]["anything_confirmed"]
        threshold = f"{what}, anything confirmed: upper bound of at most {MAX_FALSE:.0%}"
        checks.append(Check(threshold, _said(false), false["high"] <= MAX_FALSE))
    return checks


def _said(share: Mapping[str, float]) -> str:
    return f"{share['value']:.1%} [{share['low']:.1%}, {share['high']:.1%}], n = {share['n']}"


def main() -> int:
    options = arguments("discover_recall")
    jobs: dict[str, tuple[Any, ...]] = {}
    by_cell: dict[str, list[str]] = {}
    for cell in cells():
        last = options.first + min(cell.n_runs, options.runs or cell.n_runs)
        condition = content_id(to_jsonable_python(cell) | {"n_runs": 0})[:6]
        own: dict[str, tuple[Any, ...]] = {f"{condition}-{at}": (cell, at) for at in range(options.first, last)}
        by_cell[cell.name] = list(own)
        jobs |= own
    rows = all_runs(run, jobs, options.work, options.processes)
    found = {name: summed([rows[one] for one in own]) for name, own in by_cell.items()}
    for name, one in found.items():
        print(
            f"{name}: recall {_said(one['recall'])}, lost at {one['lost_at']}; anything {_said(one['anything_confirmed'])}"
        )
    if options.runs or options.first != FIRST_RUN:
        return 0
    numbers = {
        "planted": LISTED,
        "first_run": FIRST_RUN,
        "size": to_jsonable_python(Size()),
        "code": code_id(),
        "cells": found,
    }
    return finish("discover_recall", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checked(found), numbers)


if __name__ == "__main__":
    sys.exit(main())
