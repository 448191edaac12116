"""Known shapes of preference data: the columns that identify each, and where prompt, answers and preference stand in a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from cda.data.load import Row, RowError, check_columns, is_turn
from cda.data.stated import (
    Names,
    Scale,
    UnreadableError,
    Verdict,
    agreed,
    check_decided,
    number_in,
    score,
    structured,
    truth,
    verdict,
)
from cda.errors import DataError, did_you_mean
from cda.inert import inert
from cda.records import content_id

PROMPTS = ("prompt", "instruction", "question", "query", "conversations")
_OURS = ("prompt", "chosen", "rejected", "preference")
STATED = (
    "winner", "preference", "preferred", "label", "labels", "better", "choice", "overall_preference", "human_preference", "comparison",
    "pairwise", "verdict",
)  # fmt: skip
"""Columns that may say which of two answers is preferred."""
SCORES = tuple(
    (f"chosen{sep}{word}", f"rejected{sep}{word}") if after else (f"{word}{sep}chosen", f"{word}{sep}rejected")
    for word, sep, after in product(("score", "rating"), ("_", "-"), (True, False))
)
NONE = "none"
"""Instead of a column's name: no column states a preference."""
_TWO = re.compile(r"(.*?)[_\- ]?([abAB]|[012])")
_ENDS = (("a", "b"), ("1", "2"), ("0", "1"))
_ANSWERS = ("response", "answer", "completion", "output", "text", "conversation", "message", "summary", "generation")


@dataclass(frozen=True, slots=True)
class Sides:
    """A row's prompt and its two answers, as they stand in the row. Without a column of prompts, which then begin the answers, the
    prompt is None; a cell of such a column that holds none is an empty text."""

    prompt: object
    chosen: object
    rejected: object


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of preference data. `read` raises RowError for a row without a preference, UnreadableError (see there) for a cell that
    states one in an unknown way; `taken` says in a line what is taken for what; `grouped` is the column that rows of one item share;
    `known` says which preferences can be read, and what to do about others."""

    name: str
    needs: tuple[str, ...]
    read: Callable[[Row], Sides]
    taken: str
    grouped: str | None = None
    known: str = (
        "Known are the last part of an answer's column (such as a, model_a or 1), left and right, tie and both bad. Write them so, "
        "or remove these rows"
    )


def two_sided(
    name: str, prompt: str | None, first: str, second: str, stated: str, scale: Scale | None = None, reads: str = ""
) -> Shape:
    """A prompt, two answers, and a column that says which is preferred."""

    def read(row: Row) -> Sides:
        ends = [column.rpartition("_")[2] for column in (first, second)]
        names = Names.of(first, second, *(row.get(f"model_{end}") for end in ends))
        said = agreed(stated, row.get(stated), names, scale)
        return _sides(_asked(row, prompt), row.get(first), row.get(second), said)

    of = f"prompt from {prompt}" if prompt else "the prompt is what both share"
    taken = f"{of}, answers from {first} and {second}, the preferred one by {stated}{reads}"
    return Shape(name, tuple(filter(None, (prompt, first, second, stated))), read, taken)


def _asked(row: Row, column: str | None) -> object:
    cell = row.get(column) if column else None
    return "" if column and cell is None else cell


def _sides(prompt: object, first: object, second: object, said: Verdict | None) -> Sides:
    if said is None:
        raise RowError("no preference stated")
    check_decided(said)
    first, second = _one_turn(first), _one_turn(second)
    chosen, rejected = (first, second) if said == "first" else (second, first)
    return Sides(prompt, chosen, rejected)


def _one_turn(value: object) -> object:
    """A turn of ShareGPT's that a table holds as text, read; any other text stays one."""
    read = structured(value)
    return read if isinstance(read, Mapping) and is_turn(read) and len(read) == 2 and "from" in read else value


# --- shapes of published data ---


def _sign(number: float) -> Verdict:
    return "first" if number < 0 else "second" if number > 0 else "tie"


def _alpaca(number: float) -> Verdict | None:
    """1 to 2, and 0 for a draw in older files."""
    if number in (0, 1.5):
        return "tie"
    return None if not 1 <= number <= 2 else "first" if number < 1.5 else "second"


def _shp(number: float) -> Verdict | None:
    return {1.0: "first", 0.0: "second"}.get(number)  # type: ignore[return-value]


def _arena(row: Row) -> Sides:
    """A verdict on turn 1 (MT-Bench) saw the first exchange alone, though the rows hold both."""
    names = Names.of("conversation_a", "conversation_b", row.get("model_a"), row.get("model_b"))
    said = agreed("winner", row.get("winner"), names)
    seen, turns = number_in(row.get("turn")), [_one_turn(row.get(f"conversation_{end}")) for end in "ab"]
    first, second = (
        side[: 2 * int(seen)] if isinstance(side, list) and seen is not None and seen >= 1 else side for side in turns
    )
    return _sides(None, first, second, said)


def _one_hot(row: Row) -> Sides:
    columns = {"first": "winner_model_a", "second": "winner_model_b", "tie": "winner_tie"}
    yes = [said for said, column in columns.items() if truth(column, row.get(column))]
    if len(yes) > 1:
        raise RowError("several winners stated")
    prompt, first, second = (_only_text(row.get(name)) for name in ("prompt", "response_a", "response_b"))
    return _sides(prompt, first, second, yes[0] if yes else None)  # type: ignore[arg-type]


def _only_text(cell: object) -> object:
    """The text in a list of one for each turn."""
    texts = structured(cell)
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        if len(texts) != 1:
            raise RowError("more than one turn after the shared prompt")
        return texts[0]
    return cell


def _openai(row: Row) -> Sides:
    asked = structured(row.get("input"))
    messages = asked.get("messages") if isinstance(asked, Mapping) else asked
    return Sides(messages, *(_one_turn(row.get(side)) for side in ("preferred_output", "non_preferred_output")))


def _rated(prompt: str, answers: str, text: str, rating: str, sign: int = 1) -> Callable[[Row], Sides]:
    """Of several answers, the best and one that is rated lower; which one depends on the prompt alone, not on the order of rows."""

    def read(row: Row) -> Sides:
        listed = structured(row.get(answers))
        if not isinstance(listed, list | tuple):
            raise RowError(f"{answers} is no list")
        known = [
            (sign * number, each.get(text))
            for each in listed
            if isinstance(each, Mapping) and (number := number_in(each.get(rating))) is not None and each.get(text)
        ]
        if len(known) < 2:
            raise RowError(f"fewer than two answers with {rating}")
        most = max(number for number, _ in known)
        lower = [answer for number, answer in known if number < most]
        if not lower:
            raise RowError("tie")
        best = next(answer for number, answer in known if number == most)
        return Sides(_asked(row, prompt), best, lower[int(content_id(row.get(prompt)), 16) % len(lower)])

    return read


def _label_studio(row: Row) -> Sides:
    data = structured(row.get("data"))
    return _annotated(data if isinstance(data, Mapping) else {}, structured(row.get("annotations")), "annotations")


def _argilla(row: Row) -> Sides:
    fields, answers = structured(row.get("fields")), structured(row.get("responses"))
    given = list(answers.values()) if isinstance(answers, Mapping) else answers
    if isinstance(given, list) and len(given) != 1 and isinstance(answers, Mapping):
        raise RowError("several questions were asked" if given else "no preference stated")
    return _annotated(fields if isinstance(fields, Mapping) else {}, given, "responses")


def _annotated(fields: Mapping[str, Any], given: object, column: str) -> Sides:
    columns = two_answers(fields)
    if columns is None:
        raise RowError("no two answers in the fields of the record")
    said = agreed(column, given, Names.of(*columns))
    prompt = next((fields[name] for name in PROMPTS if name in fields), None)
    return _sides(prompt, fields[columns[0]], fields[columns[1]], said)


def _results_file(row: Row) -> Sides:
    if isinstance(row.get("text_chosen"), str):
        raise RowError("a text in a model's chat template, whose prompt and answer cannot be told apart")
    return Sides(None, _one_turn(row.get("text_chosen")), _one_turn(row.get("text_rejected")))


_BEST = "the best answer by {} against one that is rated lower, one pair a prompt"
SHAPES: tuple[Shape, ...] = (
    Shape("Chatbot Arena", ("conversation_a", "conversation_b", "winner"), _arena,
          "conversation_a and conversation_b, the preferred one by winner"),
    Shape("Chatbot Arena (one column a verdict)", ("prompt", "response_a", "response_b", "winner_model_a", "winner_model_b"), _one_hot,
          "response_a and response_b, the preferred one by winner_model_a, winner_model_b and winner_tie"),
    two_sided("HelpSteer3", "context", "response1", "response2", "overall_preference", _sign, " (below 0: the first)"),
    two_sided("HelpSteer2 preferences", "prompt", "response_1", "response_2", "preference_strength", _sign, " (below 0: the first)"),
    Shape("HelpSteer2", ("prompt", "response", "helpfulness", "correctness", "coherence"), _rated("prompt", "answers", "response",
          "helpfulness"), "answers of the rows that share a prompt; " + _BEST.format("helpfulness"), "prompt"),
    Shape("UltraFeedback", ("instruction", "completions"), _rated("instruction", "completions", "response", "overall_score"),
          "prompt from instruction, answers from completions; " + _BEST.format("overall_score")),
    Shape("Nectar", ("prompt", "answers"), _rated("prompt", "answers", "answer", "rank", -1),
          "answers from answers; " + _BEST.format("rank")),
    two_sided("SHP", "history", "human_ref_A", "human_ref_B", "labels", _shp, " (1: the first, 0: the second)"),
    two_sided("PKU-SafeRLHF", "prompt", "response_0", "response_1", "better_response_id"),
    two_sided("PKU-SafeRLHF (safety alone)", "prompt", "response_0", "response_1", "safer_response_id"),
    two_sided("AlpacaEval", "instruction", "output_1", "output_2", "preference", _alpaca, " (1 to 2, below 1.5: the first)"),
    two_sided("LLMBar", "input", "output_1", "output_2", "label"),
    Shape("OpenAI preferences", ("input", "preferred_output", "non_preferred_output"), _openai,
          "prompt from input.messages, chosen from preferred_output, rejected from non_preferred_output"),
    Shape("Label Studio", ("data", "annotations"), _label_studio, "prompt and two answers from data, the preferred one by annotations"),
    Shape("Argilla records", ("fields", "responses"), _argilla, "prompt and two answers from fields, the preferred one by responses"),
    Shape("RewardBench results", ("text_chosen", "text_rejected"), _results_file,
          "chosen from text_chosen, rejected from text_rejected; results and scores are a model's, and not read"),
)  # fmt: skip


# --- recognition ---


@dataclass(frozen=True, slots=True)
class PairColumns:
    """A generic reader of the columns chosen and rejected, under any names, with whatever states a preference besides."""

    prompt: str | None
    chosen: str = "chosen"
    rejected: str = "rejected"
    stated: tuple[str, ...] = ()
    scores: tuple[tuple[str, str], ...] = ()
    names: Names = field(default_factory=lambda: Names.of("chosen", "rejected"))

    def read(self, row: Row) -> Sides:
        for column in self.stated:
            said = _tied(row, column) if column == "tie" else agreed(column, row.get(column), self.names)
            check_decided(said)
            if said == "second" and self.chosen == "chosen":
                raise RowError(f"{column} says that the rejected side is preferred")
            if said == "second":
                return Sides(self._asked(row), *(_one_turn(row.get(name)) for name in (self.rejected, self.chosen)))
        for higher, lower in self.scores:
            numbers = [score(name, row.get(name)) for name in (higher, lower)]
            if None not in numbers and numbers[0] == numbers[1]:
                raise RowError("tie")
            if None not in numbers and numbers[0] < numbers[1]:  # type: ignore[operator]
                raise RowError(f"{lower} is above {higher}")
        return Sides(self._asked(row), *(_one_turn(row.get(name)) for name in (self.chosen, self.rejected)))

    def _asked(self, row: Row) -> object:
        asked = _asked(row, self.prompt)
        extra = row.get("input") if self.prompt == "instruction" else None  # as Alpaca's data are laid out
        return f"{asked}\n{extra}" if isinstance(extra, str) and extra.strip() else asked

    def shape(self) -> Shape:
        prompt = f"prompt from {self.prompt}" if self.prompt else "the prompt is what both share"
        stated = [*self.stated, *(f"{higher} and {lower}" for higher, lower in self.scores)]
        by = f", preferences and ties by {', '.join(stated)}" if stated else ""
        taken = f"{prompt}, chosen from {self.chosen}, rejected from {self.rejected}{by}"
        known = (
            f"Known are {self.chosen}, {self.rejected}, tie and both bad. Name the columns of the two answers with {{setting}}chosen and "
            "{setting}rejected, write the preferences so, or give {setting}preference=none if chosen and rejected are in order already"
        )
        return Shape("preference pairs", (self.chosen, self.rejected), self.read, taken, known=known)


def shape_of(rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str) -> Shape:
    """The shape of rows; `columns` maps our name to theirs, and `setting` maps `columns`. DataError: none is recognised, or a
    column that was named is missing."""
    present = dict.fromkeys(name for row in rows for name in row)
    named = {
        ours: theirs for ours, theirs in columns.items() if ours in _OURS and (ours, theirs) != ("preference", NONE)
    }
    check_columns(rows, named, where, setting)
    if not {"chosen", "rejected"} & columns.keys():
        if {"chosen", "rejected"} <= present.keys():
            return _generic(rows, columns, present)
        for shape in SHAPES:
            if all(name in present for name in shape.needs):
                return shape
        found = two_answers(present)
        stated = columns.get("preference") or next((name for name in STATED if name in present), None)
        if found is not None and stated is not None and stated != NONE:
            asked = columns.get("prompt") or next((name for name in (*PROMPTS, "input") if name in present), None)
            return two_sided("two answers and a preference", asked, *found, stated)
    if not named and not any(side in present or did_you_mean(side, present) for side in ("chosen", "rejected")):
        raise DataError(
            f"{where}: no known shape of preferences. Found: {', '.join(map(inert, sorted(present)))}. Known are the columns prompt, "
            f"chosen and rejected (map yours with {setting}chosen=<your column> and so on), two answers with a column that says which "
            f"is preferred, and the columns of {', '.join(shape.name for shape in SHAPES)}"
        )
    check_columns(rows, {"chosen": "chosen", "rejected": "rejected", **named}, where, setting)
    return _generic(rows, columns, present)


def _generic(rows: Sequence[Row], columns: Mapping[str, str], present: Mapping[str, None]) -> Shape:
    chosen, rejected = (columns.get(side, side) for side in ("chosen", "rejected"))
    asked = columns.get("prompt") or next((name for name in PROMPTS if name in present), None)
    names = Names.of(chosen, rejected)
    if (own := columns.get("preference")) is not None:
        stated, scores = ((), ()) if own == NONE else ((own,), ())
    else:
        candidates = [name for name in ("tie", *STATED) if name in present and name not in (chosen, rejected, asked)]
        stated = tuple(name for name in candidates if name == "tie" or _states(rows, name, names))
        scores = tuple(pair for pair in SCORES if all(name in present for name in pair))
    return PairColumns(asked, chosen, rejected, stated, scores, names).shape()


def _states(rows: Sequence[Row], column: str, names: Names) -> bool:
    """False for a column `label` of words none of which is a preference: it says something else of the row."""
    if column not in ("label", "labels"):
        return True
    for row in rows:
        try:
            if verdict(column, row.get(column), names) is not None:
                return True
        except UnreadableError:
            if number_in(row.get(column)) is not None or isinstance(row.get(column), bool):
                return True
    return False


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


def _tied(row: Row, column: str) -> Verdict | None:
    return "tie" if truth(column, row.get(column)) else None


def grouped(rows: Sequence[Row], column: str) -> Iterator[tuple[int, Row]]:
    """One row for all that share a value of a column, with the number of the first of them; all of them are its `answers`."""
    groups: dict[str, list[tuple[int, Row]]] = {}
    for number, row in enumerate(rows, 1):
        groups.setdefault(content_id(row.get(column)), []).append((number, row))
    for members in groups.values():
        number, first = members[0]
        yield number, {**first, "answers": [row for _, row in members]}
