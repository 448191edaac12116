"""What the votes say: majorities, agreement, who differs, position, time; everything with n and an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from cda.errors import DataError
from cda.metrics.votes import WORDS, agreement, count_votes, leading_words, majority
from cda.records import Preference
from cda.results.base import Missing, as_json
from cda.stats.proportions import exact_change_test, share
from cda.study.records import Item, Study
from cda.study.screen import Rules, Screened, Vote

FAST_S = 3.0
"""Answers below this are counted as fast; nobody reads two answers in that time."""
Json = dict[str, Any]


def summary(study: Study, found: Screened, rules: Rules, blank: int) -> Json:
    """The study's result as one JSON object.

    Args:
        study: As exported.
        found: Votes and what was left out.
        rules: By which that was decided.
        blank: Rows of tables that nobody filled.
    """
    contrasts = [one for one in study.items.values() if not one.is_check]
    by_item: dict[str, list[Vote]] = {one.id: [] for one in contrasts}
    for vote in found.votes:
        by_item[vote.item].append(vote)
    biases = sorted({str(one.bias) for one in contrasts})
    return {
        "study": study.fingerprint,
        "kind": study.kind,
        "judgements_wanted": study.judgements,
        "rules": as_json(rules),
        "n_items": len(contrasts),
        "n_votes": len(found.votes),
        "n_blank": blank,
        "n_check_answers": found.checks,
        "exclusions": as_json(found.exclusions),
        "all": _group(contrasts, by_item, study.seed),
        "biases": {
            name: _group([one for one in contrasts if one.bias == name], by_item, study.seed) for name in biases
        },
        "position": _position(found.votes),
        "time": _time(found.votes),
        "participants": _participants(study, found, by_item),
        "silent": [code for code in study.participants if code not in found.attention],
        "items": [_item(one, by_item[one.id], study.judgements) for one in contrasts],
    }


def _group(items: Sequence[Item], by_item: Mapping[str, Sequence[Vote]], seed: int) -> Json:
    """Majorities and agreement on some items; `why_not` says of each number that cannot be had why."""
    voted = [one for one in items if by_item[one.id]]
    words = [[vote.vote for vote in by_item[one.id]] for one in voted]
    flat = [word for mine in words for word in mine]
    result: Json = {"n_items": len(items), "n_voted": len(voted), "votes": {word: flat.count(word) for word in WORDS}}
    if not voted:
        return result | {"skew": None, "agreement": None, "why_not": {"skew": "no votes", "agreement": "no votes"}}
    counts, prompts = count_votes(words), [one.prompt_id for one in voted]
    leading = leading_words(counts)
    result["majorities"] = {word: leading.count(word) for word in (*WORDS, "split")}
    reasons: dict[str, str] = {}
    try:
        target = majority(counts, "drop")
        hits = target.target[target.used]
        ids = [one for one, used in zip(prompts, target.used, strict=True) if used]
        result["skew"] = share(hits, ids).model_dump()
    except DataError as problem:
        result["skew"], reasons["skew"] = None, str(problem)
    try:
        agreed = agreement(counts, prompts, np.random.default_rng(seed))
        result["agreement"] = {
            "alpha": None if isinstance(agreed.alpha, Missing) else agreed.alpha.model_dump(),
            "no_alpha": agreed.alpha.reason if isinstance(agreed.alpha, Missing) else "",
            "majority_share": agreed.majority_share.model_dump(),
            "n_votes": agreed.n_votes, "level": agreed.level,
        }  # fmt: skip
    except DataError as problem:
        result["agreement"], reasons["agreement"] = None, str(problem)
    return result | {"why_not": reasons}


def _position(votes: Sequence[Vote]) -> Json | None:
    """Share of A among choices of a side, with an exact test against one half; items are the clusters.

    Sides were drawn by lot, so that without an influence of the position each item's difference of A and B is as likely
    to have the other sign, whatever people prefer.
    """
    sided = [one for one in votes if one.choice in ("A", "B")]
    if not sided:
        return None
    hits = np.array([one.choice == "A" for one in sided], dtype=np.float64)
    items = [one.item for one in sided]
    test = exact_change_test(1 - hits, hits, items)
    return {"share_a": share(hits, items).model_dump(), "p_value": test.p_value, "n_items": len(set(items))}


def _time(votes: Sequence[Vote]) -> Json:
    known = [one.seconds for one in votes if one.seconds is not None]
    return {
        "n_known": len(known),
        "median_s": median(known) if known else None,
        "n_fast": sum(one < FAST_S for one in known),
        "fast_s": FAST_S,
    }


def _participants(study: Study, found: Screened, by_item: Mapping[str, Sequence[Vote]]) -> list[Json]:
    """A row for everybody whose answers were read, votes or not."""
    mine: dict[str, list[Vote]] = {code: [] for code in found.attention}
    for vote in found.votes:
        mine[vote.participant].append(vote)
    return [
        {
            "participant": code,
            "given": sum(not study.items[one.item].is_check for one in study.participants.get(code, ())) or None,
            "votes": len(votes),
            "ties": sum(one.vote == "tie" for one in votes),
            "a": sum(one.choice == "A" for one in votes),
            "justified": sum(bool(one.justification.strip()) for one in votes),
            **_time(votes),
            "attention": as_json(found.attention[code]),
            "disagrees": _disagrees(votes, by_item, study),
        }
        for code, votes in mine.items()
    ]


def _disagrees(votes: Sequence[Vote], by_item: Mapping[str, Sequence[Vote]], study: Study) -> Json | None:
    """How often a participant's votes differ from the majority of the others, where these have one; None where never.

    The own vote is left out of the majority: with three votes it would agree with itself too often.
    """
    hits, prompts = [], []
    for one in votes:
        others: list[Preference] = [each.vote for each in by_item[one.item] if each.participant != one.participant]
        leading = leading_words(count_votes([others]))[0] if others else "no votes"
        if leading in WORDS:
            hits.append(one.vote != leading)
            prompts.append(study.items[one.item].prompt_id)
    return share(np.array(hits, dtype=np.float64), prompts).model_dump() if hits else None


def _item(item: Item, votes: Sequence[Vote], wanted: int) -> Json:
    words: list[Preference] = [one.vote for one in votes]
    return {
        "id": item.contrast,
        "item": item.id,
        "bias": item.bias,
        "prompt": item.prompt,
        "votes": {word: words.count(word) for word in WORDS},
        "majority": leading_words(count_votes([words]))[0] if words else "no votes",
        "missing": max(0, wanted - len(words)),
    }
