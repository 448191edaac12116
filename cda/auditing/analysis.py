"""Data analysis in an audit: labels, correlations, and rewards of single texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cda.arrays import FloatArray
from cda.auditing.groups import Group, Scorings, before_and_after, estimated, people_of
from cda.auditing.result import per_scoring, rng
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
from cda.scorers.compared import Rewards
from cda.stats.clustered import observational_effect
from cda.stats.means import common_edges, distribution
from cda.stats.preference import chosen_correlation, contingency


def analysis(
    groups: Sequence[Group],
    labels: Mapping[str, PairLabels],
    pairs: Sequence[Pair],
    scorings: Scorings,
    rule: TieRule,
    seed: int,
) -> dict[str, BiasAnalysis]:
    """Of each target: what the training data favours, what people and model favour, and the observational effect.

    Args:
        groups: Contrasts of every bias.
        labels: Labels of preference pairs by bias: of the training pairs, or such as an audit alone was given.
        pairs: Quality pairs, whose answers carry the attribute or not as they come.
        scorings: Of these pairs.
        rule: For people's ties.
        seed: Of the intervals.
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
    """How often the side with the bias was the chosen one, and r between bias and being chosen; None without labels."""
    if labels is None:
        return None
    ids = list(labels.prompt_ids)
    both = list(zip(labels.chosen, labels.rejected, strict=True))
    parsed = [None not in one for one in both]
    if _is_measured(bias) and labels.sides is not None:
        values = _feature_differences(bias, labels.sides)
    else:
        values = np.array([float(bool(one)) - float(bool(other)) for one, other in both])
    return LabelRates(
        contingency=estimated(partial(contingency, labels.chosen, labels.rejected, ids)),
        r_train=estimated(partial(chosen_correlation, values[parsed], _kept(ids, parsed), rng(seed))),
    )


def _correlations(group: Group, rule: TieRule, seed: int) -> Correlations:
    """r between the attribute and being preferred, each pair in both orders; the model on the rows that people judged."""
    bias = group.bias
    sides = [(one.perturbed, one.base) for one in group.contrasts]
    values = _feature_differences(bias, sides) if _is_measured(bias) else np.ones(len(group))
    rows = np.ones(len(group), dtype=bool)
    people, by_people = people_of(group, rule), None
    if people is not None:
        rows = people.majority.used & (people.majority.target != 0.5)
        by_people = _correlation(values, 2 * people.majority.target - 1, rows, group, seed)
    by_model = {
        label: _correlation(values, np.sign(margins), rows & (margins != 0), group, seed)
        for label, margins in group.margins.items()
    }
    return Correlations(
        of=bias.measure.feature if _is_measured(bias) and bias.measure else "label",
        people=by_people,
        model=per_scoring(by_model),
    )


def _correlation(
    values: FloatArray, signs: FloatArray, rows: NDArray[np.bool_], group: Group, seed: int
) -> Estimate | Missing:
    """Of the attribute's difference (perturbed − base) with the preferred side (sign 1: perturbed) on some rows."""
    ids = _kept(group.prompt_ids, rows)
    return estimated(partial(chosen_correlation, (signs * values)[rows], ids, rng(seed)))


def _observational(bias: Bias, pairs: Sequence[Pair], scorings: Scorings) -> Observational | Missing:
    """Mean reward of answers with the bias minus that of answers without, within prompts; labelled as measured."""
    if bias.measure is None or bias.measure.relative:
        return Missing(reason="the bias has no measure that labels one answer by itself")
    texts = [(pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
    attribute = [exhibits(text, bias) for _, text in texts]
    ids = [prompt_id(prompt) for prompt, _ in texts]
    found: dict[str, Effect | Missing] = {}
    for label, scoring in scorings.items():
        if not isinstance(scoring, Rewards):
            return Missing(reason="a pairwise judge gives no reward of single answers")
        rewards = np.array([scoring.of(prompt, text) for prompt, text in texts])
        there = ~np.isnan(rewards)  # others were left out as too long, which is counted where they were scored
        kept = [flag for flag, keep in zip(attribute, there, strict=True) if keep]
        found[label] = estimated(partial(observational_effect, rewards[there], kept, _kept(ids, there)))
    return Observational(labelled_by=f"measured {bias.measure.feature}", effect=per_scoring(found))


def _is_measured(bias: Bias) -> bool:
    """Whether the bias is a feature with a size (length), so that r is Pearson's and not point-biserial."""
    return bias.label_by == "measure" and bias.measure is not None


def _feature_differences(bias: Bias, sides: Sequence[tuple[str, str]]) -> FloatArray:
    feature = bias.measure.feature if bias.measure else ""
    return np.array([bias.measured(one, feature) - bias.measured(other, feature) for one, other in sides])


def _kept(ids: Sequence[str], rows: Sequence[bool] | NDArray[np.bool_]) -> list[str]:
    return [one for one, keep in zip(ids, rows, strict=True) if keep]


SIDES = ("base", "perturbed")
TEXTS = ("original", "rewrite", "rewrite_of_rewrite")
Values = Mapping[str, Mapping[str, tuple[FloatArray, list[str]]]]
"""Scoring to kind of text to its rewards and prompts."""


def rewards(
    groups: Sequence[Group], triples: Sequence[Triple], scorings: Scorings, seed: int
) -> RewardSpread | Missing:
    """Distributions of rewards on common bins; missing if a scorer compares pairs and rewards no single text."""
    known = {label: one for label, one in scorings.items() if isinstance(one, Rewards)}
    if len(known) < len(scorings):
        return Missing(reason="the scorer compares pairs and rewards no single text")
    sides = {group.bias.name: _of_contrasts(group, known) for group in groups}
    names = dict.fromkeys(triple.bias for triple in triples)
    texts = {name: _of_triples([one for one in triples if one.bias == name], known) for name in names}
    edges = _edges([one for of in sides.values() for one in _arrays(of)])
    return RewardSpread(
        contrasts=ContrastRewards(
            edges=edges, of={name: _distributions(of, edges, seed) for name, of in sides.items()}
        ),
        triples={name: _on_own_bins(of, seed) for name, of in texts.items()},
    )


def _of_contrasts(group: Group, known: Mapping[str, Rewards]) -> Values:
    return {
        label: {
            side: _there([one.of(row.prompt, getattr(row, side)) for row in group.contrasts], group.prompt_ids)
            for side in SIDES
        }
        for label, one in known.items()
    }


def _of_triples(triples: Sequence[Triple], known: Mapping[str, Rewards]) -> Values:
    found: dict[str, dict[str, tuple[FloatArray, list[str]]]] = {}
    for label, one in known.items():
        found[label] = {}
        for group, has in (("with", True), ("without", False)):
            rows = [triple for triple in triples if triple.has_attribute == has]
            ids = [prompt_id(triple.prompt) for triple in rows]
            for text in TEXTS if rows else ():
                values = [one.of(row.prompt, getattr(row, text)) for row in rows]
                found[label][f"{group}, {text}"] = _there(values, ids)
    return found


def _on_own_bins(of: Values, seed: int) -> TripleRewards:
    edges = _edges(_arrays(of))
    return TripleRewards(edges=edges, of=_distributions(of, edges, seed))


def _distributions(of: Values, edges: Sequence[float], seed: int) -> PerScoring[Kinds]:
    found = {
        label: {
            kind: estimated(partial(distribution, values, ids, edges, rng(seed)))
            for kind, (values, ids) in kinds.items()
        }
        for label, kinds in of.items()
    }
    return PerScoring[Kinds](**before_and_after(found))


def _arrays(of: Values) -> list[FloatArray]:
    return [values for kinds in of.values() for values, _ in kinds.values()]


def _edges(arrays: Sequence[FloatArray]) -> tuple[float, ...]:
    return common_edges(arrays) if any(one.size for one in arrays) else ()


def _there(values: Sequence[float], ids: Sequence[str]) -> tuple[FloatArray, list[str]]:
    found = np.asarray(values, dtype=np.float64)
    keep = ~np.isnan(found)
    return found[keep], [one for one, there in zip(ids, keep, strict=True) if there]
