"""`cda study import`: people's answers become votes for an audit, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from statistics import median

import numpy as np

from cda.errors import DataError, RunError
from cda.files.jsonl import read_json, write_jsonl, write_text
from cda.files.paths import is_a_file
from cda.inert import inert
from cda.launch import say
from cda.report.page import render_page
from cda.results.base import Estimate, Missing, or_missing, save
from cda.results.skew import Leading
from cda.results.study import Participant, Position, Rules, StudyGroup, StudyItem, StudyResult, Time
from cda.stats.proportions import exact_change_test, wilson_share
from cda.stats.votes import WORDS, agreement, count_votes, leading_words, majority
from cda.studies.answers import Screened, Vote, read_answers, screened
from cda.studies.design import Item, Study
from cda.studies.forms import study_of
from cda.studies.page import LEADING, study_page, study_text

VOTES = "votes.jsonl"
FAST_S = 3.0
"""Seconds below which an answer counts as fast; reading two answers takes longer."""


def import_study(folder: Path, files: Sequence[Path], out: Path | None, rules: Rules) -> StudyResult:
    """Write votes (`id, vote` and who gave them), and a summary as JSON and as a page next to them; return the summary."""
    if not all(is_a_file(folder / name) for name in ("assignments.json", "key.json")):
        raise DataError(f"{folder}: no study; assignments.json and key.json of `cda study export` have to be there")
    study = study_of(read_json(folder / "assignments.json"), read_json(folder / "key.json"), str(folder))
    if not files:
        raise DataError("no result files given: results of the page, exports of Label Studio, or filled tables")
    answers, n_blank = read_answers(files, study)
    kept = screened(study, answers, rules)
    result = summarize_study(study, kept, rules, n_blank)
    votes = out or folder / VOTES
    if votes.suffix != ".jsonl":
        raise RunError(f"--out {votes}: votes are written as JSON lines; give a name that ends in .jsonl")
    page = votes.with_name(f"{votes.stem}.summary.html")
    rows = [
        {"id": study.items[vote.item].contrast, "vote": vote.vote, "participant": vote.participant,
         "seconds": vote.seconds, "justification": vote.justification}
        for vote in kept.votes
    ]  # fmt: skip
    try:
        votes.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(votes, rows)
        save(result, votes.with_name(f"{votes.stem}.summary.json"))
        write_text(page, render_page(study_page(result)))
    except OSError as error:
        why = f"cannot be written ({error.strerror or error})"
        raise RunError(f"{votes}: {why}. Choose another place with --out") from None
    where = f"Votes: {votes}, for `cda audit MODEL --bias BIAS --pairs CONTRASTS --votes {votes}`"
    say("\n".join([study_text(result), inert(where), inert(f"Summary: {page}")]))
    return result


def summarize_study(study: Study, kept: Screened, rules: Rules, n_blank: int) -> StudyResult:
    """Majorities, agreement, who differs, position and time; `n_blank` rows of tables were not filled."""
    contrasts = study.contrasts
    by_item: dict[str, list[Vote]] = {item.id: [] for item in contrasts}
    for vote in kept.votes:
        by_item[vote.item].append(vote)
    biases = sorted({str(item.bias) for item in contrasts})
    return StudyResult(
        study=study.fingerprint,
        kind=study.kind,
        judgements_wanted=study.judgements,
        rules=rules,
        n_items=len(contrasts),
        n_votes=len(kept.votes),
        n_blank=n_blank,
        n_check_answers=kept.checks,
        exclusions=kept.exclusions,
        all=_group(contrasts, by_item, study.seed),
        biases={
            name: _group([item for item in contrasts if item.bias == name], by_item, study.seed) for name in biases
        },
        position=_position(kept.votes),
        time=_time(kept.votes),
        participants=tuple(_participants(study, kept, by_item)),
        silent=tuple(code for code in study.participants if code not in kept.attention),
        items=tuple(_item(item, by_item[item.id], study.judgements) for item in contrasts),
    )


def _group(items: Sequence[Item], by_item: Mapping[str, Sequence[Vote]], seed: int) -> StudyGroup:
    voted = [item for item in items if by_item[item.id]]
    words, prompts = [[vote.vote for vote in by_item[item.id]] for item in voted], [item.prompt_id for item in voted]
    every_vote = [word for own in words for word in own]
    leading = leading_words(count_votes(words)) if voted else []
    none = Missing(reason="no votes")

    def skew() -> Estimate:
        target = majority(count_votes(words), "drop")
        return wilson_share(target.target[target.used], list(compress(prompts, target.used)))

    return StudyGroup(
        n_items=len(items),
        n_voted=len(voted),
        votes={word: every_vote.count(word) for word in WORDS},
        majorities={word: leading.count(word) for word in LEADING} if voted else {},
        skew=or_missing(skew) if voted else none,
        agreement=or_missing(partial(agreement, count_votes(words), prompts, np.random.default_rng(seed)))
        if voted
        else none,
    )


def _position(votes: Sequence[Vote]) -> Position | None:
    """Share of A among choices of a side, with an exact test against one half; items are the clusters.

    Sides were drawn by lot, so that without an influence of the position each item's difference of A and B is as likely
    to have the other sign, whatever people prefer.
    """
    sided = [vote for vote in votes if vote.choice in ("A", "B")]
    if not sided:
        return None
    hits = np.array([vote.choice == "A" for vote in sided], dtype=np.float64)
    items = [vote.item for vote in sided]
    test = exact_change_test(1 - hits, hits, items)
    return Position(share_a=wilson_share(hits, items), p_value=test.p_value, n_items=len(set(items)))


def _time(votes: Sequence[Vote]) -> Time:
    known = [vote.seconds for vote in votes if vote.seconds is not None]
    n_fast = sum(seconds < FAST_S for seconds in known)
    return Time(n_known=len(known), median_s=median(known) if known else None, n_fast=n_fast, fast_s=FAST_S)


def _participants(study: Study, kept: Screened, by_item: Mapping[str, Sequence[Vote]]) -> Iterator[Participant]:
    """All participants whose answers were read, with votes or without."""
    for code, attention in kept.attention.items():
        votes = [vote for vote in kept.votes if vote.participant == code]
        given = [study.items[shown.item] for shown in study.participants.get(code, ())]
        yield Participant(
            **dict(_time(votes)),
            participant=code,
            given=sum(not item.is_check for item in given) or None,
            votes=len(votes),
            ties=sum(vote.vote == "tie" for vote in votes),
            a=sum(vote.choice == "A" for vote in votes),
            justified=sum(bool(vote.justification.strip()) for vote in votes),
            attention=attention,
            disagrees=_disagrees(votes, by_item, study),
        )


def _disagrees(votes: Sequence[Vote], by_item: Mapping[str, Sequence[Vote]], study: Study) -> Estimate | None:
    """Share of a participant's votes that differ from the majority of the others; None if these never have one.

    The own vote is left out of the majority: with three votes it would agree with itself too often.
    """
    hits, prompts = [], []
    for vote in votes:
        leading = _leading([other for other in by_item[vote.item] if other.participant != vote.participant])
        if leading in WORDS:
            hits.append(vote.vote != leading)
            prompts.append(study.items[vote.item].prompt_id)
    return wilson_share(np.array(hits, dtype=np.float64), prompts) if hits else None


def _leading(votes: Sequence[Vote]) -> Leading:
    return leading_words(count_votes([[vote.vote for vote in votes]]))[0] if votes else "no votes"


def _item(item: Item, votes: Sequence[Vote], wanted: int) -> StudyItem:
    words = [vote.vote for vote in votes]
    return StudyItem(
        id=str(item.contrast),
        item=item.id,
        bias=str(item.bias),
        prompt=item.prompt,
        votes={word: words.count(word) for word in WORDS},
        majority=_leading(votes),
        missing=max(0, wanted - len(words)),
    )
