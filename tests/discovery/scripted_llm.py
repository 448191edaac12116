"""An LLM for tests that answers by a function of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cda.llm.protocol import Completion, Request


@dataclass
class ScriptedLLM:
    """Answers by a function of the request, last request first."""

    answer: Callable[[Request], str | None]
    name: str = "scripted"
    asked: list[Request] = field(default_factory=list)

    def answers(
        self,
        requests: Iterable[Request],
        label: str,  # noqa: ARG002
        total: int | None = None,
    ) -> Iterator[tuple[int, Completion]]:
        taken = list(requests)
        assert total == len(taken)
        self.asked += taken
        for position in reversed(range(len(taken))):
            text = self.answer(taken[position])
            yield position, Completion(text) if text is not None else Completion(None, "refused")
