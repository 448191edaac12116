"""Shards of scored rows on disk: each a parquet file that is there whole or not at all, and that says itself what is in it."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from cda.arrays import FloatArray
from cda.errors import RecipeError, RunError
from cda.files.jsonl import open_new
from cda.files.paths import own_folder, unwritable, writing
from cda.llm.purse import FOLDER as FOLDER_OF_PURSE
from cda.results.scored import ScoreResult, Spread

ROWS = "rows"
"""Folder of the shards, next to `score.json`."""
_FACTS = b"cda"


class ShardFacts(BaseModel):
    """What a shard says of itself, in the metadata of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str
    """Digest of the model, the input and the place in it."""
    rows: int
    sums: dict[str, tuple[int, float, float, float, float]]
    """By column of rewards: rows with one, their mean, sum of squared differences from it, lowest and highest."""
    wins: int
    ties: int
    without: dict[str, int]
    cut: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of an input: the rows from `index` times the rows of a shard on."""

    source: int
    index: int
    of: str

    @property
    def name(self) -> str:
        return f"{self.source:05}-{self.index:06}.parquet"


@dataclass(frozen=True, slots=True)
class Part:
    """Which of several processes this is, counted from 0; each takes every `of`-th shard."""

    number: int = 0
    of: int = 1

    @classmethod
    def of_words(cls, words: str | None) -> Part:
        """The part that a user names, such as `3/16`, counted from 1; RecipeError for another form."""
        match = re.fullmatch(r"(\d+)/(\d+)", "1/1" if words is None else words)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise RecipeError(
                [f"--part {words}: give the number of the part and of all parts, such as 3/16, from 1/16 to 16/16"]
            )
        return cls(int(match[1]) - 1, int(match[2]))

    def own(self, shards: Sequence[Shard]) -> list[Shard]:
        return list(shards[self.number :: self.of])

    @property
    def ending(self) -> str:
        return f"{self.number + 1}-of-{self.of}"


@dataclass(frozen=True, slots=True)
class ScoredFolder:
    """The place of a scoring's files: of a new one, or of one that was begun and goes on. Each part holds a lock of its own."""

    path: Path
    part: Part

    @property
    def manifest(self) -> Path:
        return self.path / ScoreResult.made_by.file

    def planned(self) -> list[str]:
        with writing(self.path):
            if self.path.exists() and not self.path.is_dir():
                raise RunError(f"{self.path}: is a file; give another folder with --out")
            names = {each.name for each in self.path.iterdir()} if self.path.exists() else set()
            others = {name for name in names if not name.startswith(".")} - {ROWS, FOLDER_OF_PURSE}
            if others and ScoreResult.made_by.file not in others:
                raise RunError(
                    f"{self.path}: holds something other than results of `cda score`. Choose another folder with --out"
                )
            if problem := unwritable(self.path):
                raise RunError(f"{problem}. Choose another folder with --out")
        return [f"writes      {self.path / ROWS}: parquet, one file a shard; {self.manifest}"]

    @contextmanager
    def opened(self) -> Iterator[Path]:
        from filelock import FileLock, Timeout

        self.planned()
        lock = FileLock(self.path / f".lock-{self.part.ending}", timeout=0)
        try:
            with writing(self.path):
                own_folder(self.path / ROWS)
                lock.acquire()
        except Timeout:
            raise RunError(
                f"{self.path}: another process is scoring this part of it. Wait for it, or give each its own with --part"
            ) from None
        try:
            yield self.path
        finally:
            lock.release()

    def done(self, shard: Shard) -> ShardFacts | None:
        """The facts of a finished shard; None if it is not there, or is damaged. RunError: one of another scoring is in its place."""
        import pyarrow.parquet

        file = self.path / ROWS / shard.name
        if not file.is_file():
            return None
        try:
            facts = ShardFacts.model_validate_json(pyarrow.parquet.read_metadata(file).metadata[_FACTS])
        except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValidationError):
            return None
        if facts.of != shard.of:
            raise RunError(f"{file}: is of another model, input or size of shards. Choose another folder with --out")
        return facts

    def write(self, shard: Shard, table: Any, facts: ShardFacts) -> None:
        """Write a shard under another name, and give it its own once all of it is on disk."""
        import pyarrow.parquet

        file = self.path / ROWS / shard.name
        partial = file.with_name(f".{shard.name}.{self.part.ending}.partial")
        with writing(file):
            with open_new(partial) as opened:
                pyarrow.parquet.write_table(table.replace_schema_metadata({_FACTS: facts.model_dump_json()}), opened)
                opened.flush()
                os.fsync(opened.fileno())
            partial.replace(file)

    def write_manifest(self, result: ScoreResult) -> None:
        """Write `score.json`, also while other parts do."""
        partial = self.path / f".{self.manifest.name}.{self.part.ending}.partial"
        with writing(self.manifest):
            with open_new(partial) as opened:
                opened.write((json.dumps(result.model_dump(mode="json"), indent=1, allow_nan=False) + "\n").encode())
            partial.replace(self.manifest)

    def clean(self) -> None:
        """Remove what killed processes have left; for when no shard is missing."""
        for partial in (self.path / ROWS).glob(".*.partial"):
            partial.unlink(missing_ok=True)


def facts_of(
    shard: Shard, columns: Mapping[str, FloatArray], without: Counter[str], cut: int, tokens: int | None
) -> ShardFacts:
    """Facts of rewards by column, each of shape (n_rows,), NaN for none."""
    margins = columns.get("margin", np.array([]))
    return ShardFacts(
        of=shard.of,
        rows=len(next(iter(columns.values()))),
        sums={name: _sums(values[~np.isnan(values)]) for name, values in columns.items()},
        wins=int((margins > 0).sum()),
        ties=int((margins == 0).sum()),
        without=dict(without),
        cut=cut,
        tokens=tokens,
    )


def _sums(values: FloatArray) -> tuple[int, float, float, float, float]:
    if not len(values):
        return 0, 0.0, 0.0, 0.0, 0.0
    mean = float(values.mean())
    return len(values), mean, float(((values - mean) ** 2).sum()), float(values.min()), float(values.max())


def spreads(facts: Sequence[ShardFacts]) -> dict[str, Spread]:
    """Rewards of all shards by column, without columns of no reward."""
    found: dict[str, Spread] = {}
    for name in dict.fromkeys(name for each in facts for name in each.sums):
        known = [each.sums[name] for each in facts if each.sums[name][0]]
        if known:
            n, mean, squares, low, high = np.array(known).T
            total = int(n.sum())
            whole = float((n * mean).sum() / total)
            spread = float(squares.sum() + (n * (mean - whole) ** 2).sum())
            found[name] = Spread(
                n=total,
                mean=whole,
                sd=math.sqrt(spread / max(1, total - 1)),
                low=float(low.min()),
                high=float(high.max()),
            )
    return found
