"""Answers out of what came back: the page's result files, Label Studio's exports, filled tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cda.errors import DataError
from cda.files.jsonl import read_json, read_text
from cda.records import Exclusions, Preference, count_reasons, normal_text
from cda.results.study import Attention, Rules
from cda.studies import forms as label_studio
from cda.studies.design import CHOICES, Study
from cda.studies.forms import sheet_rows

RESULT = "cda-study-result"
_FORMS = "as a result file of the study's page, an export of Label Studio (JSON), or a filled items.csv"
_LONGEST = 20_000
"""Characters of a justification that are kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One judgement as it came back.

    Attributes:
        participant: Code, or a name made of Label Studio's user.
        item: Id within the study.
        choice: `A`, `B` or `tie`; anything else in the file is None.
        a: Which text stood as A by what came back; None where that is not said (the study then does).
        texts_as_given: False where a table holds other texts than were exported.
        seconds: Spent on it; None where unknown.
        justification: In the participant's words.
        session: Browser or file it comes from: two sessions of one participant may be two people.
        revision: Number of the download within its session; the last one counts.
        assigned: Whether the study's assignments say who answers it (not so in Label Studio).
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


@dataclass(frozen=True, slots=True)
class Returned:
    """Answers of all files, and rows of tables that nobody filled."""

    answers: tuple[Answer, ...]
    blank: int


def read_answers(files: Sequence[Path], study: Study) -> Returned:
    """All answers of the files, in file order.

    Raises:
        DataError: Names every file that cannot be read, is of another kind, or belongs to another study.
    """
    answers: list[Answer] = []
    problems: list[str] = []
    blank = 0
    for number, file in enumerate(files):
        try:
            found, empty = _of_file(file, study, f"file {number}")
            answers += found
            blank += empty
        except DataError as problem:
            problems.append(str(problem))
    if problems:
        raise DataError("\n".join(problems))
    return Returned(tuple(answers), blank)


def _of_file(file: Path, study: Study, session: str) -> tuple[list[Answer], int]:
    if file.suffix.lower() in (".csv", ".tsv"):
        return _of_table(file, study, session)
    if file.suffix.lower() == ".jsonl":
        raise DataError(f"{file}: JSON lines, as contrasts and votes are written; answers come back {_FORMS}")
    content = read_json(file)
    if isinstance(content, Mapping) and content.get("format") == RESULT:
        return _of_page(content, study, file), 0
    if isinstance(content, list) and all(isinstance(one, Mapping) for one in content):
        if any("annotations" in one for one in content):
            return _of_label_studio(content, study, file), 0
        if any("annotator" in one or "annotation_id" in one for one in content):
            raise DataError(f"{file}: Label Studio's short form (JSON-MIN); export as JSON")
    raise DataError(f"{file}: holds no answers; they come back {_FORMS}")


def _of_page(content: Mapping[str, Any], study: Study, file: Path) -> list[Answer]:
    _check_study(content.get("study"), study, file)
    rows = content.get("answers")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"{file}: has no list of answers; it was cut or changed. Ask for the file again")
    revision = content.get("revision")
    return [
        Answer(
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


def _of_label_studio(content: Sequence[Mapping[str, object]], study: Study, file: Path) -> list[Answer]:
    answers = []
    for data, one in label_studio.annotated(list(content)):
        _check_study(data.get("study"), study, file)
        texts = [data.get(name) for name in ("answer_a", "answer_b")]
        item = study.items.get(str(data.get("item")))
        answers.append(
            Answer(
                label_studio.annotator(one) or "label-studio-unknown",
                str(data.get("item"))[:80],
                label_studio.choice_of(one),
                0,
                item is None or [*map(normal_text, item.texts)] == [normal_text(str(text)) for text in texts],
                _seconds(one.get("lead_time")),
                _text(label_studio.justification_of(one)),
                session=f"annotation {one.get('id')}",
                assigned=False,
            )
        )
    return answers


def _of_table(file: Path, study: Study, session: str) -> tuple[list[Answer], int]:
    answers, blank = [], 0
    for number, row in sheet_rows(read_text(file), str(file)):
        if not row["choice"].strip():
            blank += 1
            continue
        _check_study(row["study"].strip(), study, file, f" (row {number})")
        answers.append(
            Answer(
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
    """Whether a row holds the answers on the sides that its participant was given; a table may leave its texts out."""
    given = study.participants.get(row["participant"].strip(), ())
    shown = next((one for one in given if one.item == row["item"].strip()), None)
    if shown is None:
        return True  # counted as such later
    texts = study.items[shown.item].texts
    wanted = {"answer_a": texts[shown.a], "answer_b": texts[1 - shown.a]}
    # Spreadsheets change line ends and the spaces at them.
    return all(name not in row or row[name].split() == text.split() for name, text in wanted.items())


def _choice(value: object) -> str | None:
    word = str(value).strip().lower()
    words = {name.lower(): name for name in CHOICES}
    return words.get(word) or {"t": "tie", "no difference": "tie"}.get(word)


def _seconds(value: object) -> float | None:
    try:
        found = float(str(value).replace(",", "."))
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 and not isinstance(value, bool) else None


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Vote:
    """A judgement that counts.

    Attributes:
        item: Id within the study.
        participant: Whose it is.
        choice: `A`, `B` or `tie`, as it was shown.
        vote: The same by sides.
        seconds: Spent; None where unknown.
        justification: In their words.
    """

    item: str
    participant: str
    choice: str
    vote: Preference
    seconds: float | None
    justification: str


@dataclass(frozen=True, slots=True)
class Screened:
    """Votes, attention checks by participant, and what was left out of all answers.

    Attributes:
        votes: On contrasts, in the order of the study's items.
        attention: Of everybody who answered anything that belongs to the study.
        checks: Answers to attention checks among those read; they are no votes.
        exclusions: All answers read, checks included, and why some do not count.
    """

    votes: tuple[Vote, ...]
    attention: Mapping[str, Attention]
    checks: int
    exclusions: Exclusions


def screened(study: Study, answers: Sequence[Answer], rules: Rules) -> Screened:
    """Votes of the answers that hold.

    Raises:
        DataError: The rules are no shares or seconds, or no vote is left.
    """
    if not 0 <= rules.pass_share <= 1:
        raise DataError(f"--attention-pass: a share from 0 to 1, found {rules.pass_share:g}")
    if not rules.min_seconds >= 0:
        raise DataError(f"--min-seconds: 0 or more, found {rules.min_seconds:g}")
    shown = {(code, one.item): one.a for code, given in study.participants.items() for one in given}
    reasons: list[str] = []
    sound: list[Answer] = []
    for one in answers:
        problem = _problem(one, study, shown)
        if problem is None:
            sound.append(one)
        else:
            reasons.append(problem)
    single, repeated = _once_each(sound)
    reasons += repeated
    attention = _attention(study, single, shown, rules)
    votes, checks = [], 0
    for one in single:
        item = study.items[one.item]
        if item.is_check:
            checks += 1
        elif not attention[one.participant].passed:
            reasons.append("of a participant who failed the attention checks")
        elif one.seconds is not None and one.seconds < rules.min_seconds:
            reasons.append(f"given in less than {rules.min_seconds:g} s")
        else:
            chosen = _chosen(one, study, shown)
            vote: Preference = "tie" if chosen is None else "perturbed" if chosen == item.perturbed else "base"
            votes.append(Vote(one.item, one.participant, str(one.choice), vote, one.seconds, one.justification))
    exclusions = Exclusions(len(answers), count_reasons(reasons))
    if not votes:
        raise DataError(f"no vote is left: of {len(answers)} answers, {checks} are attention checks; {exclusions}")
    votes.sort(key=lambda one: (one.item, one.participant))
    return Screened(tuple(votes), attention, checks, exclusions)


def _problem(one: Answer, study: Study, shown: Mapping[tuple[str, str], int]) -> str | None:
    """Why an answer does not count by itself; None where it does."""
    if one.item not in study.items:
        return "to an unknown item"
    if one.assigned and one.participant not in study.participants:
        return "of an unknown participant"
    if one.assigned and (one.participant, one.item) not in shown:
        return "to an item that the participant was not given"
    if not one.texts_as_given or (one.assigned and one.a not in (None, shown[one.participant, one.item])):
        return "with other sides or texts than were given out"
    return "without a readable choice" if one.choice is None else None


def _once_each(answers: Sequence[Answer]) -> tuple[list[Answer], list[str]]:
    """One answer for each participant and item.

    Within a session the last download counts. Two sessions that agree count once; where they differ, nobody knows which
    of them is the participant, and none counts.
    """
    groups: dict[tuple[str, str], dict[str, list[Answer]]] = {}
    for one in answers:
        groups.setdefault((one.participant, one.item), {}).setdefault(one.session, []).append(one)
    kept: list[Answer] = []
    reasons: list[str] = []
    for sessions in groups.values():
        last = []
        for same in sessions.values():
            newest = max(same, key=lambda one: one.revision)  # the first of equal ones
            rivals = {one.choice for one in same if one.revision == newest.revision}
            others = [one for one in same if one is not newest]
            reasons += ["the same answer again" if one.choice == newest.choice else "replaced later" for one in others]
            last.append((newest, len(rivals) == 1))
        if len({one.choice for one, _ in last}) == 1 and all(agreed for _, agreed in last):
            kept.append(last[0][0])
            reasons += ["the same answer again"] * (len(last) - 1)
        else:
            reasons += ["given twice, and differently, under one participant's code"] * len(last)
    return kept, reasons


def _attention(
    study: Study, answers: Sequence[Answer], shown: Mapping[tuple[str, str], int], rules: Rules
) -> dict[str, Attention]:
    hits: dict[str, list[bool]] = {}
    for one in answers:
        mine = hits.setdefault(one.participant, [])
        item = study.items[one.item]
        if item.is_check:
            mine.append(_chosen(one, study, shown) == item.right)
    return {
        code: Attention(
            answered=len(mine),
            right=sum(mine),
            passed=not mine or sum(mine) >= rules.pass_share * len(mine) - 1e-9,
        )
        for code, mine in sorted(hits.items())
    }


def _chosen(one: Answer, study: Study, shown: Mapping[tuple[str, str], int]) -> int | None:
    """Which text of the item was preferred; None for a tie."""
    if one.choice == "tie":
        return None
    # Label Studio shows the texts in the item's own order.
    first = shown[one.participant, study.items[one.item].id] if one.assigned else 0
    return first if one.choice == "A" else 1 - first
