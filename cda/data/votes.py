"""People's votes and models' scores out of files: votes by item, annotations, margins by id."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cda.arrays import LARGEST
from cda.data.load import Row, RowError, load_rows, looks_like_path, prompt_of
from cda.data.tables import structured
from cda.errors import DataError, refuse
from cda.files.jsonl import read_json
from cda.files.paths import is_a_file, user_path
from cda.records import Exclusions, Preference, content_id, count_reasons, normal_text, prompt_text

Votes = Mapping[str, tuple[str, ...]]
_VOTERS = ("participant", "annotator")  # columns that may say who voted


@dataclass(frozen=True, slots=True)
class Score:
    """One row of a score file: its margin, its prompt and the row itself."""

    margin: float
    prompt: str
    row: Row


@dataclass(frozen=True, slots=True)
class Opinion:
    """People on one item: readable votes by side, the released label if there is one, and the texts if known."""

    votes: tuple[Preference, ...]
    released: Preference | None
    texts: tuple[Any, Any] | None = None


@dataclass
class VoteReader:
    """Reads votes, and counts those that it cannot read."""

    seen: int = 0
    reasons: list[str] = field(default_factory=list)

    def read(self, cell: object, sides: Mapping[str, Preference] = MappingProxyType({})) -> tuple[Preference, ...]:
        """The readable votes of a cell; `sides` are further names of the sides."""
        votes = []
        for word in vote_words(cell):
            self.seen += 1
            if (side := side_of(word, sides)) is not None:
                votes.append(side)
            else:
                self.reasons.append(f"unreadable vote '{word[:40]}'")
        return tuple(votes)

    def under(
        self,
        ids: Iterable[str],
        votes: Mapping[str, Sequence[str]],
        sides: Mapping[str, Preference] = MappingProxyType({}),
    ) -> tuple[Preference, ...]:
        """The readable votes under any of these ids."""
        return tuple(side for name in ids for side in self.read(votes.get(name), sides))

    @property
    def exclusions(self) -> Exclusions:
        return Exclusions(self.seen, count_reasons(self.reasons))


def side_of(word: object, sides: Mapping[str, Preference]) -> Preference | None:
    """The side that a word names; `sides`: names besides perturbed, base and tie."""
    known: dict[str, Preference] = {"perturbed": "perturbed", "base": "base", "tie": "tie", **sides}
    return known.get(response_word(word))


def response_word(word: object) -> str:
    """`Response 1` and the like as `response_1`."""
    return str(word).strip().lower().replace(" ", "_")


def load_votes(reference: str) -> Votes:
    """Votes of each item, in file order.

    Three layouts: rows of `id` and `votes` (a list; in CSV also words with commas or semicolons between them), rows of
    `id` and `vote` (one row a vote, any number an item), or one JSON object of item to list of votes. The words are
    read later, with the item: `perturbed`, `base`, `response_1`, `response_2` or `tie`. If a column `participant` or
    `annotator` identifies the voter, who may vote on an item only once.

    Raises:
        DataError: Cannot be loaded, or has no such layout; names rows without an id or a vote, and second votes of one participant.
    """
    if (mapping := _mapping(reference)) is not None:
        return mapping
    rows = load_rows(reference)
    present = {key for row in rows for key in row}
    if "id" not in present or not present & {"vote", "votes"}:
        raise DataError(
            f"{reference}: votes need the columns id and vote (a row a vote), or id and votes (a row an item). "
            f"Found: {', '.join(sorted(present))}"
        )
    if {"vote", "votes"} <= present:
        raise DataError(f"{reference}: has both the columns vote and votes; keep the one that holds the votes")
    column = "votes" if "votes" in present else "vote"
    votes: dict[str, list[str]] = {}
    problems = []
    first: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for number, row in enumerate(rows, 1):
        words, item, voter = vote_words(row.get(column)), row.get("id"), voter_of(row)
        if item in (None, "") or not words:
            problems.append(f"{reference}: row {number} lacks {'an id' if item in (None, '') else 'a vote'}")
            continue
        before, earlier = first.setdefault((str(item), voter), (number, words)) if voter else (number, words)
        if before != number:
            how = "the same" if earlier == words else "another"
            problems.append(
                f"{reference}: row {number}: {voter[:40]} gave {how} vote on {str(item)[:40]} in row {before}; keep one"
            )
        votes.setdefault(str(item), []).extend(words)
    refuse(problems, "more rows")
    return {item: tuple(words) for item, words in votes.items()}


def voter_of(row: Row) -> str:
    """Annotator named in a row; empty if none is."""
    return next((str(row[name]).strip() for name in _VOTERS if row.get(name) not in (None, "")), "")


def vote_words(cell: object) -> list[str]:
    """The words of one cell: a list, a JSON list as text, or words with commas or semicolons between them; else none."""
    cell = structured(cell)
    if isinstance(cell, str):
        text = "" if cell.lstrip().startswith("[") else cell
        return [word.strip() for word in text.replace(";", ",").split(",") if word.strip()]
    if isinstance(cell, list | tuple):
        return [str(word) for word in cell]
    return [] if cell is None else [str(cell)]


def _mapping(reference: str) -> Votes | None:
    """A JSON object of item to votes; None if the file is something else."""
    path = user_path(reference)
    if not looks_like_path(reference) or path.suffix != ".json" or not is_a_file(path):
        return None
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        return None
    listed = [[votes] if isinstance(votes, str) else votes for votes in content.values()]
    # Mappings among the votes are rows under a key.
    if any(not isinstance(votes, list) or any(isinstance(vote, Mapping) for vote in votes) for votes in listed):
        return None
    return {str(item): tuple(map(str, votes)) for item, votes in zip(content, listed, strict=True)}


KEYS = ("id", "query", "prompt")
"""Columns that may name a row; the first that a file has does."""
_KNOWN_COLUMNS = {"reward_model_preferred_response"}  # besides the column that says which response carries the bias


def read_scores(path: Path, sides: tuple[str, str]) -> tuple[dict[str, Score], Exclusions]:
    """Usable rows of a score file by id, and the others by reason. DataError without columns of ids and scores, or usable rows."""
    rows = load_rows(str(path))
    present = {column for row in rows for column in row}
    key = next((name for name in KEYS if name in present), None)
    if key is None or not ("margin" in present or set(sides) <= present):
        raise DataError(
            f"{path}: needs a column {' or '.join(KEYS)}, and the columns {sides[0]} and {sides[1]}, or margin. "
            f"Found: {', '.join(sorted(present))}"
        )
    counts = Counter(_name(row.get(key)) for row in rows)
    scores, reasons = {}, []
    for row in rows:
        name, margin = _name(row.get(key)), _margin(row, sides)
        if not name:
            reasons.append(f"without {key}")
        elif counts[name] > 1:
            reasons.append(f"whose {key} several rows have")
        elif not math.isfinite(margin):
            reasons.append("without a score")
        elif abs(margin) > LARGEST:
            reasons.append(f"with a score beyond {LARGEST:g}")
        else:
            scores[name] = Score(margin, _name(row.get("prompt")) or _name(row.get("query")) or name, row)
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not scores:
        raise DataError(f"{path}: no usable row; {exclusions}")
    return scores, exclusions


def read_opinions(path: Path) -> tuple[dict[str, Opinion], Exclusions]:
    """Votes from a separate file: one of votes, or one of annotations with `entries` of people for each item."""
    content: Any = None
    if path.suffix == ".json":
        content = read_json(path)
    elif path.suffix == ".jsonl":
        content = load_rows(str(path))
    is_list = isinstance(content, list) and content and all(isinstance(row, Mapping) for row in content)
    if is_list and all("entries" in row for row in content):
        return _annotated(content, path)
    reader = VoteReader()
    return {name: Opinion(reader.read(votes), None) for name, votes in load_votes(str(path)).items()}, reader.exclusions


def _annotated(rows: Sequence[Row], path: Path) -> tuple[dict[str, Opinion], Exclusions]:
    """Votes of annotated items, whose words name a response; one more column says which of the two carries the bias."""
    columns = sorted({key for row in rows for key in row if key.endswith("_response")} - _KNOWN_COLUMNS)
    if len(columns) != 1:
        raise DataError(f"{path}: one column must say which response carries the bias; found {columns or 'none'}")
    opinions: dict[str, Opinion] = {}
    reader = VoteReader()
    for number, row in enumerate(rows, 1):
        name, biased = _name(row.get("id") or row.get("query")), response_word(row.get(columns[0]))
        if not name or biased not in ("response_1", "response_2"):
            raise DataError(f"{path}: row {number} needs a query, and response_1 or response_2 in {columns[0]}")
        if name in opinions:
            raise DataError(f"{path}: row {number} is about a query of an earlier row: give rows ids of their own")
        base = "response_1" if biased == "response_2" else "response_2"
        sides: dict[str, Preference] = {biased: "perturbed", base: "base"}
        if not isinstance(row["entries"], list) or not all(isinstance(entry, Mapping) for entry in row["entries"]):
            raise DataError(f"{path}: row {number}: entries is not a list of objects, one a person")
        given = [_name(entry.get("overall_preference")) for entry in row["entries"]]
        released = _name(row.get("most_frequent_preference"))
        majority = side_of(released, sides) if released else None
        opinions[name] = Opinion(reader.read(given, sides), majority, (row.get(biased), row.get(base)))
    return opinions, reader.exclusions


def _margin(row: Row, sides: tuple[str, str]) -> float:
    both: list[Any] = [row.get(side) for side in sides]
    cells = [row.get("margin")] if None in both or "" in both else both
    if any(cell is None or isinstance(cell, bool) for cell in cells):
        return math.nan
    try:
        first, *second = map(float, cells)
        return first - sum(second)
    except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
        return math.nan


def _name(value: object) -> str:
    """An id, prompt or word as text; a prompt of messages by its content. Empty if there is none."""
    if value is None or isinstance(value, str):
        return normal_text(value or "")
    if isinstance(value, list | tuple):
        with suppress(RowError):
            return normal_text(prompt_text(prompt_of(value)))
    return content_id(value) if isinstance(value, list | Mapping) else str(value)
