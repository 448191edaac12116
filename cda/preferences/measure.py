"""Choices for and against each bias in labelled pairs: contingency, correlation, odds crude and adjusted, and groups of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cda.arrays import BoolArray, FloatArray
from cda.biases import Bias
from cda.data.pairs import PairLabels
from cda.features import n_words
from cda.results.base import Estimate, Missing, Test, or_missing
from cda.results.data import DataBias, OddsRegression
from cda.results.effects import ChoiceOdds, Grouping, LabelRates, LogOdds
from cda.stats.choice import choice_log_odds
from cda.stats.estimators import share_of
from cda.stats.levels import Levels, grouping, one_family
from cda.stats.multiplicity import holm_of
from cda.stats.proportions import chosen_correlation, contingency, exact_change_test

WORDS = "number of words"
"""Name of the length among the terms of a regression; no bias can have it."""
_RATES = {
    "chosen": "selection_rate",
    "chosen responses": "chosen_rate",
    "rejected responses": "rejected_rate",
}
"""Measures of a level, and the rates of its contingency table that they are."""
_NO_TEXTS = Missing(reason="the texts are not known, so that their lengths are not")


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Labels of one bias as arrays, shape (n,); `known` is False where a label could not be read."""

    chosen: BoolArray
    rejected: BoolArray
    known: BoolArray
    ids: list[str]

    @classmethod
    def of(cls, labels: PairLabels, rows: BoolArray | None = None) -> _Labels:
        """Those of all pairs, or of the rows that are True."""
        kept = np.ones(len(labels), dtype=bool) if rows is None else rows
        sides = [np.array(side, dtype=object)[kept] for side in (labels.chosen, labels.rejected)]
        known = np.array([None not in both for both in zip(*sides, strict=True)], dtype=bool)
        first, second = (np.array([bool(value) for value in side]) & known for side in sides)
        return cls(first, second, known, np.asarray(labels.prompt_ids, dtype=str)[kept].tolist())

    @property
    def difference(self) -> FloatArray:
        """1 if only the chosen side has the bias, −1 if only the rejected one, else 0."""
        return self.chosen.astype(np.float64) - self.rejected.astype(np.float64)

    def of_known(self, values: FloatArray) -> tuple[FloatArray, list[str]]:
        return values[self.known], np.asarray(self.ids, dtype=str)[self.known].tolist()


def is_length(bias: Bias) -> bool:
    """True for a bias that is the number of words, whose odds are those of the length."""
    return bias.measure is not None and bias.measure.relative and bias.measure.feature == "words"


def label_rates(biases: Sequence[Bias], labels: Mapping[str, PairLabels]) -> dict[str, LabelRates]:
    """Preference of labelled pairs by bias, as far as there are labels; adjusted odds of biases labelled on the same pairs."""
    found: dict[str, LabelRates] = {}
    left = [bias for bias in biases if bias.name in labels]
    while left:
        first = labels[left[0].name]
        alike = [bias for bias in left if _same_pairs(labels[bias.name], first)]
        odds, _ = choice_odds(alike, {bias.name: labels[bias.name] for bias in alike})
        found |= {bias.name: _rates(bias, labels[bias.name], odds[bias.name]) for bias in alike}
        left = [bias for bias in left if bias not in alike]
    return {bias.name: found[bias.name] for bias in biases if bias.name in found}


def _same_pairs(first: PairLabels, second: PairLabels) -> bool:
    return first is second or (first.prompt_ids == second.prompt_ids and first.sides == second.sides)


def _rates(bias: Bias, labels: PairLabels, odds: ChoiceOdds) -> LabelRates:
    own = _Labels.of(labels)
    return LabelRates(
        contingency=or_missing(partial(contingency, labels.chosen, labels.rejected, own.ids)),
        r_train=or_missing(partial(attribute_correlation, bias, labels)),
        odds=odds,
    )


def attribute_of(bias: Bias, labels: PairLabels) -> str:
    """The attribute whose correlation with being chosen is taken: a measured feature if the texts are known, else the label."""
    measured = bias.label_by == "measure" and bias.measure is not None and labels.sides is not None
    return bias.measure.feature if measured and bias.measure is not None else "label"


def _attribute(bias: Bias, labels: PairLabels) -> FloatArray:
    """Its difference, chosen − rejected, shape (n,)."""
    feature = attribute_of(bias, labels)
    if feature == "label" or labels.sides is None:
        return _Labels.of(labels).difference
    return np.array([bias.measured(first, feature) - bias.measured(second, feature) for first, second in labels.sides])


def attribute_correlation(bias: Bias, labels: PairLabels, weights: FloatArray | None = None) -> Estimate:
    """Correlation of a bias's attribute with being chosen, in the pairs with a known label; of pairs with weights, shape (n,), if
    they are given. DataError: no pair differs in it."""
    own = _Labels.of(labels)
    known, ids = own.of_known(_attribute(bias, labels))
    return chosen_correlation(known, ids, None if weights is None else weights[own.known])


def label_difference(labels: PairLabels) -> FloatArray:
    """1 if only the chosen side has the bias, −1 if only the rejected one, else 0, and 0 for an unknown label; shape (n,)."""
    return _Labels.of(labels).difference


def choice_odds(
    biases: Sequence[Bias], labels: Mapping[str, PairLabels]
) -> tuple[dict[str, ChoiceOdds], OddsRegression | Missing]:
    """Odds of every bias, and of the number of words if the texts are known, from labels of the same pairs; and the joint regression.

    A bias that is the number of words takes the place of that term. A pair with an unknown label of any bias is in no adjusted
    odds, and in the crude odds of the others.
    """
    own = {bias.name: _Labels.of(labels[bias.name]) for bias in biases if not is_length(bias)}
    sides = next(iter(labels.values())).sides
    length = None if sides is None else np.array([_doublings(*both) for both in sides])
    differences = {name: each.difference for name, each in own.items()}
    if length is not None:
        differences[WORDS] = length
    ids = list(next(iter(labels.values())).prompt_ids)
    everywhere = np.ones(len(ids), dtype=bool)
    known = np.logical_and.reduce([everywhere, *(each.known for each in own.values())])
    adjusted, regression = _joint(differences, known, ids)
    crude = {
        name: _alone(name, differences[name], own[name].known if name in own else everywhere, ids)
        for name in differences
    }
    terms = regression.terms if isinstance(regression, OddsRegression) else ()

    def odds(term: str) -> ChoiceOdds:
        others = tuple(other for other in terms if other != term)
        alone = isinstance(adjusted.get(term), LogOdds) and not others
        return ChoiceOdds(
            per="doubling of the words" if term == WORDS else "having it",
            crude=crude.get(term, _NO_TEXTS),
            adjusted=Missing(reason="there is nothing to adjust for") if alone else adjusted.get(term, _NO_TEXTS),
            adjusted_for=others,
        )

    found = {bias.name: odds(WORDS if is_length(bias) else bias.name) for bias in biases}
    return ({**found, WORDS: odds(WORDS)} if length is not None else found), regression


def _doublings(first: str, second: str) -> float:
    return float(np.log2(max(1, n_words(first)) / max(1, n_words(second))))


def _alone(name: str, difference: FloatArray, known: BoolArray, ids: Sequence[str]) -> LogOdds | Missing:
    if not known.any():
        return Missing(reason="no pair has a label on both sides")
    return choice_log_odds({name: difference[known]}, np.asarray(ids, dtype=str)[known].tolist())[name]


def _joint(
    differences: Mapping[str, FloatArray], known: BoolArray, ids: Sequence[str]
) -> tuple[dict[str, LogOdds | Missing], OddsRegression | Missing]:
    """The regression of all terms together, on the pairs with every label; Holm over its terms."""
    if not known.any():
        none = Missing(reason=f"none of {len(ids)} pairs has a label of every bias")
        return dict.fromkeys(differences, none), none
    kept = np.asarray(ids, dtype=str)[known].tolist()
    found = choice_log_odds({name: values[known] for name, values in differences.items()}, kept)
    terms = tuple(name for name, odds in found.items() if isinstance(odds, LogOdds))
    return found, OddsRegression(terms=terms, n=len(kept), n_prompts=len(set(kept)), unlabelled=int((~known).sum()))


def data_biases(
    biases: Sequence[Bias], labels: Mapping[str, PairLabels], labelled_by: Mapping[str, str]
) -> tuple[tuple[DataBias, ...], ChoiceOdds | Missing, OddsRegression | Missing]:
    """Every bias of pairs that all have labels of it, the length as a term of its own, and the joint regression; Holm's
    correction over the biases for the exact tests, and over the terms for the adjusted odds."""
    odds, regression = choice_odds(biases, labels)
    odds = _with_holm(odds)
    found = []
    for bias in biases:
        own = _Labels.of(labels[bias.name])
        found.append(
            DataBias(
                **dict(_rates(bias, labels[bias.name], odds[bias.name])),
                name=bias.name,
                labelled_by=labelled_by[bias.name],
                r_of=attribute_of(bias, labels[bias.name]),
                on_one_side=or_missing(partial(share_of, *own.of_known(np.abs(own.difference)))),
                rule_accuracy=or_missing(partial(share_of, *own.of_known((1 + own.difference) / 2))),
                test=_exact(own),
            )
        )
    tests = holm_of([bias.test for bias in found])
    tested = tuple(bias.model_copy(update={"test": test}) for bias, test in zip(found, tests, strict=True))
    return tested, odds.get(WORDS, _NO_TEXTS), regression


def _exact(own: _Labels) -> Test | Missing:
    """Exact test that the choice does not mind the bias: with it on the chosen side as often as on the rejected side."""
    if not own.difference.any():
        return Missing(reason="no pair has it on one side only")
    before, ids = own.of_known(own.rejected.astype(np.float64))
    return exact_change_test(before, own.chosen[own.known].astype(np.float64), ids)


def _with_holm(odds: Mapping[str, ChoiceOdds]) -> dict[str, ChoiceOdds]:
    """Adjusted odds with Holm's p over the terms; a bias that is the length shares the test of that term."""
    by_term = {WORDS if each.per != "having it" else name: each.adjusted for name, each in odds.items()}
    tests = holm_of([each.test if isinstance(each, LogOdds) else each for each in by_term.values()])
    tested = dict(zip(by_term, tests, strict=True))

    def with_test(name: str, each: ChoiceOdds) -> ChoiceOdds:
        test = tested[WORDS if each.per != "having it" else name]
        if not isinstance(each.adjusted, LogOdds):
            return each
        return each.model_copy(update={"adjusted": each.adjusted.model_copy(update={"test": test})})

    return {name: with_test(name, each) for name, each in odds.items()}


def by_levels(
    columns: Mapping[str, Levels], biases: Sequence[Bias], labels: Mapping[str, PairLabels]
) -> dict[str, dict[str, Grouping]]:
    """By column, every bias in the pairs of each of its levels; the tests of all columns and biases are one family."""
    found = [_by_levels(levels, bias, labels[bias.name]) for levels in columns.values() for bias in biases]
    adjusted = iter(one_family(found))
    return {name: {bias.name: next(adjusted) for bias in biases} for name in columns}


def _by_levels(levels: Levels, bias: Bias, labels: PairLabels) -> Grouping:
    attribute, whole = _attribute(bias, labels), _Labels.of(labels)

    def level(_: str, rows: BoolArray, ids: list[str]) -> dict[str, Any]:
        own = _Labels.of(labels, rows)
        chosen, rejected = (np.array(side, dtype=object)[rows].tolist() for side in (labels.chosen, labels.rejected))
        rates = or_missing(partial(contingency, chosen, rejected, ids))
        found: dict[str, Estimate | Missing] = {
            measure: rates if isinstance(rates, Missing) else getattr(rates, field) for measure, field in _RATES.items()
        }
        found["r"] = or_missing(partial(chosen_correlation, *own.of_known(attribute[rows])))
        return {"found": {measure: {"data": number} for measure, number in found.items()}, "test": _exact(own)}

    on_one_side = np.where(whole.difference != 0, whole.difference, np.nan)
    return grouping(levels, labels.prompt_ids, {"data": on_one_side}, level)
