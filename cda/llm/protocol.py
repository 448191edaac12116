"""What an LLM is to the rest of the toolkit: requests in, answers out as they come, each a text or the reason for none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One question.

    Attributes:
        system: System text.
        user: User text.
        schema: JSON schema of the answer, for servers that can hold a model to one; None for an answer in free text.
        plain: How to write the answer where the server cannot; then added to the system text.
        sample: Which of several answers to the same question; each is asked for, and cached, by itself.
    """

    system: str
    user: str
    schema: Mapping[str, Any] | None = None
    plain: str = ""
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer's text, or the reason why there is none.

    Attributes:
        text: What the model wrote; None where there is no usable answer.
        reason: Why there is none, in words that are counted and reported.
        input_tokens: As the server counted them; 0 where it did not.
        output_tokens: The same of the answer.
        cached: Whether it was answered before and cost nothing now.
    """

    text: str | None
    reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached: bool = False


class LLM(Protocol):
    """Answers any number of requests in bounded memory."""

    @property
    def name(self) -> str:
        """Model name, for artifacts."""
        ...

    def answers(
        self, requests: Iterable[Request], label: str, total: int | None = None
    ) -> Iterator[tuple[int, Completion]]:
        """Position and answer of each request, as they come and in any order; each position once.

        Args:
            requests: Taken one by one as there is room; never held as a whole.
            label: Stands beside the progress bar.
            total: How many there will be, for the bar; None takes len(requests) where there is one.

        Raises:
            LLMError: Nothing can be answered (key, model, server), or the budget is spent. What was answered is kept.
        """
        ...


def complete(llm: LLM, requests: Sequence[Request], label: str) -> list[Completion]:
    """All answers in the order of the requests, where that many fit in memory."""
    found: list[Completion | None] = [None] * len(requests)
    for position, completion in llm.answers(requests, label, len(requests)):
        found[position] = completion
    return [one if one is not None else Completion(None, "no answer") for one in found]


def fenced(name: str, material: str) -> str:
    """Material between markers that it cannot close itself: marks like ours inside it are broken up."""
    inert = material.replace("<<<", "< < <").replace(">>>", "> > >")
    return f"<<<{name}>>>\n{inert}\n<<<END>>>"
