"""Rated responses, candidates with their measured rewrites, and the protocols of those who propose, vary and group them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.data.load import prompt_of
from cda.files.jsonl import read_jsonl
from cda.records import Direction, Exclusions, Prompt, Rewrite, RewriteRequest, count_reasons, equal_texts
from cda.results.discover import CandidateRecord, Fate, Measured, StandingRecord
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
