"""Candidates to measured rewrites: rewrite responses, score both sides, ask the judge."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.records import Candidate, Judge, Reward, Standing
from cda.records import Direction, Prompt, Rewrite, RewriteRequest, count_reasons, equal_texts
from cda.results.discover import Fate, Measured
from cda.rewriting.fidelity import is_refusal, not_flipped
from cda.rewriting.rewriter import Mixed, Rewriter

Original = tuple[Prompt, str]
ALREADY = "is so already"
"""Reason for not rewriting a response that has the attribute before it is added, or lacks it before it is removed."""
UNCHANGED = "unchanged"
"""Failure reason if a rewriter returned a response unchanged."""


@dataclass(slots=True)
class CandidateRewrites:
    """A rewriter's rewrites of responses for one candidate.

    Attributes:
        rows: In the order of the responses; without verdicts of a judge.
        reasons: Why rewrites are missing, one for each; `ALREADY` is no failure.
        unchanged: Responses that were returned unchanged, and their counts; `reasons` holds them, too.
        changed: Responses that came back as another text, whether there is a reward for it or not.
    """

    rows: list[Measured] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    unchanged: Counter[RewriteRequest] = field(default_factory=Counter)
    changed: set[RewriteRequest] = field(default_factory=set)

    @property
    def failed(self) -> dict[str, int]:
        """Reasons and counts of the rewrites that are missing."""
        return count_reasons(self.reasons)


def measure_candidates(
    candidates: Sequence[Candidate],
    originals: Sequence[Original],
    rewriter: Rewriter,
    reward: Reward,
    directions: Sequence[Direction] = ("add",),
) -> dict[str, CandidateRewrites]:
    """Rewrite every response for every candidate, and take the difference of the two rewards.

    Args:
        candidates: Distinct ones.
        originals: Prompts and responses. If the attribute can be measured, those that are as they should become are
            not rewritten.
        rewriter: Its failures and refusals are counted, and give no row.
        reward: Asked once, for all texts; a rewrite without a reward on either side is counted, and gives no row.
        directions: `add` the attribute, `remove` it, or both.

    Returns:
        By candidate `id`.
    """
    by_candidate = {candidate.id: CandidateRewrites() for candidate in candidates}
    asked: list[tuple[Candidate, RewriteRequest]] = []
    for candidate in candidates:
        for direction in directions:
            for prompt, response in originals:
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


def judged(rows: Sequence[Measured], judge: Judge) -> list[Measured]:
    """The same rows with the judge's preference for the side that has the attribute; None without a verdict."""
    if not rows:
        return []
    preferences = judge([(row.prompt, row.with_attribute, row.without_attribute) for row in rows])
    return [
        replace(row, preference=None if np.isnan(preference) else float(preference))
        for row, preference in zip(rows, preferences, strict=True)
    ]


def standing(
    candidate: Candidate, rows: Sequence[Measured], failed: Mapping[str, int], fate: Fate = "kept"
) -> Standing:
    """The standing of a candidate by its rows."""
    preferences = [row.preference for row in rows if row.preference is not None]
    return Standing(
        candidate,
        len(rows),
        float(np.mean([row.margin for row in rows])) if rows else None,
        float(np.mean(preferences)) if preferences else None,
        len(preferences),
        dict(failed),
        fate,
    )


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


def _rewrites(asked: Sequence[tuple[Candidate, RewriteRequest]], rewriter: Rewriter) -> list[Rewrite]:
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
