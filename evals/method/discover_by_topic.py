"""Claim: an attribute that a reward model rewards in one topic and punishes in another, and that the judge takes the other way in
each, is found by topic in both, without an LLM: confirmed in the first and with its signs turned around in the second, in 80%
of searches or more (lower bound). In 10% of searches or less (upper bounds), it is confirmed over all topics together, by a search
of its own or by the table after the search by topic; it is decided on in a third topic that is indifferent to it; or anything is
decided in any topic where nothing is planted.

reward = noise + b · sign(topic) · (the text shows the attribute), judge = noise' − b · the same, both noises standard normal and
drawn anew for every text, b = 2. Three topics (a third each of the domains of the embedded texts) with 60 prompts, with signs +, − and 0; rules put the
attribute into half of the responses. Bonferroni within each topic, as in `cda discover --by-topic`.

    python -m evals.method.discover_by_topic      (five minutes of CPU)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cda.biases import Bias
from cda.discovery.by_topic import HeldOutTests, TopicTests, by_attribute
from cda.discovery.held_out import confirm, validate
from cda.discovery.material import of_topics
from cda.discovery.search import PromptSamples, Text, search
from cda.embedded.texts import authored_pairs, authored_responses
from cda.records import Prompt, content_id, prompt_id
from cda.results.discover import CandidateRecord, SearchSettings
from cda.results.evidence import ConfirmSettings
from evals.method.discover_recall import shared
from evals.method.planted_world import (
    World,
    embedded,
    held_out,
    is_planted,
    known,
    noise,
    parts_of,
    split,
    with_presence,
)
from evals.shared import FIRST_RUN, Check, all_runs, arguments, code_id, finish

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
REWARDED, PUNISHED, NEITHER = TOPICS = ("first third", "second third", "last third")
SIGNS = {REWARDED: 1.0, PUNISHED: -1.0, NEITHER: 0.0}
N_PROMPTS, N_HELD_OUT = 60, 21
STRENGTH = 2.0
PLANTED = ("affirmative", "exclamations", "closes-offer", "opens-praise", "em-dashes", "emoji")
SETTINGS = SearchSettings(
    populations=(24, 6, 4), prompts=(12, 18), mutations=2, directions=("add", "remove"), families=True
)
N_RUNS = 40
MIN_FOUND, MAX_FALSE = 0.8, 0.1


@dataclass(frozen=True)
class TopicWorld(World):
    """A world whose planted attributes count with the sign of the prompt's topic."""

    signs: Mapping[str, float] = field(default_factory=dict)

    def reward(self, texts: Sequence[Text]) -> FloatArray:
        return noise(f"{self.key} reward", texts) + self._signed(texts)

    def _judged(self, texts: Sequence[Text]) -> FloatArray:
        return noise(f"{self.key} judge", texts) - self._signed(texts)

    def _signed(self, texts: Sequence[Text]) -> FloatArray:
        return np.array([self.signs.get(prompt_id(prompt), 0.0) * self.strength_in(text) for prompt, text in texts])


def topics() -> dict[str, str]:
    """The topic of every embedded prompt: a third of the domains, in alphabetical order."""
    every = [(one.prompt, one.domain) for one in authored_responses()]
    every += [(one.pair.prompt, one.domain) for one in authored_pairs("train")]
    domains = sorted({domain for _, domain in every})
    return {prompt_id(prompt): TOPICS[3 * domains.index(domain) // len(domains)] for prompt, domain in every}


def rows_by_topic(rng: np.random.Generator, topic_of: Mapping[str, str]) -> list[tuple[Prompt, tuple[str, ...]]]:
    """As many prompts of each topic."""
    rows = []
    for topic in SIGNS:
        own = [row for row in embedded() if topic_of[prompt_id(row[0])] == topic]
        rows += [own[int(at)] for at in rng.permutation(len(own))[:N_PROMPTS]]
    return rows


def run(planted: bool, number: int) -> dict[str, Any]:
    """One search by topic, one over all topics together, on the same prompts and rewards."""
    started = time.process_time()
    seed = int(content_id("discover by topic", planted, number)[:7], 16)
    rng, topic_of = np.random.default_rng(seed), topics()
    by_name = {bias.name: bias for bias in known()}
    bias = by_name[PLANTED[number % len(PLANTED)]]
    rows = with_presence(rows_by_topic(rng, topic_of), bias, 0.5, rng)
    signs = {prompt_id(prompt): SIGNS[topic_of[prompt_id(prompt)]] for prompt, _ in rows}
    world = TopicWorld(((bias, STRENGTH if planted else 0.0),), f"{planted} {number}", signs=signs)
    parts = {topic: _split(rows, world, seed, topic, topic_of) for topic in SIGNS}
    by_topic = _by_topic(parts, world, bias, seed)
    together = {
        part: [sample for own in parts.values() for sample in own[part]] for part in ("train", "validation", "test")
    }
    tested, test = _searched(together, world, seed)
    confirmed = {one.candidate for one in confirm(test.rows, failed=test.failed) if one.confirmed}
    return {
        "attribute": bias.name,
        **by_topic,
        "pooled": any(is_planted(test.rows[one.id], bias) for one in tested if one.id in confirmed),
        "pooled_anything": bool(confirmed),
        "cpu_seconds": round(time.process_time() - started, 2),
    }


def _split(
    rows: Sequence[tuple[Prompt, tuple[str, ...]]], world: World, seed: int, topic: str, topic_of: Mapping[str, str]
) -> dict[str, list[PromptSamples]]:
    own = [row for row in rows if topic_of[prompt_id(row[0])] == topic]
    return {
        part: of_topics(samples, topic_of, [topic]) for part, samples in split(own, world, N_HELD_OUT, seed).items()
    }


def _searched(
    parts: Mapping[str, Sequence[PromptSamples]], world: World, seed: int
) -> tuple[list[CandidateRecord], HeldOutTests]:
    """The candidates that held on the validation prompts, and their tests."""
    generations = search(parts["train"], parts_of(world, parts["train"], seed), SETTINGS)
    finalists = [candidate for candidate, _ in generations[-1].survivors]
    validation = held_out(finalists, parts["validation"], world, SETTINGS.directions, seed)
    passed = {one.candidate for one in validate(validation.rows, failed=validation.counts.failed) if one.passed}
    tested = [one for one in finalists if one.id in passed]
    return tested, _tested(tested, parts["test"], world, seed)


def _tested(
    candidates: Sequence[CandidateRecord], samples: Sequence[PromptSamples], world: World, seed: int
) -> HeldOutTests:
    made = held_out(candidates, samples, world, SETTINGS.directions, seed + 1)
    failed = {name: {who: dict(why) for who, why in own.items()} for name, own in made.counts.failed.items()}
    return HeldOutTests({one.candidate: one for one in confirm(made.rows, failed=failed)}, made.rows, failed)


def _by_topic(
    parts: Mapping[str, Mapping[str, Sequence[PromptSamples]]], world: World, bias: Bias, seed: int
) -> dict[str, Any]:
    """Decisions on the planted attribute, by the product's own table over topics."""
    found = {topic: _searched(own, world, seed) for topic, own in parts.items()}
    chosen = {one.id: one for tested, _ in found.values() for one in tested}
    tests = {}
    for topic, (tested, own) in found.items():
        carried = [one for name, one in chosen.items() if name not in {each.id for each in tested}]
        tests[topic] = TopicTests(own, _tested(carried, parts[topic]["test"], world, seed))
    rows = by_attribute(chosen, tests, ConfirmSettings())
    planted = [row for row in rows if any(is_planted(own.rows(row.candidate), bias) for own in tests.values())]
    return {
        "both": any(
            REWARDED in row.in_topics("confirmed") and PUNISHED in row.in_topics("opposite") for row in planted
        ),
        "rewarded": any(REWARDED in row.in_topics("confirmed") for row in planted),
        "punished": any(PUNISHED in row.in_topics("opposite") for row in planted),
        "neither": any(NEITHER in row.in_topics("confirmed", "shared", "opposite") for row in planted),
        "pooled_row": any(row.together.decision == "confirmed" for row in planted),
        "differs": any(getattr(row.differ["model"], "p_holm", 1.0) < 0.01 for row in planted),
        "anything": any(row.in_topics("confirmed", "shared", "opposite") for row in rows),
    }


def main() -> int:
    options = arguments("discover_by_topic")
    jobs: dict[str, tuple[Any, ...]] = {
        f"{'planted' if planted else 'null'}-{at}": (planted, at)
        for planted in (True, False)
        for at in range(options.first, options.first + min(N_RUNS, options.runs or N_RUNS))
    }
    rows = all_runs(run, jobs, options.work, options.processes)
    planted = [row for name, row in rows.items() if name.startswith("planted")]
    null = [row for name, row in rows.items() if name.startswith("null")]
    names = ("both", "rewarded", "punished", "neither", "pooled", "pooled_row", "differs")
    found = {name: shared(sum(row[name] for row in planted), len(planted)) for name in names}
    found["null: anything"] = shared(sum(row["anything"] for row in null), len(null))
    for name, share in found.items():
        print(f"{name}: {_said(share)}")
    if options.runs or options.first != FIRST_RUN:
        return 0
    checks = [
        Check(f"found in both topics, with both signs: lower bound of at least {MIN_FOUND:.0%}", _said(found["both"]), found["both"]["low"] >= MIN_FOUND),
        *(
            Check(f"{what}: upper bound of at most {MAX_FALSE:.0%}", _said(found[name]), found[name]["high"] <= MAX_FALSE)
            for name, what in (
                ("pooled", "confirmed by the search over all topics together"),
                ("pooled_row", "confirmed on all topics together, after the search by topic"),
                ("neither", "a decision in the topic where nothing is planted"),
                ("null: anything", "nothing planted, anything decided in any topic"),
            )
        ),
    ]  # fmt: skip
    numbers = {"first_run": FIRST_RUN, "signs": SIGNS, "strength": STRENGTH, "code": code_id(), "shares": found}
    numbers["cpu_seconds"] = round(sum(row["cpu_seconds"] for row in rows.values()))
    return finish("discover_by_topic", (__doc__ or "").split("\n\n")[0].replace("\n", " "), checks, numbers)


def _said(share: Mapping[str, float]) -> str:
    return f"{share['value']:.1%} [{share['low']:.1%}, {share['high']:.1%}], n = {share['n']}"


if __name__ == "__main__":
    sys.exit(main())
