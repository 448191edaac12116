"""Margins of comparisons that were scored beforehand, by rewards or by preferences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.records import Prompt, content_id
from cda.stats.people import panel_margins

Text = tuple[Prompt, str]
"""A prompt with its response."""
Comparison = tuple[Prompt, str, str]
"""A prompt with two responses."""


def text_id(prompt: Prompt, response: str) -> str:
    """Name of a prompt with its response."""
    return content_id("text", prompt, response)


def comparison_id(prompt: Prompt, first: str, second: str) -> str:
    """Name of a comparison."""
    return content_id("comparison", prompt, first, second)


def distinct_texts(texts: Iterable[Text]) -> dict[str, Text]:
    """Every distinct text by its `text_id`, in order of first appearance."""
    return {text_id(*text): text for text in texts}


class Compared(Protocol):
    """Margins of comparisons that were scored beforehand."""

    @property
    def unit(self) -> str:
        """`reward` or `preference`."""
        ...

    def margins(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """Margins of the first text over the second, shape (n,); NaN if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Rewards:
    """Rewards of texts, and how they came about.

    Attributes:
        by_text: `text_id` to reward, in the order in which the texts were first given. NaN for a text that was left out, as too
            long, or because nothing of the response would be left.
        read: `text_id` of each text that was cut, to a name of its remaining part: texts that differ after the cut only are
            the same to the model.
        tokens: `text_id` to a name of all that the model read, if the scorer knows. Texts of the same name have one reward.
        n_cached: Texts whose reward was found in the cache, here or by the other processes of the launch.
    """

    by_text: Mapping[str, float]
    read: Mapping[str, str] = field(default_factory=dict)
    unit: str = "reward"
    tokens: Mapping[str, str] = field(default_factory=dict)
    n_cached: int = 0

    @property
    def scored(self) -> dict[str, float]:
        """Rewards without the texts that were left out."""
        return {name: reward for name, reward in self.by_text.items() if not math.isnan(reward)}

    @property
    def dropped(self) -> list[str]:
        """`text_id` of each text that was left out."""
        return [name for name, reward in self.by_text.items() if math.isnan(reward)]

    @property
    def n_alike(self) -> int:
        """Texts that the model reads whole, and as the same tokens as one that was given before."""
        whole = [tokens for name, tokens in self.tokens.items() if name not in self.read]
        return len(whole) - len(set(whole))

    def times(self, factor: float) -> Rewards:
        """The same in another unit."""
        return replace(self, by_text={name: factor * reward for name, reward in self.by_text.items()})

    def margins(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """reward(first) − reward(second); 0 if both are the same token ids, NaN if cutting left both sides the same."""
        return np.array([self._margin(*comparison) for comparison in comparisons])

    def _margin(self, prompt: Prompt, first: str, second: str) -> float:
        one, other = text_id(prompt, first), text_id(prompt, second)
        if one in self.read and self.read[one] == self.read.get(other) and first != second:
            return math.nan
        if one in self.tokens and self.tokens[one] == self.tokens.get(other):
            return 0.0
        return self.by_text[one] - self.by_text[other]

    def of(self, prompt: Prompt, response: str) -> float:
        """Reward of one text; NaN if it was left out, KeyError if it was not among the texts."""
        return self.by_text[text_id(prompt, response)]


class PairwiseScorer(Protocol):
    """Says which of two responses to a prompt it prefers."""

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first, −1 to 1, shape (n,); 0 is a tie, NaN if there is no readable verdict."""
        ...


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences of a pairwise scorer by `comparison_id`; `judges` holds those of each judge of a panel."""

    by_comparison: Mapping[str, float]
    unit: str = "preference"
    judges: Mapping[str, Preferences] = field(default_factory=dict)

    def margins(self, comparisons: Sequence[Comparison]) -> FloatArray:
        """Preference for the first, −1 to 1."""
        return np.array(
            [self.by_comparison[comparison_id(*comparison)] for comparison in comparisons], dtype=np.float64
        )


def as_panel(judges: Mapping[str, Preferences]) -> Preferences:
    """Several judges' preferences on the same comparisons as one scorer's: the mean of those who gave one.

    DataError if no judge gave any.
    """
    names = list(next(iter(judges.values())).by_comparison)
    means, _ = panel_margins([[judge.by_comparison[name] for name in names] for judge in judges.values()])
    return Preferences(dict(zip(names, map(float, means), strict=True)), judges=dict(judges))


def compare_distinct(scorer: PairwiseScorer, comparisons: Sequence[Comparison]) -> Preferences:
    """Preference of every distinct comparison, each asked for once."""
    distinct = {comparison_id(*comparison): comparison for comparison in comparisons}
    prompts, first, second = ([comparison[at] for comparison in distinct.values()] for at in range(3))
    preferences = scorer.margin(prompts, first, second)  # type: ignore[arg-type]
    return Preferences(dict(zip(distinct, map(float, preferences), strict=True)))
