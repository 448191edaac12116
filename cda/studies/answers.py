"""Answers from the page's result files, Label Studio's exports and filled tables; and the votes among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cda.errors import DataError, refuse
from cda.files.jsonl import read_json, read_text
from cda.records import Exclusions, Preference, count_reasons, normal_text
from cda.results.study import Attention, Rules
from cda.studies.design import CHOICES, Study
from cda.studies.forms import annotated, annotator, choice_of, justification_of, sheet_rows

_RESULT = "cda-study-result"
_FORMS = "as a result file of the study's page, an export of Label Studio (JSON), or a filled items.csv"
_LONGEST = 20_000  # characters of a justification that are kept


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement as it came back: `choice` is A, B or tie, None for anything else.

    `a` is the index of the text that was shown as A, as the file says it (None: it does not, the study does); `texts_as_given` is
    False if a table holds other texts than were exported. `session` is the browser or file: two sessions of one participant may
    be two people; of its downloads the last `revision` counts. Only in Label Studio nobody was `assigned` the item.
    """

    participant: str
    item: str
    choice: str | None
    a: int | None = None
    texts_as_given: bool = True
    seconds: float | None = None
    justification: str = ""
    session: str = ""
    revision: int = 0
    assigned: bool = True


def read_answers(files: Sequence[Path], study: Study) -> tuple[list[Judgement], int]:
    """All answers of the files, in file order, and the number of empty rows of tables; DataError names every file at fault."""
    answers: list[Judgement] = []
    problems: list[str] = []
    n_blank = 0
    for number, file in enumerate(files):
        try:
            own, blank = _of_file(file, study, f"file {number}")
            answers += own
            n_blank += blank
        except DataError as problem:
            problems.append(str(problem))
    refuse(problems)
    return answers, n_blank


def _of_file(file: Path, study: Study, session: str) -> tuple[list[Judgement], int]:
    if file.suffix.lower() in (".csv", ".tsv"):
        return _of_table(file, study, session)
    if file.suffix.lower() == ".jsonl":
        raise DataError(f"{file}: JSON lines, as contrasts and votes are written; answers come back {_FORMS}")
    content = read_json(file)
    if isinstance(content, Mapping) and content.get("format") == _RESULT:
        return _of_page(content, study, file), 0
    if isinstance(content, list) and all(isinstance(task, Mapping) for task in content):
        if any("annotations" in task for task in content):
            return _of_label_studio(content, study, file), 0
        if any("annotator" in task or "annotation_id" in task for task in content):
            raise DataError(f"{file}: Label Studio's short form (JSON-MIN); export as JSON")
    raise DataError(f"{file}: holds no answers; they come back {_FORMS}")


def _of_page(content: Mapping[str, Any], study: Study, file: Path) -> list[Judgement]:
    _check_study(content.get("study"), study, file)
    rows = content.get("answers")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"{file}: has no list of answers; it was cut or changed. Ask for the file again")
    revision = content.get("revision")
    return [
        Judgement(
            str(content.get("participant"))[:80],
            str(row.get("item"))[:80],
            _choice(row.get("choice")),
            row.get("a") if row.get("a") in (0, 1) else -1,
            seconds=_seconds(row.get("seconds")),
            justification=_text(row.get("justification")),
            session=str(content.get("session"))[:80],
            revision=revision if isinstance(revision, int) else 0,
        )
        for row in rows
    ]


def _of_label_studio(content: list[Mapping[str, object]], study: Study, file: Path) -> list[Judgement]:
    answers = []
    for data, annotation in annotated(content):
        _check_study(data.get("study"), study, file)
        texts = [data.get(name) for name in ("answer_a", "answer_b")]
        item = study.items.get(str(data.get("item")))
        answers.append(
            Judgement(
                annotator(annotation) or "label-studio-unknown",
                str(data.get("item"))[:80],
                choice_of(annotation),
                0,
                item is None or [*map(normal_text, item.texts)] == [normal_text(str(text)) for text in texts],
                _seconds(annotation.get("lead_time")),
                _text(justification_of(annotation)),
                session=f"annotation {annotation.get('id')}",
                assigned=False,
            )
        )
    return answers


def _of_table(file: Path, study: Study, session: str) -> tuple[list[Judgement], int]:
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
                _choice(row["choice"]),
                texts_as_given=_same_texts(row, study),
                seconds=_seconds(row.get("seconds")),
                justification=_text(row.get("justification")),
                session=session,
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


def _choice(value: object) -> str | None:
    words = {**{name.lower(): name for name in CHOICES}, "t": "tie", "no difference": "tie"}
    return words.get(str(value).strip().lower())


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value).replace(",", "."))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


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
    place = (answer.participant, answer.item)
    if answer.assigned and place not in shown:
        return "to an item that the participant was not given"
    if not answer.texts_as_given or (answer.assigned and answer.a not in (None, shown[place])):
        return "with other sides or texts than were given out"
    return "without a readable choice" if answer.choice is None else None


def _once_each(answers: Sequence[Judgement]) -> tuple[list[Judgement], list[str]]:
    """One answer for each participant and item, and why the others do not count.

    Within a session the last download counts. Two sessions that agree count once; if they differ, nobody knows which
    of them is the participant, and none counts.
    """
    groups: dict[tuple[str, str], dict[str, list[Judgement]]] = {}
    for answer in answers:
        groups.setdefault((answer.participant, answer.item), {}).setdefault(answer.session, []).append(answer)
    kept: list[Judgement] = []
    reasons: list[str] = []
    for sessions in groups.values():
        last = []
        agreed = True
        for same in sessions.values():
            newest = max(same, key=lambda answer: answer.revision)  # the first of equal ones
            agreed &= len({answer.choice for answer in same if answer.revision == newest.revision}) == 1
            others = [answer for answer in same if answer is not newest]
            reasons += [
                "the same answer again" if other.choice == newest.choice else "replaced later" for other in others
            ]
            last.append(newest)
        if agreed and len({answer.choice for answer in last}) == 1:
            kept.append(last[0])
            reasons += ["the same answer again"] * (len(last) - 1)
        else:
            reasons += ["given twice, and differently, under one participant's code"] * len(last)
    return kept, reasons
