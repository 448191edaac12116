"""Choices for and against each bias in labelled pairs: contingency, correlation, odds crude and adjusted, and groups of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cda.arrays import BoolArray, FloatArray, Ids, n_distinct
from cda.biases import Bias
from cda.data.pairs import PairLabels
from cda.features import n_words
from cda.results.base import Estimate, Missing, Test, or_missing
from cda.results.data import DataBias, OddsRegression
from cda.results.effects import ChoiceOdds, Contingency, Grouping, LabelRates, LogOdds
from cda.stats.choice import choice_log_odds
from cda.stats.estimators import share_of
from cda.stats.levels import Levels, grouping, one_family
from cda.stats.multiplicity import holm_of
from cda.stats.proportions import chosen_correlation, contingency_of_known, exact_change_test

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
class SideLabels:
    """Labels of one bias in pairs as arrays, shape (n,); `known` is False where a label could not be read."""

    chosen: BoolArray
    rejected: BoolArray
    known: BoolArray
    ids: NDArray[Any]
    feature: FloatArray | None = None
    """Difference, chosen − rejected, of the measured feature that is its attribute; None: the label is."""

    @classmethod
    def of(cls, sides: NDArray[np.int8], ids: Ids, feature: FloatArray | None = None) -> SideLabels:
        """Of labels of shape (n, 2): 1, 0, or −1 if unknown."""
        known = (sides[:, 0] >= 0) & (sides[:, 1] >= 0)
        return cls((sides[:, 0] == 1) & known, (sides[:, 1] == 1) & known, known, np.asarray(ids), feature)

    def part(self, rows: BoolArray) -> SideLabels:
        """Those of the rows that are True."""
        feature = None if self.feature is None else self.feature[rows]
        return SideLabels(self.chosen[rows], self.rejected[rows], self.known[rows], self.ids[rows], feature)

    @property
    def difference(self) -> FloatArray:
        """1 if only the chosen side has the bias, −1 if only the rejected one, else 0, and 0 for an unknown label."""
        return self.chosen.astype(np.float64) - self.rejected.astype(np.float64)

    @property
    def attribute(self) -> FloatArray:
        """Difference of the attribute whose correlation with being chosen is taken."""
        return self.difference if self.feature is None else self.feature

    @property
    def table(self) -> Contingency | Missing:
        return or_missing(partial(contingency_of_known, self.chosen, self.rejected, self.known, self.ids))

    def of_known(self, values: FloatArray) -> tuple[FloatArray, NDArray[Any]]:
        return values[self.known], self.ids[self.known]


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
        own = {bias.name: _in_arrays(bias, labels[bias.name]) for bias in alike}
        words = None if first.sides is None else np.array([[n_words(text) for text in both] for both in first.sides])
        odds, _ = choice_odds(alike, own, words)
        found |= {bias.name: _rates(own[bias.name], odds[bias.name]) for bias in alike}
        left = [bias for bias in left if bias not in alike]
    return {bias.name: found[bias.name] for bias in biases if bias.name in found}


def _same_pairs(first: PairLabels, second: PairLabels) -> bool:
    return first is second or (first.prompt_ids == second.prompt_ids and first.sides == second.sides)


def _in_arrays(bias: Bias, labels: PairLabels) -> SideLabels:
    both = zip(labels.chosen, labels.rejected, strict=True)
    sides = np.array([[-1 if label is None else label for label in pair] for pair in both], dtype=np.int8)
    feature = attribute_of(bias, labels.sides is not None)
    values = None
    if feature != "label" and labels.sides is not None:
        values = np.array(
            [bias.measured(first, feature) - bias.measured(second, feature) for first, second in labels.sides]
        )
    return SideLabels.of(sides.reshape(-1, 2), labels.prompt_ids, values)


def _rates(labels: SideLabels, odds: ChoiceOdds) -> LabelRates:
    return LabelRates(contingency=labels.table, r_train=or_missing(partial(attribute_correlation, labels)), odds=odds)


def attribute_of(bias: Bias, has_texts: bool) -> str:
    """The attribute whose correlation with being chosen is taken: a measured feature if the texts are known, else the label."""
    measured = bias.label_by == "measure" and has_texts and bias.measure is not None
    return bias.measure.feature if measured and bias.measure is not None else "label"


def attribute_correlation(labels: SideLabels, weights: FloatArray | None = None) -> Estimate:
    """Correlation of a bias's attribute with being chosen, in the pairs with a known label; of pairs with weights, shape (n,), if
    they are given. DataError: no pair differs in it."""
    known, ids = labels.of_known(labels.attribute)
    return chosen_correlation(known, ids, None if weights is None else weights[labels.known])


def choice_odds(
    biases: Sequence[Bias], labels: Mapping[str, SideLabels], words: NDArray[Any] | None
) -> tuple[dict[str, ChoiceOdds], OddsRegression | Missing]:
    """Odds of every bias, and of the number of words, shape (n, 2), if the texts are known, from labels of the same pairs; and the joint
    regression.

    A bias that is the number of words takes the place of that term. A pair with an unknown label of any bias is in no adjusted
    odds, and in the crude odds of the others.
    """
    own = {bias.name: labels[bias.name] for bias in biases if not is_length(bias)}
    length = None if words is None else np.log2(np.maximum(1, words[:, 0]) / np.maximum(1, words[:, 1]))
    differences = {name: each.difference for name, each in own.items()}
    if length is not None:
        differences[WORDS] = length
    ids = next(iter(labels.values())).ids
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


def _alone(name: str, difference: FloatArray, known: BoolArray, ids: NDArray[Any]) -> LogOdds | Missing:
    if not known.any():
        return Missing(reason="no pair has a label on both sides")
    return choice_log_odds({name: difference[known]}, ids[known])[name]


def _joint(
    differences: Mapping[str, FloatArray], known: BoolArray, ids: NDArray[Any]
) -> tuple[dict[str, LogOdds | Missing], OddsRegression | Missing]:
    """The regression of all terms together, on the pairs with every label; Holm over its terms."""
    if not known.any():
        none = Missing(reason=f"none of {len(ids)} pairs has a label of every bias")
        return dict.fromkeys(differences, none), none
    kept = ids[known]
    found = choice_log_odds({name: values[known] for name, values in differences.items()}, kept)
    terms = tuple(name for name, odds in found.items() if isinstance(odds, LogOdds))
    return found, OddsRegression(terms=terms, n=len(kept), n_prompts=n_distinct(kept), unlabelled=int((~known).sum()))


def data_biases(
    biases: Sequence[Bias],
    labels: Mapping[str, SideLabels],
    labelled_by: Mapping[str, str],
    words: FloatArray | None,
) -> tuple[tuple[DataBias, ...], ChoiceOdds | Missing, OddsRegression | Missing]:
    """Every bias of pairs that all have labels of it, the length as a term of its own, and the joint regression; Holm's
    correction over the biases for the exact tests, and over the terms for the adjusted odds."""
    odds, regression = choice_odds(biases, labels, words)
    odds = _with_holm(odds)
    found = []
    for bias in biases:
        own = labels[bias.name]
        found.append(
            DataBias(
                **dict(_rates(own, odds[bias.name])),
                name=bias.name,
                labelled_by=labelled_by[bias.name],
                r_of=attribute_of(bias, words is not None),
                on_one_side=or_missing(partial(share_of, *own.of_known(np.abs(own.difference)))),
                rule_accuracy=or_missing(partial(share_of, *own.of_known((1 + own.difference) / 2))),
                test=_exact(own),
            )
        )
    tests = holm_of([bias.test for bias in found])
    tested = tuple(bias.model_copy(update={"test": test}) for bias, test in zip(found, tests, strict=True))
    return tested, odds.get(WORDS, _NO_TEXTS), regression


def _exact(own: SideLabels) -> Test | Missing:
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
    columns: Mapping[str, Levels], biases: Sequence[Bias], labels: Mapping[str, SideLabels]
) -> dict[str, dict[str, Grouping]]:
    """By column, every bias in the pairs of each of its levels; the tests of all columns and biases are one family."""
    found = [_by_levels(levels, labels[bias.name]) for levels in columns.values() for bias in biases]
    adjusted = iter(one_family(found))
    return {name: {bias.name: next(adjusted) for bias in biases} for name in columns}


def _by_levels(levels: Levels, labels: SideLabels) -> Grouping:
    def level(_: str, rows: BoolArray, __: Ids) -> dict[str, Any]:
        own = labels.part(rows)
        rates = own.table
        found: dict[str, Estimate | Missing] = {
            measure: rates if isinstance(rates, Missing) else getattr(rates, field) for measure, field in _RATES.items()
        }
        found["r"] = or_missing(partial(attribute_correlation, own))
        return {"found": {measure: {"data": number} for measure, number in found.items()}, "test": _exact(own)}

    on_one_side = np.where(labels.difference != 0, labels.difference, np.nan)
    return grouping(levels, labels.ids, {"data": on_one_side}, level)
