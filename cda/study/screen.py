"""From answers to votes: each is checked against the study, sides are mapped back, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cda.errors import DataError
from cda.records import Exclusions, Preference, count_reasons
from cda.results.study import Attention, Rules
from cda.study.answers import Answer
from cda.study.records import Study


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
