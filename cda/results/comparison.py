"""Finished audits held against each other: what each found, and two by two what they share, paired by contrast."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, Result, Saved, Test
from cda.results.leaderboard import LeaderboardRow


class PairedMargins(Result):
    """Margins of two audits on the rows (contrasts of a bias, or quality pairs) that both have a margin on."""

    first: Estimate
    """Share of these rows on which the first audit's margin is above 0."""
    other: Estimate
    """The same of the other audit."""
    difference: Estimate
    """other − first, paired, clustered by prompt."""
    test: Test
    """Exact test that the difference is 0; Holm's p allows for all such tests of the comparison."""
    agreement: Estimate
    """Share of these rows on which both prefer the same side, or both neither."""
    correlation: Estimate | Missing
    """Pearson's r of the two margins over these rows."""
    both: int
    """Rows on which both margins are above 0."""
    only_first: int
    """Rows on which the first audit's margin alone is above 0."""
    only_other: int
    """Rows on which the other audit's margin alone is above 0."""
    neither: int
    """Rows on which no margin is above 0."""
    unpaired_first: int
    """Rows of the first audit with a margin that the other lacks: other texts, or no margin there."""
    unpaired_other: int
    """The same of the other audit."""


class PairedAudits(Result):
    """Two audits, row by row."""

    first: str
    """Name of the audit that the other is held against."""
    other: str
    contrasts: dict[str, PairedMargins | Missing]
    """By bias that both audited."""
    quality: PairedMargins | Missing


class SetupDifference(Result):
    """One way in which the audits were not made alike."""

    what: str
    """Such as `precision`, `template`, or `contrasts of jargon`."""
    values: dict[str, str]
    """Name of the audit to its value."""


class ComparisonResult(Saved):
    """Several finished audits: the numbers of each, and every one paired with the first."""

    in_memory: ClassVar[frozenset[str]] = frozenset({"whole"})

    schema_version: Literal[1] = 1
    audits: dict[str, LeaderboardRow]
    """By name of the run's folder; of a training, the model after it."""
    differences: tuple[SetupDifference, ...]
    """Everything in which they were not made alike, the models' names included; empty: alike in all that is known."""
    pairs: tuple[PairedAudits, ...]
    """The first audit with each of the others."""
    n_tests: int
    """Tests that Holm allows for together."""
    whole: dict[str, AuditResult] = Field(default_factory=dict)
    """Only in memory, for the page: the audits themselves, by the same names."""
