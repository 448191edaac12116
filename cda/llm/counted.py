"""An LLM that keeps count of its answers: how many, of how many tokens, for how many dollars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

from cda.llm.money import Price
from cda.llm.progress import Answers
from cda.llm.protocol import LLM, Completion, Request


@dataclass(slots=True)
class Tally:
    """What was asked of one model.

    Attributes:
        asked: Answers that were asked for now.
        cached: Answers that were there from before, or from an identical question of the same call.
        unusable: Of both, those without a usable text.
        input_tokens: Of what was asked, as the server counted; what it did not count is not in it.
        output_tokens: The same of the answers.
        uncounted: Of what was asked, answers with a text and no count of tokens.
        dollars: Of the counted tokens; None where no price is given.
        models: Answers by the name of the model that gave them, where the server named it.
    """

    asked: int = 0
    cached: int = 0
    unusable: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    dollars: float | None = None
    models: Mapping[str, int] = field(default_factory=dict)

    def add(self, completion: Completion, price: Price | None) -> None:
        """Count an answer."""
        self.unusable += completion.text is None
        if completion.model is not None:
            # Anew, as states of before hold the old one.
            self.models = {**self.models, completion.model: self.models.get(completion.model, 0) + 1}
        if completion.cached:
            self.cached += 1
            return
        n_in, n_out = completion.input_tokens, completion.output_tokens
        self.asked += 1
        self.input_tokens += n_in
        self.output_tokens += n_out
        self.uncounted += completion.text is not None and not (n_in or n_out)
        if price is not None:
            self.dollars = (self.dollars or 0.0) + price.of(n_in, n_out)

    def since(self, earlier: Tally) -> dict[str, Any]:
        """What came on top of an earlier state, as JSON; empty where nothing did."""
        before, now = asdict(earlier), asdict(self)
        models = {name: n - earlier.models.get(name, 0) for name, n in now.pop("models").items()}
        moved: dict[str, object] = {
            name: value - (before[name] or 0) for name, value in now.items() if value is not None
        }
        if answered := {name: n for name, n in models.items() if n}:
            moved["models"] = answered
        return {"dollars": None, **moved} if moved["asked"] or moved["cached"] else {}


@dataclass(frozen=True, slots=True, eq=False)
class CountedLLM:
    """An LLM whose answers are counted as they are handed on.

    Args:
        llm: What is asked.
        tally: Counted into.
        price: Of its model; None: unknown.
    """

    llm: LLM
    tally: Tally
    price: Price | None = None

    @property
    def name(self) -> str:
        """Model name."""
        return self.llm.name

    def answers(self, requests: Iterable[Request], label: str, total: int | None = None) -> Answers:
        """Position and answer of each request, as they come; see LLM.answers."""
        with closing(_generator(self.llm.answers(requests, label, total))) as found:
            for position, completion in found:
                self.tally.add(completion, self.price)
                yield position, completion


def _generator(found: Iterator[tuple[int, Completion]]) -> Answers:
    """Any iterator of answers as a generator, so that closing the outer one closes the inner one."""
    yield from found
