"""Score files and annotation files: margins by id, and people's votes on the same items."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cda.data.load import Row, load_rows
from cda.data.messages import RowError, prompt_of
from cda.data.votes import VoteReader, load_votes, response_word, side_of, vote_words
from cda.errors import DataError, refuse
from cda.files.jsonl import read_json
from cda.records import Exclusions, Preference, content_id, count_reasons, normal_text, prompt_text

KEYS = ("id", "query", "prompt")
"""Columns that may name a row; the first that a file has does."""
_KNOWN_COLUMNS = {"reward_model_preferred_response"}  # besides the column that says which response carries the bias
_NO_SIDES: Mapping[str, Preference] = {}


_Words = tuple[Sequence[str], str | None, Mapping[str, Preference]]
"""Votes, a stated preference, and further names of the sides."""


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


def read_scores(path: Path, sides: tuple[str, str]) -> tuple[dict[str, Score], Exclusions]:
    """Usable rows of a score file by id, and the others by reason; DataError without columns of ids and scores, or usable rows."""
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
    return _read({name: (votes, None, _NO_SIDES) for name, votes in load_votes(str(path)).items()})


def own_opinions(before: Mapping[str, Score], after: Mapping[str, Score]) -> tuple[dict[str, Opinion], Exclusions]:
    """Votes, or one stated preference an item, from the score files themselves.

    Raises:
        DataError: Neither file has any, or the two state different ones; names the items.
    """
    words: dict[str, _Words] = {}
    problems = []
    for name, score in before.items():
        rows = score.row, after[name].row
        stated = [word for row in rows if (word := _name(row.get("preferred")))]
        given = [cell for row in rows if (cell := vote_words(row.get("votes")))]
        if len(set(stated)) > 1 or any(sorted(cell) != sorted(given[0]) for cell in given):
            problems.append(
                f"{name[:40]}: the score files before and after state different votes; correct or remove them"
            )
        if votes := given[0] if given else stated[:1]:
            words[name] = (votes, stated[0] if stated else None, _NO_SIDES)
    refuse(problems, "more items")
    if not words:
        raise DataError(
            "no votes: choosing a dose needs people's votes. Give a file of votes (columns id and vote, or id and "
            "votes), or a column preferred or votes in the score files (perturbed, base or tie)"
        )
    return _read(words)


def _annotated(rows: Sequence[Row], path: Path) -> tuple[dict[str, Opinion], Exclusions]:
    """Votes of annotated items, whose words name a response; one more column says which of the two carries the bias."""
    columns = sorted({key for row in rows for key in row if key.endswith("_response")} - _KNOWN_COLUMNS)
    if len(columns) != 1:
        raise DataError(f"{path}: one column must say which response carries the bias; found {columns or 'none'}")
    words, texts = {}, {}
    for number, row in enumerate(rows, 1):
        name, biased = _name(row.get("id") or row.get("query")), response_word(row.get(columns[0]))
        if not name or biased not in ("response_1", "response_2"):
            raise DataError(f"{path}: row {number} needs a query, and response_1 or response_2 in {columns[0]}")
        if name in words:
            raise DataError(f"{path}: row {number} is about a query of an earlier row: give rows ids of their own")
        base = "response_1" if biased == "response_2" else "response_2"
        sides: dict[str, Preference] = {biased: "perturbed", base: "base"}
        if not isinstance(row["entries"], list) or not all(isinstance(entry, Mapping) for entry in row["entries"]):
            raise DataError(f"{path}: row {number}: entries is not a list of objects, one a person")
        given = [_name(entry.get("overall_preference")) for entry in row["entries"]]
        words[name] = (given, _name(row.get("most_frequent_preference")) or None, sides)
        texts[name] = (row.get(biased), row.get(base))
    opinions, unread = _read(words)
    return {name: replace(opinion, texts=texts[name]) for name, opinion in opinions.items()}, unread


def _read(words: Mapping[str, _Words]) -> tuple[dict[str, Opinion], Exclusions]:
    """Words to sides; those that cannot be read are counted, and their items stay without them."""
    reader = VoteReader()
    opinions = {
        name: Opinion(reader.read(votes, sides), None if released is None else side_of(released, sides))
        for name, (votes, released, sides) in words.items()
    }
    return opinions, reader.exclusions


def other_texts(opinion: Opinion, row: Row) -> bool:
    """True if people saw other texts than those that were scored, as far as both are known."""
    scored = row.get("perturbed_response"), row.get("base_response")
    if opinion.texts is None or None in scored:
        return False
    return tuple(map(_name, opinion.texts)) != tuple(map(_name, scored))


def _margin(row: Row, sides: tuple[str, str]) -> float:
    """NaN if the row has no score that is a number."""
    try:
        if all(row.get(side) not in (None, "") for side in sides):
            return float(row[sides[0]]) - float(row[sides[1]])
        return float(row.get("margin") or "nan") if row.get("margin") != 0 else 0.0
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
