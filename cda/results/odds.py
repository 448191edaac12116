"""Odds that a preferred response is the one with a bias, alone and next to everything else that is known of a pair."""

from __future__ import annotations

from typing import Literal

from cda.results.base import Estimate, Missing, Result, Test


class LogOdds(Result):
    """A coefficient of a logistic regression of choices on differences between the sides, chosen − rejected."""

    estimate: Estimate
    """Natural logarithm of the odds; above 0 the choice goes to the side with more of it. `n`: pairs whose sides differ in it."""
    standard_error: float
    """Clustered by prompt."""
    test: Test
    """Test that it is 0."""


class ChoiceOdds(Result):
    """Log odds that a choice goes to the side with the bias."""

    per: Literal["having it", "doubling of the words"]
    """The difference between the sides to which the odds belong."""
    crude: LogOdds | Missing
    """In the data as they are."""
    adjusted: LogOdds | Missing
    """Between pairs that are alike in all of `adjusted_for`."""
    adjusted_for: tuple[str, ...]
    """Other terms of the regression: biases, and `number of words`."""
