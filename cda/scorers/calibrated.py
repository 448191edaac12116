"""Rewards and preferences corrected by a calibration: what its terms are in a text, and what they take off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cda.arrays import FloatArray
from cda.data.load import prompt_of
from cda.errors import DataError
from cda.features import measure
from cda.patterns import SlowPatternError
from cda.results.base import Estimate, Missing
from cda.results.dose import CalibrationResult, OrderCorrection, TextMeasure
from cda.scorers.compared import Comparison, Preferences, Rewards, Text, comparison_id, text_id
from cda.scorers.judge import is_swapped

MOST_CERTAIN = 0.98
"""Preferences beyond count as this: the log odds of a written verdict, 1 or −1, would be infinite."""


def log_odds(preferences: ArrayLike) -> FloatArray:
    """log((1 + p) / (1 − p)) of preferences from −1 to 1, which is at most ±4.6."""
    return np.asarray(2 * np.arctanh(np.clip(preferences, -MOST_CERTAIN, MOST_CERTAIN)))


def preference_of(odds: ArrayLike) -> FloatArray:
    """Preferences of log odds."""
    return np.asarray(np.tanh(np.asarray(odds, dtype=np.float64) / 2))


def text_terms(own: TextMeasure, text: str) -> tuple[float, float]:
    """Terms of offset and slope in one text: 1 if it has the bias, else 0; and its measure. Both 0, so that nothing is
    corrected, for a text for which the measure does not hold."""
    try:
        value = measure(text, own.feature, own.markers, own.pattern)
    except SlowPatternError as error:
        raise DataError(f"the calibration's pattern for {own.feature}: {error}") from None
    if np.isnan(value):
        return 0.0, 0.0
    has = own.present_above is not None and value > own.present_above
    has = has or (own.present_below is not None and value < own.present_below)
    return float(has), float(np.log(max(value, 1.0))) if own.logarithm else float(value)


def place_of_first(comparison: Comparison) -> float:
    """1 if a judge asked in one order was shown the first text of a comparison first, −1 if the second."""
    return -1.0 if is_swapped(*comparison) else 1.0


def value_of(correction: Estimate | Missing) -> float:
    """A correction; 0 if there is none."""
    return 0.0 if isinstance(correction, Missing) else correction.value


@dataclass(frozen=True, slots=True)
class Corrector:
    """A calibration at its strength, applied to texts."""

    calibration: CalibrationResult

    def shift(self, text: str) -> float:
        """What is taken off the reward of a text, in the calibration's unit."""
        total = 0.0
        for own in self.calibration.corrections.values():
            has, value = text_terms(own.measure, text)
            total += value_of(own.offset) * has + value_of(own.slope) * value
        return self.calibration.strength * total

    def rewards(self, rewards: Rewards, texts: Sequence[Text]) -> Rewards:
        """Corrected rewards of the same texts. Only differences within a prompt mean anything."""
        by_text = dict(rewards.by_text)
        for name, (_, text) in {text_id(*text): text for text in texts}.items():
            by_text[name] -= self.shift(text)
        return replace(rewards, by_text=by_text)

    def preferences(self, preferences: Preferences, comparisons: Sequence[Comparison], one_order: bool) -> Preferences:
        """Corrected preferences of the same comparisons; of a panel the panel's alone, its judges stay as they are."""
        distinct = {comparison_id(*comparison): comparison for comparison in comparisons}
        given = np.array([preferences.by_comparison[name] for name in distinct])
        corrected = self.margins(given, list(distinct.values()), one_order)
        return replace(
            preferences,
            by_comparison={**preferences.by_comparison} | dict(zip(distinct, corrected.tolist(), strict=True)),
        )

    def margins(self, margins: ArrayLike, comparisons: Sequence[Comparison], one_order: bool = False) -> FloatArray:
        """Corrected margins of comparisons, first text over second, shape (n,): rewards, or preferences from −1 to 1.
        `one_order`: a judge was asked in one order, so that its taste for a place is taken off as well. NaN stays NaN.
        """
        given = np.asarray(margins, dtype=np.float64)
        shifts = np.array([self.shift(first) - self.shift(second) for _, first, second in comparisons])
        if one_order and isinstance(self.calibration.order, OrderCorrection):
            order = self.calibration.strength * self.calibration.order.offset.value
            shifts = shifts + order * np.array([place_of_first(comparison) for comparison in comparisons])
        if self.calibration.unit == "reward":
            return np.asarray(given - shifts)
        return np.where(shifts == 0, given, preference_of(log_odds(given) - shifts))


def corrected_margins(
    calibration: CalibrationResult,
    prompts: Sequence[str | Sequence[Mapping[str, str]]],
    first: Sequence[str],
    second: Sequence[str],
    margins: ArrayLike,
    one_order: bool,
) -> FloatArray:
    """Corrected margins of first texts over second ones, as a calibration gives them that is called."""
    comparisons = [(prompt_of(prompt), text, other) for prompt, text, other in zip(prompts, first, second, strict=True)]
    return Corrector(calibration).margins(margins, comparisons, one_order)
