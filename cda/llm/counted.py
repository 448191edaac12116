"""Counts of answers: tokens and dollars, and the model that a server says has answered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from cda.inert import inert, sendable
from cda.llm.asking import Answers
from cda.llm.money import Price
from cda.llm.protocol import LLM, Completion, Request

T = TypeVar("T")
_LONGEST_NAME = 200
_VERSION = re.compile(r"[-@:_](?:\d{4}[\d-]*|v?\d{1,3})")
"""A date or number behind a model's name."""


def with_model(outcome: T, data: Mapping[str, object]) -> T:
    """An answer with the model's name out of a chat completion object; any other outcome stays as it is."""
    name = data.get("model")
    if not isinstance(outcome, Completion) or not isinstance(name, str) or not name.strip():
        return outcome
    return replace(outcome, model=sendable(name.strip())[:_LONGEST_NAME])


@dataclass(slots=True)
class AnsweredBy:
    """Number of answers by the name of the model that gave them, asked for now or kept from before."""

    now: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def add(self, completion: Completion) -> None:
        """Count an answer of a server that named its model."""
        if completion.model is not None:
            counts = self.kept if completion.cached else self.now
            counts[completion.model] = counts.get(completion.model, 0) + 1

    @property
    def models(self) -> dict[str, int]:
        """Answers by model, the kept ones first."""
        return {name: self.now.get(name, 0) + self.kept.get(name, 0) for name in {**self.kept, **self.now}}

    def notes(self, asked: str, earlier: Collection[str]) -> list[str]:
        """Sentences about answers by another model than `asked`, or than the `earlier` ones under that name."""
        notes = []
        others = [name for name in self.models if not is_version_of(name, asked)]
        if others:
            notes.append(f"{asked} was asked for, but the server says that {', '.join(map(inert, others))} answered.")
        if len(self.models) > 1:
            counts = [f"{n} by {inert(name)}" for name, n in self.models.items()]
            since = " since some were kept" if self.now and self.kept and {*self.now} != {*self.kept} else ""
            notes.append(
                f"The server has changed the model behind {asked}{since}: {', '.join(counts)}. These answers are not those of "
                "one model. Name a dated model, or have all of them asked again with llm.cache=<a new file>."
            )
        before = sorted({*earlier} - {*self.models})
        if before and self.models:
            notes.append(
                f"Asked for {asked}, the server answered earlier runs by {', '.join(map(inert, before))} and this one by "
                f"{', '.join(map(inert, self.models))}: a difference between these runs may be one between the models."
            )
        return notes


def is_version_of(name: str, asked: str) -> bool:
    """True if a server's name of a model is the one asked for, or a dated or numbered version of it.

    >>> is_version_of("gpt-4o-2024-08-06", "gpt-4o"), is_version_of("gpt-4o-mini", "gpt-4o"), is_version_of("m", "org/m")
    (True, False, True)
    """
    short, wanted = (full.rstrip("/").rpartition("/")[2].casefold().removesuffix("-latest") for full in (name, asked))
    return short.startswith(wanted) and (short == wanted or bool(_VERSION.fullmatch(short[len(wanted) :])))


@dataclass(slots=True)
class Tally:
    """Counts of one model's answers."""

    asked: int = 0
    """Answers that were asked for now."""
    cached: int = 0
    """Answers from before, or from an identical question of the same call."""
    unusable: int = 0
    """Answers of either sort without a usable text."""
    input_tokens: int = 0
    """Tokens of the answers asked for now, as far as the server counted; `output_tokens` likewise."""
    output_tokens: int = 0
    uncounted: int = 0
    """Answers asked for now that have a text and no count of tokens."""
    dollars: float | None = None
    """For the counted tokens; None without a price."""
    models: Mapping[str, int] = field(default_factory=dict)
    """Answers by the name of the model that gave them, if the server named it."""

    def add(self, completion: Completion, price: Price | None) -> None:
        """Count an answer."""
        self.unusable += completion.text is None
        if completion.model is not None:
            # A new mapping: earlier states hold the old one.
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
        """The growth since an earlier state, as JSON; empty if there is none."""
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
    """An LLM whose answers are counted as they are passed on.

    Args:
        llm: The wrapped LLM.
        tally: Receives the counts.
        price: Price of its model; None: unknown.
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
        with closing(_generator(self.llm.answers(requests, label, total))) as answers:
            for position, completion in answers:
                self.tally.add(completion, self.price)
                yield position, completion


def _generator(answers: Iterator[tuple[int, Completion]]) -> Answers:
    """Any iterator of answers as a generator, so that closing the outer one closes the inner one."""
    yield from answers
