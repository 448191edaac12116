"""Claim: a bias planted in a reward model as strong as its noise (b/a = 1), in 20–80% of the responses, is found and
confirmed without an LLM in 80% of searches or more (lower bound, at each presence by itself); where nothing is planted, at
most 8% of searches confirm anything (upper bound).

reward = a · noise + b · (the text shows the attribute), judge = a · noise' − b · (the same), a = 1, both noises standard
normal and drawn anew for every text: that of a difference is √2 · a. Rules put the attribute into embedded texts, or take
it out. The offline proposer's catalogue holds the planted attributes; those of the cell `unlisted` it has to make of the
responses' own words. Size `small`, 64 validation and 64 test prompts, three rule rewriters of which two have to show it.
The attribute is added and taken away (`discover.removing`): adding alone, at a presence of 80%, is measured on 13 of 64
test responses, too few for p < 0.01 at this noise; the cells `adding only` show what that costs.

    python evals/discover_recall.py --processes 2      (hours; a killed run goes on where it was)
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from outcome import ROOT, Check, finish
from scipy import special

from cda.biases import Bias
from cda.config.discovery import SIZES
from cda.discover.confirm import confirm, validate
from cda.discover.formats import catalogue
from cda.discover.mined import MinedProposer
from cda.discover.mined_groups import PresenceGrouper
from cda.discover.mined_rules import Phrasing, phrase_bias, symbol_bias
from cda.discover.prompts import split_prompts
from cda.discover.protocols import Text
from cda.discover.records import Candidate, Measured, PromptSamples, Rated
from cda.discover.rule_mutations import RuleMutator
from cda.discover.search import Generation, Parts, SearchSettings, draw_originals, search
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_pairs, authored_responses
from cda.files.jsonl import read_json, write_json
from cda.records import Direction, Prompt, RewriteRequest, content_id, prompt_id, prompt_text
from cda.stages.discover_confirm import HeldOut, rewrite_all
from cda.stages.discover_parts import RULE_SHARES
from cda.stats.proportions import wilson

FloatArray = NDArray[np.float64]
FIRST_RUN = 1000
"""Runs of the result are numbered from here; lower numbers are for development."""
KEY_PRESENCES = (0.2, 0.35, 0.5, 0.65, 0.8)
MIN_RECALL, MAX_FALSE = 0.8, 0.08
CARRIES = 0.8
"""A candidate is the planted attribute if of its pairs this share has it on one side, and on that side alone."""
UNRELATED = 0.1
"""Up to this share it has nothing to do with it; between the two it is a part of it, such as some of its wordings."""
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
    """

    name: str
    strength: float
    presences: tuple[float, ...]
    n_runs: int
    listed: bool = True
    directions: tuple[Direction, ...] = ("add", "remove")
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Size:
    """How large a run is."""

    populations: tuple[int, ...] = SIZES["small"][0]
    batches: tuple[int, ...] = SIZES["small"][1]
    mutations: int = 4
    held_out: int = 64
    max_prompts: int | None = None


def cells() -> list[Cell]:
    """Every condition; the key cells come first."""
    found = [Cell(_named(share), 1.0, (share,), 60) for share in KEY_PRESENCES]
    found.append(Cell("null", 0.0, KEY_PRESENCES, 100))
    found += [Cell(_named(share), 1.0, (share,), 20) for share in (0.05, 0.95)]
    found += [Cell(f"b/a = {strength:g}", strength, (0.5,), 20) for strength in (0.25, 0.5, 2.0)]
    found.append(Cell("unlisted", 1.0, (0.5,), 20, listed=False))
    found += [Cell(f"adding only, {_named(share)}", 1.0, (share,), 20, directions=("add",)) for share in KEY_PRESENCES]
    found.append(Cell("judge does not care", 1.0, (0.5,), 20, judged=False))
    return found


def _named(presence: float) -> str:
    return f"presence {presence:.0%}"


@dataclass(frozen=True)
class World:
    """A reward model and a judge that differ in what they say of the planted attributes.

    Attributes:
        planted: Attributes with their strength b.
        key: Of the noise.
        judge_share: The judge's dislike, of b.
    """

    planted: tuple[tuple[Bias, float], ...]
    key: str
    judge_share: float = 1.0
    _shown: dict[str, float] = field(default_factory=dict)

    def strength_in(self, text: str) -> float:
        """Sum of b over the planted attributes that a text shows."""
        if text not in self._shown:
            self._shown[text] = sum(strength for bias, strength in self.planted if bias.shows(text))
        return self._shown[text]

    def reward(self, texts: Sequence[Text]) -> FloatArray:
        return noise(f"{self.key} reward", texts) + self._strengths(texts)

    def judge(self, comparisons: Sequence[tuple[Prompt, str, str]]) -> FloatArray:
        first = self._judged([(prompt, one) for prompt, one, _ in comparisons])
        second = self._judged([(prompt, other) for prompt, _, other in comparisons])
        return np.asarray((np.sign(first - second) + 1) / 2, dtype=np.float64)

    def _judged(self, texts: Sequence[Text]) -> FloatArray:
        return noise(f"{self.key} judge", texts) - self.judge_share * self._strengths(texts)

    def _strengths(self, texts: Sequence[Text]) -> FloatArray:
        return np.array([self.strength_in(text) for _, text in texts], dtype=np.float64)


def noise(key: str, texts: Sequence[Text]) -> FloatArray:
    """Standard normal, the same for the same key, prompt and text. Shape (n,)."""
    hashed = [
        hashlib.blake2b(f"{key}\0{prompt_text(prompt)}\0{text}".encode(), digest_size=8).digest()
        for prompt, text in texts
    ]
    numbers = np.array([int.from_bytes(one, "big") for one in hashed], dtype=np.float64)
    return np.asarray(special.ndtri((numbers + 0.5) / 2.0**64).clip(-8, 8), dtype=np.float64)


@lru_cache(maxsize=1)
def embedded() -> tuple[tuple[Prompt, tuple[str, ...]], ...]:
    """Questions and answers: the responses to search in, and both sides of the training pairs."""
    found = [(one.prompt, one.responses) for one in authored_responses()]
    return tuple(found + [(one.pair.prompt, (one.pair.chosen, one.pair.rejected)) for one in authored_pairs("train")])


@lru_cache(maxsize=1)
def known() -> tuple[Bias, ...]:
    """The catalogue, read once."""
    return tuple(catalogue())


@lru_cache(maxsize=1)
def unlisted() -> tuple[Bias, ...]:
    """Attributes that the catalogue does not hold."""
    phrasings = (
        Phrasing("opening", ("Right then, here goes.",)),
        Phrasing("closing", ("That is all there is to it.",)),
        Phrasing("between", ("Funny how that works.",)),
        Phrasing("before", ("Mind you,",)),
    )
    return (*(phrase_bias(one) for one in phrasings), symbol_bias("→"), symbol_bias("†"))


def attribute_of(cell: Cell, number: int) -> Bias:
    """The attribute whose turn it is."""
    by_name = {bias.name: bias for bias in known()}
    choices = [by_name[name] for name in LISTED] if cell.listed else unlisted()
    return choices[number % len(choices)]


def with_presence(
    rows: Sequence[tuple[Prompt, Sequence[str]]], bias: Bias, share: float, rng: np.random.Generator
) -> list[tuple[Prompt, tuple[str, ...]]]:
    """The attribute put into a share of all responses and taken out of the rest; what no rule can change stays."""
    rewriter = RuleRewriter(int(rng.integers(2**31)))

    def changed(prompt: Prompt, response: str, wanted: bool) -> str:
        if bias.shows(response) is wanted:
            return response
        made = rewriter.rewrite([RewriteRequest(prompt, response, "add" if wanted else "remove")], bias)[0].text
        return made if made is not None and bias.shows(made) is wanted else response

    return [
        (prompt, tuple(changed(prompt, one, bool(rng.random() < share)) for one in texts)) for prompt, texts in rows
    ]


def split(
    rows: Sequence[tuple[Prompt, tuple[str, ...]]], world: World, held_out: int, seed: int
) -> dict[str, list[PromptSamples]]:
    """Rated responses by part; `held_out` prompts to validate and as many to test on."""
    share = held_out / len(rows)
    parts = split_prompts([prompt for prompt, _ in rows], (1 - 2 * share, share, share), seed)
    by_id = {prompt_id(prompt): texts for prompt, texts in rows}

    def rated(prompt: Prompt) -> PromptSamples:
        texts = by_id[prompt_id(prompt)]
        rewards = world.reward([(prompt, text) for text in texts])
        return PromptSamples(prompt, tuple(Rated(text, float(one)) for text, one in zip(texts, rewards, strict=True)))

    named = {"train": parts.train, "validation": parts.validation, "test": parts.test}
    return {name: [rated(prompt) for prompt in prompts] for name, prompts in named.items()}


def parts_of(world: World, samples: Sequence[PromptSamples], seed: int) -> Parts:
    """Who takes part without an LLM."""
    grouper = PresenceGrouper([one.text for each in samples for one in each.responses])
    return Parts(MinedProposer(known()), RuleMutator(known()), grouper, RuleRewriter(seed), world.reward, world.judge)


def held_out(
    candidates: Sequence[Candidate],
    samples: Sequence[PromptSamples],
    world: World,
    directions: Sequence[Direction],
    seed: int,
) -> HeldOut:
    """One response of every prompt, rewritten by all three rule rewriters."""
    originals = draw_originals(samples, len(samples), np.random.default_rng([seed, 10**6]))
    rewriters = [RuleRewriter(seed + n, share) for n, share in enumerate(RULE_SHARES)]
    return rewrite_all(candidates, originals, rewriters, world.reward, world.judge, directions)


def carried(rows: Sequence[Measured], bias: Bias) -> float | None:
    """Share of pairs whose side with the candidate shows the bias and whose other side does not; None without pairs."""
    if not rows:
        return None
    own = [bool(bias.shows(row.with_attribute)) and not bias.shows(row.without_attribute) for row in rows]
    return float(np.mean(own))


def is_planted(rows: Sequence[Measured], bias: Bias) -> bool:
    share = carried(rows, bias)
    return share is not None and share >= CARRIES


def run(cell: Cell, number: int, size: Size = Size()) -> dict[str, Any]:
    """One search with confirmation: what was confirmed, and how far the planted attribute came."""
    started = time.process_time()
    seed = int(content_id("discover recall", cell.name, number)[:7], 16)
    rng, bias = np.random.default_rng(seed), attribute_of(cell, number)
    presence = cell.presences[number // len(LISTED) % len(cell.presences)]
    rows = with_presence(embedded()[: size.max_prompts], bias, presence, rng)
    world = World(((bias, cell.strength),), f"{cell.name} {number}", 1.0 if cell.judged else 0.0)
    samples = split(rows, world, size.held_out, seed)
    settings = SearchSettings(size.populations, size.batches, size.mutations, directions=cell.directions, seed=seed)
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
    finalists = [one.candidate for one in generations[-1].survivors]
    validation = held_out(finalists, samples["validation"], world, cell.directions, seed)
    passed = {one.candidate for one in validate(validation.rows, failed=validation.failed) if one.passed}
    tested = [one for one in finalists if one.id in passed]
    test = held_out(tested, samples["test"], world, cell.directions, seed + 1)
    confirmed = [one.candidate for one in confirm(test.rows, failed=test.failed) if one.confirmed]
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
    false = found["null"]["anything_confirmed"]
    threshold = f"nothing planted, anything confirmed: upper bound of at most {MAX_FALSE:.0%}"
    return [*checks, Check(threshold, _said(false), false["high"] <= MAX_FALSE)]


def _said(share: Mapping[str, float]) -> str:
    return f"{share['value']:.1%} [{share['low']:.1%}, {share['high']:.1%}], n = {share['n']}"


def code_id() -> str:
    """Names the code and files that decide what a run finds; comments aside."""
    names = (
        "discover/*.py",
        "discover/*/*.yaml",
        "embedded/rule*.py",
        "embedded/texts/*.jsonl",
        "features.py",
        "stats/*.py",
    )
    paths = sorted(path for name in names for path in (ROOT / "cda").glob(name))
    texts = [(path.name, path.read_text("utf-8")) for path in paths]
    return content_id([[name, ast.dump(ast.parse(text)) if name.endswith(".py") else text] for name, text in texts])


Job = tuple[Callable[..., dict[str, Any]], tuple[Any, ...], Path, str]


def all_runs(
    function: Callable[..., dict[str, Any]], jobs: Mapping[str, tuple[Any, ...]], folder: Path, processes: int
) -> dict[str, dict[str, Any]]:
    """The result of every job by its name: each is written to a file of its own, and read where it is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.json" for name in jobs}
    code = code_id()
    missing: list[Job] = [
        (function, given, paths[name], code) for name, given in jobs.items() if not paths[name].is_file()
    ]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} runs are there ({folder})", flush=True)
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for number, name in enumerate(pool.imap_unordered(_made, missing), 1):
            print(f"{number} of {len(missing)}, {time.monotonic() - started:.0f} s: {name}", flush=True)
    return {name: dict(read_json(path)) for name, path in paths.items()}


def _made(job: Job) -> str:
    function, given, path, code = job
    write_json(path, function(*given) | {"code": code})
    return path.stem


def arguments(default_folder: str) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / default_folder, help="folder of single runs")
    parser.add_argument("--first", type=int, default=FIRST_RUN, help="number of the first run of a cell")
    parser.add_argument("--runs", type=int, help="of each cell, at most; then no result is written")
    return parser.parse_args()


def main() -> int:
    options = arguments("discover_recall")
    jobs: dict[str, tuple[Any, ...]] = {}
    by_cell: dict[str, list[str]] = {}
    for cell in cells():
        last = options.first + min(cell.n_runs, options.runs or cell.n_runs)
        condition = content_id(asdict(cell) | {"n_runs": 0})[:6]
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
        "size": asdict(Size()),
        "runs_by_code": Counter(row["code"] for row in rows.values()),
        "cells": found,
    }
    return finish("discover_recall", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checked(found), numbers)


if __name__ == "__main__":
    sys.exit(main())
