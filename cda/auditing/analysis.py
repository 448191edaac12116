"""Numbers of an audit behind its headline: data that go with the bias, effects and drift of direct contrasts, rewards, examples,
effects by columns of the user's data, and verdicts of LLM judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from cda.arrays import BoolArray, FloatArray
from cda.auditing import rate
from cda.auditing.groups import Group, Scorings, contrast_comparisons, people_of, per_scoring, read_margins
from cda.biases import Bias
from cda.data.pairs import PairLabels
from cda.errors import DataError
from cda.features import PATTERN_FEATURES
from cda.numbers.measures import by_moment
from cda.numbers.people import against_people
from cda.preferences.measure import label_rates
from cda.records import OF_TRIPLES, TieRule, Triple, prompt_id, prompt_text
from cda.results.audit import On
from cda.results.base import Estimate, Measure, Missing, Test, or_missing
from cda.results.effects import (
    SIGN_TEST,
    BiasAnalysis,
    BiasEffects,
    DirectEffects,
    Effect,
    FeatureDrift,
    Grouping,
    LabelRates,
    LengthBaseline,
    SameMargin,
)
from cda.results.facts import N_SHOWN, Example
from cda.results.skew import BiasPanel, JudgedBias
from cda.rewriting.fidelity import limits_of
from cda.scorers.compared import Preferences
from cda.stats import rate as statistics
from cda.stats.drift import feature_drift, identify
from cda.stats.estimators import mean_of, paired_change, share_of
from cda.stats.length import length_baseline
from cda.stats.levels import grouping, levels_of, one_family
from cda.stats.people import left_out, panel_margins, verdict_counts
from cda.stats.proportions import chosen_correlation, hits_of, positive_share, positive_shares
from cda.stats.rate import Target, direct_contrast, same_in_all, slope_effect
from cda.stats.votes import Majority, agreement

_FEWEST_TO_LEAVE_OUT = 3


def panels(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, BiasPanel]:
    """Every judge of a panel by bias: skew, miscalibration if people voted, and agreement; empty if no panel was asked.
    `groups` hold contrasts with a verdict of one judge at least; `rule` is for people's ties."""
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.judges:
        return {}
    return {group.bias.name: _panel(group, scoring, rule) for group in groups}


def criteria(groups: Sequence[Group], scorings: Scorings, rule: TieRule) -> dict[str, dict[str, JudgedBias]]:
    """Skew by each criterion of a judge's rubric (of a panel: by its preference), and its difference from the skew
    overall, by bias; empty without criteria."""
    scoring = next(iter(scorings.values()))
    if not isinstance(scoring, Preferences) or not scoring.criteria:
        return {}
    return {
        group.bias.name: {name: _criterion(own, group, rule) for name, own in scoring.criteria.items()}
        for group in groups
    }


def _criterion(scoring: Preferences, group: Group, rule: TieRule) -> JudgedBias:
    margins = scoring.margins(contrast_comparisons(group.contrasts))
    (overall,) = group.margins.values()
    read = ~np.isnan(margins)

    def against_overall() -> Estimate:
        before, after = (hits_of(values[read], "half") for values in (overall, margins))
        return paired_change(before, after, list(compress(group.prompt_ids, read)))

    judged = _judged(margins, group, _majority(group, rule))
    return judged.model_copy(update={"against_overall": or_missing(against_overall)})


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
        return against_people(filled, voted, group.prompt_ids, "half")["miscalibration"]

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
) -> dict[str, dict[On, dict[str, Grouping | Missing]]]:
    """Every target by every column; empty if no column was asked for. Tests of contrasts and triples over all columns and biases are
    one family. `refused` are RATE's estimands that too few rewrites flipped the bias for, by bias."""
    found: dict[str, dict[On, dict[str, Grouping | Missing]]] = {}
    for group in groups if columns else ():
        if group.is_target:
            own = [triple for triple in triples if triple.bias == group.bias.name]
            why = refused.get(group.bias.name, {}).get("ATE")
            asked = [(name, cutoffs.get(name, ())) for name in columns]
            found[group.bias.name] = {
                "contrasts": {name: or_missing(partial(_margins_by, group, name, cuts)) for name, cuts in asked},
                "triples": {
                    name: or_missing(partial(_rate_by, own, scorings, name, cuts, why)) for name, cuts in asked
                },
            }
    parts = [part for own in found.values() for part in own.values()]
    adjusted = iter(one_family([by for part in parts for by in part.values() if isinstance(by, Grouping)]))
    for part in parts:
        part.update({name: next(adjusted) for name, by in part.items() if isinstance(by, Grouping)})
    return found


def _margins_by(group: Group, column: str, cutoffs: Sequence[float]) -> Grouping:
    values = [contrast.tags.get("by", {}).get(column) for contrast in group.contrasts]
    if not any(value is not None for value in values):
        raise DataError("these contrasts have no value in it")
    scale = Missing(reason="a direct contrast has no originals in two groups to pool an SD from")
    target = Target(f"slope per 1 of {column}", "direct contrast", f"{group.unit} per 1 of {column}", scale)
    margins = dict(group.margins)
    if len(margins) == 2:
        before, after = margins.values()
        margins["change"] = after - before

    def slope(name: str, numbers: FloatArray) -> Effect:
        rows = ~np.isnan(numbers)
        return slope_effect(margins[name][rows], numbers[rows], list(compress(group.prompt_ids, rows)), target)

    levels = levels_of(values, group.prompt_ids, cutoffs)
    return grouping(levels, group.prompt_ids, margins, partial(_level, group), slope)


def _level(group: Group, _: str, rows: BoolArray, ids: list[str]) -> dict[str, Any]:
    margins = {label: values[rows] for label, values in group.margins.items()}
    skew = or_missing(partial(positive_shares, margins.values(), ids, group.ties))
    means = {label: direct_mean(values, ids, group.unit) for label, values in margins.items()}
    changed = skew.test if isinstance(skew, Measure) else skew
    skews = dict.fromkeys(margins, skew) if isinstance(skew, Missing) else by_moment(skew)
    return {
        "found": {
            "skew": skews,
            "margin": {label: mean.estimate if isinstance(mean, Effect) else mean for label, mean in means.items()},
        },
        "errors": {label: mean.standard_error for label, mean in means.items() if isinstance(mean, Effect)},
        "ties": {label: int((values == 0).sum()) for label, values in margins.items()},
        "test": changed if len(margins) == 2 else _tested(list(means.values())[-1]),
    }


def direct_mean(values: FloatArray, ids: Sequence[str], unit: str) -> Effect | SameMargin | Missing:
    """The direct contrast, or the one margin that all pairs share."""
    found: Effect | Missing = or_missing(partial(direct_contrast, values, ids, unit))
    return found if isinstance(found, Effect) else same_in_all(values, ids, found.reason) or found


def _tested(mean: Effect | SameMargin | Missing) -> Test | Missing:
    match mean:
        case Effect():
            return rate.tested(mean)
        case SameMargin(p_value=float(p_value)):
            return Test(p_value=p_value, method=SIGN_TEST)
        case SameMargin():
            return Missing(reason="all margins are 0 and have no sign")
    return mean


def _rate_by(
    triples: Sequence[Triple], scorings: Scorings, column: str, cutoffs: Sequence[float], refused: str | None
) -> Grouping:
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
    effects = {
        label: statistics.conditional_effects(own, [str(name) for name in levels.of])
        for label, own in contrasts.items()
    }

    def level(name: str, *_: object) -> dict[str, Any]:
        own = {label: of[name] for label, of in effects.items()}
        known = {label: effect for label, effect in own.items() if isinstance(effect, Effect)}
        return {
            "found": {
                "rate": {label: known[label].estimate if label in known else effect for label, effect in own.items()},
                "rate_standardised": {label: effect.standardised for label, effect in known.items()},
            },
            "errors": {label: effect.standard_error for label, effect in known.items() if effect.standard_error},
            "test": _tested(list(own.values())[-1]),
        }

    def slope(name: str, numbers: FloatArray) -> Effect:
        return statistics.effect_slope(contrasts[name], numbers, "double", f"1 of {column}")

    values = {label: own.double for label, own in contrasts.items()}
    found = grouping(levels, ids, values, level, slope)
    return found.model_copy(update={"n_missing": int(read.sum()) - len(kept)})


N_EXAMPLES = 12
"""Examples of each bias."""


def analysis(
    groups: Sequence[Group],
    labels: Mapping[str, PairLabels],
    rule: TieRule,
) -> dict[str, BiasAnalysis]:
    """Preferences of data, people and model for each target. `labels` are of the training pairs, or of those given to an audit
    alone."""
    targets = [group for group in groups if group.is_target]
    rates = label_rates([group.bias for group in targets], labels)
    return {group.bias.name: _analysis(group, rates.get(group.bias.name), rule) for group in targets}


def _analysis(group: Group, labels: LabelRates | None, rule: TieRule) -> BiasAnalysis:
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
    return BiasAnalysis(labels=labels, of=feature or "label", people=by_people, model=per_scoring(by_model))


def _measured_feature(bias: Bias) -> str | None:
    """The feature of a bias that has a size (length), so that r is Pearson's and not point-biserial."""
    return bias.measure.feature if bias.label_by == "measure" and bias.measure is not None else None


def _feature_differences(bias: Bias, feature: str, sides: Sequence[tuple[str, str]]) -> FloatArray:
    return np.array([bias.measured(first, feature) - bias.measured(second, feature) for first, second in sides])


def drifts(groups: Sequence[Group]) -> dict[str, tuple[FeatureDrift, ...] | Missing]:
    """Features that differ between the two sides of each bias's contrasts."""
    return {group.bias.name: _drift(group) for group in groups}


def _drift(group: Group) -> tuple[FeatureDrift, ...] | Missing:
    first, second = (
        {**features, **_own_features(side, group.bias)}
        for features, side in zip(group.features, group.sides, strict=True)
    )
    ids, limits, treatment = group.prompt_ids, limits_of(group.bias), group.bias.treatment
    return or_missing(lambda: tuple(feature_drift(first, second, ids, limits=limits, treatment=treatment)))


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
        by_rate = group.contrasts[0].tags.get("source") == OF_TRIPLES
        of_direct = Missing(reason="RATE's ATE is tested instead") if by_rate else _tested(sides[0].direct)
        return BiasEffects(before=sides[0], unit=group.unit, test=of_direct)

    def change() -> Estimate:
        before, after = group.margins.values()
        return mean_of(after - before, group.prompt_ids, group.unit).estimate

    tested = Missing(reason="the change of skew is tested instead")
    return BiasEffects(before=sides[0], after=sides[1], unit=group.unit, change=or_missing(change), test=tested)


def _direct_effects(group: Group, margins: FloatArray) -> DirectEffects:
    perturbed, base = group.features
    ids, unit = group.prompt_ids, group.unit
    direct = direct_mean(margins, ids, unit)
    # Those of the bias file, of features that are measured of any text, and not by the file's own markers.
    limits = {name: limit for name, limit in limits_of(group.bias).items() if name in perturbed}
    treatment = group.bias.treatment
    identified = partial(identify, margins, perturbed, base, ids, limits=limits, treatment=treatment, unit=unit)
    return DirectEffects(direct=direct, identification=or_missing(identified), length=_length(group, margins))


def _length(group: Group, margins: FloatArray) -> LengthBaseline | None:
    """None for a bias that is length itself."""
    bias = group.bias
    own = bias.treated
    if "words" in own:
        return None
    perturbed, base = (
        {**features, **amounts, **_own_features(side, bias)}
        for features, amounts, side in zip(group.features, group.amounts, group.sides, strict=True)
    )
    mine = sorted(own - {"characters"})
    return length_baseline(margins, perturbed, base, mine, group.prompt_ids, group.unit, group.wording)


def examples(groups: Sequence[Group]) -> tuple[Example, ...]:
    """Example contrasts of each target: the largest falls of the margin, of one scoring the largest margins; the last one of those
    that a report shows is one on which the model disagrees with people's majority, if there is any. They are no random sample.
    """
    chosen = []
    for group in groups:
        if not group.is_target:
            continue
        people = people_of(group, "half")
        words = people.words if people else ("no votes",) * len(group)
        for row in _chosen(group.margins, words):
            contrast, word = group.contrasts[row], "tie" if words[row] == "split" else words[row]
            chosen.append(
                Example(
                    bias=group.bias.name,
                    prompt=prompt_text(contrast.prompt),
                    perturbed=contrast.perturbed,
                    base=contrast.base,
                    margins=per_scoring({label: float(values[row]) for label, values in group.margins.items()}),
                    preferred=None if word == "no votes" else cast(Literal["perturbed", "base", "tie"], word),
                )
            )
    return tuple(chosen)


def _chosen(margins: Mapping[str, FloatArray], words: Sequence[str]) -> list[int]:
    first, *others = margins.values()
    last = others[-1] if others else first
    order = np.argsort(last - first if others else -first, kind="stable").tolist()
    side = np.array([{"perturbed": 1.0, "base": -1.0}.get(word, 0.0) for word in words])
    shown, disputed = order[:N_SHOWN], [row for row in order if side[row] * last[row] < 0]
    if disputed and not set(shown) & set(disputed):
        shown[-1] = disputed[0]
    return [*shown, *(row for row in order if row not in shown)][:N_EXAMPLES]
