"""The result of a human study: votes, majorities, agreement, disagreement by participant, position, time, and exclusions."""

from __future__ import annotations

from typing import Literal

from cda.records import Exclusions, Preference
from cda.results.base import ByBias, Estimate, Missing, Result, Saved
from cda.results.skew import Agreement, Leading

StudyKind = Literal["crowd", "experts"]


class Rules(Result):
    """Rules that an answer has to meet."""

    pass_share: float = 0.75
    """Share of the attention checks that a participant answered which must be right (0: all stay)."""
    min_seconds: float = 0.0
    """Faster answers are left out; 0 leaves out none. Answers without a time stay."""


class Attention(Result):
    """Attention checks of one participant."""

    answered: int
    right: int
    passed: bool
    """Enough of them are right."""


class StudyGroup(Result):
    """Votes, majorities and agreement on some pairs."""

    n_items: int
    """Pairs."""
    n_voted: int
    """Pairs with a vote."""
    votes: dict[Preference, int]
    majorities: dict[Leading, int]
    """Pairs by their most frequent vote; empty without votes."""
    skew: Estimate | Missing
    """Human skew: share of pairs on which most people prefer the side with the bias, among those with a majority for a side."""
    agreement: Agreement | Missing


class Position(Result):
    """Influence of the place on the page."""

    share_a: Estimate
    """Share of A among choices of a side; clustered by item."""
    p_value: float
    """Exact, against one half."""
    n_items: int


class Time(Result):
    """Time spent on answers."""

    n_known: int
    """Votes with a time."""
    median_s: float | None
    """Seconds; None if no time is known."""
    n_fast: int
    """Votes given faster than `fast_s`."""
    fast_s: float
    """Seconds; reading two answers takes longer."""


class Participant(Time):
    """A participant whose answers were read."""

    participant: str
    given: int | None
    """Pairs that were to be judged; None if the study does not say."""
    votes: int
    ties: int
    """Votes for neither side."""
    a: int
    """Votes for the text shown as A."""
    justified: int
    """Votes with a reason."""
    attention: Attention
    disagrees: Estimate | None
    """Share of votes that differ from the majority of the others, if there is one; None if there never is."""


class StudyItem(Result):
    """Votes on one pair."""

    id: str
    """Id of the contrast."""
    item: str
    """Within the study."""
    bias: str
    prompt: str
    votes: dict[Preference, int]
    majority: Leading
    missing: int
    """Judgements still wanted."""


class StudyResult(Saved):
    """The result of a human study."""

    schema_version: Literal[2] = 2
    study: str
    """Its fingerprint."""
    kind: StudyKind
    judgements_wanted: int
    """On each pair."""
    rules: Rules
    n_items: int
    """Pairs, attention checks not counted."""
    n_votes: int
    n_blank: int
    """Empty rows of tables."""
    n_check_answers: int
    """Answers to attention checks, which are not votes."""
    exclusions: Exclusions
    """Number of answers read, and reasons why some are not votes."""
    all: StudyGroup
    biases: ByBias[StudyGroup]
    position: Position | None
    """None if no side was chosen."""
    time: Time
    participants: tuple[Participant, ...]
    silent: tuple[str, ...]
    """Participants of whom nothing came back."""
    items: tuple[StudyItem, ...]
