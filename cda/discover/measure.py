"""Candidates to measured rewrites: rewrite responses, score both sides, ask the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cda.biases import Bias
from cda.discover.protocols import Judge, Reward
from cda.discover.records import Candidate, Measured, Standing
from cda.records import Direction, Prompt, Rewrite, RewriteRequest, count_reasons
from cda.rewrite.fidelity import is_refusal
from cda.rewrite.protocol import Mixed, Rewriter

Original = tuple[Prompt, str]
ALREADY = "is so already"
"""Reason for not rewriting a response that has the attribute before it is added, or lacks it before it is removed."""
Fate = Literal["kept", "no rewrites", "reward", "judge", "front"]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rewriter made of responses, for several candidates.

    Attributes:
        rows: By candidate `id`, in the order of the responses; without verdicts of a judge.
        failed: By candidate `id`, reasons and counts of the rewrites that are missing; `ALREADY` is no failure.
    """

    rows: Mapping[str, tuple[Measured, ...]]
    failed: Mapping[str, Mapping[str, int]]


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
        reward: Asked once, for all texts.
        directions: `add` the attribute, `remove` it, or both.
    """
    reasons: dict[str, list[str]] = {one.id: [] for one in candidates}
    asked: list[tuple[Candidate, RewriteRequest]] = []
    for candidate in candidates:
        for direction in directions:
            for prompt, response in originals:
                if _is_so(candidate.bias, response, direction):
                    reasons[candidate.id].append(ALREADY)
                else:
                    asked.append((candidate, RewriteRequest(prompt, response, direction)))
    rewrites = _rewrites(asked, rewriter)
    texts = [(request.prompt, request.response) for _, request in asked]
    made = [(request.prompt, found.text) for (_, request), found in zip(asked, rewrites, strict=True) if found.text]
    before = reward(texts) if texts else np.zeros(0)
    after = iter(reward(made) if made else np.zeros(0))
    rows: dict[str, list[Measured]] = {one.id: [] for one in candidates}
    for (candidate, request), found, reward_before in zip(asked, rewrites, before, strict=True):
        if found.text is None:
            reasons[candidate.id].append(found.reason or "no answer")
            continue
        change = float(next(after) - reward_before)
        if np.isnan(change):
            reasons[candidate.id].append("no reward")
            continue
        margin = change if request.direction == "add" else -change
        rows[candidate.id].append(
            Measured(
                candidate.id,
                rewriter.name,
                request.direction,
                request.prompt,
                request.response,
                found.text,
                margin,
            )
        )
    return Rewritten(
        {name: tuple(found) for name, found in rows.items()},
        {name: count_reasons(found) for name, found in reasons.items()},
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
        Rewrite(None, "refusal") if one.text is not None and is_refusal(one.text, request.response) else one
        for one, request in zip(found, requests, strict=True)
    ]
