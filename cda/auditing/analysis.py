"""Beyond the headline of an audit: data that go with the bias, effects and drift of direct contrasts, rewards, and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import Group, Scorings, people_of, per_scoring, rng
from cda.biases import Bias
from cda.data.pairs import PairLabels
from cda.features import PATTERN_FEATURES
from cda.preferences.measure import label_rates
from cda.records import Pair, TieRule, Triple, prompt_id, prompt_text
from cda.results import effects as found
from cda.results.audit import ContrastRewards, RewardSpread, TripleRewards
from cda.results.base import Estimate, Kinds, Missing, PerScoring, or_missing
from cda.results.drift import BiasDrift
from cda.results.effects import BiasAnalysis, BiasEffects, Effect, EffectTest, SameMargin
from cda.results.facts import Example
from cda.rewriting.labels import exhibits
from cda.scorers.compared import Rewards, Text
from cda.stats.clustered import Resampling, direct_contrast, observational_effect, same_in_all
from cda.stats.draws import bootstrap_mean
from cda.stats.drift import embedding_similarity, feature_drift, identify, label_drift
from cda.stats.means import common_edges, distribution
from cda.stats.proportions import chosen_correlation

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
    seed: int,
) -> dict[str, BiasAnalysis]:
    """Preferences of data, people and model for each target, and the observational effect. `labels` are of the training pairs,
    or of those given to an audit alone; `pairs` are the quality pairs, whose answers have the attribute or not as they come."""
    targets = [group for group in groups if group.is_target]
    rates = label_rates([group.bias for group in targets], labels, seed)
    return {
        group.bias.name: BiasAnalysis(
            labels=rates.get(group.bias.name),
            correlation=_correlations(group, rule, seed),
            observational=_observational(group.bias, pairs, scorings),
        )
        for group in targets
    }


def _correlations(group: Group, rule: TieRule, seed: int) -> found.Correlations:
    """r between the attribute and being preferred, each pair in both orders; the model on the rows that people judged."""
    feature = _measured_feature(group.bias)
    values = np.ones(len(group))
    if feature is not None:
        values = _feature_differences(group.bias, feature, list(zip(*group.sides, strict=True)))

    def correlation(signs: FloatArray, rows: NDArray[np.bool_]) -> Estimate | Missing:
        """r of the attribute's difference (perturbed − base) with the preferred side (sign 1: perturbed) on some rows."""
        ids = list(compress(group.prompt_ids, rows))
        return or_missing(partial(chosen_correlation, (signs * values)[rows], ids, rng(seed)))

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


def rewards(
    groups: Sequence[Group], triples: Sequence[Triple], scorings: Scorings, seed: int
) -> RewardSpread | Missing:
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
        of_triples[name] = TripleRewards(edges=own_edges, of=_distributions(values, own_edges, seed))
    edges = _edges(list(sides.values()))
    contrasts = {name: _distributions(values, edges, seed) for name, values in sides.items()}
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


def _distributions(values: _Values, edges: Sequence[float], seed: int) -> PerScoring[Kinds]:
    def of_kinds(kinds: Mapping[str, tuple[FloatArray, list[str]]]) -> Kinds:
        return {
            kind: or_missing(partial(distribution, array, ids, edges, rng(seed)))
            for kind, (array, ids) in kinds.items()
        }

    return per_scoring({label: of_kinds(kinds) for label, kinds in values.items()})


def drifts(
    groups: Sequence[Group], biases: Mapping[str, Bias], encode: Encode | None, seed: int
) -> dict[str, BiasDrift]:
    """Other differences between the two sides of each bias's contrasts: features, other biases' labels, meaning."""
    return {group.bias.name: _drift(group, biases, encode, seed) for group in groups}


def _drift(group: Group, biases: Mapping[str, Bias], encode: Encode | None, seed: int) -> BiasDrift:
    perturbed, base = group.sides
    first, second = (
        {**features, **_own_features(side, group.bias)}
        for features, side in zip(group.features, group.sides, strict=True)
    )
    ids = group.prompt_ids
    similarity: Estimate | Missing = Missing(reason="no embeddings were asked for")
    if encode is not None:
        similarity = or_missing(partial(embedding_similarity, perturbed, base, encode, ids, rng(seed)))

    def labels(other: Bias) -> Estimate:
        with_label, without = ([exhibits(text, other) for text in side] for side in group.sides)
        return label_drift(with_label, without, ids)

    return BiasDrift(
        n=len(group),
        features=or_missing(
            lambda: tuple(feature_drift(first, second, ids, rng(seed), treatment=group.bias.treatment))
        ),
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


def effects(groups: Sequence[Group], seed: int) -> dict[str, BiasEffects]:
    """The direct contrast under every scoring, its identification, and its change if there are two scorings."""
    return {group.bias.name: _effects(group, seed) for group in groups}


def _effects(group: Group, seed: int) -> BiasEffects:
    sides = [_direct(group, margins, seed) for margins in group.margins.values()]
    if len(sides) == 1:
        return BiasEffects(before=sides[0], unit=group.unit, test=_test(sides[0].direct))

    def change() -> Estimate:
        before, after = group.margins.values()
        return bootstrap_mean(after - before, group.prompt_ids, rng(seed), group.unit)

    tested = Missing(reason="the change of skew is tested instead")
    return BiasEffects(before=sides[0], after=sides[1], unit=group.unit, change=or_missing(change), test=tested)


def _direct(group: Group, margins: FloatArray, seed: int) -> found.DirectEffects:
    perturbed, base = group.features
    ids, unit = group.prompt_ids, group.unit
    direct: Effect | SameMargin | Missing = or_missing(
        partial(direct_contrast, margins, ids, Resampling(rng(seed)), unit)
    )
    if isinstance(direct, Missing):
        direct = same_in_all(margins, ids, direct.reason) or direct
    identified = partial(identify, margins, perturbed, base, ids, rng(seed), treatment=group.bias.treatment, unit=unit)
    return found.DirectEffects(direct=direct, identification=or_missing(identified))


def _test(direct: Effect | SameMargin | Missing) -> EffectTest | Missing:
    """The test that joins the audit's family: of the mean margin, or of the sign that every prompt shares."""
    match direct:
        case Effect():
            return EffectTest(p_value=direct.p_value, method=found.NORMAL_TEST, what="the mean margin is not 0")
        case SameMargin(p_value=float(p_value)):
            what = "the margin that all pairs share is not 0"
            return EffectTest(p_value=p_value, method=found.SIGN_TEST, what=what)
        case SameMargin():
            return Missing(reason="all margins are 0 and have no sign")
        case _:
            return direct


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
