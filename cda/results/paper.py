"""What the release of "Flattery, Fluff, and Fog" says of its own models and judges, on the pairs of an audit."""

from __future__ import annotations

from pydantic import Field

from cda.results.base import Estimate, Missing, Result, Test
from cda.results.data import LabelRates


class PaperShare(Result):
    """A share of one of the paper's models before and after its fine-tuning, on the pairs with a majority of people."""

    before: Estimate | Missing
    after: Estimate | Missing
    change: Estimate | Missing
    """After − before, paired."""
    unpaired: Estimate | Missing = Missing(reason="of one model before and after alone")
    """The same change as if both sides came from different pairs, as the paper prints it."""
    test: Test | Missing = Missing(reason="of one model before and after alone")
    """Exact test that the change is 0."""


class PaperModel(Result):
    """One of the paper's reward models, or the mean of several."""

    of: tuple[str, ...]
    """Its size; of a mean all sizes."""
    without_score: int
    """Pairs without a score that is needed."""
    skew: PaperShare | Missing
    miscalibration: PaperShare | Missing


class PaperJudge(Result):
    """One of the paper's LLM judges; its ties are left out, as there."""

    ties: int
    without_verdict: int
    """Pairs without a verdict."""
    skew: Estimate | Missing
    miscalibration: Estimate | Missing


class PaperPeople(Result):
    """The paper's models and judges beside people's majorities."""

    rule: str
    """How people's ties were treated: drop, half or as-released."""
    left_out: dict[str, int]
    """Pairs without a majority that counts, by reason."""
    with_majority: int
    models: dict[str, PaperModel]
    """By size."""
    mean: PaperModel | None
    """Over the sizes with scores before and after; None for fewer than two."""
    judges: dict[str, PaperJudge]


class PaperBias(Result):
    """What the release says of one bias."""

    pairs: int
    """That people voted on."""
    triples: int
    triples_voted: int
    """Triples of which people voted on the answers."""
    run: str
    """Name of the fine-tuning that its scores are of."""
    people: PaperPeople | Missing
    rewardbench: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    """Size to `before` and `after` to each section's accuracy, 0 to 1, as released."""
    labels: LabelRates | None = None
    """Of the paper's training sample; None without them, and of an audit alone, whose analysis has them."""


class PaperOutcome(Result):
    """What the release says beside this audit."""

    missing: dict[str, tuple[str, ...]]
    """Part of the release to the biases that it lacks it for."""
    parts: tuple[str, ...]
    """Parts that a release can have."""
    biases: dict[str, PaperBias]
