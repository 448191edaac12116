"""The evolutionary search: propose, rewrite, score, select, mutate, and again ("Automatically Finding Reward Model Biases").

A generation is a record of everything that happened in it. Randomness of generation g comes from (seed, g) alone, so a
search that is handed the generations it has finished goes on exactly as if it had never stopped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cda.biases import builtin_names
from cda.discovery.attribute import distinct_names
from cda.discovery.measure import Original, judged, measured, standing
from cda.discovery.records import Candidate, Grouper, Judge, Mutator, Parent, PromptSamples, Proposer, Reward, Standing
from cda.discovery.selection import cut_by_judge, cut_by_reward, families_of, select, survivors
from cda.errors import DataError
from cda.records import Exclusions
from cda.results.discover import Measured, SearchSettings
from cda.rewriting.rewriter import Rewriter

_EXAMPLES = 3
"""Rewrites of a survivor that its mutator is shown."""
_MIN_SHARE = 0.25
"""Rewrites that a candidate needs in a generation, as a share of its prompts."""
_PROPOSED_FOR_EACH = 2
"""Attributes asked for, for each that is wanted: many of them mean the same."""
_TRIED, _BEYOND = "tried before", "beyond the number of candidates"


@dataclass(frozen=True, slots=True)
class Parts:
    """What takes part."""

    proposer: Proposer
    mutator: Mutator
    grouper: Grouper
    rewriter: Rewriter
    reward: Reward
    judge: Judge


@dataclass(frozen=True, slots=True)
class Generation:
    """Everything that happened in one.

    Attributes:
        index: 0 is the first.
        standings: Of every candidate measured, with its fate.
        rows: What was measured; judged where a judge was asked.
        n_prompts: Prompts measured on.
        proposed: Attributes proposed or mutated for it, answers that gave none, and those that were not tried.
        n_merged: Attributes that meant the same as another.
    """

    index: int
    standings: tuple[Standing, ...]
    rows: tuple[Measured, ...]
    n_prompts: int
    proposed: Exclusions
    n_merged: int

    @property
    def survivors(self) -> list[Standing]:
        return survivors(self.standings)


def search(
    samples: Sequence[PromptSamples],
    parts: Parts,
    settings: SearchSettings,
    finished: Sequence[Generation] = (),
    on_generation: Callable[[Generation], None] = lambda _: None,
) -> list[Generation]:
    """All generations, the finished ones among them.

    Args:
        samples: Train prompts with rated responses.
        parts: Who proposes, rewrites, scores, judges.
        settings: The size.
        finished: Generations of an earlier run with the same arguments, from the first on.
        on_generation: Told of each new one as it ends.

    Returns:
        As many as the settings say; fewer where nobody survived or nothing could be proposed, which is a result.

    Raises:
        DataError: No prompt has a response.
    """
    if not any(one.responses for one in samples):
        raise DataError("no prompt has a response with a reward, so that there is nothing to search in")
    generations = list(finished)
    # A search may also have been killed behind a generation that nobody survived.
    while len(generations) < settings.n_generations and (not generations or generations[-1].survivors):
        index = len(generations)
        rng = np.random.default_rng([settings.seed, index])
        population, proposed, n_merged = (
            _next(generations, parts, settings, rng) if index else _first(samples, parts, settings, rng)
        )
        found = _generation(generations, population, samples, parts, settings, rng)
        generations.append(replace(found, proposed=proposed, n_merged=n_merged))
        on_generation(generations[-1])
    return generations


def lineage(candidate: Candidate, generations: Sequence[Generation]) -> list[Standing]:
    """A candidate's ancestors, oldest first, each as it last stood before it had this descendant.

    A proposal and its variations stand in the first generation together.
    """
    found: dict[str, Standing] = {}
    waiting = [(name, candidate.generation) for name in candidate.parents]
    while waiting:
        name, before = waiting.pop()
        earlier = [
            one
            for generation in generations[: max(before, 1)]
            for one in generation.standings
            if one.candidate.id == name
        ]
        if earlier and name not in found:
            found[name] = earlier[-1]
            waiting += [(parent, earlier[-1].candidate.generation) for parent in earlier[-1].candidate.parents]
    # In the first generation a proposal comes before what it was varied into.
    return sorted(
        found.values(), key=lambda one: (one.candidate.generation, len(one.candidate.parents), one.candidate.id)
    )


def most_telling(rows: Sequence[Measured]) -> list[Measured]:
    """Rewrites that the model liked more than the judge did, the clearest first."""
    return sorted(rows, key=lambda row: (0.5 if row.preference is None else row.preference, -row.margin))


def draw_originals(samples: Sequence[PromptSamples], n: int, rng: np.random.Generator, each: int = 1) -> list[Original]:
    """Responses to n prompts (to all where there are fewer), at most `each` of a prompt, drawn without replacement."""
    usable = [one for one in samples if one.responses]
    found = []
    for at in rng.permutation(len(usable))[:n]:
        prompt, responses = usable[at].prompt, usable[at].responses
        found += [(prompt, responses[int(place)].text) for place in rng.permutation(len(responses))[:each]]
    return list(dict.fromkeys(found))


def grouped(candidates: Sequence[Candidate], grouper: Grouper, n: int | None = None) -> tuple[list[Candidate], int]:
    """One candidate for each meaning, and how many were merged into another.

    The first of a group stands for it: survivors come before their mutations. With n, the n largest groups stay: what
    was proposed most often; the rest counts as merged in none of them. Copies of one candidate are one, whatever the
    grouper says of them.

    Returns:
        Representatives in their order, and the number of candidates that meant the same as one of them.
    """
    groups: dict[str, list[int]] = {}
    for group in grouper.groups([one.bias for one in candidates]) if candidates else []:
        groups.setdefault(candidates[group[0]].id, []).extend(group)
    kept = sorted(groups.values(), key=lambda group: -len(group))[:n]
    representatives = sorted(group[0] for group in kept)
    return [candidates[at] for at in representatives], sum(len(group) - 1 for group in kept)


def _first(
    samples: Sequence[PromptSamples], parts: Parts, settings: SearchSettings, rng: np.random.Generator
) -> tuple[list[Candidate], Exclusions, int]:
    wanted = settings.populations[0]
    proposals = parts.proposer.propose(samples, _PROPOSED_FOR_EACH * wanted, rng)
    # The same attribute from several prompts stays several times: the grouper sees how often it came up.
    population, n_merged = grouped([Candidate(bias) for bias in proposals.biases], parts.grouper, wanted)
    n_beyond = len(proposals.biases) - len(population) - n_merged
    exclusions = _and(proposals.exclusions, {_BEYOND: n_beyond})
    if not settings.variations or not population:
        return _named(population), exclusions, n_merged
    parents = [Parent(Standing(one, 0, None)) for one in _named(population)]
    varied, left_out, n_same = _varied(parents, parts, settings.variations, 0, (), rng)
    return varied, _and(exclusions, left_out.reasons, left_out.seen), n_merged + n_same


def _next(
    generations: Sequence[Generation], parts: Parts, settings: SearchSettings, rng: np.random.Generator
) -> tuple[list[Candidate], Exclusions, int]:
    """Survivors of the last generation and their mutations, one of each meaning."""
    last = generations[-1]
    parents = [
        Parent(
            one,
            tuple(lineage(one.candidate, generations)),
            tuple(most_telling([row for row in last.rows if row.candidate == one.candidate.id])[:_EXAMPLES]),
        )
        for one in last.survivors
    ]
    tried = {one.candidate.id for generation in generations for one in generation.standings}
    return _varied(parents, parts, settings.mutations, last.index + 1, tried, rng)


def _varied(
    parents: Sequence[Parent], parts: Parts, n_each: int, index: int, tried: Collection[str], rng: np.random.Generator
) -> tuple[list[Candidate], Exclusions, int]:
    """The parents and at most n_each mutations of every one, which generation `index` measures first; one of each meaning."""
    proposals = parts.mutator.mutate(parents, n_each, rng)
    mutations = [
        Candidate(bias, "mutated", index, (parents[source].standing.candidate.id,))
        for bias, source in zip(proposals.biases, proposals.sources, strict=True)
    ]
    old = [one.standing.candidate for one in parents]
    new, left_out = _new(mutations, {*tried, *(one.id for one in old)}, n_each)
    population, n_merged = grouped([*old, *new], parts.grouper)
    return _named(population), _and(proposals.exclusions, left_out), n_merged


def _new(mutations: Sequence[Candidate], tried: Collection[str], n_each: int) -> tuple[list[Candidate], Counter[str]]:
    """At most n_each mutations of each parent that no generation has measured, and the others by reason."""
    new: list[Candidate] = []
    n_of: Counter[tuple[str, ...]] = Counter()
    left_out: Counter[str] = Counter()
    for one in mutations:
        if one.id in tried:
            left_out[_TRIED] += 1
        elif n_of[one.parents] == n_each:
            left_out[_BEYOND] += 1
        else:
            n_of[one.parents] += 1
            new.append(one)
    return new, left_out


def _generation(
    earlier: Sequence[Generation],
    population: Sequence[Candidate],
    samples: Sequence[PromptSamples],
    parts: Parts,
    settings: SearchSettings,
    rng: np.random.Generator,
) -> Generation:
    index = len(earlier)
    originals = draw_originals(samples, settings.prompts[index], rng)
    found = measured(population, originals, parts.rewriter, parts.reward, settings.directions)
    target = settings.populations[index + 1]
    first = [standing(one, found.rows[one.id], found.failed[one.id]) for one in population]
    cut = cut_by_reward(first, settings.reward_cut, target, math.ceil(_MIN_SHARE * len(originals)))
    rows = dict(found.rows)
    asked = [one.candidate.id for one in cut if one.fate == "kept"]
    verdicts = iter(judged([row for name in asked for row in rows[name]], parts.judge))
    rows |= {name: tuple(next(verdicts) for _ in rows[name]) for name in asked}
    seen = [standing(one.candidate, rows[one.candidate.id], one.failed, one.fate) for one in cut]
    families = families_of([*candidates_by_id(earlier).values(), *population]) if settings.families else None
    ended = select(cut_by_judge(seen, settings.judge_cut, target), target, families)
    return Generation(
        index,
        tuple(ended),
        tuple(row for one in population for row in rows[one.id]),
        len(originals),
        Exclusions(0, {}),
        0,
    )


def _and(exclusions: Exclusions, left_out: Mapping[str, int], seen: int = 0) -> Exclusions:
    """With more that was left out, of `seen` others; 0: of the same proposals, by the search itself."""
    reasons = Counter(exclusions.reasons)
    reasons.update({reason: n for reason, n in left_out.items() if n})
    return Exclusions(exclusions.seen + seen, dict(sorted(reasons.items())))


def _named(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Names are files and words of recipes in the end: no two may be alike, nor one a built-in bias's."""
    biases = distinct_names([one.bias for one in candidates], builtin_names())
    return [replace(one, bias=bias) for one, bias in zip(candidates, biases, strict=True)]


def candidates_by_id(generations: Sequence[Generation]) -> dict[str, Candidate]:
    """Every candidate that was measured."""
    return {one.candidate.id: one.candidate for generation in generations for one in generation.standings}
