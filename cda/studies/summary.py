"""What the votes say: majorities, agreement, who differs, position, time; everything with n and an interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from cda.errors import DataError
from cda.records import Preference
from cda.results.base import Estimate, Missing
from cda.results.skew import Agreement, Leading
from cda.results.study import Participant, Position, Rules, StudyGroup, StudyItem, StudyResult, Time
from cda.stats.proportions import exact_change_test, share
from cda.stats.votes import WORDS, Counts, agreement, count_votes, leading_words, majority
from cda.studies.answers import Screened, Vote
from cda.studies.design import Item, Study

FAST_S = 3.0
"""Answers below this are counted as fast; nobody reads two answers in that time."""


def summary(study: Study, found: Screened, rules: Rules, blank: int) -> StudyResult:
    """The study's result.

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
    return StudyResult(
        study=study.fingerprint,
        kind=study.kind,
        judgements_wanted=study.judgements,
        rules=rules,
        n_items=len(contrasts),
        n_votes=len(found.votes),
        n_blank=blank,
        n_check_answers=found.checks,
        exclusions=found.exclusions,
        all=_group(contrasts, by_item, study.seed),
        biases={name: _group([one for one in contrasts if one.bias == name], by_item, study.seed) for name in biases},
        position=_position(found.votes),
        time=_time(found.votes),
        participants=tuple(_participants(study, found, by_item)),
        silent=tuple(code for code in study.participants if code not in found.attention),
        items=tuple(_item(one, by_item[one.id], study.judgements) for one in contrasts),
    )


def _group(items: Sequence[Item], by_item: Mapping[str, Sequence[Vote]], seed: int) -> StudyGroup:
    """Majorities and agreement on some items."""
    voted = [one for one in items if by_item[one.id]]
    words = [[vote.vote for vote in by_item[one.id]] for one in voted]
    flat = [word for mine in words for word in mine]
    majorities: dict[Leading, int] = {}
    skew: Estimate | Missing = Missing(reason="no votes")
    agreed: Agreement | Missing = Missing(reason="no votes")
    if voted:
        counts, prompts = count_votes(words), [one.prompt_id for one in voted]
        leading = leading_words(counts)
        majorities = {**{word: leading.count(word) for word in WORDS}, "split": leading.count("split")}
        skew = _human_skew(counts, prompts)
        try:
            agreed = agreement(counts, prompts, np.random.default_rng(seed))
        except DataError as problem:
            agreed = Missing(reason=str(problem))
    return StudyGroup(
        n_items=len(items),
        n_voted=len(voted),
        votes={word: flat.count(word) for word in WORDS},
        majorities=majorities,
        skew=skew,
        agreement=agreed,
    )


def _human_skew(counts: Counts, prompts: Sequence[str]) -> Estimate | Missing:
    try:
        target = majority(counts, "drop")
    except DataError as problem:
        return Missing(reason=str(problem))
    return share(target.target[target.used], [one for one, used in zip(prompts, target.used, strict=True) if used])


def _position(votes: Sequence[Vote]) -> Position | None:
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
    return Position(share_a=share(hits, items), p_value=test.p_value, n_items=len(set(items)))


def _time(votes: Sequence[Vote]) -> Time:
    known = [one.seconds for one in votes if one.seconds is not None]
    return Time(
        n_known=len(known),
        median_s=median(known) if known else None,
        n_fast=sum(one < FAST_S for one in known),
        fast_s=FAST_S,
    )


def _participants(study: Study, found: Screened, by_item: Mapping[str, Sequence[Vote]]) -> Iterator[Participant]:
    """Everybody whose answers were read, with votes or without."""
    mine: dict[str, list[Vote]] = {code: [] for code in found.attention}
    for vote in found.votes:
        mine[vote.participant].append(vote)
    for code, votes in mine.items():
        yield Participant(
            **dict(_time(votes)),
            participant=code,
            given=sum(not study.items[one.item].is_check for one in study.participants.get(code, ())) or None,
            votes=len(votes),
            ties=sum(one.vote == "tie" for one in votes),
            a=sum(one.choice == "A" for one in votes),
            justified=sum(bool(one.justification.strip()) for one in votes),
            attention=found.attention[code],
            disagrees=_disagrees(votes, by_item, study),
        )


def _disagrees(votes: Sequence[Vote], by_item: Mapping[str, Sequence[Vote]], study: Study) -> Estimate | None:
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
    return share(np.array(hits, dtype=np.float64), prompts) if hits else None


def _item(item: Item, votes: Sequence[Vote], wanted: int) -> StudyItem:
    words: list[Preference] = [one.vote for one in votes]
    return StudyItem(
        id=str(item.contrast),
        item=item.id,
        bias=str(item.bias),
        prompt=item.prompt,
        votes={word: words.count(word) for word in WORDS},
        majority=leading_words(count_votes([words]))[0] if words else "no votes",
        missing=max(0, wanted - len(words)),
    )
