"""What a study is made of: contrasts as people see them, items, who gets which, and how much work there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cda.run import fingerprint

Kind = Literal["experts", "crowd"]
KINDS: tuple[Kind, ...] = ("experts", "crowd")


@dataclass(frozen=True, slots=True)
class Pairing:
    """A contrast as people see it: plain text, hidden characters already spelled out.

    Attributes:
        id: By which votes are matched later.
        bias: Of the contrast.
        prompt_id: Its cluster.
        prompt: In words.
        base: The side without the bias.
        perturbed: The side with it.
    """

    id: str
    bias: str
    prompt_id: str
    prompt: str
    base: str
    perturbed: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with two answers in an order that says nothing.

    Attributes:
        id: Says nothing either: `i001`, in shuffled order.
        prompt: In words.
        texts: The two answers.
        prompt_id: Cluster of the prompt.
        contrast: Id of the contrast; None for an attention check.
        bias: Of the contrast.
        perturbed: Which of the texts carries the bias: 0 or 1; None for an attention check.
        right: Of an attention check, which of the texts is the right one.
    """

    id: str
    prompt: str
    texts: tuple[str, str]
    prompt_id: str
    contrast: str | None = None
    bias: str | None = None
    perturbed: int | None = None
    right: int | None = None

    @property
    def is_check(self) -> bool:
        return self.right is not None


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as one participant gets it: `a` says which of its texts stands as answer A."""

    item: str
    a: int


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that was decided before anybody judged.

    Attributes:
        kind: Who the participants are.
        judgements: Wanted on each contrast.
        seed: Of every draw.
        items: By id.
        participants: Code to what they see, in their order.
    """

    kind: Kind
    judgements: int
    seed: int
    items: Mapping[str, Item]
    participants: Mapping[str, tuple[Shown, ...]]

    @property
    def fingerprint(self) -> str:
        """Of texts and assignments, without which text carries the bias: that could be found out by trying."""
        texts = {one.id: [one.prompt, *one.texts] for one in self.items.values()}
        shown = {code: [[one.item, one.a] for one in given] for code, given in self.participants.items()}
        return fingerprint([self.kind, self.judgements, self.seed, texts, shown])


@dataclass(frozen=True, slots=True)
class Plan:
    """How much work there is and who does it: `people` participants, at most `quota` items and `checks` checks each."""

    judgements: int
    people: int
    quota: int
    checks: int
