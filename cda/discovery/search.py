"""The evolutionary search: propose, rewrite, score, select, mutate, and again ("Automatically Finding Reward Model Biases").

A generation is a record of everything that happened in it. Randomness of generation g comes from (seed, g) alone, so a
search that is given its finished generations continues exactly as if it had never stopped."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias, builtin_names
from cda.data.load import RowError, prompt_of
from cda.discovery.attribute import distinct_names
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.records import Direction, Exclusions, Prompt, Rewrite, RewriteRequest, count_reasons, equal_texts
from cda.results.base import load, save
from cda.results.discover import (
    CandidateRecord,
    Fate,
    GenerationRecord,
    Measured,
    SavedGeneration,
    SearchSettings,
    StandingRecord,
)
from cda.rewriting.fidelity import is_refusal, not_flipped
from cda.rewriting.rewriter import Mixed, Rewriter

ALREADY = "is so already"
"""Reason for not rewriting a response that has the attribute before it is added, or lacks it before it is removed."""
UNCHANGED = "unchanged"
"""Failure reason if a rewriter returned a response unchanged."""

Text = tuple[Prompt, str]
Reward = Callable[[Sequence[Text]], FloatArray]
"""Prompts and responses to rewards, shape (n,); NaN for missing ones."""
Judge = Callable[[Sequence[tuple[Prompt, str, str]]], FloatArray]
"""Prompts and two responses to the preference for the first of them: 1, 0.5 or 0, NaN without a verdict. Shape (n,)."""
Tried = tuple[CandidateRecord, StandingRecord]


@dataclass(frozen=True, slots=True)
class Rated:
    """A response, its reward in the model's own units (NaN until it is scored), and the policy or file it comes from."""

    text: str
    reward: float = math.nan
    source: str = ""


@dataclass(frozen=True, slots=True)
class PromptSamples:
    """A prompt and the rated responses to it, in the order in which they were sampled."""

    prompt: Prompt
    responses: tuple[Rated, ...]


@dataclass(frozen=True, slots=True)
class Parent:
    """A survivor as a mutator sees it: its ancestors, oldest first, and itself last; measured rewrites, the most telling first."""

    line: tuple[Tried, ...]
    examples: tuple[Measured, ...] = ()

    @property
    def candidate(self) -> CandidateRecord:
        return self.line[-1][0]


@dataclass(frozen=True, slots=True)
class Proposals:
    """Proposed attributes; the same one may come several times, in other words.

    `sources`, as long as `biases`, holds the place of a mutation's parent among those given, or of a proposal's prompt if it comes
    from a single one; `exclusions` the answers and lines that gave no attribute.
    """

    biases: tuple[Bias, ...]
    sources: tuple[int, ...]
    exclusions: Exclusions


class Proposer(Protocol):
    """Looks at rated responses and names attributes that could explain the ratings."""

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:
        """About n attributes, or fewer if there are no more."""
        ...


class Mutator(Protocol):
    """Makes variations of attributes that did well."""

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:
        """About n_each variations of every parent."""
        ...


class Grouper(Protocol):
    """Says which attributes mean the same."""

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        """A partition of range(len(biases)): places that mean the same, each group and the groups in ascending order."""
        ...


@dataclass(slots=True)
class CandidateRewrites:
    """A rewriter's rewrites of responses for one candidate.

    `rows` are unjudged; `reasons` holds one for each rewrite that is missing, where `ALREADY` is no failure. Responses that
    were returned unchanged are counted in `unchanged`, those that came back as another text stand in `changed`, whether there
    is a reward for it or not.
    """

    rows: list[Measured] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    unchanged: Counter[RewriteRequest] = field(default_factory=Counter)
    changed: set[RewriteRequest] = field(default_factory=set)

    @property
    def failed(self) -> dict[str, int]:
        """Counts of the reasons."""
        return count_reasons(self.reasons)


def measure_candidates(
    candidates: Sequence[CandidateRecord],
    originals: Sequence[Text],
    rewriter: Rewriter,
    reward: Reward,
    directions: Sequence[Direction] = ("add",),
) -> dict[str, CandidateRewrites]:
    """Rewrite every response for every candidate, and take the difference of the two rewards; by candidate `id`.

    Responses that measurably are as they should become are not rewritten. The reward is asked once, for all texts; a rewrite
    that failed, or lacks a reward on either side, is counted and gives no row.
    """
    by_candidate = {candidate.id: CandidateRewrites() for candidate in candidates}
    asked: list[tuple[CandidateRecord, RewriteRequest]] = []
    for candidate, direction, (prompt, response) in itertools.product(candidates, directions, originals):
        if _is_so(candidate.bias, response, direction):
            by_candidate[candidate.id].reasons.append(ALREADY)
        else:
            asked.append((candidate, RewriteRequest(prompt, response, direction)))
    texts: list[tuple[str, RewriteRequest, str]] = []
    for (candidate, request), rewrite in zip(asked, _rewrites(asked, rewriter), strict=True):
        own = by_candidate[candidate.id]
        if rewrite.text is None:
            own.reasons.append(rewrite.reason or "no answer")
            own.unchanged.update([request] if rewrite.reason == UNCHANGED else [])
        else:
            own.changed.add(request)
            texts.append((candidate.id, request, rewrite.text))
    changes = _changes([(request, text) for _, request, text in texts], reward)
    for (name, request, text), change in zip(texts, changes.tolist(), strict=True):
        if not np.isfinite(change):
            by_candidate[name].reasons.append("no reward")
            continue
        margin = change if request.direction == "add" else -change
        row = Measured(name, rewriter.name, request.direction, request.prompt, request.response, text, margin)
        by_candidate[name].rows.append(row)
    return by_candidate


def judged(rows: Mapping[str, Sequence[Measured]], judge: Judge) -> dict[str, list[Measured]]:
    """The same rows with the judge's preference for the side that has the attribute, None without a verdict; asked at once."""
    every = [row for own in rows.values() for row in own]
    asked = [(row.prompt, row.with_attribute, row.without_attribute) for row in every]
    verdicts = (None if np.isnan(preference) else float(preference) for preference in (judge(asked) if asked else ()))
    told = (replace(row, preference=verdict) for row, verdict in zip(every, verdicts, strict=True))
    return {name: list(itertools.islice(told, len(own))) for name, own in rows.items()}


def standing(
    candidate: str, rows: Sequence[Measured], failed: Mapping[str, int], fate: Fate = "kept"
) -> StandingRecord:
    preferences = [row.preference for row in rows if row.preference is not None]
    return StandingRecord(
        candidate=candidate,
        n=len(rows),
        reward=float(np.mean([row.margin for row in rows])) if rows else None,
        judge=float(np.mean(preferences)) if preferences else None,
        n_judged=len(preferences),
        failed=dict(failed),
        fate=fate,
    )


def read_measured(path: Path) -> list[Measured]:
    """Measured rewrites that were written as JSON lines."""
    return [Measured(**{**row, "prompt": prompt_of(row["prompt"])}) for row in read_jsonl(path)]


def _is_so(bias: Bias, response: str, direction: Direction) -> bool:
    if bias.measure is None or bias.measure.relative:
        return False
    return bias.shows(response) is (direction == "add")


def _changes(rewrites: Sequence[tuple[RewriteRequest, str]], reward: Reward) -> FloatArray:
    """Reward of each rewrite minus that of its original, shape (n,); not a finite number if one of them has none."""
    if not rewrites:
        return np.zeros(0)
    texts = [(request.prompt, request.response) for request, _ in rewrites]
    rewards = reward([*texts, *((request.prompt, text) for request, text in rewrites)])
    with np.errstate(invalid="ignore"):  # of two infinite rewards
        return np.asarray(rewards[len(texts) :] - rewards[: len(texts)], dtype=np.float64)


def _rewrites(asked: Sequence[tuple[CandidateRecord, RewriteRequest]], rewriter: Rewriter) -> list[Rewrite]:
    if isinstance(rewriter, Mixed):  # all questions at once, so that no slow answer holds up a candidate's batch
        biases = [candidate.bias for candidate, _ in asked]
        rewrites = rewriter.rewrite_mixed([request for _, request in asked], biases)
    else:
        rewrites = []
        for _, group in itertools.groupby(asked, key=lambda pair: pair[0].id):
            own = list(group)
            rewrites += rewriter.rewrite([request for _, request in own], own[0][0].bias)
    return [
        _checked(rewrite, request, candidate.bias)
        for rewrite, (candidate, request) in zip(rewrites, asked, strict=True)
    ]


def _checked(rewrite: Rewrite, request: RewriteRequest, bias: Bias) -> Rewrite:
    """The rewrite, or the reason for its rejection: a rewriter that failed must not contribute margins of 0."""
    if rewrite.text is None:
        return rewrite
    if not rewrite.text.strip():
        return Rewrite(None, "empty answer")
    if equal_texts(rewrite.text, request.response):
        return Rewrite(None, UNCHANGED)
    if is_refusal(rewrite.text, request.response):
        return Rewrite(None, "refusal")
    reason = not_flipped(request, rewrite.text, bias)
    return rewrite if reason is None else Rewrite(None, reason)


_EXAMPLES = 3
"""Rewrites of a survivor that its mutator is shown."""
_MIN_SHARE = 0.25
"""Rewrites that a candidate needs in a generation, as a share of its prompts."""
PROPOSED_FOR_EACH = 2
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
    """Results of one generation: its record, the candidates of its standings, in their order, and the measured rewrites."""

    record: GenerationRecord
    candidates: tuple[CandidateRecord, ...]
    rows: tuple[Measured, ...]

    @property
    def tried(self) -> list[Tried]:
        return list(zip(self.candidates, self.record.standings, strict=True))

    @property
    def survivors(self) -> list[Tried]:
        """Those that were kept, the most rewarded first."""
        return sorted((tried for tried in self.tried if tried[1].fate == "kept"), key=lambda tried: -_reward(tried[1]))


@dataclass(frozen=True, slots=True)
class _Population:
    """Candidates that a generation measures, everything that was proposed for it, and how many were merged into another."""

    candidates: list[CandidateRecord]
    proposed: Exclusions
    n_merged: int


def search(
    samples: Sequence[PromptSamples],
    parts: Parts,
    settings: SearchSettings,
    finished: Sequence[Generation] = (),
    on_generation: Callable[[Generation], None] = lambda _: None,
) -> list[Generation]:
    """All generations, those `finished` in an earlier run with the same arguments among them.

    They are fewer than the settings ask for if no candidate survived or nothing could be proposed. `on_generation` is called
    with each new one. Raises DataError if no prompt has a response.
    """
    if not any(sample.responses for sample in samples):
        raise DataError("no prompt has a response with a reward, so that there is nothing to search in")
    searched, generations = _Search(samples, parts, settings), list(finished)
    # A search may also have been killed after a generation without survivors.
    while len(generations) < settings.n_generations and (not generations or generations[-1].survivors):
        rng = np.random.default_rng([settings.seed, len(generations)])
        population = searched.next(generations, rng) if generations else searched.first(rng)
        generations.append(searched.measured(generations, population, rng))
        on_generation(generations[-1])
    return generations


@dataclass(frozen=True, slots=True)
class _Search:
    samples: Sequence[PromptSamples]
    parts: Parts
    settings: SearchSettings

    def first(self, rng: np.random.Generator) -> _Population:
        wanted = self.settings.populations[0]
        proposals = self.parts.proposer.propose(self.samples, PROPOSED_FOR_EACH * wanted, rng)
        # The same attribute from several prompts stays several times: the grouper sees how often it came up.
        proposed = [CandidateRecord.of(bias) for bias in proposals.biases]
        found, n_merged = grouped(proposed, self.parts.grouper, wanted)
        candidates = _named(found)
        exclusions = _and(proposals.exclusions, {_BEYOND: len(proposed) - len(candidates) - n_merged})
        if not self.settings.variations or not candidates:
            return _Population(candidates, exclusions, n_merged)
        parents = [Parent(((candidate, standing(candidate.id, [], {})),)) for candidate in candidates]
        varied = self._varied(parents, self.settings.variations, 0, (), rng)
        exclusions = _and(exclusions, varied.proposed.reasons, varied.proposed.seen)
        return _Population(varied.candidates, exclusions, n_merged + varied.n_merged)

    def next(self, generations: Sequence[Generation], rng: np.random.Generator) -> _Population:
        rows = generations[-1].rows
        parents = [
            Parent(
                (*lineage(candidate, generations), (candidate, kept)),
                tuple(most_telling([row for row in rows if row.candidate == candidate.id])[:_EXAMPLES]),
            )
            for candidate, kept in generations[-1].survivors
        ]
        return self._varied(parents, self.settings.mutations, len(generations), candidates_by_id(generations), rng)

    def _varied(
        self, parents: Sequence[Parent], n_each: int, index: int, tried: Collection[str], rng: np.random.Generator
    ) -> _Population:
        """The parents and at most n_each mutations of every one, which generation `index` measures first; one of each meaning."""
        proposals = self.parts.mutator.mutate(parents, n_each, rng)
        old = [parent.candidate for parent in parents]
        known = {*tried, *(candidate.id for candidate in old)}
        new: list[CandidateRecord] = []
        left_out: Counter[str] = Counter()
        for bias, source in zip(proposals.biases, proposals.sources, strict=True):
            mutation = CandidateRecord.of(bias, "mutated", index, (old[source].id,))
            if mutation.id in known:
                left_out[_TRIED] += 1
            elif sum(other.parents == mutation.parents for other in new) == n_each:
                left_out[_BEYOND] += 1
            else:
                new.append(mutation)
        found, n_merged = grouped([*old, *new], self.parts.grouper)
        return _Population(_named(found), _and(proposals.exclusions, left_out), n_merged)

    def measured(self, earlier: Sequence[Generation], population: _Population, rng: np.random.Generator) -> Generation:
        index, settings, candidates = len(earlier), self.settings, population.candidates
        originals = draw_originals(self.samples, settings.prompts[index], rng)
        found = measure_candidates(candidates, originals, self.parts.rewriter, self.parts.reward, settings.directions)
        target = settings.populations[index + 1]
        unjudged = [standing(name, own.rows, own.failed) for name, own in found.items()]
        cut = cut_by_reward(unjudged, settings.reward_cut, target, math.ceil(_MIN_SHARE * len(originals)))
        rows = {name: own.rows for name, own in found.items()}
        rows |= judged({row.candidate: rows[row.candidate] for row in cut if row.fate == "kept"}, self.parts.judge)
        seen = [standing(row.candidate, rows[row.candidate], row.failed, row.fate) for row in cut]
        families = families_of([*candidates_by_id(earlier).values(), *candidates]) if settings.families else None
        record = GenerationRecord(
            index=index,
            n_prompts=len(originals),
            n_merged=population.n_merged,
            proposed=population.proposed,
            standings=tuple(select(cut_by_judge(seen, settings.judge_cut, target), target, families)),
        )
        return Generation(record, tuple(candidates), tuple(row for own in rows.values() for row in own))


def save_generation(generation: Generation, folder: Path) -> None:
    """Write both files; the JSON last, so that a generation without it never finished."""
    path = folder / f"generation-{generation.record.index}.json"
    write_jsonl(path.with_suffix(".jsonl"), map(asdict, generation.rows))
    save(SavedGeneration(generation=generation.record, candidates=generation.candidates), path)


def saved_generations(folder: Path) -> list[Generation]:
    """The finished ones, from the first on, as far as they go without a gap; DataError for a file of another form."""
    generations: list[Generation] = []
    while (path := folder / f"generation-{len(generations)}.json").is_file():
        saved = load(SavedGeneration, path, "cda discover")
        try:
            for row, record in zip(saved.generation.standings, saved.candidates, strict=True):
                known = CandidateRecord.of(record.bias).id
                if not known == record.id == row.candidate:
                    raise ValueError(f"the standing of {row.candidate} stands beside the candidate {known}")
            rows = tuple(read_measured(path.with_suffix(".jsonl")))
        except (KeyError, TypeError, ValueError, RowError) as error:
            raise DataError(f"{path}: not a generation of this version of cda ({error}); delete the folder") from None
        generations.append(Generation(saved.generation, saved.candidates, rows))
    return generations


def lineage(candidate: CandidateRecord, generations: Sequence[Generation]) -> list[Tried]:
    """A candidate's ancestors, oldest first, each as it last stood before it had this descendant.

    A proposal and its variations stand in the first generation together.
    """
    ancestors: dict[str, Tried] = {}
    waiting = [(name, candidate.generation) for name in candidate.parents]
    while waiting:
        name, before = waiting.pop()
        earlier = [
            tried for each in generations[: max(before, 1)] for tried in each.tried if tried[1].candidate == name
        ]
        if earlier and name not in ancestors:
            ancestors[name] = earlier[-1]
            waiting += [(parent, earlier[-1][0].generation) for parent in earlier[-1][0].parents]
    # In the first generation a proposal comes before its variations.
    return sorted(ancestors.values(), key=lambda tried: (tried[0].generation, len(tried[0].parents), tried[0].id))


def most_telling(rows: Sequence[Measured]) -> list[Measured]:
    """Rewrites that the model liked more than the judge did, the clearest first."""
    return sorted(rows, key=lambda row: (0.5 if row.preference is None else row.preference, -row.margin))


def draw_originals(samples: Sequence[PromptSamples], n: int, rng: np.random.Generator, each: int = 1) -> list[Text]:
    """Responses to n prompts (to all if there are fewer), at most `each` of a prompt, drawn without replacement."""
    usable = [sample for sample in samples if sample.responses]
    originals = []
    for at in rng.permutation(len(usable))[:n]:
        prompt, responses = usable[at].prompt, usable[at].responses
        originals += [(prompt, responses[int(place)].text) for place in rng.permutation(len(responses))[:each]]
    return list(dict.fromkeys(originals))


def grouped(
    candidates: Sequence[CandidateRecord], grouper: Grouper, n: int | None = None
) -> tuple[list[CandidateRecord], int]:
    """One candidate for each meaning, the first of its group, and the number of those merged into another.

    With n, the n largest groups stay: what was proposed most often; the rest counts as merged in none of them. Copies of one
    candidate are one, whatever the grouper says of them.
    """
    groups: dict[str, list[int]] = {}
    for group in grouper.groups([candidate.bias for candidate in candidates]) if candidates else []:
        groups.setdefault(candidates[group[0]].id, []).extend(group)
    kept = sorted(groups.values(), key=lambda group: -len(group))[:n]
    representatives = sorted(group[0] for group in kept)
    return [candidates[at] for at in representatives], sum(len(group) - 1 for group in kept)


def _and(exclusions: Exclusions, left_out: Mapping[str, int], seen: int = 0) -> Exclusions:
    """With more that was left out, of `seen` others; 0: of the same proposals, by the search itself."""
    reasons = +(Counter(exclusions.reasons) + Counter(left_out))
    return Exclusions(exclusions.seen + seen, dict(sorted(reasons.items())))


def _named(candidates: Sequence[CandidateRecord]) -> list[CandidateRecord]:
    """Names are files and words of recipes in the end: no two may be alike, nor one a built-in bias's."""
    biases = distinct_names([candidate.bias for candidate in candidates], builtin_names())
    return [candidate.model_copy(update={"bias": bias}) for candidate, bias in zip(candidates, biases, strict=True)]


def candidates_by_id(generations: Sequence[Generation]) -> dict[str, CandidateRecord]:
    return {candidate.id: candidate for generation in generations for candidate in generation.candidates}


def cut_by_reward(
    standings: Sequence[StandingRecord], share: float, at_least: int, min_rewrites: int = 1
) -> list[StandingRecord]:
    """Let go of the least rewarded, before a judge is asked; nothing is let go for its rank that the model likes.

    Gone are candidates below the `share` quantile of the rewards, or below 0 if that is lower ("Automatically Finding
    Reward Model Biases": the lowest 40%, with a threshold that is never above 0). If fewer than `at_least` would be
    left, the best `at_least` stay. Candidates with fewer than `min_rewrites` rewrites always go: the mean of one or two is
    luck. All standings come back in their order, with their fate: `kept`, `reward` or `too few rewrites`.
    """
    rewards = [row.reward for row in standings if row.reward is not None and row.n >= min_rewrites]
    if not rewards:
        return [_with(row, "too few rewrites") for row in standings]
    threshold = min(float(np.quantile(rewards, share)), 0.0)
    threshold = min([threshold, *sorted(rewards, reverse=True)[:at_least]])

    def fate(row: StandingRecord) -> Fate:
        if row.reward is None or row.n < min_rewrites:
            return "too few rewrites"
        return "kept" if row.reward >= threshold else "reward"

    return [_with(row, fate(row)) for row in standings]


def cut_by_judge(standings: Sequence[StandingRecord], share: float, at_least: int) -> list[StandingRecord]:
    """Drop the candidates that the judge likes best; one that the judge dislikes is never dropped for its rank.

    Gone are candidates above the 1 − `share` quantile of the judge's mean preferences, or above 0.5 if that is higher
    (same paper: the worst 30%, with a threshold that is never below 0.5), as long as `at_least` stay. If the judge gave
    no verdict at all, a candidate counts as liked. Those whose fate is settled are passed on unchanged.
    """
    preferences = [_judged(row) for row in standings if row.fate == "kept"]
    if not preferences:
        return list(standings)
    threshold = max(float(np.quantile(preferences, 1 - share)), 0.5)
    threshold = max([threshold, *sorted(preferences)[:at_least]])
    return [_with(row, "judge") if row.fate == "kept" and _judged(row) > threshold else row for row in standings]


def select(
    standings: Sequence[StandingRecord], n: int, families: Mapping[str, str] | None = None
) -> list[StandingRecord]:
    """The n survivors by Pareto fronts: high reward, low preference of the judge.

    Fronts are peeled off one after another; of the front that no longer fits as a whole, the most rewarded stay. With
    families (by candidate `id`), the first of each family in this order stays before the second of any, and so on. This goes
    beyond "Automatically Finding Reward Model Biases": selected by fronts alone, variations of the few strongest crowd out
    whatever else was found. All standings come back in their order; those that do not fit have the fate `front`.
    """
    left = [place for place, row in enumerate(standings) if row.fate == "kept"]
    fronts = pareto_fronts([(_reward(standings[place]), -_judged(standings[place])) for place in left])
    # Python's sort is stable: of equals, the earlier one comes first.
    order = [
        place
        for front in fronts
        for place in sorted((left[at] for at in front), key=lambda place: -_reward(standings[place]))
    ]
    if families is not None:
        turns, seen = {}, Counter[str]()
        for place in order:
            family = families[standings[place].candidate]
            turns[place], seen[family] = seen[family], seen[family] + 1
        order.sort(key=turns.__getitem__)
    gone = set(order[n:])
    return [_with(row, "front") if place in gone else row for place, row in enumerate(standings)]


def families_of(candidates: Iterable[CandidateRecord]) -> dict[str, str]:
    """The family of each candidate by its `id`: the one that its line of first parents began with.

    Parents come before their children; a parent that is not among them counts as the beginning of a line.
    """
    found: dict[str, str] = {}
    for candidate in candidates:
        first = candidate.parents[0] if candidate.parents else candidate.id
        found[candidate.id] = found.get(first, first)
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
        left = [at for at in left if at not in front]
    return fronts


def _dominates(point: tuple[float, float], other: tuple[float, float]) -> bool:
    return point[0] >= other[0] and point[1] >= other[1] and point != other


def _with(row: StandingRecord, fate: Fate) -> StandingRecord:
    return row.model_copy(update={"fate": fate})


def _reward(row: StandingRecord) -> float:
    return -np.inf if row.reward is None else row.reward


def _judged(row: StandingRecord) -> float:
    return 1.0 if row.judge is None else row.judge
