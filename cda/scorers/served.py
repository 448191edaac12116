"""Rewards from a model behind HTTP, in the dialects of `dialects.py`; is it the reward itself, by one chat template?

One text a request, many at once: the server forms its own batches, and a text that it refuses spoils no other.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from cda.errors import LLMError, ModelError
from cda.llm.asking import Answers, answered, with_progress
from cda.llm.protocol import Completion
from cda.scorers.compared import Finished, Text, TextScore, TextScorer
from cda.scorers.rendering import Fault
from cda.scorers.served_client import ServedClient

_PROBED = 8
_HERE = ", or have it applied here with score.served.form=text"
_FAULTS: Mapping[Fault, str] = {
    "none": f"no chat template is applied. Start the server with the model's (vLLM: --chat-template){_HERE}",
    "twice": "the chat template is applied more than once. Start the server with one that writes each message once "
    f"(vLLM: --chat-template){_HERE}",
    "bos": f"that is one more, most likely a second BOS. Start the server with a chat template that writes one{_HERE}",
}
"""What is wrong with the tokens of a server that is to apply the chat template."""
_AGAIN = (
    "the chat template, which is applied here, is applied there again. Ask past whatever applies it (a proxy?), or take "
    "score.served.tokenizer out, and plain text is sent"
)
_OTHER = "it has another tokenizer or chat template, or adds tokens. Give the served model's in score.served.tokenizer"


@dataclass(eq=False)
class ServedScorer(TextScorer):
    """A scorer that asks a server; without a `label` it shows no progress bar."""

    client: ServedClient
    label: str | None = None
    check_template: bool = True
    """Compare the tokens that the server counts with those of the named tokenizer, on the first texts."""
    n_truncated: int = field(default=0, init=False)
    """Texts scored last that were cut at `truncate_tokens`, or are exactly that long; 0 if the server counts no tokens."""

    notes: tuple[str, ...] = field(default=(), init=False)
    """What the check of the template found."""

    def __post_init__(self) -> None:
        self._is_raw = self.client.options.sigmoid or not self.client.options.check_raw
        self._is_rendered = self.client.rendering is None or not self.check_template

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
        sigmoid = self.client.options.sigmoid
        probed = range(0 if self._is_raw and self._is_rendered else min(_PROBED, len(texts)))
        if probed:
            first = dict(self._answers(texts, probed, sigmoid))
            if not self._is_rendered:
                self._check_template(texts, {row: answer.input_tokens for row, answer in first.items()})
            if not self._is_raw:
                self._check_raw(texts, {row: float(answer.text) for row, answer in first.items() if answer.text})
            yield from self._counted(first.items())
        yield from self._counted(self._answers(texts, range(len(probed), len(texts)), sigmoid, self.label))

    def _check_template(self, texts: Sequence[Text], counts: Mapping[int, int]) -> None:
        """Raise ModelError if the server read other tokens than those of the named tokenizer's template; counts by row, 0 for
        none. A server that counts no tokens cannot be checked.
        """
        counted, rendering = {row: count for row, count in counts.items() if count}, self.client.rendering
        assert rendering is not None
        faults = _FAULTS if self.client.server_renders else {"twice": _AGAIN}
        for row, count in counted.items():
            if (found := self.client.fault(count, *texts[row])) is not None:
                fault, expected = found
                raise ModelError(
                    f"{self.client.address}: the server read {count} tokens of text {row + 1}, and {rendering.name} makes {expected} "
                    f"of it: {faults.get(fault, _OTHER)}. score.self_check=false goes on without this check"
                )
        self.notes = (
            f"The server read as many tokens as {rendering.name} makes, on {len(counted)} of {len(counts)} texts: one chat template, "
            "once."
            if counted
            else "Whether the server applies a chat template of its own cannot be checked, since it counts no tokens: compare one "
            "reward with a known one.",
        )
        self._is_rendered = True

    def _check_raw(self, texts: Sequence[Text], first: Mapping[int, float]) -> None:
        """Raise ModelError unless the server follows the request to leave the sigmoid off, that is, to give the reward itself.

        With one output vLLM applies a sigmoid unless told otherwise, older versions know the option under other names and
        ignore this one, and others apply a softmax, which makes every reward 1. A value outside 0 to 1 settles it; else the
        same texts are asked again with the sigmoid on, and the answers must be the sigmoids of the first ones. A server that
        cannot be asked for a sigmoid must give a value outside 0 to 1.
        """
        if first and all(0 <= reward <= 1 for reward in first.values()):
            dialect = self.client.dialect
            again: dict[int, float] = {}
            if dialect.asks_raw:
                asked = self._answers(texts, list(first), activation=True)
                again = {row: math.nan if answer.text is None else float(answer.text) for row, answer in asked}
            # Nearer to one or the other: batch-mates move scores a little, so that equality would prove nothing.
            to_sigmoid = sum(abs(again[row] - 1 / (1 + math.exp(-first[row]))) for row in again)
            if not again or sum(abs(again[row] - first[row]) for row in again) <= to_sigmoid:
                ignored = (
                    " and do not depend on whether a sigmoid is asked for (use_activation, raw_scores)" if again else ""
                )
                raise ModelError(
                    f"{self.client.address}: {len(first)} of {len(first)} answers lie between 0 and 1{ignored}: the server most likely "
                    "applies a sigmoid or softmax, and margins between such values are no margins of rewards. "
                    f"{dialect.raw}. Where the model's rewards really lie between 0 and 1, set check_raw=false"
                )
        self._is_raw = True

    def _counted(self, answers: Iterable[tuple[int, Completion]]) -> Iterator[tuple[int, TextScore]]:
        # The raw check asks for known texts again, which count once.
        cut = self.client.options.truncate_tokens
        for row, answer in answers:
            self.n_truncated += cut is not None and answer.input_tokens >= cut
            yield row, TextScore(None if answer.text is None else float(answer.text))

    def _answers(
        self, texts: Sequence[Text], asked: Sequence[int], activation: bool, label: str | None = None
    ) -> Iterator[tuple[int, Completion]]:
        answers: Answers = answered(
            self.client, ((row, self.client.request(row, *texts[row], activation)) for row in asked)
        )
        if label is not None:
            answers = with_progress(answers, (), label, len(asked), lambda: None)
        with closing(answers):
            yield from answers
