"""People's votes out of files, by item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from cda.data.load import Row, load_rows, looks_like_path
from cda.data.tables import structured
from cda.errors import DataError, refuse
from cda.files.jsonl import read_json
from cda.files.paths import is_a_file, user_path
from cda.records import Exclusions, Preference, count_reasons

Votes = Mapping[str, tuple[str, ...]]
_VOTERS = ("participant", "annotator")  # columns that may say who voted


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
