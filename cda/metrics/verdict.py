"""What happened to each bias, as one word, from statistics alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from cda.metrics.preference import Change
from cda.stats.estimate import Estimate

Word = Literal["improved", "less biased", "no change shown", "overcorrected", "substituted", "worse", "left as it is"]
Finding = Literal[
    "over-rewarded",
    "under-rewarded",
    "no difference shown",
    "rewarded",
    "penalised",
    "no effect shown",
    "not identified",
]
OVERCORRECTED_BELOW = 0.15
SIGNIFICANT = 0.05
Margin = Estimate | float
"""A mean margin with its interval; a plain number is the margin that all pairs share, which has none."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A share before and after, with the paired 95% interval of its change.

    Attributes:
        before: Share before, 0 to 1.
        after: Share after, on the same rows.
        low: Lower end of the interval of after − before, −1 to 1.
        high: Upper end.
    """

    before: float
    after: float
    low: float
    high: float

    @classmethod
    def of(cls, change: Change) -> Moved:
        """The same from a measured change."""
        return cls(change.before.value, change.after.value, change.change.low, change.change.high)

    @property
    def fell(self) -> bool:
        return self.high < 0

    @property
    def rose(self) -> bool:
        return self.low > 0


@dataclass(frozen=True, slots=True)
class AgainstPeople:
    """One bias measured against people's majorities.

    Attributes:
        miscalibration: Share of voted rows on which model and people disagree.
        skew: Of the model, on the same voted rows.
        human_skew: Share of majorities that prefer the perturbed side.
    """

    miscalibration: Moved
    skew: Moved
    human_skew: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        skew: Of the model, on all rows.
        p_holm: Of no change of that skew, Holm-adjusted over everything tested.
        people: Where people voted on the bias.
    """

    skew: Moved
    p_holm: float
    people: AgainstPeople | None = None


def verdict(target: str, evidence: Mapping[str, Evidence], dose: float = 1.0) -> Word:
    """The verdict on one bias; the first rule that holds decides.

    At dose 0 every bias is left as it is: the result of the training is the model before it.

    With people's votes:
        overcorrected: skew on the voted rows moved (its paired interval excludes 0) from one side of human skew to the
            other and ended further from it than it began. This goes first: the rules below would hide it.
        substituted: improved by the next rule, but another bias rose (see `risen`).
        improved: the paired interval of the change of miscalibration lies below 0.
        worse: it lies above 0.
        no change shown: it contains 0.

    Without votes there is no human reference, so skew alone decides, and nothing is called improved:
        overcorrected: skew fell (paired interval below 0) to less than 0.15.
        substituted: less biased by the next rule, but another bias rose.
        less biased: skew fell, and is 0.15 or more.
        worse: skew rose (paired interval above 0).
        no change shown: the paired interval contains 0.

    Args:
        target: The bias.
        evidence: Of every bias measured, the target's included.
        dose: How much of the adapter is the result.

    Raises:
        KeyError: Nothing is known about the target.
    """
    one = evidence[target]
    if dose == 0:
        return "left as it is"
    word = _without_votes(one.skew) if one.people is None else _with_votes(one.people)
    if word in ("improved", "less biased") and risen(target, evidence):
        return "substituted"
    return word


def risen(target: str, evidence: Mapping[str, Evidence]) -> list[str]:
    """Other biases that rose: skew's paired interval lies above 0 and its Holm-adjusted p is below 0.05.

    Biases on which people voted do not count where miscalibration fell at the same time: they rose towards people.
    """
    return [
        name
        for name in moved_along(target, evidence)
        if evidence[name].skew.rose and not _towards_people(evidence[name])
    ]


def moved_along(target: str, evidence: Mapping[str, Evidence]) -> list[str]:
    """Other biases whose skew changed: its paired interval excludes 0 and its Holm-adjusted p is below 0.05."""
    return [
        name
        for name, one in evidence.items()
        if name != target and (one.skew.rose or one.skew.fell) and one.p_holm < SIGNIFICANT
    ]


def _towards_people(one: Evidence) -> bool:
    return one.people is not None and one.people.miscalibration.fell


def finding(
    mean_margin: Margin | None,
    p_holm: float,
    identified: bool,
    signed_gap: Estimate | None,
    at_no_drift: Collection[Margin | None] = (),
) -> Finding:
    """What one audit of a model, without a training, says of a bias; the first rule that holds decides.

    With people's votes, skew is compared with people's on the same rows; what else differs between the sides, people saw too:
        over-rewarded: the interval of skew − human skew lies above 0 and its Holm-adjusted p is below 0.05.
        under-rewarded: the same below 0.
        no difference shown: otherwise, which is not evidence that there is none.

    Without votes there is no human reference, and whether the effect is right stays open:
        not identified: what else differs between the sides cannot be told from the bias, or there is no estimate. A margin
            that all pairs share is told from it whatever `identified` says: it does not depend on what else differs.
        no effect shown: the mean margin's interval contains 0, or its Holm-adjusted p is 0.05 or more; or the margin that
            all pairs share is 0.
        not identified: a margin at no drift does not exclude 0 with the sign of the mean margin, so that what else differs
            may explain the latter (see `may_be_drift`).
        rewarded: the mean margin lies above 0.
        penalised: it lies below 0.

    Args:
        mean_margin: Of all contrasts, perturbed − base; None where it could not be estimated.
        p_holm: Of no mean margin, or with votes of no difference from people, adjusted over everything that was tested.
        identified: Whether the pairs identify the effect.
        signed_gap: Skew − human skew; None without votes.
        at_no_drift: The mean margin among like pairs and every adjusted form's; None for one that cannot be estimated.
    """
    if signed_gap is not None:
        if p_holm >= SIGNIFICANT or signed_gap.low <= 0 <= signed_gap.high:
            return "no difference shown"
        return "over-rewarded" if signed_gap.value > 0 else "under-rewarded"
    if mean_margin is None or not (identified or isinstance(mean_margin, float)):
        return "not identified"
    if p_holm >= SIGNIFICANT or _sign(mean_margin) == 0:
        return "no effect shown"
    if may_be_drift(mean_margin, at_no_drift):
        return "not identified"
    return "rewarded" if _sign(mean_margin) > 0 else "penalised"


def may_be_drift(mean_margin: Margin | None, at_no_drift: Collection[Margin | None]) -> bool:
    """Whether the mean margin of all pairs excludes 0 and one of these does not, or with the other sign.

    Then the model may reward what else differs, such as more words, and not the bias. A margin that all pairs share
    does not change with it.

    Args:
        mean_margin: Of all contrasts; None where it could not be estimated.
        at_no_drift: As in `finding`.
    """
    if mean_margin is None or isinstance(mean_margin, float) or _sign(mean_margin) == 0:
        return False
    return any(one is None or _sign(one) != _sign(mean_margin) for one in at_no_drift)


def _sign(margin: Margin) -> int:
    """1 or −1 where 0 is excluded on that side, else 0."""
    low, high = (margin, margin) if isinstance(margin, float) else (margin.low, margin.high)
    return 1 if low > 0 else -1 if high < 0 else 0


def _with_votes(people: AgainstPeople) -> Word:
    if _crossed_too_far(people):
        return "overcorrected"
    if people.miscalibration.fell:
        return "improved"
    return "worse" if people.miscalibration.rose else "no change shown"


def _crossed_too_far(people: AgainstPeople) -> bool:
    before, after = people.skew.before - people.human_skew, people.skew.after - people.human_skew
    return before * after < 0 and abs(after) > abs(before) and (people.skew.fell or people.skew.rose)


def _without_votes(skew: Moved) -> Word:
    if skew.rose:
        return "worse"
    if skew.fell:
        return "overcorrected" if skew.after < OVERCORRECTED_BELOW else "less biased"
    return "no change shown"
