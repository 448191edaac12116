"""The frozen records that travel between the rooms: messages, pairs, rewrites, contrasts, scores."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

LEVEL = 0.95
"""Share of intervals that hold the truth: the level of every interval that is made, and named in a sentence."""
PERCENT = f"{LEVEL:.0%}"
Direction = Literal["add", "remove"]
Side = Literal["chosen", "rejected"]
Split = Literal["train", "validation"]
Preference = Literal["perturbed", "base", "tie"]
TieRule = Literal["drop", "half", "as-released"]
"""Items on which people tied or split: left out, counted half for each side, or as their publisher states them."""
PanelRule = Literal["mean", "majority"]
"""A panel's preference: the mean of its judges' preferences, or the side that more of them prefer."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, in the role names of chat templates."""

    role: str
    content: str


Prompt = tuple[Message, ...]


def user_prompt(text: str) -> Prompt:
    """A single-turn prompt."""
    return (Message("user", text),)


def prompt_text(prompt: Prompt) -> str:
    """The prompt as plain text: the words alone for a single user turn, `role: words` lines otherwise."""
    if len(prompt) == 1 and prompt[0].role == "user":
        return prompt[0].content
    return "\n".join(f"{message.role}: {message.content}" for message in prompt)


def content_id(*parts: object) -> str:
    """Sixteen hex digits that name a content, the same on every machine and in every run."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def normal_text(text: str) -> str:
    """The form in which texts are compared: NFC, `\\n` at line ends, no spaces around it. Models read the text as it is.

    >>> normal_text("cafe\\u0301?\\r\\n") == normal_text("caf\\u00e9?")
    True
    """
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def equal_texts(first: str, second: str) -> bool:
    """True if two texts are one text, however they are stored."""
    return first == second or normal_text(first) == normal_text(second)


def normal_prompt(prompt: Prompt) -> Prompt:
    """A prompt with each turn in its normal form."""
    return tuple(Message(message.role, normal_text(message.content)) for message in prompt)


def prompt_id(prompt: Prompt) -> str:
    """The cluster of everything that answers this prompt, however the prompt is stored (see `normal_text`)."""
    return content_id("prompt", normal_prompt(prompt))


def text_key(prompt: Prompt, *texts: str) -> tuple[str, ...]:
    """Equal for the same texts to the same prompt, however they are stored: for duplicates, votes and matches."""
    return (prompt_id(prompt), *map(normal_text, texts))


def _plain(value: object) -> object:
    if isinstance(value, Message):
        return [value.role, value.content]
    raise TypeError(f"cannot name a content of type {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Pair:
    """A preference: for one prompt, `chosen` was preferred over `rejected`."""

    prompt: Prompt
    chosen: str
    rejected: str

    @property
    def id(self) -> str:
        """Name of exactly these characters: artifacts and kept answers go by it. Pairs are compared by `text_key`."""
        return content_id("pair", self.prompt, self.chosen, self.rejected)

    def side(self, side: Side) -> str:
        return self.chosen if side == "chosen" else self.rejected


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair with labels per bias: True for a side that exhibits it (`None`: the label could not be parsed)."""

    pair: Pair
    split: Split
    labels: Mapping[str, Mapping[Side, bool | None]]


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """One response to be rewritten so that the bias is added or removed and nothing else changes."""

    prompt: Prompt
    response: str
    direction: Direction
    reference: str | None = None
    """The response it competes with, if the bias is relative to one (length)."""
    flips: bool = True
    """True if the bias must go from present to absent or back. False: what is so already is to become more so (a chosen
    response made more specific), and only the result is checked."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Outcome of one request: the text, or the reason why there is none. Never the unmodified text."""

    text: str | None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.reason is None):
            raise ValueError("a rewrite has either a text or a reason")


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A pair of texts with its target, as a reward model is trained on it.

    `target` is the taught probability that `pair.chosen` is better: 1 for a preference, 0.5 for a tie, between them for a soft
    target, None for the base model's own. The preferred side should lead by `margin`, in reward units. `kept` is the base model's own
    margin if that is to stay, but for `shift`, in reward units; NaN otherwise.
    """

    pair: Pair
    target: float | None = 1.0
    margin: float = 0.0
    weight: float = 1.0
    kept: float = math.nan
    shift: float = 0.0


TrainingKind = Literal[
    "counterfactual", "balanced", "paired", "neutral", "shift", "supplementary", "contrast", "second_turn"
]


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """A row of the training mix, with its example and its source.

    Kinds: `counterfactual` is chosen over the biased rewrite of rejected, `balanced` the biased rewrite of chosen over rejected; `paired`, `neutral` and `shift` are a
    response and its own biased version; `supplementary` is a pair as the data hold it; `contrast` is one of a bias that is not debiased;
    `second_turn` is an embedded conversation, the answer without the bias chosen.
    """

    example: TrainingExample
    split: Split
    kind: TrainingKind
    bias: str | None
    source_id: str

    @property
    def pair(self) -> Pair:
        return self.example.pair


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two responses to one prompt of which `perturbed` carries the bias and `base` does not."""

    bias: str
    prompt: Prompt
    perturbed: str
    base: str
    preferred: Preference | None = None
    """People's preference, if the file states it."""
    votes: tuple[Preference, ...] = ()
    """People's single votes, if known; any number."""
    verdicts: tuple[Preference, ...] = ()
    """Verdicts of LLM judges, if there are any, for prediction-powered estimates of people's preferences."""
    tags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The same for texts that are one text (see `normal_text`); votes go by it."""
        texts = normal_text(self.perturbed), normal_text(self.base)
        return content_id("contrast", self.bias, normal_prompt(self.prompt), *texts)

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id that votes may have it under: the file's own (tags `item` and, of several rows on the same texts, `items`), and `id`."""
        own = self.tags.get("items") or ([self.tags["item"]] if "item" in self.tags else [])
        return tuple(dict.fromkeys((*own, self.id)))


OF_TRIPLES = "both rewrites of triples"
"""Source of contrasts that an audit on triples alone compares."""


@dataclass(frozen=True, slots=True)
class Triple:
    """A response, rewritten to flip the attribute, and rewritten back (RATE)."""

    bias: str
    prompt: Prompt
    original: str
    rewrite: str
    rewrite_of_rewrite: str
    has_attribute: bool
    """True if the original exhibits the bias (w = 1)."""
    flipped: bool | None = None
    """True if readers or labels found that both rewrites flipped the bias; None without a check."""
    by: tuple[tuple[str, str], ...] = ()
    """Column and value of the covariates that the audit was asked for."""

    @property
    def contrast(self) -> Contrast:
        """Both rewrites, the one with the bias first, as an audit on triples alone compares them."""
        sides = (
            (self.rewrite_of_rewrite, self.rewrite) if self.has_attribute else (self.rewrite, self.rewrite_of_rewrite)
        )
        return Contrast(self.bias, self.prompt, *sides, tags={"source": OF_TRIPLES, "by": dict(self.by)})


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Rows left out: the total seen, and the count of each reason."""

    seen: int
    reasons: Mapping[str, int]

    @property
    def dropped(self) -> int:
        return sum(self.reasons.values())

    def __str__(self) -> str:
        if not self.dropped:
            return f"none of {self.seen} dropped"
        parts = ", ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        return f"{self.dropped} of {self.seen} dropped ({parts})"


def count_reasons(reasons: Sequence[str]) -> dict[str, int]:
    """Reasons to counts, in alphabetical order so that artifacts do not depend on row order."""
    return dict(sorted(Counter(reasons).items()))
