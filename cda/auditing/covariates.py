"""Effects of a bias by columns of the user's contrasts and triples: each level, the test that levels differ, and slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress

import numpy as np

from cda.arrays import BoolArray, FloatArray
from cda.auditing import rate
from cda.auditing.groups import Group, Scorings, per_scoring, read_margins
from cda.auditing.result import share_measure
from cda.errors import DataError
from cda.records import Triple, prompt_id
from cda.results.base import NOT_TRAINED, Measure, Missing, Test, or_missing
from cda.results.covariates import Covariates, Level, MarginsByColumn, RateByColumn
from cda.results.effects import SIGN_TEST, T_TEST, ConditionalEffects, Effect, SameMargin
from cda.stats import rate as statistics
from cda.stats.clustered import Target, by_students_t, direct_contrast, same_in_all, slope_effect
from cda.stats.levels import Levels, levels_differ, levels_of
from cda.stats.multiplicity import holm
from cda.stats.rate import Contrasts

Cutoffs = Mapping[str, Sequence[float]]
_NO_COLUMN = "no file has it"


def by_columns(
    groups: Sequence[Group],
    triples: Sequence[Triple],
    scorings: Scorings,
    columns: Sequence[str],
    cutoffs: Cutoffs,
    refused: Mapping[str, Mapping[statistics.Estimand, str]],
) -> dict[str, Covariates]:
    """Every target by every column; empty if no column was asked for. `refused` are RATE's estimands that too few rewrites
    flipped the bias for, by bias."""
    if not columns:
        return {}
    found = {}
    for group in (group for group in groups if group.is_target):
        own = [triple for triple in triples if triple.bias == group.bias.name]
        why = refused.get(group.bias.name, {}).get("ATE")
        found[group.bias.name] = Covariates(
            contrasts={name: or_missing(partial(_direct, group, name, cutoffs.get(name, ()))) for name in columns},
            triples={
                name: or_missing(partial(_rate, own, scorings, name, cutoffs.get(name, ()), why)) for name in columns
            },
        )
    return found


def _direct(group: Group, column: str, cutoffs: Sequence[float]) -> MarginsByColumn:
    values = [contrast.tags.get("by", {}).get(column) for contrast in group.contrasts]
    if not any(value is not None for value in values):
        raise DataError("these contrasts have no value in it")
    ids = list(group.prompt_ids)
    levels = levels_of(values, ids, cutoffs)
    differences = list(group.margins.values())
    change: Test | Missing = NOT_TRAINED
    if len(differences) == 2:
        change = or_missing(partial(levels_differ, differences[1] - differences[0], levels, ids))
    return MarginsByColumn(
        kind="categories" if levels.numbers is None else "numbers",
        cutoffs=tuple(cutoffs),
        n_missing=levels.n_missing,
        levels=_adjusted([_level(group, levels, name) for name in levels.names]),
        differ=per_scoring({
            label: or_missing(partial(levels_differ, margins, levels, ids)) for label, margins in group.margins.items()
        }),
        change_differs=change,
        slope=per_scoring({
            label: or_missing(partial(_slope, margins, levels, ids, column, group.unit))
            for label, margins in group.margins.items()
        }),
    )  # fmt: skip


def _level(group: Group, levels: Levels, name: str) -> Level:
    rows = levels.rows(name)
    margins = {label: values[rows] for label, values in group.margins.items()}
    ids = list(compress(group.prompt_ids, rows))
    skew = or_missing(partial(share_measure, margins, ids, group.ties))
    means = {label: _mean(values, ids, group.unit) for label, values in margins.items()}
    changed = skew.test if isinstance(skew, Measure) else skew
    test = changed if len(margins) == 2 else _tested(list(means.values())[-1])
    pooled = dict(levels.pooled) if levels.pooled and name == levels.names[-1] else {}
    return Level(
        name=name, pooled=pooled, n=int(rows.sum()), n_prompts=len(set(ids)), skew=skew, margin=per_scoring(means), test=test
    )  # fmt: skip


def _mean(values: FloatArray, ids: Sequence[str], unit: str) -> Effect | SameMargin | Missing:
    found: Effect | Missing = or_missing(partial(direct_contrast, values, ids, None, unit))
    return by_students_t(found) if isinstance(found, Effect) else same_in_all(values, ids, found.reason) or found


def _tested(mean: Effect | SameMargin | Missing) -> Test | Missing:
    match mean:
        case Effect():
            return Test(p_value=mean.p_value, method=T_TEST)
        case SameMargin(p_value=float(p_value)):
            return Test(p_value=p_value, method=SIGN_TEST)
        case SameMargin():
            return Missing(reason="all margins are 0 and have no sign")
    return mean


def _adjusted(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Levels with Holm's p over those that are tested."""
    tests = _holm({level.name: level.test for level in levels if isinstance(level.test, Test)})
    return tuple(level.model_copy(update={"test": tests.get(level.name, level.test)}) for level in levels)


def _holm(tests: Mapping[str, Test]) -> dict[str, Test]:
    if not tests:
        return {}
    adjusted = holm([test.p_value for test in tests.values()])
    return {
        name: test.model_copy(update={"p_holm": p}) for (name, test), p in zip(tests.items(), adjusted, strict=True)
    }


def _slope(margins: FloatArray, levels: Levels, ids: Sequence[str], column: str, unit: str) -> Effect:
    x, rows = _numbers(levels)
    scale = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")
    target = Target(f"slope per 1 of {column}", "direct contrast", f"{unit} per 1 of {column}", scale)
    return slope_effect(margins[rows], x[rows], list(compress(ids, rows)), target, None)


def _numbers(levels: Levels) -> tuple[FloatArray, BoolArray]:
    if levels.numbers is None:
        raise DataError("the column holds categories")
    return levels.numbers, ~np.isnan(levels.numbers)


def _rate(
    triples: Sequence[Triple], scorings: Scorings, column: str, cutoffs: Sequence[float], refused: str | None
) -> RateByColumn:
    """The double-rewrite effect by a column, on triples that every scoring has all rewards of."""
    if refused:
        raise DataError(refused)
    read = np.ones(len(triples), dtype=bool)
    for step in zip(*map(rate.triple_comparisons, triples), strict=True):
        read &= read_margins(scorings, step)[2]
    kept = [triple for triple in compress(triples, read) if dict(triple.by).get(column) is not None]
    if not kept:
        raise DataError("these triples have no value in it")
    ids = [prompt_id(triple.prompt) for triple in kept]
    levels = levels_of([dict(triple.by)[column] for triple in kept], ids, cutoffs)
    contrasts = {label: rate.contrasts_of(kept, scoring, []) for label, scoring in scorings.items()}
    effects: dict[str, ConditionalEffects | Missing] = {
        label: or_missing(partial(_by_level, own, levels)) for label, own in contrasts.items()
    }
    last = list(effects.values())[-1]
    tests = {} if isinstance(last, Missing) else {
        effect.estimand.removeprefix("CATE: "): Test(p_value=effect.p_value, method=T_TEST) for effect in last.effects
    }  # fmt: skip
    return RateByColumn(
        kind="categories" if levels.numbers is None else "numbers",
        cutoffs=tuple(cutoffs),
        n_missing=int(read.sum()) - len(kept),
        pooled=dict(levels.pooled),
        effects=per_scoring(effects),
        tests=_holm(tests),
        differ=per_scoring({label: or_missing(partial(levels_differ, own.double, levels, ids)) for label, own in contrasts.items()}),
        slope=per_scoring({label: or_missing(partial(_rate_slope, own, levels, column)) for label, own in contrasts.items()}),
    )  # fmt: skip


def _by_level(contrasts: Contrasts, levels: Levels) -> ConditionalEffects:
    """The effect in each level, in the order of the levels."""
    found = statistics.conditional_effects(contrasts, [str(name) for name in levels.of])
    order = {f"CATE: {name}": place for place, name in enumerate(levels.names)}
    effects = sorted(map(by_students_t, found.effects), key=lambda effect: order[effect.estimand])
    return found.model_copy(update={"effects": tuple(effects)})


def _rate_slope(contrasts: Contrasts, levels: Levels, column: str) -> ConditionalEffects:
    numbers, _ = _numbers(levels)
    name = f"1 of {column}"
    wanted: list[statistics.Wanted] = [
        (
            f"slope per {name}",
            estimator,
            None,
            partial(statistics.effect_slope, contrasts, numbers, estimator, None, name),
        )
        for estimator in statistics.ESTIMATORS
    ]
    effects, missing = statistics.collect(wanted)
    return ConditionalEffects(effects=effects, not_estimated=missing)
