"""How well rewrites of one attribute were made: is it there after and not before, is it all that changed, do rewriters agree?"""

from __future__ import annotations

from typing import Literal

from cda.records import Exclusions
from cda.results.base import Estimate, Missing, Result, Saved
from cda.results.drift import FeatureDrift


class Fidelity(Result):
    """Whether the sides of the pairs are what they are taken for, by labels that know nothing of the rewriting."""

    n: int
    """Pairs."""
    present: Estimate | None
    """Share of the sides with the attribute that are labelled so; None where no label could be read."""
    absent: Estimate | None
    """Share of the sides without it that are labelled without; None likewise."""
    both: Estimate | None
    """Share of the pairs in which both are right, among those with two labels; None likewise."""
    n_unparsed_with: int
    """Sides with the attribute whose label could not be read."""
    n_unparsed_without: int
    """Sides without it whose label could not be read."""


class QuantilePair(Result):
    """The same quantile of both rewriters' margins, reward units."""

    share: float
    first: float
    second: float


class Distance(Result):
    """Two-sample Kolmogorov–Smirnov: the largest difference of the two distribution functions (0 to 1).

    The p-value takes the samples for independent. They answer the same prompts, so it is rather too large than too small.
    """

    statistic: float
    p_value: float
    n_first: int
    n_second: int


class Agreement(Result):
    """Margins of two rewriters on the responses that both rewrote, averaged within each prompt."""

    first: str
    """Name of a rewriter."""
    second: str
    """Name of another."""
    n_prompts: int
    """Prompts that they share."""
    n_responses: int
    """Responses that both rewrote in the same direction."""
    pearson: Estimate | Missing
    """Correlation of the margins over prompts."""
    spearman: Estimate | Missing
    """The same of their ranks."""
    quantiles: tuple[QuantilePair, ...]
    """Points of a Q–Q plot; empty without shared prompts."""
    distance: Distance | None
    """Between the two distributions over prompts; None without shared prompts."""


class EditGrades(Result):
    """Grades of the rewrites by an LLM, 1 to 10."""

    score: Estimate | None
    """Mean of the lower of a rewrite's two grades; None where nothing could be read."""
    edit: Estimate | None
    """Mean of the grade for changing the attribute and nothing else."""
    fluency: Estimate | None
    """Mean of the grade for reading well."""
    by_rewriter: dict[str, Estimate]
    """`score` of each rewriter that has readable grades."""
    exclusions: Exclusions
    """Rewrites, and those without readable grades, by reason."""


class Guess(Result):
    """What an LLM that was not told the attribute saw in some pairs, and how near that comes (1 to 5; None: unread)."""

    text: str
    similarity: int | None
    n_pairs: int


class Guesses(Result):
    """Guesses at the attribute from pairs of different prompts; no prompt is in two of them."""

    similarity: Estimate | None
    """Mean over the guesses that have one, 1 to 5; its `n_prompts` counts guesses. None where there is none."""
    guesses: tuple[Guess, ...]
    """Those that could be read."""
    guessing: Exclusions
    """Guesses asked for, and those that could not be read, by reason."""
    rating: Exclusions
    """Similarities asked for, and those that could not be read, by reason."""


class PairQuality(Result):
    """All that is known of one candidate's pairs."""

    candidate: str
    """Its `id`."""
    n: int
    """Pairs."""
    n_prompts: int
    """Prompts behind them."""
    labelled_by: Literal["measure", "llm"] | None
    """Who labelled the sides: the attribute's own measure, or an LLM; None where nobody did."""
    fidelity: Fidelity | None
    """Of all pairs; None where nobody labelled."""
    fidelity_by_rewriter: dict[str, Fidelity]
    """Of each rewriter's pairs."""
    agreement: tuple[Agreement, ...]
    """Of every two rewriters."""
    grades: EditGrades | None
    """By an LLM; None where none was asked."""
    guesses: Guesses | None
    """By an LLM; None where none was asked."""
    drift: tuple[FeatureDrift, ...] | Missing
    """What else differs between the sides, the attribute's own features marked."""


class PairQualities(Saved):
    """Quality of the rewrites behind tested attributes."""

    schema_version: Literal[2] = 2
    candidates: dict[str, PairQuality]
    """By candidate `id`, of those that are confirmed or were given."""
