"""The result of `cda inspect`: rewrites as they are shown, and numbers of all of them."""

from __future__ import annotations

from typing import Literal

from cda.records import Direction
from cda.results.base import Estimate, Missing, Result, Saved
from cda.results.effects import FeatureDrift


class InspectedBias(Result):
    """A bias, and the instructions of the rewriter."""

    name: str
    description: str
    add: str
    """The instruction that adds it."""
    remove: str
    """The instruction that removes it."""


class LostRewrites(Result):
    """Failures of which a run kept the number alone."""

    source: str
    """Purpose of the rewrite, in words."""
    tried: int
    reasons: dict[str, int]


class PhraseAdded(Result):
    """A phrase that several rewrites hold and no original does."""

    words: str
    share: Estimate | Missing
    """Share of the rewrites."""


class RewriteSummary(Result):
    """All rewrites of one bias in one direction. Intervals are clustered by prompt."""

    bias: str
    direction: Direction
    n: int
    """Rewrites that were looked at."""
    n_prompts: int
    available: int
    """Rewrites before a sample was drawn."""
    n_written: int
    """Rewrites that have a text."""
    sources: dict[str, int]
    """Sources of the rewrites, with counts."""
    labelled_by: dict[str, int]
    """Labellers, with counts."""
    flipped: Estimate | Missing
    """Share whose label changed as asked for."""
    had_it_before: int
    """Originals that were labelled already as the rewrite was to be."""
    failed: Estimate | Missing
    """Share that was not accepted, even after asking again."""
    failed_reasons: dict[str, int]
    lost: tuple[LostRewrites, ...]
    rejected: Estimate | Missing
    """Share of the accepted texts that the gate's checks would reject."""
    rejected_reasons: dict[str, int]
    noticed: dict[str, int]
    """Findings that the gate only counts."""
    reward: Estimate | Missing
    """Mean reward of rewrite − original, in `InspectResult.unit`."""
    n_without_reward: int
    drift: tuple[FeatureDrift, ...] | Missing
    """Rewrite (perturbed) against original (base), feature by feature."""
    phrases: tuple[PhraseAdded, ...]


class RewriteLabel(Result):
    """Labels of original and rewrite: the bias is there."""

    before: bool | None
    """The original; None if that is not known."""
    after: bool | None
    """The rewrite; None if that is not known."""
    by: str | None
    """The labeller; None if there is none."""
    flipped: bool | None
    """The label changed as asked for; None if a label is missing."""


class FeatureChange(Result):
    """A feature in which one rewrite differs from its original."""

    feature: str
    before: float
    after: float
    is_treatment: bool
    """It is the bias itself."""
    beyond: bool
    """The difference is beyond the feature's limit."""


class RewriteShown(Result):
    """One rewrite as it is shown."""

    bias: str
    source: str
    direction: Direction
    prompt: str
    original: str
    rewrite: str | None
    """None if no text was written."""
    failed: str | None
    """Why it was not accepted; None if it was."""
    rejected: tuple[str, ...]
    """Findings for which the gate rejects it, the gravest first."""
    noticed: tuple[str, ...]
    """Findings that the gate only counts."""
    label: RewriteLabel
    rewards: tuple[float, float] | None
    """Rewards of original and rewrite; None without rewards of single texts."""
    difference: float | None
    """Reward of rewrite − original, or a judge's preference; None without either."""
    drift: tuple[FeatureChange, ...]
    distance: float
    """From its original in all that is not the bias, in standard deviations of originals."""


class InspectResult(Saved):
    """Findings of `cda inspect`."""

    schema_version: Literal[1] = 1
    target: str
    """The target as it was given."""
    where: str
    """Source of the rewrites, in words."""
    by: str
    """The rewriter; empty if that is not known."""
    scored_by: str | None
    """Whose rewards these are; None without rewards."""
    unit: str
    """Unit of the rewards."""
    notes: tuple[str, ...]
    worst: str | None
    """Criterion of the rewrites shown: `reward`, `drift` or `failed`; None: drawn at random."""
    seed: int
    biases: tuple[InspectedBias, ...]
    summaries: tuple[RewriteSummary, ...]
    examples: tuple[RewriteShown, ...]
