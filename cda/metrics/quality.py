"""Accuracy of a scorer on ranked items by subset, section and overall, before and after, with a flag where a section falls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.errors import DataError
from cda.metrics.quality_intervals import Design, change, change_test, level, standard_error
from cda.metrics.quality_rules import STYLE_SECTIONS, Ranked, Rule, rule_rows
from cda.results.benchmarks import Accuracies, Accuracy, AccuracyGroup, AccuracyShift
from cda.stats.multiplicity import holm

A = TypeVar("A", bound=Accuracies)
FloatArray = NDArray[np.float64]
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
