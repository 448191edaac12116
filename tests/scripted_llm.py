"""An LLM that answers by a function of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cda.llm.protocol import Completion, Request


@dataclass
class ScriptedLLM:
    """Answers the last request first; None is a refusal."""

    answer: Callable[[Request], str | Completion | None]
    name: str = "scripted"
    asked: list[Request] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def answers(
        self, requests: Iterable[Request], label: str, total: int | None = None
    ) -> Iterator[tuple[int, Completion]]:
        taken = list(requests)
        assert total == len(taken)
        self.asked += taken
        self.labels.append(label)
        for position in reversed(range(len(taken))):
            said = self.answer(taken[position])
            yield (
                position,
                said if isinstance(said, Completion) else Completion(said, "refused" if said is None else None),
            )


def shown(request: Request) -> list[str]:
    """The responses as they stand in a request, in order."""
    parts = request.user.split("<<<RESPONSE")[1:]
    return [part.split(">>>\n", 1)[1].split("\n<<<END>>>")[0] for part in parts]
