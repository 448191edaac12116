"""Data analysis in an audit: labels, correlations, and rewards of single texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import Group, Scorings, estimated, people_of, per_scoring, rng
from cda.biases import Bias
from cda.data.pairs import PairLabels
from cda.records import Pair, TieRule, Triple, prompt_id
from cda.results.base import Estimate, Missing, PerScoring
from cda.results.effects import (
    BiasAnalysis,
    ContrastRewards,
    Correlations,
    Effect,
    Kinds,
    LabelRates,
    Observational,
    RewardSpread,
    TripleRewards,
)
from cda.rewriting.labels import exhibits
from cda.scorers.compared import Rewards, Text
from cda.stats.clustered import observational_effect
from cda.stats.means import common_edges, distribution
from cda.stats.preference import chosen_correlation, contingency

_TRIPLE_TEXTS = ("original", "rewrite", "rewrite_of_rewrite")
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
    """Preferences of the training data, of people and of the model for each target, and the observational effect.

    Args:
        groups: Contrasts of every bias.
        labels: Labels by bias, of the training pairs or of the pairs given to an audit alone.
        pairs: Quality pairs, whose answers have the attribute or not as they come.
        scorings: Scorings of these pairs.
        rule: Rule for people's ties.
        seed: Seed of the intervals.
    """
    return {
        group.bias.name: BiasAnalysis(
            labels=label_rates(group.bias, labels.get(group.bias.name), seed),
            correlation=_correlations(group, rule, seed),
            observational=_observational(group.bias, pairs, scorings),
        )
        for group in groups
        if group.is_target
    }


def label_rates(bias: Bias, labels: PairLabels | None, seed: int) -> LabelRates | None:
    """Share of pairs whose side with the bias was the chosen one, and r between bias and being chosen; None without labels."""
    if labels is None:
        return None
    ids = list(labels.prompt_ids)
    both = list(zip(labels.chosen, labels.rejected, strict=True))
    parsed = [None not in sides for sides in both]
    feature = _measured_feature(bias)
    if feature is not None and labels.sides is not None:
        values = _feature_differences(bias, feature, labels.sides)
    else:
        values = np.array([float(bool(chosen)) - float(bool(rejected)) for chosen, rejected in both])
    return LabelRates(
        contingency=estimated(partial(contingency, labels.chosen, labels.rejected, ids)),
        r_train=estimated(partial(chosen_correlation, values[parsed], list(compress(ids, parsed)), rng(seed))),
    )


def _correlations(group: Group, rule: TieRule, seed: int) -> Correlations:
    """r between the attribute and being preferred, each pair in both orders; the model on the rows that people judged."""
    feature = _measured_feature(group.bias)
    values = np.ones(len(group))
    if feature is not None:
        values = _feature_differences(group.bias, feature, list(zip(*group.sides, strict=True)))

    def correlation(signs: FloatArray, rows: NDArray[np.bool_]) -> Estimate | Missing:
        """r of the attribute's difference (perturbed − base) with the preferred side (sign 1: perturbed) on some rows."""
        ids = list(compress(group.prompt_ids, rows))
        return estimated(partial(chosen_correlation, (signs * values)[rows], ids, rng(seed)))

    rows = np.ones(len(group), dtype=bool)
    by_people = None
    if (people := people_of(group, rule)) is not None:
        rows = people.majority.used & (people.majority.target != 0.5)
        by_people = correlation(2 * people.majority.target - 1, rows)
    return Correlations(
        of=feature or "label",
        people=by_people,
        model=per_scoring(
            {label: correlation(np.sign(margins), rows & (margins != 0)) for label, margins in group.margins.items()}
        ),
    )


def _observational(bias: Bias, pairs: Sequence[Pair], scorings: Scorings) -> Observational | Missing:
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
        there = ~np.isnan(rewards)  # others were left out as too long, which is counted where they were scored
        kept = list(compress(attribute, there)), list(compress(ids, there))
        by_scoring[label] = estimated(partial(observational_effect, rewards[there], *kept))
    return Observational(labelled_by=f"measured {bias.measure.feature}", effect=per_scoring(by_scoring))


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
        prompts, texts = [contrast.prompt for contrast in group.contrasts], group.sides[::-1]
        kinds = {
            kind: list(zip(prompts, side, strict=True)) for kind, side in zip(("base", "perturbed"), texts, strict=True)
        }
        sides[group.bias.name] = _values(kinds, known)
    of_triples = {}
    for name in dict.fromkeys(triple.bias for triple in triples):
        kinds = {
            f"{which}, {text}": [
                (triple.prompt, getattr(triple, text))
                for triple in triples
                if triple.bias == name and triple.has_attribute == has
            ]
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
    return per_scoring(
        {
            label: {
                kind: estimated(partial(distribution, array, ids, edges, rng(seed)))
                for kind, (array, ids) in kinds.items()
            }
            for label, kinds in values.items()
        }
    )
