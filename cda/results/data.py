"""The result of `cda data`: what a reward model would learn of each bias from preference pairs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cda.records import Exclusions
from cda.results.base import ByBias, ByName, Estimate, MadeBy, Missing, Result, Shown, Test
from cda.results.benchmarks import AskedLLM
from cda.results.effects import UNTOLD, ChoiceOdds, Grouping, LabelRates


class DataBias(LabelRates):
    """One bias in the pairs."""

    name: str
    labelled_by: str
    """An LLM, a measured feature, or the file that gives the labels."""
    r_of: str
    """The attribute whose correlation `r_train` is: a measured feature, or `label`."""
    on_one_side: Estimate | Missing
    """Share of the pairs that have it on one side only: those that a rule which looks at nothing else decides."""
    rule_accuracy: Estimate | Missing
    """Share of all pairs on which the rule "take the side with it, else toss a coin" agrees with the choice."""
    test: Test | Missing
    """Exact test that as many pairs have it on the chosen side alone as on the rejected side alone."""

    @property
    def separates(self) -> bool:
        """True if the side with it is always chosen, or never, so that its odds have no bound."""
        table = self.contingency
        if isinstance(table, Missing) or table.only_chosen == table.only_rejected == 0:
            return False
        return min(table.only_chosen, table.only_rejected) == 0


class OddsRegression(Result):
    """The one logistic regression that all adjusted odds are of."""

    terms: tuple[str, ...]
    """Its terms: biases, and `number of words`."""
    n: int
    """Pairs with every label."""
    n_prompts: int
    unlabelled: int
    """Pairs left out because a label of a bias is unknown."""


class DataWeights(Result):
    """Suggested weights of the pairs, by how well biases and length alone tell their choices (`cda.stats.choice_weights`)."""

    n: int
    """Pairs with a weight."""
    effective_n: float
    """Equally weighted pairs that they are worth, (Σ w)² / Σ w²."""
    terms: tuple[str, ...]
    """Differences between the sides that the choices were told by: labels, measured features, and `number of words`."""
    told: Estimate
    """Share of the choices that these tell out of fold, half of those that they tell nothing of."""
    folds: int
    """Prompts were dealt to so many; a pair's weight comes of a regression on the others."""
    smallest: float
    largest: float
    """Of weights of mean 1."""
    capped: int
    """Pairs whose weight was cut at five times the mean."""
    alone: dict[str, int]
    """By bias: pairs that it decides alone, as the one measured bias that their sides differ in, on the chosen side."""
    r: dict[str, Estimate | Missing]
    """By bias: `r_train` of the weighted pairs."""


class DataResult(Shown):
    """Measurements of `cda data`."""

    made_by = MadeBy("cda data", "data.json", "cda.preferences.data_page:data_document")
    schema_version: Literal[2] = 2
    pairs: str
    """The data, without the folders of this machine."""
    split: str
    n_pairs: int
    n_prompts: int
    not_drawn: int
    """Usable pairs beyond the number that was asked for."""
    excluded: Exclusions
    """Rows that are no usable pair."""
    labels: tuple[str, ...]
    """Files of labels; empty if they were made here."""
    llm: AskedLLM | None
    """The LLM that labelled; None if none did."""
    prompt: str | None
    """Its prompt."""
    biases: tuple[DataBias, ...]
    words: ChoiceOdds | Missing
    """Length as a term of its own: odds for each doubling of the words."""
    regression: OddsRegression | Missing
    by: dict[str, ByBias[Grouping]]
    """By column, then by bias: `chosen`, the share of pairs with it on one side in which that side is the chosen one; the shares of
    `chosen responses` and `rejected responses` that have it; and `r`, its correlation with being chosen. Holm over the cells of a column."""
    rows: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """The file with a line for each row (`--rows`); None without one."""
    weights: Annotated[DataWeights | Missing | None, Field(exclude_if=lambda value: value is None)] = None
    """Of the pairs in that file; None without one."""
    seed: int
    versions: dict[str, str]
    """Versions of the packages that a result depends on."""

    def not_told_apart(self, bias: DataBias) -> list[str]:
        """Biases that alone tell every choice in which this one differs, so that no odds of it are adjusted for them; often none."""
        odds = bias.odds
        if not (isinstance(odds, ChoiceOdds) and isinstance(odds.adjusted, Missing) and UNTOLD in odds.adjusted.reason):
            return []
        return [other.name for other in self.biases if other.separates]

    def left_by_weights(self) -> dict[str, tuple[Estimate, Estimate]]:
        """Biases of whose correlation with being chosen the weights leave more than half, with it before and after, apart from those that
        are not told apart from another; none without weights."""
        found = self.weights
        if not isinstance(found, DataWeights):
            return {}
        own = [each for each in self.biases if not self.not_told_apart(each)]
        pairs = {each.name: (each.r_train, found.r[each.name]) for each in own}
        return {
            name: (before, after)
            for name, (before, after) in pairs.items()
            if isinstance(before, Estimate) and isinstance(after, Estimate) and not after.low <= 0 <= after.high
            if abs(after.value) > abs(before.value) / 2
        }

    def bias(self, name: str) -> DataBias:
        """The bias of this name; KeyError for another one, with the nearest."""
        return ByName({bias.name: bias for bias in self.biases})[name]

    def __repr__(self) -> str:
        return f"<DataAudit of {self.pairs}: {', '.join(bias.name for bias in self.biases)}>"
