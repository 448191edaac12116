"""Candidates to measured rewrites: rewrite responses, score both sides, ask the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

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
"""Reason of a rewriter that handed a response back as it was."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rewriter made of responses, for several candidates.

    Attributes:
        rows: By candidate `id`, in the order of the responses; without verdicts of a judge.
        failed: By candidate `id`, reasons and counts of the rewrites that are missing; `ALREADY` is no failure.
        unchanged: By candidate `id`, the responses that were handed back as they were, and how often; `failed` counts
            them, too.
        changed: By candidate `id`, the responses that came back as another text, be there a reward for it or not.
    """

    rows: Mapping[str, tuple[Measured, ...]]
    failed: Mapping[str, Mapping[str, int]]
    unchanged: Mapping[str, Mapping[RewriteRequest, int]]
    changed: Mapping[str, Set[RewriteRequest]]


def measured(
    candidates: Sequence[Candidate],
    originals: Sequence[Original],
    rewriter: Rewriter,
    reward: Reward,
    directions: Sequence[Direction] = ("add",),
) -> Rewritten:
    """Rewrite every response for every candidate, and take the difference of the two rewards.

    Args:
        candidates: Distinct ones.
        originals: Prompts and responses. Where the attribute can be measured, those that are as they should become are
            not rewritten.
        rewriter: Its failures and refusals are counted, and give no row.
        reward: Asked once, for all texts; a rewrite without a reward on either side is counted, and gives no row.
        directions: `add` the attribute, `remove` it, or both.
    """
    reasons: dict[str, list[str]] = {one.id: [] for one in candidates}
    unchanged: dict[str, Counter[RewriteRequest]] = {one.id: Counter() for one in candidates}
    changed: dict[str, set[RewriteRequest]] = {one.id: set() for one in candidates}
    asked: list[tuple[Candidate, RewriteRequest]] = []
    for candidate in candidates:
        for direction in directions:
            for prompt, response in originals:
                if _is_so(candidate.bias, response, direction):
                    reasons[candidate.id].append(ALREADY)
                else:
                    asked.append((candidate, RewriteRequest(prompt, response, direction)))
    made: list[tuple[Candidate, RewriteRequest, str]] = []
    for (candidate, request), found in zip(asked, _rewrites(asked, rewriter), strict=True):
        if found.text is None:
            reasons[candidate.id].append(found.reason or "no answer")
            unchanged[candidate.id].update([request] if found.reason == UNCHANGED else [])
        else:
            made.append((candidate, request, found.text))
            changed[candidate.id].add(request)
    rows: dict[str, list[Measured]] = {one.id: [] for one in candidates}
    changes = _changes([(request, text) for _, request, text in made], reward)
    for (candidate, request, text), change in zip(made, changes, strict=True):
        if not np.isfinite(change):
            reasons[candidate.id].append("no reward")
            continue
        margin = float(change) if request.direction == "add" else -float(change)
        rows[candidate.id].append(
            Measured(
                candidate.id,
                rewriter.name,
                request.direction,
                request.prompt,
                request.response,
                text,
                margin,
            )
        )
    return Rewritten(
        {name: tuple(found) for name, found in rows.items()},
        {name: count_reasons(found) for name, found in reasons.items()},
        unchanged,
        changed,
    )


def judged(rows: Sequence[Measured], judge: Judge) -> list[Measured]:
    """The same rows with the judge's preference for the side that has the attribute; None where it gave no verdict."""
    if not rows:
        return []
    found = judge([(row.prompt, row.with_attribute, row.without_attribute) for row in rows])
    return [
        replace(row, preference=None if np.isnan(preference) else float(preference))
        for row, preference in zip(rows, found, strict=True)
    ]


def standing(
    candidate: Candidate, rows: Sequence[Measured], failed: Mapping[str, int], fate: Fate = "kept"
) -> Standing:
    """Where a candidate stands by its rows."""
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


def _changes(made: Sequence[tuple[RewriteRequest, str]], reward: Reward) -> FloatArray:
    """Reward of each rewrite minus that of its original, shape (n,); not a finite number where one of them has none."""
    if not made:
        return np.zeros(0)
    texts = [(request.prompt, request.response) for request, _ in made]
    rewards = reward([*texts, *((request.prompt, text) for request, text in made)])
    with np.errstate(invalid="ignore"):  # of two infinite rewards
        return np.asarray(rewards[len(made) :] - rewards[: len(made)], dtype=np.float64)


def _rewrites(asked: Sequence[tuple[Candidate, RewriteRequest]], rewriter: Rewriter) -> list[Rewrite]:
    requests = [request for _, request in asked]
    if isinstance(rewriter, Mixed):  # all questions at once, so that no slow answer holds up a candidate's batch
        found = rewriter.rewrite_mixed(requests, [candidate.bias for candidate, _ in asked])
    else:
        found = []
        start = 0
        while start < len(asked):
            end = start
            while end < len(asked) and asked[end][0] is asked[start][0]:
                end += 1
            found += rewriter.rewrite(requests[start:end], asked[start][0].bias)
            start = end
    return [
        _checked(rewrite, request, candidate.bias) for rewrite, (candidate, request) in zip(found, asked, strict=True)
    ]


def _checked(found: Rewrite, request: RewriteRequest, bias: Bias) -> Rewrite:
    """The rewrite, or the reason why it is none: a rewriter that did not do what it was asked must not bring margins of 0."""
    if found.text is None:
        return found
    if not found.text.strip():
        return Rewrite(None, "empty answer")
    if equal_texts(found.text, request.response):
        return Rewrite(None, UNCHANGED)
    if is_refusal(found.text, request.response):
        return Rewrite(None, "refusal")
    reason = not_flipped(request, found.text, bias)
    return found if reason is None else Rewrite(None, reason)
