"""What takes part in a search, as Protocols: by an LLM or by rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.discovery.records import Parent, PromptSamples
from cda.records import Exclusions, Prompt

FloatArray = NDArray[np.float64]
Text = tuple[Prompt, str]
Reward = Callable[[Sequence[Text]], FloatArray]
"""Prompts and responses to rewards, shape (n,); NaN where there is none."""
Judge = Callable[[Sequence[tuple[Prompt, str, str]]], FloatArray]
"""Prompts and two responses to the preference for the first of them: 1, 0.5 or 0, NaN where there is no verdict. Shape (n,)."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Attributes that somebody thought of, and what became of the rest.

    Attributes:
        biases: In the order proposed; the same attribute may come several times, in other words.
        sources: For a mutation the place of its parent among those given, for a proposal the place of its prompt. As long
            as `biases`.
        exclusions: Answers and lines that gave no attribute, by reason.
    """

    biases: tuple[Bias, ...]
    sources: tuple[int, ...]
    exclusions: Exclusions


class Proposer(Protocol):
    """Looks at rated responses and names attributes that could explain the ratings."""

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:
        """About n attributes, or fewer where there are no more."""
        ...


class Mutator(Protocol):
    """Makes variations of attributes that did well."""

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:
        """About n_each variations of every parent."""
        ...


class Grouper(Protocol):
    """Says which attributes mean the same."""

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        """A partition of range(len(biases)): places that mean the same, each group and the groups in ascending order."""
        ...
