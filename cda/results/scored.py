"""What `cda score` has done so far: inputs, finished shards, and rewards in a few numbers."""

from __future__ import annotations

from typing import ClassVar

from pydantic import JsonValue

from cda.results.base import MadeBy, Result, Saved


class ScoredInput(Result):
    """An input, read in shards."""

    name: str
    content: str
    """Size and hash of its bytes, or its commit on the hub."""
    rows: int
    shards: int


class Spread(Result):
    """Rewards of one column."""

    n: int
    """Rows with a reward."""
    mean: float
    sd: float
    """Standard deviation between rows."""
    low: float
    """Lowest."""
    high: float
    """Highest."""


class ScoreResult(Saved):
    """Content of `score.json`: what is scored, by what, and how far. `rows/` next to it holds the shards."""

    made_by: ClassVar = MadeBy("cda score", "score.json", "")

    schema_version: int = 1
    model: str
    adapter: str | None
    dose: float
    fingerprint: str
    """Digest of the model, its adapter, and all settings that decide a reward."""
    settings: dict[str, JsonValue]
    """Those settings."""
    read: str
    """What is read as what."""
    columns: dict[str, str]
    """Our columns to the user's, as given."""
    as_json: tuple[str, ...]
    """The user's columns whose values have several types, which are kept as JSON text."""
    shard_rows: int
    """Rows of a shard; the last of an input has fewer."""
    inputs: tuple[ScoredInput, ...]
    rows: int
    """Of all inputs."""
    rows_done: int
    """Rows in finished shards."""
    shards: int
    shards_done: int
    rewards: dict[str, Spread]
    """By column: `reward`; or `reward_chosen`, `reward_rejected` and `margin` of pairs."""
    wins: int | None
    """Pairs whose chosen side has the higher reward; None without pairs."""
    ties: int | None
    """Pairs with equal rewards."""
    without_reward: dict[str, int]
    """Rows whose reward is null, by reason."""
    cut: int
    """Texts that were cut to the model's longest input; a pair has two."""
    rows_per_second: float | None
    """Of the last call, all processes of its launch together; None if it scored nothing."""
    tokens_per_second: float | None
    """The same in tokens without padding; None too if they are not known."""
    versions: dict[str, str]

    @property
    def missing(self) -> int:
        """Shards that are not finished."""
        return self.shards - self.shards_done
