"""The verdict on each bias, as one word, from statistics alone; and the matrix of each training's effect on every bias.

One standard holds for good and bad words. A change from 0 is *shown* if its paired 95% interval excludes 0 and its
Holm-adjusted p, over everything that the audit tests, is below 0.05 (`is_shown`). The end of a share, and whether a loss of
quality is within the limit, are read off the 95% interval, and only to say more of a change that is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from cda.errors import DataError
from cda.results.base import Estimate
from cda.results.effects import LENGTH
from cda.stats.multiplicity import benjamini_hochberg, holm

Word = Literal[
    "improved", "less biased", "no change shown", "noise not excluded", "quality open", "quality lost", "overcorrected",
    "substituted", "worse", "left as it is",
]  # fmt: skip
Finding = Literal[
    "over-rewarded", "under-rewarded", "no difference shown", "rewarded", "penalised", "not rewarded", "no effect shown", "not identified",
    "scored alike", "too few prompts", "few flipped", "mostly tied", "not told apart from length",
]  # fmt: skip
Loss = Literal["excluded", "not excluded", "shown"]
"""A loss of quality accuracy of more than `TOLERATED_LOSS`, by the interval of its change."""
OVERCORRECTED_BELOW = 0.15
TIE = 0.5
TOLERATED_LOSS = 0.05
SIGNIFICANT = 0.05
MIN_PROMPTS = 30
"""Prompts that a verdict on one model needs, those whose sides are alike otherwise too."""
PROMPTS_TO_CHOOSE = 20
"""Prompts with a majority of people, or with quality pairs, that choosing a dose or a calibration needs."""
MIN_SHARE = 0.2
"""Share of all pairs that must overlap: below it, pairs that happen to be alike are a selection that says little about the
others, and any adjustment for the rest is extrapolated from far away."""
MANY_TIED = 0.5
MUCH_BY_PLACE = 1 / 3
"""Share of comparisons decided by place from which bias estimates are called weak, if the whole interval lies above."""
Margin = Estimate | float
"""A mean margin with its interval; a plain number is the margin that all pairs share, which has none."""


def is_shown(low: float, high: float, p_holm: float) -> bool:
    """The standard for every word about a change: its 95% interval excludes 0 and its Holm-adjusted p is below 0.05."""
    return (low > 0 or high < 0) and p_holm < SIGNIFICANT


def mostly_by_place(found: Estimate) -> bool:
    """True if the place decides much: of a preference for the first answer, −1 to 1, which is the least share that it can decide,
    either side."""
    return found.low >= MUCH_BY_PLACE or found.high <= -MUCH_BY_PLACE


def mostly_tied(ties: int, share: Estimate) -> bool:
    """True if half of the pairs or more are scored alike, and the biased side is not preferred in more than half: the share shows how
    ties are counted."""
    return ties >= MANY_TIED * share.n and share.value <= TIE


def quality_loss(low: float, high: float) -> Loss:
    """Verdict on a loss of more than 5 points of quality, from the 95% interval of the change of accuracy, −1 to 1."""
    return "shown" if high < -TOLERATED_LOSS else "not excluded" if low < -TOLERATED_LOSS else "excluded"


@dataclass(frozen=True, slots=True)
class Moved:
    """A share before and after, 0 to 1, on the same rows, with 95% intervals of its change (`low`, `high`) and of
    `after`; `p_holm`: p of no change, Holm-adjusted over everything that the audit tests.
    """

    before: float
    after: float
    low: float
    high: float
    p_holm: float
    after_low: float
    after_high: float

    @property
    def fell(self) -> bool:
        return self.high < 0 and is_shown(self.low, self.high, self.p_holm)

    @property
    def rose(self) -> bool:
        return self.low > 0 and is_shown(self.low, self.high, self.p_holm)

    def mirrored(self) -> Moved:
        """The same of the rows that are no hits, 1 − share."""
        return Moved(
            1 - self.before, 1 - self.after, -self.high, -self.low, self.p_holm, 1 - self.after_high, 1 - self.after_low
        )


@dataclass(frozen=True, slots=True)
class PeopleEvidence:
    """One bias on voted rows; `gap_rose`: the 95% interval of the change of |skew − human skew| lies above 0."""

    miscalibration: Moved
    skew: Moved
    human_skew: float
    gap_rose: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements that a verdict on a bias rests on.

    `skew` is of all rows; `people` is None without votes. `aims_at_tie`: the training aimed at equal rewards for both sides.
    `beyond_noise`: change of the mean margin that neither noise nor stretched rewards explain, in reward units
    (`cda.stats.proportions`); None if it could not be estimated.
    """

    skew: Moved
    people: PeopleEvidence | None = None
    aims_at_tie: bool = False
    beyond_noise: Estimate | None = None


def verdict(target: str, evidence: Mapping[str, Evidence], loss: Loss | None, dose: float = 1.0) -> Word:
    """The verdict on one bias; the first rule that holds decides. "Fell" and "rose" are *shown* (see this module).

    `evidence` is on every bias measured, `loss` None if quality was not; dose 0 leaves every bias as it is. With
    people's votes:
        overcorrected: skew on the voted rows moved from one side of human skew to the other, and the interval of the change
            of the gap lies above 0: it ended further from people. This goes first: the rules below would hide it.
        worse: miscalibration rose; or it did not fall, and skew moved as above on one side of human skew.
        no change shown, improved: miscalibration neither rose nor fell; fell, and no rule below forbids it.
    Without votes skew alone decides, "fell" and "rose" being towards and away from 50% if ties were the aim:
        overcorrected: skew fell and its interval after lies wholly below 15%, or beyond 50% if ties were the aim.
        worse, no change shown, less biased: skew rose; neither rose nor fell; fell, and no rule below forbids it.
    In place of a good word:
        substituted: another bias got worse (`worsened`). quality lost: a loss of more than 5 points is shown.
        noise not excluded: noise may explain the fall (`may_be_noise`).
        quality open: a loss of more than 5 points is not excluded, or quality was not measured.
    """
    own = evidence[target]
    if dose == 0:
        return "left as it is"
    word = _without_votes(own) if own.people is None else _with_votes(own.people)
    if word not in ("improved", "less biased"):
        return word
    if worsened(target, evidence):
        return "substituted"
    if loss == "shown":
        return "quality lost"
    if may_be_noise(own):
        return "noise not excluded"
    return word if loss == "excluded" else "quality open"


def may_be_noise(own: Evidence) -> bool:
    """True if rewards that only became noisier would have brought about this fall.

    Noise pulls every share towards 50%, and never past it: skew of a model that likes the bias falls, and so does
    miscalibration above 50%. It does not pull a mean margin anywhere. Noise is excluded if a share ended shown below 50%,
    if it fell from below 50%, or if the mean margin moved with skew by more than noise and stretching explain.
    """
    pulled = _oriented(own) if own.people is None else own.people.miscalibration
    if pulled.before <= TIE or pulled.after_high < TIE:
        return False
    moved = own.skew if own.people is None else own.people.skew
    mean = own.beyond_noise
    return mean is None or not (mean.low > 0 if moved.after > moved.before else mean.high < 0)


def worsened(target: str, evidence: Mapping[str, Evidence]) -> list[str]:
    """Other biases whose skew rose, also by noise, or that moved away from the people who voted on them, to either side; not those of
    which miscalibration fell, as they moved towards people."""
    return [name for name, other in evidence.items() if name != target and _is_worse(other)]


def _is_worse(own: Evidence) -> bool:
    if own.people is None:
        return own.skew.rose
    left_people = _with_votes(own.people) in ("worse", "overcorrected")
    return left_people or (own.skew.rose and not own.people.miscalibration.fell)


def moved_along(target: str, evidence: Mapping[str, Evidence]) -> list[str]:
    """Other biases whose skew rose or fell."""
    return [name for name, other in evidence.items() if name != target and (other.skew.rose or other.skew.fell)]


@dataclass(frozen=True, slots=True)
class ModelEvidence:
    """The measurements of one model that the finding on a bias rests on.

    `share`: of contrasts on which the model prefers the biased side, of which `ties` have a margin of 0. `p_holm`: p of no mean
    margin, or with votes of no difference from people, Holm-adjusted over everything that the audit tests. `signed_gap`: skew −
    human skew on the same rows, None without votes. `at_no_drift`: the margins among like pairs and of every adjusted form, None for
    one that cannot be estimated; on triples only if adjustment cannot, since RATE takes differences that are not shown to matter to cancel. `alike`: prompts
    and share of the pairs that are alike otherwise, None if nothing says. `rival`: what may explain the margins in place of the bias (`cda.stats.length`). `tried`: contrasts that a rewriter tried to make, None if they came as they are. `by_rate`: the contrasts are both rewrites of triples,
    and `mean_margin` RATE's ATE, None if it is not given. `opposed`: RATE's ATT and ATU have opposite signs.
    """

    share: Estimate
    ties: int
    mean_margin: Margin | None
    p_holm: float
    identified: bool
    at_no_drift: Collection[Margin | None] = ()
    rival: str | None = None
    alike: tuple[int, float] | None = None
    signed_gap: Estimate | None = None
    tried: int | None = None
    by_rate: bool = False
    opposed: bool = False

    @property
    def alone(self) -> bool:
        """True if neither length nor another difference may be what the model prefers."""
        by_other = not (self.identified or isinstance(self.mean_margin, float)) or may_be_drift(
            self.mean_margin, self.at_no_drift
        )
        return self.rival is None and not by_other


def finding(found: ModelEvidence) -> Finding:
    """The finding of one audit of a model, without a training, on a bias, which is the reason if there is no verdict; the first
    rule that holds decides.

    Scored alike: both sides have the same score in every pair (the shared margin is 0), so that the model does not tell them
    apart. With votes the signed gap decides, since people saw the sides' other differences too: over-rewarded or under-rewarded
    if its interval lies above or below 0 and p is below 0.05; else no difference shown, which is not evidence that there is
    none. Without votes:
        too few prompts: under `MIN_PROMPTS`, also in place of not identified if as many of those that are alike otherwise would
            come with more prompts; few flipped, if a rewriter tried that many.
        mostly tied: see `mostly_tied`.
        no effect shown: the interval of the share contains 50% or that of the mean margin 0, they point to two sides, or p
            is 0.05 or more.
        penalised: both lie on the other side; not rewarded, if length or another difference, as below, may explain that.
        not told apart from length, not identified: length, or another difference, may explain the mean margin
            (`cda.stats.length`, `may_be_drift`); or there is no estimate of it. A margin that all pairs share is told from drift.
        rewarded: both lie on the biased side.
    On triples alone the ATE decides in place of share and mean margin, for the same reasons: few flipped in place of not identified, if too few rewrites flipped the bias
    for it. It is not identified either where ATT and ATU have opposite signs, since their average holds for no answer.
    """
    mean, share = found.mean_margin, found.share
    if isinstance(mean, float) and mean == 0:
        return "scored alike"
    if (gap := found.signed_gap) is not None:
        if found.p_holm >= SIGNIFICANT or gap.low <= 0 <= gap.high:
            return "no difference shown"
        return "over-rewarded" if gap.value > 0 else "under-rewarded"
    if share.n_prompts < MIN_PROMPTS:
        return "few flipped" if found.tried is not None and found.tried >= MIN_PROMPTS else "too few prompts"
    if mean is None:
        return "few flipped" if found.tried is not None and found.by_rate else "not identified"
    if found.opposed:
        return "not identified"
    side = _sign(mean) if found.by_rate else 1 if share.low > TIE else -1 if share.high < TIE else 0
    if mostly_tied(found.ties, share):
        return "mostly tied"
    if found.p_holm >= SIGNIFICANT or side == 0 or _sign(mean) != side:
        return "no effect shown"
    if side < 0:
        return "penalised" if found.alone else "not rewarded"
    if found.rival == LENGTH:
        return "not told apart from length"
    if found.alone:
        return "rewarded"
    few = found.alike is not None and found.alike[0] < MIN_PROMPTS and found.alike[1] >= MIN_SHARE
    return "too few prompts" if few and found.rival is None else "not identified"


def may_be_drift(mean_margin: Margin | None, at_no_drift: Collection[Margin | None]) -> bool:
    """True if the mean margin of all pairs excludes 0, and one of these does not, or with the other sign: the model may
    reward another difference, such as more words. A margin that all pairs share does not change with it.
    """
    if mean_margin is None or isinstance(mean_margin, float) or _sign(mean_margin) == 0:
        return False
    return any(margin is None or _sign(margin) != _sign(mean_margin) for margin in at_no_drift)


def _sign(margin: Margin) -> int:
    """1 or −1 if 0 is excluded on that side, else 0."""
    low, high = (margin, margin) if isinstance(margin, float) else (margin.low, margin.high)
    return 1 if low > 0 else -1 if high < 0 else 0


def _with_votes(people: PeopleEvidence) -> Word:
    before, after = people.skew.before - people.human_skew, people.skew.after - people.human_skew
    further = people.gap_rose and (people.skew.fell or people.skew.rose)
    if before * after < 0 and further:
        return "overcorrected"
    if people.miscalibration.fell:
        return "improved"
    return "worse" if people.miscalibration.rose or further else "no change shown"


def _without_votes(own: Evidence) -> Word:
    skew = _oriented(own)
    if skew.rose:
        return "worse"
    if skew.fell:
        limit = TIE if own.aims_at_tie else OVERCORRECTED_BELOW
        return "overcorrected" if skew.after_high < limit else "less biased"
    return "no change shown"


def _oriented(own: Evidence) -> Moved:
    """Skew so that a fall is for the better: turned round if ties were the aim and the model was against the bias."""
    return own.skew.mirrored() if own.aims_at_tie and own.skew.before < TIE else own.skew


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and one bias before and after it; `change` is paired, after − before, a share difference. Adjusted
    over all cells, `p_holm` keeps the family-wise error, `p_bh` the false discovery rate.
    """

    training: str
    bias: str
    is_target: bool
    change: Estimate
    p_holm: float
    p_bh: float

    @property
    def is_shown(self) -> bool:
        """By the standard of every word about a change, over all cells of the matrix."""
        return is_shown(self.change.low, self.change.high, self.p_holm)


def cross_bias(
    changes: Mapping[str, Mapping[str, tuple[Estimate, float]]], targets: Mapping[str, Collection[str]]
) -> list[Cell]:
    """The cross-bias matrix, from the change of each training and bias with its own p-value, and the biases each was
    against: all cells are tested together, in the given order. DataError: no training, or one without a measured bias.
    """
    empty = [training for training, row in changes.items() if not row]
    if not changes or empty:
        raise DataError(f"a cross-bias matrix needs measured biases; none for {', '.join(empty) or 'any training'}")
    cells = [(training, bias, change) for training, row in changes.items() for bias, change in row.items()]
    p_values = [p_value for _, _, (_, p_value) in cells]
    adjusted = zip(cells, holm(p_values), benjamini_hochberg(p_values), strict=True)
    return [
        Cell(training, bias, bias in targets.get(training, ()), change, p_holm, p_bh)
        for (training, bias, (change, _)), p_holm, p_bh in adjusted
    ]
