"""`cda study import`: people's answers become votes for an audit, and a summary: as JSON, as a page, and for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cda.errors import DataError, RunError, refuse
from cda.files.jsonl import read_json, read_text
from cda.files.paths import is_a_file
from cda.jobs.perform import Job, Made, OneFile, perform
from cda.records import Exclusions, Preference, count_reasons, normal_text
from cda.report.next_step import after_study
from cda.report.numbers import n_of
from cda.results.base import Estimate, Missing, or_missing
from cda.results.skew import Leading
from cda.results.study import Attention, Participant, Position, Rules, StudyGroup, StudyItem, StudyResult, Time
from cda.stats.estimators import share_of
from cda.stats.proportions import exact_change_test
from cda.stats.votes import WORDS, agreement, count_votes, leading_words, majority
from cda.studies.export import KEY, Item, Study, choice_of, sheet_rows, study_of
from cda.studies.study_page import LEADING, study_document

_FORMS = (
    "as the exported table with its answers (CSV), as Prolific's report (CSV), or as an export of Label Studio (JSON)"
)
_LONGEST = 20_000  # characters of a justification that are kept


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement as it came back: `choice` is A, B or tie, None for anything else.

    `texts_as_given` is False if it holds other texts than were exported; only in Label Studio nobody was `assigned` the item.
    """

    participant: str
    item: str
    choice: str | None
    texts_as_given: bool = True
    seconds: float | None = None
    justification: str = ""
    assigned: bool = True


def read_answers(files: Sequence[Path], study: Study) -> tuple[list[Judgement], int]:
    """All answers of the files, in file order, and the number of empty rows of tables; DataError names every file at fault."""
    answers: list[Judgement] = []
    problems: list[str] = []
    n_blank = 0
    for file in files:
        try:
            own, blank = _of_file(file, study)
            answers += own
            n_blank += blank
        except DataError as problem:
            problems.append(str(problem))
    refuse(problems)
    return answers, n_blank


def _of_file(file: Path, study: Study) -> tuple[list[Judgement], int]:
    if file.suffix.lower() in (".csv", ".tsv"):
        return _of_table(file, study)
    if file.suffix.lower() == ".jsonl":
        raise DataError(f"{file}: JSON lines, as contrasts and votes are written; answers come back {_FORMS}")
    content = read_json(file)
    if isinstance(content, list) and all(isinstance(task, Mapping) for task in content):
        if any("annotations" in task for task in content):
            return list(_of_label_studio(content, study, file)), 0
        if any("annotator" in task or "annotation_id" in task for task in content):
            raise DataError(f"{file}: Label Studio's short form (JSON-MIN); export as JSON")
    raise DataError(f"{file}: holds no answers; they come back {_FORMS}")


def _of_label_studio(content: list[Mapping[str, Any]], study: Study, file: Path) -> Iterator[Judgement]:
    """Each annotation that was not cancelled."""
    for task in content:
        annotations, data = task.get("annotations"), task.get("data")
        data = data if isinstance(data, Mapping) else {}
        for annotation in annotations if isinstance(annotations, list) else ():
            if not isinstance(annotation, Mapping) or annotation.get("was_cancelled"):
                continue
            _check_study(data.get("study"), study, file)
            item = study.items.get(str(data.get("item")))
            texts = [normal_text(str(data.get(name))) for name in ("answer_a", "answer_b")]
            values = _values(annotation)
            chosen = [choice for value in values for choice in _listed(value.get("choices"))]
            written = [str(line) for value in values for line in _listed(value.get("text"))]
            yield Judgement(
                _annotator(annotation.get("completed_by")),
                str(data.get("item"))[:80],
                choice_of(chosen[0]) if len(chosen) == 1 else None,
                item is None or [*map(normal_text, item.texts)] == texts,
                _seconds(annotation.get("lead_time")),
                " ".join(written)[:_LONGEST],
                assigned=False,
            )


def _values(annotation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    values = [part.get("value") for part in _listed(annotation.get("result")) if isinstance(part, Mapping)]
    return [value for value in values if isinstance(value, Mapping)]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _annotator(by: object) -> str:
    """A name for an annotator, distinct from the codes of the study's participants."""
    if isinstance(by, Mapping):
        by = by.get("id", by.get("email"))
    known = isinstance(by, int | str) and not isinstance(by, bool)
    return f"label-studio-{by if known else 'unknown'}"


def _of_table(file: Path, study: Study) -> tuple[list[Judgement], int]:
    answers, blank = [], 0
    for number, row in sheet_rows(read_text(file), str(file)):
        if not row["choice"].strip():
            blank += 1
            continue
        _check_study(row["study"].strip(), study, file, f" (row {number})")
        answers.append(
            Judgement(
                row["participant"].strip()[:80],
                row["item"].strip()[:80],
                choice_of(row["choice"]),
                _same_texts(row, study),
                _seconds(row.get("seconds")),
                str(row.get("justification", ""))[:_LONGEST],
            )
        )
    return answers, blank


def _check_study(stated: object, study: Study, file: Path, where: str = "") -> None:
    if stated != study.fingerprint:
        raise DataError(
            f"{file}{where}: answers to another study ({str(stated)[:40]}), not to this one ({study.fingerprint})"
        )


def _same_texts(row: Mapping[str, str], study: Study) -> bool:
    """True if a row holds the answers on the sides that its participant was given; a table may leave its texts out."""
    given = study.participants.get(row["participant"].strip(), ())
    shown = next((shown for shown in given if shown.item == row["item"].strip()), None)
    if shown is None:
        return True  # counted as such later
    texts = study.items[shown.item].texts
    wanted = {"answer_a": texts[shown.a], "answer_b": texts[1 - shown.a]}
    # Spreadsheets change line ends and the spaces at them.
    return all(name not in row or row[name].split() == text.split() for name, text in wanted.items())


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value).replace(",", "."))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


@dataclass(frozen=True, slots=True)
class Vote:
    """A judgement that counts: `choice` (A, B or tie) as it was shown, `vote` the same by sides."""

    item: str
    participant: str
    choice: str
    vote: Preference
    seconds: float | None
    justification: str


@dataclass(frozen=True, slots=True)
class Screened:
    """Votes in the order of the study's items, attention checks of every participant with an answer, and excluded answers.

    `checks` is the number of answers to attention checks, which are no votes; `exclusions` counts all answers, these included.
    """

    votes: tuple[Vote, ...]
    attention: Mapping[str, Attention]
    checks: int
    exclusions: Exclusions


def screened(study: Study, answers: Sequence[Judgement], rules: Rules) -> Screened:
    """Votes of the answers that hold; DataError if no vote is left, or for rules that are not shares or seconds."""
    if not 0 <= rules.pass_share <= 1:
        raise DataError(f"--attention-pass: a share from 0 to 1, found {rules.pass_share:g}")
    if not rules.min_seconds >= 0:
        raise DataError(f"--min-seconds: 0 or more, found {rules.min_seconds:g}")
    shown = {(code, task.item): task.a for code, given in study.participants.items() for task in given}
    valid: list[Judgement] = []
    reasons: list[str] = []
    for answer in answers:
        problem = _problem(answer, study, shown)
        if problem is None:
            valid.append(answer)
        else:
            reasons.append(problem)
    single, repeated = _once_each(valid)
    reasons += repeated

    def preferred(answer: Judgement) -> int | None:
        """Which text of the item was preferred; None for a tie. Label Studio shows the texts in the item's own order."""
        first = shown[answer.participant, answer.item] if answer.assigned else 0
        return None if answer.choice == "tie" else first if answer.choice == "A" else 1 - first

    checks: dict[str, list[bool]] = {}
    for answer in single:
        own, item = checks.setdefault(answer.participant, []), study.items[answer.item]
        if item.is_check:
            own.append(preferred(answer) == item.right)
    attention = {
        code: Attention(
            answered=len(own), right=sum(own), passed=not own or sum(own) >= rules.pass_share * len(own) - 1e-9
        )
        for code, own in sorted(checks.items())
    }
    votes = []
    for answer in single:
        item = study.items[answer.item]
        if item.is_check:
            continue
        if not attention[answer.participant].passed:
            reasons.append("of a participant who failed the attention checks")
        elif answer.seconds is not None and answer.seconds < rules.min_seconds:
            reasons.append(f"given in less than {rules.min_seconds:g} s")
        else:
            text = preferred(answer)
            vote: Preference = "tie" if text is None else "perturbed" if text == item.perturbed else "base"
            choice = str(answer.choice)
            votes.append(Vote(item.id, answer.participant, choice, vote, answer.seconds, answer.justification))
    n_checks = sum(map(len, checks.values()))
    exclusions = Exclusions(len(answers), count_reasons(reasons))
    if not votes:
        raise DataError(f"no vote is left: of {len(answers)} answers, {n_checks} are attention checks; {exclusions}")
    votes.sort(key=lambda vote: (vote.item, vote.participant))
    return Screened(tuple(votes), attention, n_checks, exclusions)


def _problem(answer: Judgement, study: Study, shown: Mapping[tuple[str, str], int]) -> str | None:
    if answer.item not in study.items:
        return "to an unknown item"
    if answer.assigned and answer.participant not in study.participants:
        return "of an unknown participant"
    if answer.assigned and (answer.participant, answer.item) not in shown:
        return "to an item that the participant was not given"
    if not answer.texts_as_given:
        return "with other sides or texts than were given out"
    return "without a readable choice" if answer.choice is None else None


def _once_each(answers: Sequence[Judgement]) -> tuple[list[Judgement], list[str]]:
    """One answer for each participant and item, and why the others do not count: if two differ, nobody knows which of them is
    the participant's, and none counts."""
    groups: dict[tuple[str, str], list[Judgement]] = {}
    for answer in answers:
        groups.setdefault((answer.participant, answer.item), []).append(answer)
    kept: list[Judgement] = []
    reasons: list[str] = []
    for same in groups.values():
        if len({answer.choice for answer in same}) > 1:
            reasons += ["given twice, and differently, under one participant's code"] * len(same)
        else:
            kept.append(same[0])
            reasons += ["the same answer again"] * (len(same) - 1)
    return kept, reasons


VOTES = "votes.jsonl"
FAST_S = 3.0
"""Seconds below which an answer counts as fast; reading two answers takes longer."""


def import_study(folder: Path, files: Sequence[Path], out: Path | None, rules: Rules) -> StudyResult:
    """Write votes (`id, vote` and who gave them), and a summary as JSON and as a page next to them; return the summary."""
    if not is_a_file(folder / KEY):
        raise DataError(f"{folder}: no study; {KEY} of `cda study export` has to be there")
    study = study_of(read_json(folder / KEY), str(folder))
    if not files:
        raise DataError(f"no answers given; they come back {_FORMS}")
    answers, n_blank = read_answers(files, study)
    kept = screened(study, answers, rules)
    result = summarize_study(study, kept, rules, n_blank)
    votes = out or folder / VOTES
    if votes.suffix != ".jsonl":
        raise RunError(f"--out {votes}: votes are written as JSON lines; give a name that ends in .jsonl")
    page, numbers = (votes.with_name(f"{votes.stem}.summary.{ending}") for ending in ("html", "json"))
    n_voted = f"{n_of(result.n_votes, 'vote')} on {n_of(result.n_items, 'contrast')} ({kept.exclusions})"
    plan = [f"reads       {n_of(len(files), 'file')} of results: {n_voted}"]
    rows = [
        {"id": study.items[vote.item].contrast, "vote": vote.vote, "participant": vote.participant,
         "seconds": vote.seconds, "justification": vote.justification}
        for vote in kept.votes
    ]  # fmt: skip
    again = ("study", "import", str(folder), *map(str, files))
    source = read_json(folder / KEY).get("contrasts")  # none in that of an earlier version
    contrasts = ("--contrasts", source) if isinstance(source, str) and is_a_file(source) else ()
    document = replace(study_document(result), next=after_study(result, again, (*contrasts, "--votes", str(votes))))
    remark = document.text([f"Votes: {votes}; summary: {page}"])
    made = Made(result, {votes.name: rows, numbers.name: result, page.name: document.page}, remark)
    return perform(Job(lambda: plan, lambda _: made, OneFile(votes, (numbers.name, page.name))), None)


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
        all=_group(contrasts, by_item),
        biases={name: _group([item for item in contrasts if item.bias == name], by_item) for name in biases},
        position=_position(kept.votes),
        time=_time(kept.votes),
        participants=tuple(_participants(study, kept, by_item)),
        silent=tuple(code for code in study.participants if code not in kept.attention),
        items=tuple(_item(item, by_item[item.id], study.judgements) for item in contrasts),
    )


def _group(items: Sequence[Item], by_item: Mapping[str, Sequence[Vote]]) -> StudyGroup:
    voted = [item for item in items if by_item[item.id]]
    words, prompts = [[vote.vote for vote in by_item[item.id]] for item in voted], [item.prompt_id for item in voted]
    every_vote = [word for own in words for word in own]
    leading = leading_words(count_votes(words)) if voted else []
    none = Missing(reason="no votes")

    def skew() -> Estimate:
        target = majority(count_votes(words), "drop")
        return share_of(target.target[target.used], list(compress(prompts, target.used)))

    return StudyGroup(
        n_items=len(items),
        n_voted=len(voted),
        votes={word: every_vote.count(word) for word in WORDS},
        majorities={word: leading.count(word) for word in LEADING} if voted else {},
        skew=or_missing(skew) if voted else none,
        agreement=or_missing(partial(agreement, count_votes(words), prompts)) if voted else none,
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
    return Position(share_a=share_of(hits, items), p_value=test.p_value, n_items=len(set(items)))


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
    return share_of(np.array(hits, dtype=np.float64), prompts) if hits else None


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
