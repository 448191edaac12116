"""Stated preferences: which of two answers a cell prefers, in the words and numbers in which data sets write it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cda.files.jsonl import parse_json

Verdict = Literal["first", "second", "tie", "both bad"]
Scale = Callable[[float], Verdict | None]
"""The verdict of a number; None for a number that is not on the scale."""
_MISSING = ("", "nan", "null", "na", "n/a")
"""Not `none`, which may mean that neither is better."""
_TIES = (
    "tie", "ties", "tied", "draw", "equal", "equally good", "even", "same", "about the same", "no preference", "both", "both good",
    "tie both good",
)  # fmt: skip
_BAD = ("bothbad", "both bad", "tie bothbad", "tie both bad", "neither", "both are bad")
_YES, _NO = ("true", "yes", "1", "t", "y"), ("false", "no", "0", "f", "n")
_PLACES = ({"left", "first"}, {"right", "second"})
_FILLERS = frozenset((
    "model", "assistant", "response", "answer", "output", "option", "candidate", "completion", "conversation", "side", "text", "summary",
    "the", "is", "better", "best", "wins", "won", "win", "winner", "preferred",
))  # fmt: skip
_TOKENS = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")


_TWO = re.compile(r"(.*?)[_\- ]?([abAB]|[012])")
_ENDS = (("a", "b"), ("1", "2"), ("0", "1"))
_ANSWERS = ("response", "answer", "completion", "output", "text", "conversation", "message", "summary", "generation")


class UnreadableError(Exception):
    """A cell of `column` states a preference in a way that is not known."""

    def __init__(self, column: str, cell: object) -> None:
        super().__init__(column, cell)
        self.column, self.value = column, f"'{str(cell)[:40]}'"


@dataclass(frozen=True, slots=True)
class Names:
    """Words that name each of two answers, as tokens without those that name no side (`model_a` is `a`)."""

    first: frozenset[str]
    second: frozenset[str]

    @classmethod
    def of(cls, first: str, second: str, *models: object) -> Names:
        """By the names of their columns (`response_a`, and its last part `a`), their places, and their `models` if these differ."""
        sides = [{_key(column), *_tokens(column)[-1:]} for column in (first, second)]
        for side, place, model in zip(sides, _PLACES, models or (None, None), strict=True):
            side |= place | ({_key(model)} if model else set())
        return cls(frozenset(sides[0] - sides[1]), frozenset(sides[1] - sides[0]))


def two_answers(names: Mapping[str, object]) -> tuple[str, str] | None:
    """The two columns that differ in their last part alone, `a` and `b`, `1` and `2` or `0` and `1`; None without one such pair."""
    by_stem: dict[str, dict[str, str]] = {}
    for name in names:
        if (match := _TWO.fullmatch(name)) and any(word in match[1].lower() for word in _ANSWERS):
            by_stem.setdefault(match[1].lower(), {})[match[2].lower()] = name
    found = [
        (ends[a], ends[b]) for ends in by_stem.values() for a, b in _ENDS if len(ends) == 2 and {a, b} == ends.keys()
    ]
    return found[0] if len(found) == 1 else None


def verdict(column: str, cell: object, names: Names, scale: Scale | None = None) -> Verdict | None:
    """The answer that a cell prefers; None if it states nothing. UnreadableError for another word or number."""
    if _is_missing(cell):
        return None
    words, number = " ".join(_tokens(cell)), number_in(cell)
    found: Verdict | None = None
    if number is not None and scale is not None:
        found = scale(number)
    elif words in _TIES:
        found = "tie"
    elif words in _BAD:
        found = "both bad"
    else:
        key = _key(cell) if number is None else f"{number:g}"
        found = "first" if key in names.first else "second" if key in names.second else None
    if found is None:
        raise UnreadableError(column, cell)
    return found


def truth(column: str, cell: object) -> bool | None:
    """Yes or no in any spelling or type; None if the cell says nothing. UnreadableError for anything else."""
    if _is_missing(cell):
        return None
    word = f"{number:g}" if (number := number_in(cell)) is not None else str(cell).strip().lower()
    if word not in (*_YES, *_NO):
        raise UnreadableError(column, cell)
    return word in _YES


def score(column: str, cell: object) -> float | None:
    """A finite number; None if the cell says nothing. UnreadableError for anything else."""
    number = number_in(cell)
    if number is None and not _is_missing(cell):
        raise UnreadableError(column, cell)
    return number


def number_in(cell: object) -> float | None:
    """A finite number, also in text; None for anything else."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def structured(cell: object) -> Any:
    """The list or mapping that a table holds as text, in JSON or as Python prints it; any other cell as it is."""
    if not (isinstance(cell, str) and cell.lstrip()[:1] in ("[", "{")):
        return cell
    try:
        return parse_json(cell)
    except ValueError:
        pass
    try:
        return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell


def choices_in(cell: object) -> Iterator[object]:
    """The single choices in a cell of an annotation tool: one for each person who answered.

    Label Studio puts them under `selected` or `choices`, Argilla under `value`; of a ranking, the best is the choice.
    """
    cell = structured(cell)
    if isinstance(cell, list | tuple):
        if cell and all(isinstance(each, Mapping) and "rank" in each for each in cell):
            yield _first_ranked(cell)
            return
        for each in cell:
            yield from choices_in(each)
    elif isinstance(cell, Mapping):
        if cell.get("was_cancelled") is True or cell.get("status", "submitted") not in ("submitted", "completed"):
            return
        yield from choices_in(
            next((cell[key] for key in ("result", "value", "selected", "choices") if key in cell), None)
        )
    elif cell is not None:
        yield cell


def _first_ranked(ranking: Sequence[Mapping[str, Any]]) -> object:
    ranks = [number_in(each["rank"]) for each in ranking]
    known = [rank for rank in ranks if rank is not None]
    best = [each.get("value") for each, rank in zip(ranking, ranks, strict=True) if known and rank == min(known)]
    return best[0] if len(best) == 1 else "tie"


def agreed(column: str, cell: object, names: Names, scale: Scale | None = None) -> Verdict | None:
    """The verdict in a cell, or of more of its people than prefer the other answer; a tie if as many do. None if it says nothing."""
    found = [said for choice in choices_in(cell) if (said := verdict(column, choice, names, scale)) is not None]
    if not found:
        return None
    lead = found.count("first") - found.count("second")
    if lead == 0:
        return "both bad" if all(said == "both bad" for said in found) else "tie"
    return "first" if lead > 0 else "second"


def _is_missing(cell: object) -> bool:
    return cell is None or str(cell).strip().lower() in _MISSING


def _tokens(cell: object) -> list[str]:
    return _TOKENS.findall(str(cell).lower())


def _key(cell: object) -> str:
    tokens = _tokens(cell)
    return " ".join(token for token in tokens if token not in _FILLERS) or " ".join(tokens)
