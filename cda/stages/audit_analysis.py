"""Data analysis in an audit: labels of the training data, correlations with people and model, the observational effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.data.pair_labels import PairLabels
from cda.effects.observational import observational_effect
from cda.metrics.people import chosen_correlation, contingency
from cda.metrics.votes import TieRule
from cda.records import Pair, prompt_id
from cda.results.base import Estimate, Missing
from cda.results.data import BiasAnalysis, Correlations, LabelRates, Observational
from cda.results.effects import Effect
from cda.rewriting.labels import exhibits
from cda.score.compared import Rewards
from cda.stages.audit_groups import FloatArray, Group, Scorings, estimated, people_of
from cda.stages.audit_result import per_scoring, rng


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
