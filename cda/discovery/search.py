"""The evolutionary search: propose, rewrite, score, select, mutate, and again ("Automatically Finding Reward Model Biases").

A generation is a record of everything that happened in it. Randomness of generation g comes from (seed, g) alone, so a
search that is given its finished generations continues exactly as if it had never stopped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cda.biases import builtin_names
from cda.discovery.attribute import distinct_names
from cda.discovery.measure import Original, judged, measure_candidates, standing
from cda.discovery.records import Candidate, Grouper, Judge, Mutator, Parent, PromptSamples, Proposer, Reward, Standing
from cda.errors import DataError
from cda.records import Exclusions
from cda.results.discover import Fate, Measured, SearchSettings
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
    """The participants of a search."""

    proposer: Proposer
    mutator: Mutator
    grouper: Grouper
    rewriter: Rewriter
    reward: Reward
    judge: Judge


@dataclass(frozen=True, slots=True)
class Generation:
    """Results of one generation.

    Attributes:
        index: 0 is the first.
        standings: Standing of every measured candidate, with its fate.
        rows: Measured rewrites; judged if a judge was asked.
        n_prompts: Number of prompts measured on.
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
        parts: Proposer, rewriters, scorer and judge.
        settings: Size of the search.
        finished: Generations of an earlier run with the same arguments, from the first on.
        on_generation: Called with each new generation.

    Returns:
        As many generations as the settings ask for; fewer if no candidate survived or nothing could be proposed.

    Raises:
        DataError: No prompt has a response.
    """
    if not any(sample.responses for sample in samples):
        raise DataError("no prompt has a response with a reward, so that there is nothing to search in")
    generations = list(finished)
    # A search may also have been killed after a generation without survivors.
    while len(generations) < settings.n_generations and (not generations or generations[-1].survivors):
        rng = np.random.default_rng([settings.seed, len(generations)])
        population, proposed, n_merged = (
            _next(generations, parts, settings, rng) if generations else _first(samples, parts, settings, rng)
        )
        generation = _generation(generations, population, samples, parts, settings, rng)
        generations.append(replace(generation, proposed=proposed, n_merged=n_merged))
        on_generation(generations[-1])
    return generations


def lineage(candidate: Candidate, generations: Sequence[Generation]) -> list[Standing]:
    """A candidate's ancestors, oldest first, each as it last stood before it had this descendant.

    A proposal and its variations stand in the first generation together.
    """
    ancestors: dict[str, Standing] = {}
    waiting = [(name, candidate.generation) for name in candidate.parents]
    while waiting:
        name, before = waiting.pop()
        earlier = [
            standing
            for generation in generations[: max(before, 1)]
            for standing in generation.standings
            if standing.candidate.id == name
        ]
        if earlier and name not in ancestors:
            ancestors[name] = earlier[-1]
            waiting += [(parent, earlier[-1].candidate.generation) for parent in earlier[-1].candidate.parents]

    def age(standing: Standing) -> tuple[int, int, str]:
        # In the first generation a proposal comes before its variations.
        return standing.candidate.generation, len(standing.candidate.parents), standing.candidate.id

    return sorted(ancestors.values(), key=age)


def most_telling(rows: Sequence[Measured]) -> list[Measured]:
    """Rewrites that the model liked more than the judge did, the clearest first."""
    return sorted(rows, key=lambda row: (0.5 if row.preference is None else row.preference, -row.margin))


def draw_originals(samples: Sequence[PromptSamples], n: int, rng: np.random.Generator, each: int = 1) -> list[Original]:
    """Responses to n prompts (to all if there are fewer), at most `each` of a prompt, drawn without replacement."""
    usable = [sample for sample in samples if sample.responses]
    originals = []
    for at in rng.permutation(len(usable))[:n]:
        prompt, responses = usable[at].prompt, usable[at].responses
        originals += [(prompt, responses[int(place)].text) for place in rng.permutation(len(responses))[:each]]
    return list(dict.fromkeys(originals))


def grouped(candidates: Sequence[Candidate], grouper: Grouper, n: int | None = None) -> tuple[list[Candidate], int]:
    """One candidate for each meaning, and the number of those merged into another.

    The first of a group stands for it: survivors come before their mutations. With n, the n largest groups stay: what
    was proposed most often; the rest counts as merged in none of them. Copies of one candidate are one, whatever the
    grouper says of them.

    """
    groups: dict[str, list[int]] = {}
    for group in grouper.groups([candidate.bias for candidate in candidates]) if candidates else []:
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
    parents = [Parent(Standing(candidate, 0, None)) for candidate in _named(population)]
    varied, left_out, n_same = _varied(parents, parts, settings.variations, 0, (), rng)
    return varied, _and(exclusions, left_out.reasons, left_out.seen), n_merged + n_same


def _next(
    generations: Sequence[Generation], parts: Parts, settings: SearchSettings, rng: np.random.Generator
) -> tuple[list[Candidate], Exclusions, int]:
    """Survivors of the last generation and their mutations, one of each meaning."""
    last = generations[-1]
    parents = [
        Parent(
            standing,
            tuple(lineage(standing.candidate, generations)),
            tuple(most_telling([row for row in last.rows if row.candidate == standing.candidate.id])[:_EXAMPLES]),
        )
        for standing in last.survivors
    ]
    tried = {standing.candidate.id for generation in generations for standing in generation.standings}
    return _varied(parents, parts, settings.mutations, last.index + 1, tried, rng)


def _varied(
    parents: Sequence[Parent], parts: Parts, n_each: int, index: int, tried: Collection[str], rng: np.random.Generator
) -> tuple[list[Candidate], Exclusions, int]:
    """The parents and at most n_each mutations of every one, which generation `index` measures first; one of each meaning."""
    proposals = parts.mutator.mutate(parents, n_each, rng)
    old = [parent.standing.candidate for parent in parents]
    known = {*tried, *(candidate.id for candidate in old)}
    new: list[Candidate] = []
    left_out: Counter[str] = Counter()
    for bias, source in zip(proposals.biases, proposals.sources, strict=True):
        mutation = Candidate(bias, "mutated", index, (old[source].id,))
        if mutation.id in known:
            left_out[_TRIED] += 1
        elif sum(other.parents == mutation.parents for other in new) == n_each:
            left_out[_BEYOND] += 1
        else:
            new.append(mutation)
    population, n_merged = grouped([*old, *new], parts.grouper)
    return _named(population), _and(proposals.exclusions, left_out), n_merged


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
    rewritten = measure_candidates(population, originals, parts.rewriter, parts.reward, settings.directions)
    target = settings.populations[index + 1]
    unjudged = [
        standing(candidate, rewritten[candidate.id].rows, rewritten[candidate.id].failed) for candidate in population
    ]
    cut = cut_by_reward(unjudged, settings.reward_cut, target, math.ceil(_MIN_SHARE * len(originals)))
    rows = {name: own.rows for name, own in rewritten.items()}
    asked = [standing.candidate.id for standing in cut if standing.fate == "kept"]
    verdicts = iter(judged([row for name in asked for row in rows[name]], parts.judge))
    rows |= {name: [next(verdicts) for _ in rows[name]] for name in asked}
    seen = [standing(row.candidate, rows[row.candidate.id], row.failed, row.fate) for row in cut]
    families = families_of([*candidates_by_id(earlier).values(), *population]) if settings.families else None
    return Generation(
        index,
        tuple(select(cut_by_judge(seen, settings.judge_cut, target), target, families)),
        tuple(row for candidate in population for row in rows[candidate.id]),
        len(originals),
        Exclusions(0, {}),
        0,
    )


def _and(exclusions: Exclusions, left_out: Mapping[str, int], seen: int = 0) -> Exclusions:
    """With more that was left out, of `seen` others; 0: of the same proposals, by the search itself."""
    reasons = +(Counter(exclusions.reasons) + Counter(left_out))
    return Exclusions(exclusions.seen + seen, dict(sorted(reasons.items())))


def _named(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Names are files and words of recipes in the end: no two may be alike, nor one a built-in bias's."""
    biases = distinct_names([candidate.bias for candidate in candidates], builtin_names())
    return [replace(candidate, bias=bias) for candidate, bias in zip(candidates, biases, strict=True)]


def candidates_by_id(generations: Sequence[Generation]) -> dict[str, Candidate]:
    """Every candidate that was measured."""
    return {
        standing.candidate.id: standing.candidate for generation in generations for standing in generation.standings
    }


def cut_by_reward(standings: Sequence[Standing], share: float, at_least: int, min_rewrites: int = 1) -> list[Standing]:
    """Let go of the least rewarded, before a judge is asked; nothing is let go for its rank that the model likes.

    Gone are candidates below the `share` quantile of the rewards, or below 0 if that is lower ("Automatically Finding
    Reward Model Biases": the lowest 40%, with a threshold that is never above 0). If fewer than `at_least` would be
    left, the best `at_least` stay. Candidates with fewer than `min_rewrites` rewrites always go: the mean of one or two is
    luck. All standings come back in their order, with their fate: `kept`, `reward` or `too few rewrites`.

    """
    rewards = [standing.reward for standing in standings if standing.reward is not None and standing.n >= min_rewrites]
    if not rewards:
        return [replace(standing, fate="too few rewrites") for standing in standings]
    threshold = min(float(np.quantile(rewards, share)), 0.0)
    threshold = min([threshold, *sorted(rewards, reverse=True)[:at_least]])

    def fate(one: Standing) -> Fate:
        if one.reward is None or one.n < min_rewrites:
            return "too few rewrites"
        return "kept" if one.reward >= threshold else "reward"

    return [replace(standing, fate=fate(standing)) for standing in standings]


def cut_by_judge(standings: Sequence[Standing], share: float, at_least: int) -> list[Standing]:
    """Drop the candidates that the judge likes best; one that the judge dislikes is never dropped for its rank.

    Gone are candidates above the 1 − `share` quantile of the judge's mean preferences, or above 0.5 if that is higher
    (same paper: the worst 30%, with a threshold that is never below 0.5), as long as `at_least` stay. If the judge gave
    no verdict at all, a candidate counts as liked. Those whose fate is settled are passed on unchanged.

    """
    open_ones = [standing for standing in standings if standing.fate == "kept"]
    if not open_ones:
        return list(standings)
    preferences = [_judged(standing) for standing in open_ones]
    threshold = max(float(np.quantile(preferences, 1 - share)), 0.5)
    threshold = max([threshold, *sorted(preferences)[:at_least]])
    return [
        replace(standing, fate="judge") if standing.fate == "kept" and _judged(standing) > threshold else standing
        for standing in standings
    ]


def select(standings: Sequence[Standing], n: int, families: Mapping[str, str] | None = None) -> list[Standing]:
    """The n survivors by Pareto fronts: high reward, low preference of the judge.

    Fronts are peeled off one after another; of the front that no longer fits as a whole, the most rewarded stay. With
    families (by candidate `id`), the first of each family in this order stays before the second of any, and so on. This goes
    beyond "Automatically Finding Reward Model Biases": selected by fronts alone, variations of the few strongest crowd out
    whatever else was found. All standings come back in their order; those that do not fit have the fate `front`.

    """
    order = _by_fronts(standings)
    if families is not None:
        order = _by_turns(order, [families[standings[place].candidate.id] for place in order])
    kept = set(order[:n])
    return [
        replace(standing, fate="front") if standing.fate == "kept" and place not in kept else standing
        for place, standing in enumerate(standings)
    ]


def families_of(candidates: Iterable[Candidate]) -> dict[str, str]:
    """The family of each candidate by its `id`: the one that its line of first parents began with.

    Parents come before their children; a parent that is not among them counts as the beginning of a line.

    """
    found: dict[str, str] = {}
    for candidate in candidates:
        found[candidate.id] = (
            found.get(candidate.parents[0], candidate.parents[0]) if candidate.parents else candidate.id
        )
    return found


def pareto_fronts(points: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Places of the points, front by front; in both coordinates higher is better.

    A point is dominated by one that is at least as good in both and better in one; a front is what nothing that is left
    dominates.
    """
    left = list(range(len(points)))
    fronts: list[list[int]] = []
    while left:
        front = [at for at in left if not any(_dominates(points[other], points[at]) for other in left)]
        fronts.append(front)
        gone = set(front)
        left = [at for at in left if at not in gone]
    return fronts


def survivors(standings: Sequence[Standing]) -> list[Standing]:
    """Those that were kept, the most rewarded first."""
    return sorted(
        (standing for standing in standings if standing.fate == "kept"), key=lambda standing: -_reward(standing)
    )


def _by_fronts(standings: Sequence[Standing]) -> list[int]:
    """Places of those still kept, front by front, the most rewarded of each first."""
    places = [place for place, standing in enumerate(standings) if standing.fate == "kept"]
    fronts = pareto_fronts([(_reward(standings[place]), -_judged(standings[place])) for place in places])
    # Python's sort is stable: of equals, the earlier one comes first.
    return [
        place
        for front in fronts
        for place in sorted((places[at] for at in front), key=lambda place: -_reward(standings[place]))
    ]


def _by_turns(order: Sequence[int], families: Sequence[str]) -> list[int]:
    """The same places: the first of each family, then the second of each, and so on, all in their order."""
    seen: Counter[str] = Counter()
    turns = []
    for family in families:
        turns.append(seen[family])
        seen[family] += 1
    return [place for _, place in sorted(zip(turns, order, strict=True), key=lambda one: one[0])]


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one != other


def _reward(standing: Standing) -> float:
    return -np.inf if standing.reward is None else standing.reward


def _judged(standing: Standing) -> float:
    return 1.0 if standing.judge is None else standing.judge
