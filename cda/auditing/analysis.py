"""Numbers of an audit behind its headline: data that go with the bias, effects and drift of direct contrasts, rewards, examples,
effects by columns of the user's data, and verdicts of LLM judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from cda.arrays import BoolArray, FloatArray
from cda.auditing import rate
from cda.auditing.groups import Group, Scorings, contrast_comparisons, people_of, per_scoring, read_margins
from cda.auditing.headline import share_measure
from cda.biases import Bias
from cda.data.pairs import PairLabels
from cda.errors import DataError
from cda.features import PATTERN_FEATURES
from cda.preferences.measure import label_rates
from cda.records import Pair, TieRule, Triple, prompt_id, prompt_text
from cda.results import effects as found
from cda.results.audit import ContrastRewards, RewardSpread, TripleRewards
from cda.results.base import NOT_TRAINED, Estimate, Kinds, Measure, Missing, PerScoring, Test, or_missing
from cda.results.effects import (
    SIGN_TEST,
    T_TEST,
    BiasAnalysis,
    BiasDrift,
    BiasEffects,
    ConditionalEffects,
    Covariates,
    Effect,
    EffectTest,
    Level,
    MarginsByColumn,
    RateByColumn,
    SameMargin,
)
from cda.results.facts import Example
from cda.results.skew import BiasPanel, JudgedBias, JudgedCriterion
from cda.rewriting.labels import exhibits
from cda.scorers.compared import Preferences, Rewards, Text
from cda.stats import rate as statistics
from cda.stats.drift import embedding_similarity, feature_drift, identify, label_drift
from cda.stats.estimators import mean_of, paired_change, share_of
from cda.stats.levels import Levels, levels_differ, levels_of
from cda.stats.means import common_edges, distribution
from cda.stats.multiplicity import holm_of
from cda.stats.people import against_people, left_out, mean_against_people, panel_margins, verdict_counts
from cda.stats.proportions import chosen_correlation, hits_of, positive_share
from cda.stats.rate import Contrasts, Target, direct_contrast, observational_effect, same_in_all, slope_effect
from cda.stats.votes import Majority, agreement

_FEWEST_TO_LEAVE_OUT = 3


def panels(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, BiasPanel]:
    """Every judge of a panel by bias: skew, miscalibration if people voted, and agreement; empty if no panel was asked.
    `groups` hold contrasts with a verdict of one judge at least; `rule` is for people's ties."""
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.judges:
        return {}
    return {group.bias.name: _panel(group, scoring, rule) for group in groups}


def criteria(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, dict[str, JudgedCriterion]]:
    """Skew by each criterion of a judge's rubric (of a panel: by its preference), and its difference from the skew
    overall, by bias; empty without criteria."""
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.criteria:
        return {}
    return {
        group.bias.name: {name: _criterion(own, group, rule) for name, own in scoring.criteria.items()}
        for group in groups
    }


def _criterion(scoring: Preferences, group: Group, rule: TieRule) -> JudgedCriterion:
    margins = scoring.margins(contrast_comparisons(group.contrasts))
    (overall,) = group.margins.values()
    read = ~np.isnan(margins)

    def against_overall() -> Estimate:
        before, after = (hits_of(values[read], "half") for values in (overall, margins))
        return paired_change(before, after, list(compress(group.prompt_ids, read)))

    judged = _judged(margins, group, _majority(group, rule))
    return JudgedCriterion(**dict(judged), against_overall=or_missing(against_overall))


def _majority(group: Group, rule: TieRule) -> Majority | None:
    people = people_of(group, rule)
    return None if people is None else people.majority


def _panel(group: Group, scoring: Preferences, rule: TieRule) -> BiasPanel:
    judges = scoring.judges
    compared = contrast_comparisons(group.contrasts)
    verdicts = np.stack([judge.margins(compared) for judge in judges.values()])
    (together,) = group.margins.values()
    judged = partial(_judged, group=group, people=_majority(group, rule))
    several = len(judges) >= _FEWEST_TO_LEAVE_OUT
    return BiasPanel(
        judges={name: judged(values) for name, values in zip(judges, verdicts, strict=True)},
        panel=judged(together),
        mean=judged(verdicts),
        majority=judged(panel_margins(verdicts, "majority")[0]),
        agreement=or_missing(lambda: agreement(verdict_counts(verdicts), group.prompt_ids)),
        without={
            name: left_out(verdicts, place, group.prompt_ids, scoring.rule)
            for place, name in enumerate(judges)
            if several
        },
    )


def _judged(margins: FloatArray, group: Group, people: Majority | None) -> JudgedBias:
    """One judge, or the panel as one (shape (n,)), or the mean over judges (judges, n), on the contrasts with all verdicts."""
    is_mean = margins.ndim == 2
    there: NDArray[np.bool_] = np.asarray(np.isfinite(np.atleast_2d(margins)).all(axis=0))
    ids = list(compress(group.prompt_ids, there))

    def skew() -> Estimate:
        if is_mean:
            return share_of(np.where(margins == 0, 0.5, margins > 0).mean(axis=0)[there], ids, len(margins))
        return positive_share(margins[there], ids, group.ties)

    def miscalibration(majority: Majority) -> Estimate:
        filled, voted = np.where(there, margins, 0.0), replace(majority, used=majority.used & there)
        against = mean_against_people if is_mean else against_people
        return against(filled, voted, group.prompt_ids, "half").miscalibration

    return JudgedBias(
        skew=or_missing(skew),
        ties=None if is_mean else int((margins == 0).sum()),
        unread=int((~there).sum()),
        miscalibration=None if people is None else or_missing(lambda: miscalibration(people)),
    )


Cutoffs = Mapping[str, Sequence[float]]


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
            contrasts={
                name: or_missing(partial(_margins_by_column, group, name, cutoffs.get(name, ()))) for name in columns
            },
            triples={
                name: or_missing(partial(_rate, own, scorings, name, cutoffs.get(name, ()), why)) for name in columns
            },
        )
    return found


def _margins_by_column(group: Group, column: str, cutoffs: Sequence[float]) -> MarginsByColumn:
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
    found: Effect | Missing = or_missing(partial(direct_contrast, values, ids, unit))
    return found if isinstance(found, Effect) else same_in_all(values, ids, found.reason) or found


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
    tests = holm_of([level.test for level in levels])
    return tuple(level.model_copy(update={"test": test}) for level, test in zip(levels, tests, strict=True))


def _slope(margins: FloatArray, levels: Levels, ids: Sequence[str], column: str, unit: str) -> Effect:
    x, rows = _numbers(levels)
    scale = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")
    target = Target(f"slope per 1 of {column}", "direct contrast", f"{unit} per 1 of {column}", scale)
    return slope_effect(margins[rows], x[rows], list(compress(ids, rows)), target)


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
    found_effects = () if isinstance(last, Missing) else last.effects
    tests = holm_of([Test(p_value=effect.p_value, method=T_TEST) for effect in found_effects])
    names = [effect.estimand.removeprefix("CATE: ") for effect in found_effects]
    return RateByColumn(
        kind="categories" if levels.numbers is None else "numbers",
        cutoffs=tuple(cutoffs),
        n_missing=int(read.sum()) - len(kept),
        pooled=dict(levels.pooled),
        effects=per_scoring(effects),
        tests=dict(zip(names, tests, strict=True)),
        differ=per_scoring({label: or_missing(partial(levels_differ, own.double, levels, ids)) for label, own in contrasts.items()}),
        slope=per_scoring({label: or_missing(partial(_rate_slope, own, levels, column)) for label, own in contrasts.items()}),
    )  # fmt: skip


def _by_level(contrasts: Contrasts, levels: Levels) -> ConditionalEffects:
    """The effect in each level, in the order of the levels."""
    found = statistics.conditional_effects(contrasts, [str(name) for name in levels.of])
    order = {f"CATE: {name}": place for place, name in enumerate(levels.names)}
    effects = sorted(found.effects, key=lambda effect: order[effect.estimand])
    return found.model_copy(update={"effects": tuple(effects)})


def _rate_slope(contrasts: Contrasts, levels: Levels, column: str) -> ConditionalEffects:
    numbers, _ = _numbers(levels)
    name = f"1 of {column}"
    wanted: list[statistics.Wanted] = [
        (
            f"slope per {name}",
            estimator,
            None,
            partial(statistics.effect_slope, contrasts, numbers, estimator, name),
        )
        for estimator in statistics.ESTIMATORS
    ]
    effects, missing = statistics.collect(wanted)
    return ConditionalEffects(effects=effects, not_estimated=missing)


N_EXAMPLES = 12
"""Examples of each bias."""
_TRIPLE_TEXTS = ("original", "rewrite", "rewrite_of_rewrite")
Encode = Callable[[Sequence[str]], FloatArray]
_Values = Mapping[str, Mapping[str, tuple[FloatArray, list[str]]]]
"""Scoring to kind of text to its rewards and prompts."""


def analysis(
    groups: Sequence[Group],
    labels: Mapping[str, PairLabels],
    pairs: Sequence[Pair],
    scorings: Scorings,
    rule: TieRule,
) -> dict[str, BiasAnalysis]:
    """Preferences of data, people and model for each target, and the observational effect. `labels` are of the training pairs,
    or of those given to an audit alone; `pairs` are the quality pairs, whose answers have the attribute or not as they come."""
    targets = [group for group in groups if group.is_target]
    rates = label_rates([group.bias for group in targets], labels)
    return {
        group.bias.name: BiasAnalysis(
            labels=rates.get(group.bias.name),
            correlation=_correlations(group, rule),
            observational=_observational(group.bias, pairs, scorings),
        )
        for group in targets
    }


def _correlations(group: Group, rule: TieRule) -> found.Correlations:
    """r between the attribute and being preferred, each pair in both orders; the model on the rows that people judged."""
    feature = _measured_feature(group.bias)
    values = np.ones(len(group))
    if feature is not None:
        values = _feature_differences(group.bias, feature, list(zip(*group.sides, strict=True)))

    def correlation(signs: FloatArray, rows: NDArray[np.bool_]) -> Estimate | Missing:
        """r of the attribute's difference (perturbed − base) with the preferred side (sign 1: perturbed) on some rows."""
        ids = list(compress(group.prompt_ids, rows))
        return or_missing(partial(chosen_correlation, (signs * values)[rows], ids))

    rows = np.ones(len(group), dtype=bool)
    by_people = None
    if (people := people_of(group, rule)) is not None:
        rows = people.majority.used & (people.majority.target != 0.5)
        by_people = correlation(2 * people.majority.target - 1, rows)
    by_model = {label: correlation(np.sign(margins), rows & (margins != 0)) for label, margins in group.margins.items()}
    return found.Correlations(of=feature or "label", people=by_people, model=per_scoring(by_model))


def _observational(bias: Bias, pairs: Sequence[Pair], scorings: Scorings) -> found.Observational | Missing:
    """Mean reward of answers with the bias minus that of answers without, within prompts; labelled as measured."""
    if bias.measure is None or bias.measure.relative:
        return Missing(reason="the bias has no measure that labels one answer by itself")
    texts = [(pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
    attribute = [exhibits(text, bias) for _, text in texts]
    ids = [prompt_id(prompt) for prompt, _ in texts]
    by_scoring: dict[str, Effect | Missing] = {}
    for label, scoring in scorings.items():
        if not isinstance(scoring, Rewards):
            return Missing(reason="a pairwise judge gives no reward of single answers")
        rewards = np.array([scoring.of(prompt, text) for prompt, text in texts])
        # Others were left out as too long, which is counted where they were scored, or the measure does not hold for them.
        there = ~np.isnan(rewards) & np.array([has is not None for has in attribute], dtype=bool)
        kept = [bool(has) for has in compress(attribute, there)], list(compress(ids, there))
        by_scoring[label] = or_missing(partial(observational_effect, rewards[there], *kept))
    return found.Observational(
        labelled_by=f"measured {bias.measure.feature.replace('_', ' ')}", effect=per_scoring(by_scoring)
    )


def _measured_feature(bias: Bias) -> str | None:
    """The feature of a bias that has a size (length), so that r is Pearson's and not point-biserial."""
    return bias.measure.feature if bias.label_by == "measure" and bias.measure is not None else None


def _feature_differences(bias: Bias, feature: str, sides: Sequence[tuple[str, str]]) -> FloatArray:
    return np.array([bias.measured(first, feature) - bias.measured(second, feature) for first, second in sides])


def rewards(groups: Sequence[Group], triples: Sequence[Triple], scorings: Scorings) -> RewardSpread | Missing:
    """Distributions of rewards on common bins; missing if a scorer compares pairs and rewards no single text."""
    known = {label: scoring for label, scoring in scorings.items() if isinstance(scoring, Rewards)}
    if len(known) < len(scorings):
        return Missing(reason="the scorer compares pairs and rewards no single text")
    sides = {}
    for group in groups:
        of_sides = {
            side: [(contrast.prompt, getattr(contrast, side)) for contrast in group.contrasts]
            for side in ("base", "perturbed")
        }
        sides[group.bias.name] = _values(of_sides, known)
    of_triples = {}
    for name in dict.fromkeys(triple.bias for triple in triples):
        own = [triple for triple in triples if triple.bias == name]
        kinds = {
            f"{which}, {text}": [(row.prompt, getattr(row, text)) for row in own if row.has_attribute == has]
            for which, has in (("with", True), ("without", False))
            for text in _TRIPLE_TEXTS
        }
        values = _values({kind: texts for kind, texts in kinds.items() if texts}, known)
        own_edges = _edges([values])
        of_triples[name] = TripleRewards(edges=own_edges, of=_distributions(values, own_edges))
    edges = _edges(list(sides.values()))
    contrasts = {name: _distributions(values, edges) for name, values in sides.items()}
    return RewardSpread(contrasts=ContrastRewards(edges=edges, of=contrasts), triples=of_triples)


def _values(kinds: Mapping[str, Sequence[Text]], scorings: Mapping[str, Rewards]) -> _Values:
    values: dict[str, dict[str, tuple[FloatArray, list[str]]]] = {label: {} for label in scorings}
    for label, scoring in scorings.items():
        for kind, texts in kinds.items():
            rewards = np.array([scoring.of(prompt, text) for prompt, text in texts], dtype=np.float64)
            there = ~np.isnan(rewards)
            values[label][kind] = rewards[there], [prompt_id(prompt) for prompt, _ in compress(texts, there)]
    return values


def _edges(values: Sequence[_Values]) -> tuple[float, ...]:
    arrays = [array for of in values for kinds in of.values() for array, _ in kinds.values()]
    return common_edges(arrays) if any(array.size for array in arrays) else ()


def _distributions(values: _Values, edges: Sequence[float]) -> PerScoring[Kinds]:
    def of_kinds(kinds: Mapping[str, tuple[FloatArray, list[str]]]) -> Kinds:
        return {kind: or_missing(partial(distribution, array, ids, edges)) for kind, (array, ids) in kinds.items()}

    return per_scoring({label: of_kinds(kinds) for label, kinds in values.items()})


def drifts(groups: Sequence[Group], biases: Mapping[str, Bias], encode: Encode | None) -> dict[str, BiasDrift]:
    """Other differences between the two sides of each bias's contrasts: features, other biases' labels, meaning."""
    return {group.bias.name: _drift(group, biases, encode) for group in groups}


def _drift(group: Group, biases: Mapping[str, Bias], encode: Encode | None) -> BiasDrift:
    perturbed, base = group.sides
    first, second = (
        {**features, **_own_features(side, group.bias)}
        for features, side in zip(group.features, group.sides, strict=True)
    )
    ids = group.prompt_ids
    similarity: Estimate | Missing = Missing(reason="no embeddings were asked for")
    if encode is not None:
        similarity = or_missing(partial(embedding_similarity, perturbed, base, encode, ids))

    def labels(other: Bias) -> Estimate:
        with_label, without = ([exhibits(text, other) for text in side] for side in group.sides)
        return label_drift(with_label, without, ids)

    return BiasDrift(
        n=len(group),
        features=or_missing(lambda: tuple(feature_drift(first, second, ids, treatment=group.bias.treatment))),
        labels={
            other.name: or_missing(partial(labels, other))
            for other in biases.values()
            if other.name != group.bias.name and other.measure and not other.measure.relative
        },
        similarity=similarity,
    )


def _own_features(texts: Sequence[str], bias: Bias) -> dict[str, FloatArray]:
    own = ["markers_per_100_words"] if bias.markers else []
    own += list(PATTERN_FEATURES) if bias.pattern is not None else []
    return {name: np.array([bias.measured(text, name) for text in texts]) for name in own}


def effects(groups: Sequence[Group]) -> dict[str, BiasEffects]:
    """The direct contrast under every scoring, its identification, and its change if there are two scorings."""
    return {group.bias.name: _effects(group) for group in groups}


def _effects(group: Group) -> BiasEffects:
    sides = [_direct_effects(group, margins) for margins in group.margins.values()]
    if len(sides) == 1:
        return BiasEffects(before=sides[0], unit=group.unit, test=_test(sides[0].direct))

    def change() -> Estimate:
        before, after = group.margins.values()
        return mean_of(after - before, group.prompt_ids, group.unit).estimate

    tested = Missing(reason="the change of skew is tested instead")
    return BiasEffects(before=sides[0], after=sides[1], unit=group.unit, change=or_missing(change), test=tested)


def _direct_effects(group: Group, margins: FloatArray) -> found.DirectEffects:
    perturbed, base = group.features
    ids, unit = group.prompt_ids, group.unit
    direct: Effect | SameMargin | Missing = or_missing(partial(direct_contrast, margins, ids, unit))
    if isinstance(direct, Missing):
        direct = same_in_all(margins, ids, direct.reason) or direct
    identified = partial(identify, margins, perturbed, base, ids, treatment=group.bias.treatment, unit=unit)
    return found.DirectEffects(direct=direct, identification=or_missing(identified))


def _test(direct: Effect | SameMargin | Missing) -> EffectTest | Missing:
    """The test that joins the audit's family: of the mean margin, or of the sign that every prompt shares."""
    tested = _tested(direct)
    if isinstance(tested, Missing):
        return tested
    what = "the mean margin is not 0" if isinstance(direct, Effect) else "the margin that all pairs share is not 0"
    return EffectTest(p_value=tested.p_value, method=tested.method, what=what)


def examples(groups: Sequence[Group]) -> tuple[Example, ...]:
    """Example contrasts of the targets; `kept_for` gives the reason for which each was selected.

    The best of each kind is taken in turn until there are N_EXAMPLES a bias: the largest falls of the margin, the largest
    margins under each scoring (of one scoring the largest and the smallest), and if people voted, those on which the
    model disagrees, or agrees, with their majority by the largest margin. No chance is involved, and no sample is meant.
    """
    chosen = []
    for group in groups:
        people = people_of(group, "half") if group.is_target else None
        words = people.words if people else ("no votes",) * len(group)
        for row, kind in _chosen(_kinds(group.margins, words)).items() if group.is_target else ():
            contrast, word = group.contrasts[row], "tie" if words[row] == "split" else words[row]
            chosen.append(
                Example(
                    bias=group.bias.name,
                    prompt=prompt_text(contrast.prompt),
                    perturbed=contrast.perturbed,
                    base=contrast.base,
                    margins=per_scoring({label: float(values[row]) for label, values in group.margins.items()}),
                    preferred=None if word == "no votes" else cast(Literal["perturbed", "base", "tie"], word),
                    kept_for=kind,
                )
            )
    return tuple(chosen)


def _kinds(margins: Mapping[str, FloatArray], words: Sequence[str]) -> dict[str, list[int]]:
    first, *others = margins.values()
    if others:
        largest = {f"largest margin {label}": -values for label, values in margins.items()}
        kinds = {"largest fall": others[-1] - first, **largest}
    else:
        kinds = {"largest margin": -first, "smallest margin": first}
    rows = {kind: np.argsort(order, kind="stable").tolist() for kind, order in kinds.items()}
    side = np.array([{"perturbed": 1.0, "base": -1.0}.get(word, 0.0) for word in words])
    for word, sign in (("disagrees", -1.0), ("agrees", 1.0)):
        for label, values in margins.items():
            with_people = sign * side * values  # above 0 if the word is true; larger with the margin
            order = np.argsort(-with_people, kind="stable")
            rows[f"{word} with people {label}"] = order[with_people[order] > 0].tolist()
    return rows


def _chosen(kinds: Mapping[str, Sequence[int]]) -> dict[int, str]:
    """Rows taken in turn, the best of each kind that is not taken yet, with the kind."""
    chosen: dict[int, str] = {}
    left = {kind: iter(rows) for kind, rows in kinds.items()}
    while left and len(chosen) < N_EXAMPLES:
        for kind, rows in list(left.items()):
            row = next((candidate for candidate in rows if candidate not in chosen), None)
            if row is None:
                del left[kind]
            elif len(chosen) < N_EXAMPLES:
                chosen[row] = kind
    return chosen
