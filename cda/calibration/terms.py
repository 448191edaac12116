"""Terms of a correction in texts: whether a text has a bias, how much of it, and the place in which a judge saw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.calibration.result import Term
from cda.results.calibration import TextMeasure
from cda.scorers.calibrated import place_of_first, text_terms
from cda.scorers.compared import Comparison


def text_measure(bias: Bias) -> TextMeasure | None:
    """The measure of a bias file, complete in itself; None if the file has none."""
    rule = bias.measure
    if rule is None:
        return None
    return TextMeasure(
        feature=rule.feature,
        logarithm=rule.relative,
        present_above=None if rule.relative else rule.present_above,
        present_below=None if rule.relative else rule.present_below,
        markers=tuple(bias.markers),
        pattern=bias.pattern,
    )


def text_columns(measures: Mapping[str, TextMeasure], one_order: bool) -> list[Term]:
    """The terms of a scorer's problem: an offset unless the measure is relative, a slope, and the place of the first text."""
    terms = []
    for name, own in measures.items():
        if not own.logarithm:
            terms.append(Term(name, "offset"))
        terms.append(Term(name, "slope", f"{'log ' * own.logarithm}{own.feature}"))
    return [*terms, *([Term("", "order")] if one_order else [])]


def text_matrix(
    terms: Sequence[Term], measures: Mapping[str, TextMeasure], comparisons: Sequence[Comparison]
) -> FloatArray:
    """Terms of comparisons, first text minus second. Shape (n, k)."""

    @cache
    def values(bias: str, text: str) -> dict[str, float]:
        return dict(zip(("offset", "slope"), text_terms(measures[bias], text), strict=True))

    def value(term: Term, comparison: Comparison) -> float:
        if term.part == "order":
            return place_of_first(comparison)
        _, first, second = comparison
        return values(term.bias, first)[term.part] - values(term.bias, second)[term.part]

    rows = [[value(term, comparison) for term in terms] for comparison in comparisons]
    return np.array(rows, dtype=np.float64).reshape(len(comparisons), len(terms))
