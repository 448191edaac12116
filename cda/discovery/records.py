"""Data of a search: rated responses, candidates, their standings, proposals, and the protocols of the participants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.records import Exclusions, Prompt, content_id
from cda.results.discover import Fate, Measured, Origin


@dataclass(frozen=True, slots=True)
class Rated:
    """A response, its reward in the model's own units (NaN until it is scored), and the policy or file it comes from."""

    text: str
    reward: float = math.nan
    source: str = ""


@dataclass(frozen=True, slots=True)
class PromptSamples:
    """A prompt and the rated responses to it, in the order in which they were sampled."""

    prompt: Prompt
    responses: tuple[Rated, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attribute that the model may over-reward.

    It holds a bias from the start, as rewriters, labellers and trainers take it, and a confirmed candidate is written to a
    file unchanged.

    Attributes:
        bias: Description, instructions and, without an LLM, rules and a measure.
        origin: Origin of the candidate.
        generation: The generation that first measured it; 0 is the first.
        parents: `id`s of the candidates that it was made from.
        id: Derived from the bias's content, whatever its name.
    """

    bias: Bias
    origin: Origin = "proposed"
    generation: int = 0
    parents: tuple[str, ...] = ()
    id: str = field(init=False)

    def __post_init__(self) -> None:
        # Once, since it names every row that is measured.
        name = content_id("candidate", self.bias.model_dump(mode="json", exclude={"name"}))
        object.__setattr__(self, "id", name)

    @property
    def attribute(self) -> str:
        return self.bias.description


@dataclass(frozen=True, slots=True)
class Standing:
    """A candidate after a generation; a point of the search, not a result to be reported. Attributes as of `StandingRecord`."""

    candidate: Candidate
    n: int
    reward: float | None
    judge: float | None = None
    n_judged: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    fate: Fate = "kept"


@dataclass(frozen=True, slots=True)
class Parent:
    """A survivor as a mutator sees it: with its ancestors, oldest first, and some measured rewrites, the most telling first."""

    standing: Standing
    ancestry: tuple[Standing, ...] = ()
    examples: tuple[Measured, ...] = ()


Text = tuple[Prompt, str]
Reward = Callable[[Sequence[Text]], FloatArray]
"""Prompts and responses to rewards, shape (n,); NaN for missing ones."""
Judge = Callable[[Sequence[tuple[Prompt, str, str]]], FloatArray]
"""Prompts and two responses to the preference for the first of them: 1, 0.5 or 0, NaN without a verdict. Shape (n,)."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Proposed attributes, and counts of the rest.

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
        """About n attributes, or fewer if there are no more."""
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
