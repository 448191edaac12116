"""Effects of a bias by a column of the user's data, such as a topic, a source or a length: levels, tests, slopes."""

from __future__ import annotations

from typing import Literal

from cda.results.base import Measure, Missing, PerScoring, Result, Test
from cda.results.effects import ConditionalEffects, Effect, SameMargin


class Level(Result):
    """The contrasts of one level of a column."""

    name: str
    """The category, the range of numbers, or `other (pooled)`."""
    pooled: dict[str, int]
    """Categories that are pooled in it, with their prompts; empty for a level by itself."""
    n: int
    n_prompts: int
    skew: Measure | Missing
    """Share of its contrasts on which the margin is above 0."""
    margin: PerScoring[Effect | SameMargin | Missing]
    """Mean margin of its contrasts."""
    test: Test | Missing
    """Test that its mean margin is 0; of a training, that its skew did not change. Holm over the levels of the column."""


class ColumnLevels(Result):
    """How rows are divided by a column."""

    kind: Literal["categories", "numbers"]
    """Numbers are cut into ranges."""
    cutoffs: tuple[float, ...]
    """Bounds of the ranges, each the lowest number of a range; empty for categories, and if ranges are filled equally."""
    n_missing: int
    """Rows without a value in the column, or with two of them; in no level."""


class MarginsByColumn(ColumnLevels):
    """Direct contrasts of one bias by one column."""

    levels: tuple[Level, ...]
    differ: PerScoring[Test | Missing]
    """Test that the mean margin is the same in all levels; two-sided, clustered by prompt."""
    change_differs: Test | Missing
    """The same test of the change of the margin by a training."""
    slope: PerScoring[Effect | Missing]
    """Change of the mean margin for one unit of a column of numbers."""


class RateByColumn(ColumnLevels):
    """RATE effects of one bias by one column: the double-rewrite effect among the triples of each level."""

    pooled: dict[str, int]
    """Categories that are pooled in `other (pooled)`, with their prompts."""
    effects: PerScoring[ConditionalEffects | Missing]
    """Effect in each level; standardised by the originals of all triples."""
    tests: dict[str, Test]
    """Test of each effect of the last scoring, Holm over the levels."""
    differ: PerScoring[Test | Missing]
    """Test that the effect is the same in all levels."""
    slope: PerScoring[ConditionalEffects | Missing]
    """Change of the effect for one unit of a column of numbers, by each estimator."""


class Covariates(Result):
    """One bias by the columns that were asked for."""

    contrasts: dict[str, MarginsByColumn | Missing]
    """By column; Missing with its reason if no file of contrasts has it, or it does not divide them."""
    triples: dict[str, RateByColumn | Missing]
    """By column, likewise."""
