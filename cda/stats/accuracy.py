"""Intervals, standard errors and tests of weighted accuracies, where a benchmark fixes how much each subset weighs.

Where subsets have fixed weights, a difference between two of them is no sampling error: only the spread within each of
them counts. So errors and draws are of residuals from the subset's own mean. A prompt that stands in several subsets
(RewardBench takes AlpacaEval's into three) is drawn with all of its residuals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.results.base import Estimate
from cda.results.benchmarks import Accuracies, Accuracy, AccuracyGroup, AccuracyShift
from cda.stats.accuracy_rules import STYLE_SECTIONS, Ranked, Rule, rule_rows
from cda.stats.bootstrap import bootstrap_sums, cluster_sums
from cda.stats.multiplicity import holm
from cda.stats.proportions import exact_change_test, paired_change, share, wilson
from cda.stats.streams import Stream, generator

_FLIPS = 9_999
_WITHIN = "prompt-clustered bootstrap 95% within subsets"


@dataclass(frozen=True, slots=True)
class Design:
    """How rows are averaged, alike for every scoring.

    Attributes:
        weights: Of each row. Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        strata: Subset of each row where subsets have fixed weights, else the same word for all. Shape (n,).
        seed: Of bootstraps and random sign flips.
    """

    weights: FloatArray
    prompt_ids: Sequence[str]
    strata: NDArray[np.str_]
    seed: int

    def rng(self) -> np.random.Generator:
        """The same for every estimate."""
        return generator(self.seed, Stream.AUDIT_INTERVALS)

    def mean(self, values: FloatArray) -> float:
        """Weighted mean."""
        return float(np.average(values, weights=self.weights))

    def is_plain(self, *columns: FloatArray) -> bool:
        """Whether the mean is a plain share, for which there are better intervals than the bootstrap's."""
        inside = all(((one >= 0) & (one <= 1)).all() for one in columns)
        one_stratum = bool((self.strata == self.strata[0]).all())
        return inside and one_stratum and bool(np.allclose(self.weights, self.weights[0]))


def level(values: FloatArray, design: Design) -> Estimate:
    """Weighted mean with a 95% interval: of a plain share Wilson's, else of residuals."""
    if design.is_plain(values):
        return share(values, design.prompt_ids)
    drawn = _drawn(values, design, "share")
    if drawn is not None:
        return drawn
    if np.ptp(values) > 0:
        inside = np.clip(values, 0, 1)
        return _of_strata(lambda rows, ids: share(inside[rows], ids), values, design)
    mean, n = design.mean(values), len(set(design.prompt_ids))
    low, high = wilson(min(max(mean, 0.0), 1.0) * n, n)
    return Estimate(
        value=mean,
        low=min(low, mean),
        high=max(high, mean),
        n=len(values),
        n_prompts=n,
        unit="share",
        method="Wilson 95% over prompts",
    )


def change(before: FloatArray, after: FloatArray, design: Design) -> Estimate:
    """Weighted mean of after − before with a 95% interval, paired; see `level`."""
    if design.is_plain(before, after):
        return paired_change(before, after, design.prompt_ids)
    moved = after - before
    drawn = _drawn(moved, design, "share difference")
    if drawn is not None:
        return drawn
    clipped = np.clip(before, 0, 1), np.clip(after, 0, 1)
    if np.ptp(moved) > 0:
        return _of_strata(lambda rows, ids: paired_change(clipped[0][rows], clipped[1][rows], ids), moved, design)
    # Every row moved alike: the width that as many plain shares would have.
    plain = paired_change(*clipped, design.prompt_ids)
    mean = design.mean(moved)
    return plain.model_copy(
        update={"value": mean, "low": mean - (plain.value - plain.low), "high": mean + (plain.high - plain.value)}
    )


def standard_error(values: FloatArray, design: Design) -> float:
    """Of the weighted mean when whole prompts are drawn.

    √(p(1 − p)/n) of a plain share whose prompts occur once each; with several subsets √Σ W²·p(1 − p)/(n − 1) over them,
    W the subset's share of the weight.
    """
    sums = cluster_sums(_residuals(values, design)[:, None], design.prompt_ids)
    return float(np.sqrt((sums**2).sum()))


def change_test(before: FloatArray, after: FloatArray, design: Design) -> tuple[float, str]:
    """p-value of no change, and how it was made: exact for a plain share of 0, 0.5 and 1, else signs of prompts flipped."""
    if design.is_plain(before, after) and np.isin([before, after], (0, 0.5, 1)).all():
        exact = exact_change_test(before, after, design.prompt_ids)
        return exact.p_value, exact.method
    sums = cluster_sums((design.weights * (after - before))[:, None], design.prompt_ids)[:, 0]
    sums = sums[np.abs(sums) > 1e-12 * design.weights.max()]
    rng = design.rng()
    observed = abs(float(sums.sum())) * (1 - 1e-9)
    reached = sum(abs(float(rng.choice((-1.0, 1.0), len(sums)) @ sums)) >= observed for _ in range(_FLIPS))
    return (1 + reached) / (1 + _FLIPS), f"sign-flip over prompts, {_FLIPS} random draws"


def _drawn(values: FloatArray, design: Design, unit: str) -> Estimate | None:
    """Bootstrap of the prompts' residuals; None where there is no spread to draw from, in all or in one subset."""
    residuals = _residuals(values, design)
    if min(_sizes(design.strata, design).values()) < 2 or np.abs(residuals).max() < 1e-12:
        return None
    mean = design.mean(values)
    found = bootstrap_sums(residuals[:, None], design.prompt_ids, lambda sums: mean + sums[:, 0], design.rng())
    if found.low == found.high:
        return None
    # No share, and no change of one, lies further out than its rows.
    low, high = max(found.low, min(values.min(), mean)), min(found.high, max(values.max(), mean))
    return found.estimate(unit).model_copy(update={"low": float(low), "high": float(high), "method": _WITHIN})


def _residuals(values: FloatArray, design: Design) -> FloatArray:
    """What each row adds to the error of the weighted mean; their sum is 0 in every subset."""
    strata, ids = _drawable(design), np.asarray(design.prompt_ids)
    names = np.unique(strata)
    residuals = np.zeros(len(values))
    for name in names:
        own = strata == name
        n = len(set(ids[own]))
        # A mean of few prompts follows them; of one set alone the plain formula is kept.
        scale = np.sqrt(n / (n - 1)) if len(names) > 1 else 1.0
        weights = design.weights[own]
        residuals[own] = scale * weights * (values[own] - np.average(values[own], weights=weights))
    return np.asarray(residuals / design.weights.sum(), dtype=np.float64)


def _drawable(design: Design) -> NDArray[np.str_]:
    """Strata in which a subset of a single prompt, which has no spread of its own, joins the next smallest."""
    strata = design.strata.copy()
    while True:
        sizes = _sizes(strata, design)
        by_size = sorted(sizes, key=lambda name: sizes[name])
        if len(by_size) == 1 or sizes[by_size[0]] > 1:
            return strata
        strata[strata == by_size[0]] = by_size[1]


def _sizes(strata: NDArray[np.str_], design: Design) -> dict[str, int]:
    """Prompts in each stratum."""
    ids = np.asarray(design.prompt_ids)
    return {str(name): len(set(ids[strata == name])) for name in np.unique(strata)}


def _of_strata(
    estimate: Callable[[NDArray[np.bool_], list[str]], Estimate], values: FloatArray, design: Design
) -> Estimate:
    """Where subsets have no spread within, or a single prompt: their own intervals, added by the squares of their widths."""
    mean, ids = design.mean(values), np.asarray(design.prompt_ids)
    own = [design.strata == name for name in np.unique(design.strata)]
    found = [estimate(rows, ids[rows].tolist()) for rows in own]
    weights = np.array([design.weights[rows].sum() for rows in own]) / design.weights.sum()
    down = weights * np.array([one.value - one.low for one in found])
    up = weights * np.array([one.high - one.value for one in found])
    return Estimate(
        value=mean,
        low=mean - float(np.sqrt((down**2).sum())),
        high=mean + float(np.sqrt((up**2).sum())),
        n=len(values),
        n_prompts=len(set(design.prompt_ids)),
        unit=found[0].unit,
        method=f"{found[0].method} within subsets",
    )


A = TypeVar("A", bound=Accuracies)
FALL = 0.01
"""A section that falls by more than this is flagged."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is averaged: one value a row, alike for every scoring apart from the values and ties."""

    prompt_ids: NDArray[np.str_]
    subsets: NDArray[np.str_]
    sections: NDArray[np.str_]
    cells: NDArray[np.str_]
    weights: FloatArray
    strata: NDArray[np.str_]
    values: Mapping[str, FloatArray]
    ties: Mapping[str, FloatArray]


def measure(
    scorings: Mapping[str, Sequence[Ranked]],
    rule: Rule,
    weights: Mapping[str, float] | None,
    seed: int,
    half_ties: bool = False,
) -> Accuracies:
    """Accuracy of one or two scorings of the same items.

    Args:
        scorings: Label to its items; the second label is compared with the first. Same items in the same order.
        rule: How items are scored.
        weights: Weight of each subset within its section; sections then weigh alike overall. None: items weigh alike.
        seed: Of bootstraps and random sign flips.
        half_ties: A pair's margin of 0 counts half (judges), not nothing (rewards).

    Raises:
        DataError: No items, a margin that is not finite, or scorings of different items.
    """
    rows = _rows(scorings, rule, weights, half_ties)
    every = np.ones(len(rows.prompt_ids), dtype=bool)
    sections = [_group(name, rows, rows.sections == name, seed) for name in _names(rows.sections)]
    subsets = [_group(name, rows, rows.subsets == name, seed) for name in _names(rows.subsets)]
    cells = [_group(name, rows, rows.cells == name, seed) for name in _names(rows.cells) if name]
    overall = _group("overall", rows, every, seed, by_section=weights is not None)
    return Accuracies(overall=overall, sections=tuple(sections), subsets=tuple(subsets), cells=tuple(cells))


def with_holm(results: Sequence[A]) -> list[A]:
    """The same with p-values adjusted over all sections of all sets together (Holm)."""
    shifts = [group.shift for one in results for group in one.sections if group.shift is not None]
    adjusted = iter(holm([shift.p_value for shift in shifts]))

    def one(group: AccuracyGroup) -> AccuracyGroup:
        if group.shift is None:
            return group
        return group.model_copy(update={"shift": group.shift.model_copy(update={"p_holm": next(adjusted)})})

    return [result.model_copy(update={"sections": tuple(map(one, result.sections))}) for result in results]


def _rows(
    scorings: Mapping[str, Sequence[Ranked]], rule: Rule, weights: Mapping[str, float] | None, half_ties: bool
) -> _Rows:
    scored = {label: rule_rows(items, rule, half_ties) for label, items in scorings.items()}
    first = next(iter(scored.values()))
    if not first:
        raise DataError("no items: accuracy of nothing cannot be estimated")
    for label, rows in scored.items():
        if [row.place for row in rows] != [row.place for row in first]:
            raise DataError(f"the scoring '{label}' is of other items than the first")
    ids, subsets, sections, cells = np.array([row.place for row in first], dtype=np.str_).T
    places = Counter((row.place[1], row.place[2]) for row in first)
    per_row = [1.0 if weights is None else weights[row.place[1]] / places[row.place[1], row.place[2]] for row in first]
    return _Rows(
        ids,
        subsets,
        sections,
        cells,
        np.array(per_row, dtype=np.float64),
        np.full(len(first), "all") if weights is None else subsets,
        {label: np.array([row.value for row in rows], dtype=np.float64) for label, rows in scored.items()},
        {label: np.array([row.n_ties for row in rows], dtype=np.float64) for label, rows in scored.items()},
    )


def _names(column: NDArray[np.str_]) -> list[str]:
    if set(column) == set(STYLE_SECTIONS):
        return list(STYLE_SECTIONS)
    return list(dict.fromkeys(str(name) for name in column))


def _group(name: str, rows: _Rows, keep: NDArray[np.bool_], seed: int, by_section: bool = False) -> AccuracyGroup:
    weights = rows.weights[keep]
    if by_section:
        total = {str(section): rows.weights[rows.sections == section].sum() for section in set(rows.sections)}
        weights = weights / np.array([total[str(section)] for section in rows.sections[keep]])
    design = Design(weights, rows.prompt_ids[keep].tolist(), rows.strata[keep], seed)
    values = {label: column[keep] for label, column in rows.values.items()}
    scores = {
        label: Accuracy(
            estimate=level(one, design),
            standard_error=standard_error(one, design),
            n_ties=int(rows.ties[label][keep].sum()),
        )
        for label, one in values.items()
    }
    shift = None
    if len(values) > 1:
        before, after = values.values()
        shift = _shift(before, after, design)
    return AccuracyGroup(name=name, scores=scores, shift=shift)


def _shift(before: FloatArray, after: FloatArray, design: Design) -> AccuracyShift:
    estimate = change(before, after, design)
    p_value, method = change_test(before, after, design)
    return AccuracyShift(
        estimate=estimate,
        standard_error=standard_error(after - before, design),
        p_value=p_value,
        p_method=method,
        p_holm=None,
        fell=estimate.value < -FALL - 1e-12,
        excludes_0=estimate.high < 0,
        rules_out_fall=estimate.low > -FALL,
    )
