"""What a scorer is."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.records import Prompt

OverLength = Literal["cut", "drop", "refuse"]
"""What becomes of texts that are too long: cut at the end and counted; left out and counted; or refused, all together, before any is
scored."""


@dataclass(frozen=True, slots=True)
class TextScore:
    """What scoring says of one text.

    Attributes:
        reward: In the model's units; None where the text was too long and is dropped.
        read: Where the text was cut, a name of the tokens that were left: texts of the same name are the same to the model.
        tokens: A name of all that the model read, of cut texts and of others; None where the scorer does not know.
    """

    reward: float | None
    read: str | None = None
    tokens: str | None = None


Finished = list[tuple[int, TextScore]]
"""Rows with what they scored."""


class TextScorer(Protocol):
    """Gives each text a reward, batch by batch, so that each batch can be kept: what `score_texts` asks.

    A scorer that derives from this class has what is said here, where it does not say otherwise.
    """

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def precision(self) -> str | None:
        """Of a local model's weights; None where there is no such thing."""
        return None

    @property
    def batch_tokens(self) -> int | None:
        """Padded tokens in a batch at most; None where the scorer chooses."""
        return None

    @property
    def over_length(self) -> OverLength:
        """What becomes of texts that are too long; `cut` too where the scorer has settings of its own for them."""
        return "cut"

    def in_batches(
        self,
        prompts: Sequence[Prompt],
        responses: Sequence[str],
        skip: frozenset[int] = frozenset(),
        known: Mapping[str, float] | None = None,
    ) -> Generator[Finished, None, None]:
        """Rows and their scores as they come, in any order.

        Args:
            prompts: Length n.
            responses: Length n.
            skip: Rows that are known. A batch of nothing else may be left out.
            known: Rewards by `TextScore.tokens`, of texts scored before.
        """
        ...

    def refuse_long(self, texts: Sequence[tuple[Prompt, str]]) -> None:  # noqa: ARG002
        """Where `over_length` is `refuse`: raise ModelError if any of the texts is too long."""
        return


class StreamingScorer(TextScorer, Protocol):
    """A scorer of texts that gives rewards alone, as they come."""

    def stream(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> Iterator[tuple[list[int], FloatArray]]:
        """Rows and their rewards in the model's own units, each row once, in any order; NaN for a text that has none."""
        ...

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards, shape (n,); NaN for a text that has none. An error loses what was scored before it; see `stream`."""
        rewards = np.full(len(prompts), np.nan)
        for rows, found in self.stream(prompts, responses):
            rewards[rows] = found
        return rewards

    def in_batches(
        self,
        prompts: Sequence[Prompt],
        responses: Sequence[str],
        skip: frozenset[int] = frozenset(),  # noqa: ARG002
        known: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Generator[Finished, None, None]:
        """What `stream` hands out, as scores."""
        for rows, rewards in self.stream(prompts, responses):
            scores = [TextScore(None if np.isnan(one) else float(one)) for one in rewards]
            yield list(zip(rows, scores, strict=True))


class PairwiseScorer(Protocol):
    """Says which of two responses to a prompt it prefers."""

    def margin(self, prompts: Sequence[Prompt], first: Sequence[str], second: Sequence[str]) -> FloatArray:
        """Preference for the first, −1 to 1, shape (n,); 0 is a tie, NaN where there is no readable verdict."""
        ...
