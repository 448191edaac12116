"""People's votes from a file of their own: item to votes, one row an item or one row a vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cda.data.load import load_rows, looks_like_path
from cda.errors import DataError
from cda.files.jsonl import parse_json, read_json
from cda.files.paths import is_a_file, user_path

Votes = Mapping[str, tuple[str, ...]]
_VOTERS = ("participant", "annotator")
"""Columns that may say who voted."""


def load_votes(reference: str) -> Votes:
    """Votes of each item, in file order.

    Three layouts: rows of `id` and `votes` (a list; in CSV also words with commas or semicolons between them), rows of
    `id` and `vote` (one row a vote, any number an item), or one JSON object of item to list of votes. The words are
    read later, beside the item: `perturbed`, `base`, `response_1`, `response_2` or `tie`. Where a column `participant` or
    `annotator` says who voted, nobody may vote on an item twice.

    Raises:
        DataError: Cannot be loaded, or has neither layout; lists every row without an id or a vote, and each second vote of
            one participant on one item.
    """
    mapping = _mapping(reference)
    if mapping is not None:
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
    votes: dict[str, list[str]] = {}
    problems = []
    first: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for number, row in enumerate(rows, 1):
        words = vote_words(row.get("votes") if "votes" in present else row.get("vote"))
        if row.get("id") in (None, "") or not words:
            lacks = "an id" if row.get("id") in (None, "") else "a vote"
            problems.append(f"{reference}: row {number} lacks {lacks}")
            continue
        if who := voter_of(row):
            before, said = first.setdefault((str(row["id"]), who), (number, words))
            if before != number:
                how = "the same" if said == words else "another"
                problems.append(
                    f"{reference}: row {number}: {who[:40]} gave {how} vote on {str(row['id'])[:40]} in row {before}; keep one"
                )
                continue
        votes.setdefault(str(row["id"]), []).extend(words)
    if problems:
        more = [f"… and {len(problems) - 10} more rows"] if len(problems) > 10 else []
        raise DataError("\n".join(problems[:10] + more))
    return {item: tuple(words) for item, words in votes.items()}


def voter_of(row: Mapping[str, Any]) -> str:
    """Who voted in a row; empty where it does not say."""
    return next((str(row[name]).strip() for name in _VOTERS if row.get(name) not in (None, "")), "")


def vote_words(cell: object) -> list[str]:
    """The words of one cell: a list, a JSON list as text, or words with commas or semicolons between them; else none."""
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("["):
            try:
                return [str(word) for word in parse_json(text)]
            except ValueError:
                return []
        return [word.strip() for word in text.replace(";", ",").split(",") if word.strip()]
    if isinstance(cell, list | tuple):
        return [str(word) for word in cell]
    return [] if cell is None else [str(cell)]


def _mapping(reference: str) -> Votes | None:
    """A JSON object of item to votes; None where the file is something else."""
    path = user_path(reference)
    if not looks_like_path(reference) or path.suffix != ".json" or not is_a_file(path):
        return None
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        return None
    listed = [[votes] if isinstance(votes, str) else votes for votes in content.values()]
    if not all(isinstance(votes, Sequence) for votes in listed):
        return None
    if any(isinstance(vote, Mapping) for votes in listed for vote in votes):
        return None  # rows under a key
    return {str(item): tuple(map(str, votes)) for item, votes in zip(content, listed, strict=True)}
