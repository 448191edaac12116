"""Rewards from a model behind HTTP: vLLM's `/classify`, `/pooling` and `/score`, and servers that speak like it.

One text a request, many at once: the server forms its own batches, and a text that it refuses spoils no other.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from cda.errors import LLMError, ModelError
from cda.llm.asking import Answers, answered, with_progress
from cda.scorers.compared import Finished, Text, TextScore, TextScorer
from cda.scorers.served_client import ServedClient

_PROBED = 8


@dataclass(eq=False)
class ServedScorer(TextScorer):
    """A scorer that asks a server; without a `label` it shows no progress bar."""

    client: ServedClient
    label: str | None = None
    n_truncated: int = field(default=0, init=False)
    """Texts scored last that were cut at `truncate_tokens`, or are exactly that long; 0 if the server counts no tokens."""

    def __post_init__(self) -> None:
        self._is_raw = self.client.options.sigmoid or not self.client.options.check_raw

    @property
    def name(self) -> str:
        return self.client.name

    def in_batches(
        self,
        texts: Sequence[Text],
        skip: frozenset[int] = frozenset(),  # noqa: ARG002
        known: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Generator[Finished, None, None]:
        """Rows and their rewards as they come, in any order; each row once.

        LLMError: the server cannot be reached, refuses the key or the request, or gave no answer to a text although it
        was tried again; raised after every received reward was passed on (the first few are held back until the server
        is known to leave the sigmoid off). ModelError: several outputs, NaN or infinity, a text too long, or a sigmoid.
        """
        self.n_truncated = 0
        done = 0
        try:
            for scored in self._checked(texts):
                done += 1
                yield [scored]
        except LLMError as error:
            if not done:
                raise
            raise LLMError(
                f"{error}. {done:,} of {len(texts):,} texts were scored before that; once the server answers again, the "
                "same command goes on with the rest"
            ) from None

    def _checked(self, texts: Sequence[Text]) -> Iterator[tuple[int, TextScore]]:
        probed = range(0 if self._is_raw else min(_PROBED, len(texts)))
        if probed:
            first = list(self._scores(texts, probed, activation=False))
            self._check_raw(texts, {row: score.reward for row, score in first if score.reward is not None})
            yield from first
        yield from self._scores(texts, range(len(probed), len(texts)), self.client.options.sigmoid, self.label)

    def _check_raw(self, texts: Sequence[Text], first: Mapping[int, float]) -> None:
        """Raise ModelError unless the server follows `use_activation: false`, which asks for the reward itself.

        With one output vLLM applies a sigmoid unless told otherwise, older versions know the option under other names and
        ignore this one, and others apply a softmax, which makes every reward 1. A value outside 0 to 1 settles it; else the
        same texts are asked again with the sigmoid on, and the answers must be the sigmoids of the first ones.
        """
        if first and all(0 <= reward <= 1 for reward in first.values()):
            asked = self._scores(texts, list(first), activation=True)
            again = {row: math.nan if score.reward is None else score.reward for row, score in asked}
            # Nearer to one or the other: batch-mates move scores a little, so that equality would prove nothing.
            to_sigmoid = sum(abs(again[row] - 1 / (1 + math.exp(-reward))) for row, reward in first.items())
            if sum(abs(again[row] - reward) for row, reward in first.items()) <= to_sigmoid:
                raise ModelError(
                    f"{self.client.address}: {len(first)} of {len(first)} answers lie between 0 and 1 and do not depend on "
                    "use_activation: the server applies a sigmoid or softmax, and margins between such values are no "
                    "margins of rewards. Start it with --pooler-config '{\"use_activation\": false}', or set sigmoid=true "
                    "to have a sigmoid undone. Where the model's rewards really lie between 0 and 1, set check_raw=false"
                )
        self._is_raw = True

    def _scores(
        self, texts: Sequence[Text], asked: Sequence[int], activation: bool, label: str | None = None
    ) -> Iterator[tuple[int, TextScore]]:
        answers: Answers = answered(
            self.client, ((row, self.client.request(row, *texts[row], activation)) for row in asked)
        )
        if label is not None:
            answers = with_progress(answers, (), label, len(asked), lambda: None)
        # The raw check asks for known texts again, which count once.
        cut = self.client.options.truncate_tokens if activation == self.client.options.sigmoid else None
        with closing(answers):
            for row, answer in answers:
                self.n_truncated += cut is not None and answer.input_tokens >= cut
                yield row, TextScore(None if answer.text is None else float(answer.text))
