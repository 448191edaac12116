"""Claim: allowed as many candidates (320), a search of depth 5 × width 16 finds no weaker a set of biases without an LLM than
the best of 320 does (paired difference of diversity-adjusted strength on validation prompts, by seed), where responses show all
planted biases (upper bound of the loss: a tenth of the strength), and a stronger one where some are found by varying others
alone (lower bound above 0).

Each reward holds several biases of different strengths b over noise a = 1 (as in discover_recall.py), the judge dislikes
them as much. World `plain`: seven that responses show. World `hidden`: four that responses show (presence 30%), and two that no
proposal holds: spaces wider than any response has, and an opening in a wording that no response has; weak relatives of these
two are there. Best-of-N cannot find these two by construction: this world asks whether variation gets there, and no more.
Strength counts finalists with a judge below 0.5 on 64 prompts that were not searched on. The offline proposer names far fewer
than 320, so that best-of-N tries fewer than evolution does: what was tried is reported, and `1-proposals, more prompts` gives
best-of-N the prompts of all five generations at once. The thresholds are on the best of 320 proposals (`1-proposals`). The
paper's own best of 320 (`1`: 64 proposals and four variations of each) and its `3x8` stand beside them.

    python -m evals.method.discover_depth --processes 2      (hours; a killed run goes on where it was)
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from cda.biases import Bias
from cda.discovery.discovery_result import run_strength
from cda.discovery.held_out import validate
from cda.discovery.rules import Phrasing, phrase_bias, phrasing_of
from cda.discovery.search import Generation, candidates_by_id, search
from cda.discovery.setup import SIZES
from cda.embedded.model import encode_sentences
from cda.records import Direction, content_id
from cda.results.discover import CandidateRecord, Measured, SearchSettings
from cda.results.evidence import Validation
from cda.stats.estimators import mean_of
from evals.method.planted_world import (
    FloatArray,
    Size,
    World,
    embedded,
    held_out,
    is_planted,
    known,
    parts_of,
    split,
    with_presence,
)
from evals.shared import FIRST_RUN, Check, all_runs, arguments, code_id, finish

SEARCHES: dict[str, SearchSettings] = {
    "5x16": SIZES["5x16"],
    "3x8": SIZES["3x8"],
    "1": SIZES["1"],
    "3x8-wide": SIZES["3x8-wide"],
    "1-proposals": SIZES["1-proposals"],
    "1-proposals, more prompts": SIZES["1-proposals"].model_copy(update={"prompts": (sum(SIZES["5x16"].prompts),)}),
}
BEST_OF_N = ("1-proposals", "1-proposals, more prompts")
N_SEEDS, PRESENCE, THRESHOLD = 20, 0.3, 0.5
MAX_LOSS = 0.1
DIRECTIONS: tuple[Direction, ...] = ("add", "remove")
HIDDEN, RELATIVE = 1.2, 0.3
"""Strengths b of what only variation finds, and of its relatives in the responses."""
# None of them is part of another: exclamation marks, for one, would come with openings and closings.
PLAIN = {
    "headers": 0.9, "importance-phrases": 0.75, "closes-offer": 0.6, "em-dashes": 0.5, "bold": 0.4, "emoji": 0.3,
    "opens-praise": 0.2,
}  # fmt: skip
DIRECT = {"headers": 0.9, "importance-phrases": 0.7, "emoji": 0.5, "em-dashes": 0.35}
UNSAID = "Happy to help!"
NUMBERS = (
    "strength", "strength_of_all", "best_reward", "kept_direct", "kept_hidden", "passed_direct", "passed_hidden",
    "validated", "first", "tried", "rewrites",
)  # fmt: skip
WorldName = Literal["hidden", "plain"]
WORLDS: tuple[WorldName, ...] = ("hidden", "plain")


@lru_cache(maxsize=2)
def planted(world: WorldName) -> dict[str, tuple[Bias, float, bool, bool]]:
    """By name: bias, strength b, whether it is put into responses, whether it counts as hidden."""
    by_name = {bias.name: bias for bias in known()}
    if world == "plain":
        return {name: (by_name[name], strength, True, False) for name, strength in PLAIN.items()}
    found = {name: (by_name[name], strength, True, False) for name, strength in DIRECT.items()}
    relatives = {
        "double-spaces": by_name["double-spaces"],
        "affirmative, as said": phrase_bias(Phrasing("opening", _said(by_name["affirmative"]))),
    }
    hidden = {
        "triple-spaces": by_name["triple-spaces"],
        f"opens {UNSAID}": phrase_bias(Phrasing("opening", (UNSAID,))),
    }
    found |= {name: (bias, RELATIVE, True, False) for name, bias in relatives.items()}
    return found | {name: (bias, HIDDEN, False, True) for name, bias in hidden.items()}


def _said(affirmative: Bias) -> tuple[str, ...]:
    made = phrasing_of(affirmative)
    return tuple(one for one in made.wordings if one != UNSAID) if made else ()


def run(
    name: WorldName,
    number: int,
    searched: str,
    size: Size | None = None,
    encode: Callable[[Sequence[str]], FloatArray] = encode_sentences,
) -> dict[str, Any]:
    """One search; what its finalists are worth on the validation prompts. Worlds of one number are the same for all sizes."""
    started, of = time.process_time(), size or Size()
    seed = int(content_id("discover depth", name, number)[:7], 16)
    rng, biases = np.random.default_rng(seed), planted(name)
    rows = list(embedded()[: of.max_prompts])
    for bias, _, in_responses, _ in biases.values():
        rows = with_presence(rows, bias, PRESENCE, rng) if in_responses else rows
    world = World(tuple((bias, b) for bias, b, _, _ in biases.values()), f"{name} {number}")
    samples = split(rows, world, of.held_out, seed)
    how = SEARCHES[searched]
    if size:
        how = SearchSettings(populations=size.populations, prompts=size.batches, mutations=size.mutations)
    settings = how.model_copy(update={"directions": DIRECTIONS, "seed": seed})
    generations = search(samples["train"], parts_of(world, samples["train"], seed), settings)
    finalists = [candidate for candidate, _ in generations[-1].survivors]
    found = held_out(finalists, samples["validation"], world, DIRECTIONS, seed)
    results = validate(found.rows, failed=found.counts.failed)
    passed = [one.candidate for one in results if one.passed]
    return {
        **_worth(finalists, results, encode),
        **_recall(biases, found.rows, passed),
        "validated": len(passed),
        **_effort(generations),
        "cpu_seconds": round(time.process_time() - started, 2),
    }


def _recall(
    biases: Mapping[str, tuple[Bias, float, bool, bool]],
    rows: Mapping[str, Sequence[Measured]],
    passed: Sequence[str],
) -> dict[str, Any]:
    """Shares of the planted biases that are among the finalists, and among those that the validation passes."""
    kept = {label: [name for name, own in rows.items() if is_planted(own, one[0])] for label, one in biases.items()}
    reached = {label: bool(set(names) & set(passed)) for label, names in kept.items()}
    direct, hidden = ([label for label, one in biases.items() if one[3] is which] for which in (False, True))
    return {
        "reached": reached,
        "kept_direct": _share([bool(kept[label]) for label in direct]),
        "kept_hidden": _share([bool(kept[label]) for label in hidden]),
        "passed_direct": _share([reached[label] for label in direct]),
        "passed_hidden": _share([reached[label] for label in hidden]),
    }


def _worth(
    finalists: Sequence[CandidateRecord], results: Sequence[Validation], encode: Callable[[Sequence[str]], FloatArray]
) -> dict[str, Any]:
    """Strength of the run, and the validation reward of what the search put first, of those that could be rewritten there."""
    by_id = {one.candidate: one.pooled for one in results}
    pooled = [(one.attribute, numbers) for one in finalists if (numbers := by_id[one.id])]
    rewards, judges = [numbers.reward.value for _, numbers in pooled], [numbers.judge.value for _, numbers in pooled]
    embeddings = encode([attribute for attribute, _ in pooled])
    counted = [reward for reward, judge in zip(rewards, judges, strict=True) if reward > 0 and judge < THRESHOLD]
    return {
        "strength": run_strength(rewards, judges, embeddings, THRESHOLD),
        "strength_of_all": sum(counted),
        "n_counted": len(counted),
        "best_reward": next(iter(rewards), None),
    }


def _effort(generations: Sequence[Generation]) -> dict[str, int]:
    """What was tried: candidates of the first generation, all of them, and the rewrites that were scored."""
    return {
        "first": len(generations[0].candidates),
        "tried": len(candidates_by_id(generations)),
        "rewrites": sum(len(generation.rows) for generation in generations),
    }


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean over seeds with Student's 95% interval."""
    found = mean_of(values, [str(place) for place in range(len(values))]).estimate
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


def compared(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Means of every search and paired differences from best-of-N; a number that a run lacks leaves its pair out."""
    means: dict[str, Any] = {}
    for name, own in rows.items():
        usable = {what: [row[what] for row in own if row[what] is not None] for what in NUMBERS}
        means[name] = {what: interval(values) for what, values in usable.items() if len(values) > 1}
        reached = Counter(label for row in own for label, found in row["reached"].items() if found)
        means[name]["reached"] = {label: reached[label] / len(own) for label in own[0]["reached"]}
    return {"means": means, **{f"minus {best}": _minus(rows, best) for best in BEST_OF_N}}


def _minus(rows: Mapping[str, Sequence[Mapping[str, Any]]], best: str) -> dict[str, Any]:
    return {
        name: {
            what: interval([after - before for after, before in paired])
            for what in NUMBERS
            if len(paired := _paired(own, rows[best], what)) > 1
        }
        for name, own in rows.items()
        if name not in BEST_OF_N
    }


def _paired(
    own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], what: str
) -> list[tuple[float, float]]:
    pairs = [(one[what], two[what]) for one, two in zip(own, other, strict=True)]
    return [(one, two) for one, two in pairs if one is not None and two is not None]


def _told(one: Mapping[str, float]) -> str:
    return f"{one['value']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}], n = {one['n']}"


def _checks(found: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Against both forms of best-of-N, in both worlds."""
    checks = []
    for best in BEST_OF_N:
        gain = {world: found[world][f"minus {best}"]["5x16"]["strength"] for world in WORLDS}
        allowed = -MAX_LOSS * found["plain"]["means"][best]["strength"]["value"]
        threshold = f"plain, strength of 5x16 minus best of 320 ({best}): lower bound of {allowed:+.3f} or more"
        checks.append(Check(threshold, _told(gain["plain"]), gain["plain"]["low"] >= allowed))
        threshold = f"hidden, strength of 5x16 minus best of 320 ({best}): lower bound above 0"
        checks.append(Check(threshold, _told(gain["hidden"]), gain["hidden"]["low"] > 0))
    return checks


def main() -> int:
    options = arguments("discover_depth")
    numbers = range(options.first, options.first + min(N_SEEDS, options.runs or N_SEEDS))
    jobs: dict[str, tuple[Any, ...]] = {
        f"{world}-{name}-{number}": (world, number, name) for number in numbers for world in WORLDS for name in SEARCHES
    }
    rows = all_runs(run, jobs, options.work, options.processes)
    found = {
        world: compared({name: [rows[f"{world}-{name}-{number}"] for number in numbers] for name in SEARCHES})
        for world in WORLDS
    }
    for world, best, name, what in itertools.product(WORLDS, BEST_OF_N, ("5x16", "3x8", "1", "3x8-wide"), NUMBERS):
        if (one := found[world][f"minus {best}"][name].get(what)) is not None:
            print(f"{world}: {name} minus best of N ({best}), {what}: {_told(one)}")
    if options.runs or options.first != FIRST_RUN:
        return 0
    checks = _checks(found)
    content = {
        "n_seeds": N_SEEDS,
        "first_run": FIRST_RUN,
        "presence": PRESENCE,
        "planted": {world: {name: one[1] for name, one in planted(world).items()} for world in WORLDS},
        "code": code_id(),
        "worlds": found,
    }
    return finish("discover_depth", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, content)


if __name__ == "__main__":
    sys.exit(main())
