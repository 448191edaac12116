"""The protocol of scorers that give each text a reward, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.records import Prompt
from cda.scorers.compared import Text

OverLength = Literal["cut", "drop", "refuse"]
"""Texts that are too long are cut at the end and counted; left out and counted; or refused, all together, before any is scored."""


@dataclass(frozen=True, slots=True)
class TextScore:
    """The score of one text: its reward in the model's units, None if the text was too long and is dropped.

    `tokens` names all that the model read, if the scorer knows, and `read` the same of a text that was cut: texts of the same
    name are the same to the model.
    """

    reward: float | None
    read: str | None = None
    tokens: str | None = None


Finished = list[tuple[int, TextScore]]
"""Rows with their scores."""


class TextScorer(Protocol):
    """Gives each text a reward, batch by batch, so that each batch can be kept: the scorers that `score_texts` takes."""

    batch_tokens: int | None = None
    """Padded tokens in a batch at most; None if the scorer chooses."""
    over_length: OverLength = "cut"
    """Treatment of texts that are too long; `cut` too if the scorer has settings of its own for them."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def precision(self) -> str | None:
        """Precision of a local model's weights; None if there are none."""
        return None

    def in_batches(
        self, texts: Sequence[Text], skip: frozenset[int] = frozenset(), known: Mapping[str, float] | None = None
    ) -> Generator[Finished, None, None]:
        """Rows and their scores as they come, each row once, in any order.

        Args:
            texts: Length n.
            skip: Rows that are known. A batch of nothing else may be left out; the others keep all of their texts.
            known: Rewards by `TextScore.tokens`, of texts scored before.
        """
        ...

    def score(self, prompts: Sequence[Prompt], responses: Sequence[str]) -> FloatArray:
        """Rewards, shape (n,); NaN for a text that has none. An error loses earlier scores; see `in_batches`.

        Raises:
            ModelError: A reward is NaN or infinite.
        """
        texts = list(zip(prompts, responses, strict=True))
        scores = dict(row for finished in self.in_batches(texts) for row in finished)
        rewards = [scores[row].reward for row in range(len(texts))]
        broken = [row for row, reward in enumerate(rewards) if reward is not None and not math.isfinite(reward)]
        if broken:
            raise not_finite(self.name, len(broken), len(rewards), f"text {broken[0]}")
        return np.array([np.nan if reward is None else reward for reward in rewards], dtype=np.float64)

    def refuse_long(self, texts: Sequence[Text]) -> None:  # noqa: ARG002
        """Raise ModelError if any of the texts is too long; called if `over_length` is `refuse`."""
        return


def not_finite(name: str, n_broken: int, n: int, first: str) -> ModelError:
    """The error of NaN or infinite rewards."""
    return ModelError(
        f"{name}: {n_broken} of {n} rewards are NaN or infinite (first: {first}). Try model.precision=fp32"
    )
