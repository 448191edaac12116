"""Weighted accuracies of benchmarks: the rules that score an item, intervals, standard errors and tests.

A margin is the reward of a better response minus that of a worse one. The rules:

- `pair`: 1 if the margin is above 0. A tie is 0 for rewards, as in RewardBench's script, which counts chosen > rejected;
  it is 0.5 for a judge's preference, as its script for judges has it.
- `best-of`: 1 if a chosen response has the highest reward of all; 1/k if it shares the highest with k − 1 others.
- Ties, for each number N: 0.3·(all right answers above all wrong ones, tied prompt) + 0.3·(the same, reference prompt) +
  0.2·(gap > spread) + 0.2·(smaller gap of both prompts > spread) + 0.01·tanh(smaller gap / spread − 1), where gap is the
  worst right answer minus the best wrong one, and spread the best minus the worst right answer (RewardBench 2's script).
- `styles`: nine comparisons an item, chosen style i over rejected style j; hard i < j, normal i = j, easy i > j (RM-Bench).

If subsets have fixed weights, a difference between two of them is no sampling error: only the spread within each of
them counts. So errors and draws are of residuals from the subset's own mean. A prompt that stands in several subsets
(RewardBench takes AlpacaEval's into three) is drawn with all of its residuals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.arrays import BoolArray, FloatArray
from cda.errors import DataError
from cda.results.base import Estimate, Test
from cda.results.benchmarks import Accuracies, Accuracy, AccuracyGroup, AccuracyShift
from cda.stats.draws import ROUNDING, Stream, bootstrap_sums, cluster_sums, generator
from cda.stats.multiplicity import holm
from cda.stats.proportions import exact_change_test, paired_change, wilson, wilson_share

A = TypeVar("A", bound=Accuracies)
Rule = Literal["pair", "best-of", "styles"]
Names = NDArray[np.str_]
FALL = 0.01
"""A section that falls by more than this is flagged."""
_STYLE_SECTIONS = ("easy", "normal", "hard")
_FLIPS = 9_999


@dataclass(frozen=True, slots=True)
class Ranked:
    """Margins that a scorer gave one item, of a section of a subset of a benchmark.

    `over`: margin of each chosen over each rejected response, shape (chosen, rejected), no NaN. `section` is empty
    under the rule `styles`, where the style is the section. In Ties alone: `spread`, best minus worst chosen response,
    and `tied`, `ref` or `tied` with the number that the two share.
    """

    prompt_id: str
    subset: str
    section: str
    over: FloatArray
    spread: float = 0.0
    tied: tuple[str, int] | None = None


class _Row(NamedTuple):
    """One item, style comparison or number of Ties: its value, 0 to 1 (of Ties −0.01 to 1.01), and margins of 0.
    `place`: prompt_id, subset, section and cell (of the style matrix; empty under other rules).
    """

    place: tuple[str, str, str, str]
    value: float
    n_ties: int


@dataclass(frozen=True, slots=True)
class _Design:
    """Weights and clusters of rows. `strata`, shape (n,): subsets if their weights are fixed, else one word for all."""

    weights: FloatArray
    prompt_ids: list[str]
    strata: Names
    seed: int

    def rng(self) -> np.random.Generator:
        """The same for every estimate."""
        return generator(self.seed, Stream.AUDIT_INTERVALS)

    def mean(self, values: FloatArray) -> float:
        return float(np.average(values, weights=self.weights))

    def is_plain(self, *columns: FloatArray) -> bool:
        """True if the mean is a plain share, for which there are better intervals than the bootstrap's."""
        inside = all(((column >= 0) & (column <= 1)).all() for column in columns)
        one_stratum = bool((self.strata == self.strata[0]).all())
        return inside and one_stratum and bool(np.allclose(self.weights, self.weights[0]))

    def sizes(self, strata: Names) -> dict[str, int]:
        """Prompts in each stratum."""
        ids = np.asarray(self.prompt_ids)
        return {str(name): len(set(ids[strata == name])) for name in np.unique(strata)}

    def residuals(self, values: FloatArray) -> FloatArray:
        """Share of each row in the error of the weighted mean; their sum is 0 in every subset."""
        strata, ids = self._drawable(), np.asarray(self.prompt_ids)
        names = np.unique(strata)
        residuals = np.zeros(len(values))
        for name in names:
            own = strata == name
            n = len(set(ids[own]))
            # A mean of few prompts follows them; of one set alone the plain formula is kept.
            scale = np.sqrt(n / (n - 1)) if len(names) > 1 else 1.0
            weights = self.weights[own]
            residuals[own] = scale * weights * (values[own] - np.average(values[own], weights=weights))
        return np.asarray(residuals / self.weights.sum(), dtype=np.float64)

    def _drawable(self) -> Names:
        """Strata in which a subset of a single prompt, which has no spread of its own, joins the next smallest."""
        strata = self.strata.copy()
        while True:
            sizes = self.sizes(strata)
            by_size = sorted(sizes, key=lambda name: sizes[name])
            if len(by_size) == 1 or sizes[by_size[0]] > 1:
                return strata
            strata[strata == by_size[0]] = by_size[1]

    def standard_error(self, values: FloatArray) -> float:
        """Standard error of the weighted mean when whole prompts are drawn.

        √(p(1 − p)/n) of a plain share whose prompts occur once each; with several subsets √Σ W²·p(1 − p)/(n − 1) over them,
        W the subset's share of the weight.
        """
        sums = cluster_sums(self.residuals(values)[:, None], self.prompt_ids)
        return float(np.sqrt((sums**2).sum()))


def measure_accuracy(
    scorings: Mapping[str, Sequence[Ranked]],
    rule: Rule,
    weights: Mapping[str, float] | None,
    seed: int,
    half_ties: bool = False,
) -> Accuracies:
    """Accuracy of one or two scorings of the same items in the same order, by label; the second is compared with the
    first.

    `weights`: of each subset within its section, sections then weigh alike overall; None: items weigh alike. `seed`: of
    bootstraps and random sign flips. `half_ties`: a pair's margin of 0 counts half (judges), not nothing (rewards).
    DataError: no items, a margin that is not finite, or scorings of different items.
    """
    scored = {label: _rule_rows(items, rule, half_ties) for label, items in scorings.items()}
    first = next(iter(scored.values()))
    if not first:
        raise DataError("no items: accuracy of nothing cannot be estimated")
    for label, rows in scored.items():
        if [row.place for row in rows] != [row.place for row in first]:
            raise DataError(f"the scoring '{label}' is of other items than the first")
    ids, subsets, sections, cells = np.array([row.place for row in first], dtype=np.str_).T
    places = Counter(zip(subsets, sections, strict=True))
    weight = np.ones(len(first))
    if weights is not None:
        weight = np.array([weights[row.place[1]] / places[row.place[1], row.place[2]] for row in first])
    strata = np.full(len(first), "all") if weights is None else subsets
    values = {label: np.array([row.value for row in rows], dtype=np.float64) for label, rows in scored.items()}
    ties = {label: np.array([row.n_ties for row in rows]) for label, rows in scored.items()}

    def group(name: str, keep: BoolArray, weight: FloatArray = weight) -> AccuracyGroup:
        design = _Design(weight[keep], ids[keep].tolist(), strata[keep], seed)
        n_ties = {label: int(column[keep].sum()) for label, column in ties.items()}
        return _group(name, {label: column[keep] for label, column in values.items()}, n_ties, design)

    def groups(column: Names) -> tuple[AccuracyGroup, ...]:
        found = _STYLE_SECTIONS if set(column) == set(_STYLE_SECTIONS) else dict.fromkeys(column.tolist())
        return tuple(group(name, column == name) for name in found if name)

    alike = weight
    if weights is not None:
        total = {name: weight[sections == name].sum() for name in set(sections)}
        alike = weight / np.array([total[name] for name in sections])
    overall = group("overall", np.ones(len(first), dtype=bool), alike)
    return Accuracies(overall=overall, sections=groups(sections), subsets=groups(subsets), cells=groups(cells))


def with_holm(results: Sequence[A]) -> list[A]:
    """The same with p-values adjusted over all sections of all sets together (Holm)."""
    shifts = [group.shift for result in results for group in result.sections if group.shift is not None]
    adjusted = iter(holm([shift.p_value for shift in shifts]))

    def with_p(group: AccuracyGroup) -> AccuracyGroup:
        if group.shift is None:
            return group
        return group.model_copy(update={"shift": group.shift.model_copy(update={"p_holm": next(adjusted)})})

    return [result.model_copy(update={"sections": tuple(map(with_p, result.sections))}) for result in results]


def _group(name: str, values: Mapping[str, FloatArray], n_ties: Mapping[str, int], design: _Design) -> AccuracyGroup:
    scores = {
        label: Accuracy(
            estimate=_level(column, design), standard_error=design.standard_error(column), n_ties=n_ties[label]
        )
        for label, column in values.items()
    }
    if len(values) == 1:
        return AccuracyGroup(name=name, scores=scores, shift=None)
    before, after = values.values()
    estimate, test = _change(before, after, design), _change_test(before, after, design)
    shift = AccuracyShift(
        estimate=estimate,
        standard_error=design.standard_error(after - before),
        p_value=test.p_value,
        p_method=test.method,
        p_holm=None,
        fell=estimate.value < -FALL - ROUNDING,
        excludes_0=estimate.high < 0,
        rules_out_fall=estimate.low > -FALL,
    )
    return AccuracyGroup(name=name, scores=scores, shift=shift)


def _level(values: FloatArray, design: _Design) -> Estimate:
    """Weighted mean with a 95% interval: of a plain share Wilson's, else of residuals."""
    if design.is_plain(values):
        return wilson_share(values, design.prompt_ids)
    inside = np.clip(values, 0, 1)
    drawn = _drawn(values, design, "share", lambda rows, ids: wilson_share(inside[rows], ids))
    if drawn is not None:
        return drawn
    mean, n = design.mean(values), len(set(design.prompt_ids))
    low, high = wilson(min(max(mean, 0.0), 1.0) * n, n)
    low, high, method = min(low, mean), max(high, mean), "Wilson 95% over prompts"
    return Estimate(value=mean, low=low, high=high, n=len(values), n_prompts=n, unit="share", method=method)


def _change(before: FloatArray, after: FloatArray, design: _Design) -> Estimate:
    """Weighted mean of after − before with a 95% interval, paired; see `_level`."""
    if design.is_plain(before, after):
        return paired_change(before, after, design.prompt_ids)
    moved, first, second = after - before, np.clip(before, 0, 1), np.clip(after, 0, 1)
    drawn = _drawn(moved, design, "share difference", lambda rows, ids: paired_change(first[rows], second[rows], ids))
    if drawn is not None:
        return drawn
    # Every row moved alike: the width that as many plain shares would have.
    plain, mean = paired_change(first, second, design.prompt_ids), design.mean(moved)
    low, high = mean - (plain.value - plain.low), mean + (plain.high - plain.value)
    return plain.model_copy(update={"value": mean, "low": low, "high": high})


def _change_test(before: FloatArray, after: FloatArray, design: _Design) -> Test:
    """Test of no change: exact for a plain share of 0, 0.5 and 1, else signs of prompts flipped."""
    if design.is_plain(before, after) and np.isin([before, after], (0, 0.5, 1)).all():
        return exact_change_test(before, after, design.prompt_ids)
    sums = cluster_sums((design.weights * (after - before))[:, None], design.prompt_ids)[:, 0]
    sums = sums[np.abs(sums) > ROUNDING * design.weights.max()]
    rng = design.rng()
    observed = abs(float(sums.sum())) * (1 - 1e-9)
    reached = sum(abs(float(rng.choice((-1.0, 1.0), len(sums)) @ sums)) >= observed for _ in range(_FLIPS))
    method = f"sign-flip over prompts, {_FLIPS} random draws"
    return Test(p_value=(1 + reached) / (1 + _FLIPS), method=method)


def _drawn(
    values: FloatArray, design: _Design, unit: str, plain: Callable[[BoolArray, list[str]], Estimate]
) -> Estimate | None:
    """Bootstrap of the prompts' residuals; None if all values are the same. Without a spread in all or in one subset,
    `plain` intervals of the subsets by themselves.
    """
    residuals, mean = design.residuals(values), design.mean(values)
    if min(design.sizes(design.strata).values()) > 1 and np.abs(residuals).max() >= ROUNDING:
        drawn = bootstrap_sums(
            residuals[:, None], design.prompt_ids, lambda sums: mean + sums[:, 0], design.rng(), unit
        )
        if drawn.low < drawn.high:
            # No share, and no change of one, lies further out than its rows.
            low, high = max(drawn.low, min(values.min(), mean)), min(drawn.high, max(values.max(), mean))
            method = "prompt-clustered bootstrap 95% within subsets"
            return drawn.model_copy(update={"low": float(low), "high": float(high), "method": method})
    if np.ptp(values) == 0:
        return None
    # Their widths are added as squares.
    ids = np.asarray(design.prompt_ids)
    strata = [design.strata == name for name in np.unique(design.strata)]
    estimates = [plain(rows, ids[rows].tolist()) for rows in strata]
    weights = np.array([design.weights[rows].sum() for rows in strata]) / design.weights.sum()
    down = weights * np.array([own.value - own.low for own in estimates])
    up = weights * np.array([own.high - own.value for own in estimates])
    return Estimate(
        value=mean,
        low=mean - float(np.sqrt((down**2).sum())),
        high=mean + float(np.sqrt((up**2).sum())),
        n=len(values),
        n_prompts=len(set(design.prompt_ids)),
        unit=unit,
        method=f"{estimates[0].method} within subsets",
    )


def _rule_rows(items: Sequence[Ranked], rule: Rule, half_ties: bool) -> list[_Row]:
    """Values of the items under a rule; Ties after all others."""
    for item in items:
        if not (np.isfinite(item.over).all() and np.isfinite(item.spread)):
            raise DataError(f"an item of {item.subset or 'the set'} has a margin that is NaN or infinite")
    rows = []
    for item in items:
        if rule == "styles":
            for (i, j), margin in np.ndenumerate(item.over):
                section = _STYLE_SECTIONS[int(np.sign(j - i)) + 1]
                place = item.prompt_id, item.subset, section, f"{i + 1} over {j + 1}"
                rows.append(_Row(place, float(margin > 0), int(margin == 0)))
        elif not item.tied:
            rows.append(_Row(_place(item), _value(item.over, rule, half_ties), int((item.over == 0).sum())))
    tied = {item.tied: item for item in items if item.tied}
    for (kind, number), item in tied.items():
        if kind == "tied":
            reference = tied["ref", number]
            value = tied_value(float(reference.over.min()), float(item.over.min()), item.spread)
            rows.append(_Row(_place(item), value, sum(int((side.over == 0).sum()) for side in (reference, item))))
    return rows


def _place(item: Ranked) -> tuple[str, str, str, str]:
    return item.prompt_id, item.subset, item.section, ""


def _value(over: FloatArray, rule: Rule, half_ties: bool) -> float:
    if rule == "pair":
        margin = float(over[0, 0])
        return 0.5 if margin == 0 and half_ties else float(margin > 0)
    # Share of the chosen among the responses of highest reward.
    worst = over.min(axis=1)
    best = int(worst.argmax())
    if worst[best] != 0:
        return float(worst[best] > 0)
    n_chosen, n_rejected = int((worst == 0).sum()), int((over[best] == 0).sum())
    return n_chosen / (n_chosen + n_rejected)


def tied_value(reference_gap: float, tied_gap: float, spread: float) -> float:
    """Score of one number of RewardBench 2's Ties; see the module. −0.01 to 1.01."""
    smaller = min(reference_gap, tied_gap)
    # Without a spread the limit, ±1; their script makes 0/0 a 0.
    closeness = float(np.tanh(smaller / spread - 1)) if spread > 0 else float(np.sign(smaller))
    steps = 0.3 * (tied_gap > 0) + 0.3 * (reference_gap > 0) + 0.2 * (tied_gap > spread) + 0.2 * (smaller > spread)
    return float(steps + 0.01 * closeness)
