"""Known shapes of preference data: the columns that identify each, and where prompt, answers and preference stand in a row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from cda.data.load import Row, RowError, check_columns, is_turn
from cda.data.tables import structured
from cda.errors import DataError, did_you_mean
from cda.inert import inert
from cda.records import content_id

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
_ANSWER_WORDS = (
    "response",
    "answer",
    "completion",
    "output",
    "text",
    "conversation",
    "message",
    "summary",
    "generation",
)


class UnreadableError(Exception):
    """A cell of `column` states a preference in a way that is not known."""

    def __init__(self, column: str, cell: object) -> None:
        super().__init__(column, cell)
        self.column, self.value = column, f"'{str(cell)[:40]}'"


@dataclass(frozen=True, slots=True)
class SideNames:
    """Words that name each of two answers, as tokens without those that name no side (`model_a` is `a`)."""

    first: frozenset[str]
    second: frozenset[str]

    @classmethod
    def of(cls, first: str, second: str, *models: object) -> SideNames:
        """By the names of their columns (`response_a`, and its last part `a`), their places, and their `models` if these differ."""
        sides = [{_key(column), *_tokens(column)[-1:]} for column in (first, second)]
        for side, place, model in zip(sides, _PLACES, models or (None, None), strict=True):
            side |= place | ({_key(model)} if model else set())
        return cls(frozenset(sides[0] - sides[1]), frozenset(sides[1] - sides[0]))


def two_answers(names: Mapping[str, object]) -> tuple[str, str] | None:
    """The two columns that differ in their last part alone, `a` and `b`, `1` and `2` or `0` and `1`; None without one such pair."""
    by_stem: dict[str, dict[str, str]] = {}
    for name in names:
        if (match := _TWO.fullmatch(name)) and any(word in match[1].lower() for word in _ANSWER_WORDS):
            by_stem.setdefault(match[1].lower(), {})[match[2].lower()] = name
    found = [
        (ends[a], ends[b]) for ends in by_stem.values() for a, b in _ENDS if len(ends) == 2 and {a, b} == ends.keys()
    ]
    return found[0] if len(found) == 1 else None


def stated_preference(column: str, cell: object, names: SideNames, scale: Scale | None = None) -> Verdict | None:
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


def agreed(column: str, cell: object, names: SideNames, scale: Scale | None = None) -> Verdict | None:
    """The verdict in a cell, or of more of its people than prefer the other answer; a tie if as many do. None if it says nothing."""
    found = [
        said for choice in choices_in(cell) if (said := stated_preference(column, choice, names, scale)) is not None
    ]
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


PROMPTS = ("prompt", "instruction", "question", "query", "conversations", "input", "trajectory", "context")
_OURS = ("prompt", "chosen", "rejected", "preference")
STATED = (
    "winner", "preference", "preferred", "label", "better", "choice", "overall_preference", "human_preference", "comparison",
    "pairwise", "verdict",
)  # fmt: skip
"""Columns that may say which of two answers is preferred."""
SCORES = tuple(
    (f"chosen{sep}{word}", f"rejected{sep}{word}") if after else (f"{word}{sep}chosen", f"{word}{sep}rejected")
    for word, sep, after in product(("score", "rating", "avg_rating"), ("_", "-"), (True, False))
)
_ANSWERS = (("chosen", "rejected"), ("chosen_response", "rejected_response"), ("accepted", "rejected"))
"""Columns whose names say which of two answers is preferred."""
NONE = "none"
"""Instead of a column's name: no column states a preference."""


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
    states one in an unknown way; `taken` says in a line what is taken for what, if it is not plain; `grouped` is the column that rows of one item share;
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
        names = SideNames.of(first, second, *(row.get(f"model_{end}") for end in ends))
        said = agreed(stated, _submitted(row, stated), names, scale)
        return _sides(_asked(row, prompt), row.get(first), row.get(second), said)

    of = f"prompt from {prompt}" if prompt else "the prompt is what both share"
    taken = f"{of}, answers from {first} and {second}, the preferred one by {stated}{reads}"
    return Shape(name, tuple(filter(None, (prompt, first, second, stated))), read, taken)


def _submitted(row: Row, column: str) -> object:
    """A cell; of Argilla's tables, in which a column of states goes with it, what was not discarded."""
    cell, states = structured(row.get(column)), structured(row.get(f"{column}.status"))
    if isinstance(cell, list) and isinstance(states, list) and len(cell) == len(states):
        return [each for each, state in zip(cell, states, strict=True) if state == "submitted"]
    return cell


def _asked(row: Row, column: str | None) -> object:
    cell = row.get(column) if column else None
    extra = row.get("input") if column == "instruction" else None  # as Alpaca's data are laid out
    if isinstance(extra, str) and extra.strip():
        return f"{cell}\n{extra}"
    return "" if column and cell is None else cell


def _sides(prompt: object, first: object, second: object, said: Verdict | None) -> Sides:
    if said is None:
        raise RowError("no preference stated")
    if said in ("tie", "both bad"):
        raise RowError("tie" if said == "tie" else "tie (both bad)")
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
    names = SideNames.of("conversation_a", "conversation_b", row.get("model_a"), row.get("model_b"))
    said = agreed("winner", row.get("winner"), names)
    first, second = (_seen(row.get(f"conversation_{end}"), number_in(row.get("turn"))) for end in "ab")
    return _sides(None, first, second, said)


def _seen(turns: object, exchanges: float | None) -> object:
    if not isinstance(turns, list) or exchanges is None:
        return turns
    answers = [
        place for place, turn in enumerate(turns, 1) if isinstance(turn, Mapping) and turn.get("role") == "assistant"
    ]
    return turns[: answers[int(exchanges) - 1]] if 1 <= exchanges <= len(answers) else turns


def _competition(row: Row) -> Sides:
    """Questions and answers as lists of texts, one for each exchange; and a column for each outcome, of which one is 1."""
    said = [what for name, what in _OUTCOMES.items() if truth(name, row.get(name))]
    if len(said) > 1:
        raise RowError("columns state different preferences")
    asked, first, second = (structured(row.get(name)) for name in ("prompt", "response_a", "response_b"))
    if not isinstance(asked, list):
        return _sides(_asked(row, "prompt"), first, second, said[0] if said else None)
    first, second = (
        [
            {"role": role, "content": text}
            for texts in zip(asked, side if isinstance(side, list) else [side], strict=False)
            for role, text in zip(("user", "assistant"), texts, strict=True)
        ]
        for side in (first, second)
    )
    return _sides(None, first, second, said[0] if said else None)


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


def _annotated(name: str, fields: str, given: str) -> Shape:
    """An annotation tool's export: prompt and answers under one column, what people chose under another."""

    def read(row: Row) -> Sides:
        shown, answers = structured(row.get(fields)), structured(row.get(given))
        if isinstance(answers, Mapping):  # Argilla's: by question
            answers = list(answers.values())
            if len(answers) > 1:
                raise RowError("several questions were asked")
        columns = two_answers(shown) if isinstance(shown, Mapping) else None
        if columns is None:
            raise RowError(f"no two answers in {fields}")
        prompt = next((shown[name] for name in PROMPTS if name in shown), None)
        return _sides(prompt, shown[columns[0]], shown[columns[1]], agreed(given, answers, SideNames.of(*columns)))

    return Shape(name, (fields, given), read, f"prompt and two answers from {fields}, the preferred one by {given}")


def _results_file(row: Row) -> Sides:
    if isinstance(row.get("text_chosen"), str):
        raise RowError("a text in a model's chat template, whose prompt and answer cannot be told apart")
    return Sides(None, _one_turn(row.get("text_chosen")), _one_turn(row.get("text_rejected")))


_OUTCOMES: dict[str, Verdict] = {"winner_model_a": "first", "winner_model_b": "second", "winner_tie": "tie"}
_BEST = "the best answer by {} against one that is rated lower, one pair a prompt"
SHAPES: tuple[Shape, ...] = (
    Shape("Chatbot Arena", ("conversation_a", "conversation_b", "winner"), _arena,
          "conversation_a and conversation_b, the preferred one by winner"),
    Shape("Chatbot Arena (55k)", ("prompt", "response_a", "response_b", *_OUTCOMES), _competition,
          f"exchanges from prompt, response_a and response_b, the preferred one by {', '.join(_OUTCOMES)}"),
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
    _annotated("Label Studio", "data", "annotations"),
    _annotated("Argilla records", "fields", "responses"),
    Shape("RewardBench results", ("text_chosen", "text_rejected"), _results_file,
          "chosen from text_chosen, rejected from text_rejected; results and scores are a model's, and not read"),
)  # fmt: skip


# --- recognition ---


def chosen_rejected(
    prompt: str | None, chosen: str, rejected: str, stated: Sequence[str], scores: Sequence[tuple[str, str]]
) -> Shape:
    """Columns chosen and rejected, under any names, with whatever states a preference besides.

    A column that prefers the second one turns the sides round; under the names chosen and rejected, the row contradicts itself.
    """
    names = SideNames.of(chosen, rejected)

    def read(row: Row) -> Sides:
        said = {agreed(column, row.get(column), names) for column in stated if column != "tie"}
        # Argilla's revision of Orca's pairs keeps those that its judge found equal.
        if ("tie" in stated and truth("tie", row.get("tie"))) or row.get("status") == "tie":
            said.add("tie")
        for higher, lower in scores:
            numbers = score(higher, row.get(higher)), score(lower, row.get(lower))
            said |= {_sign(numbers[1] - numbers[0])} if numbers[0] is not None and numbers[1] is not None else set()
        sides = _sides(_asked(row, prompt), row.get(chosen), row.get(rejected), _together(said))
        if "second" in said and (chosen, rejected) in _ANSWERS:
            raise RowError("the rejected side is stated to be preferred")
        return sides

    of = f"prompt from {prompt}" if prompt else "the prompt is what both share"
    by = [*stated, *(f"{higher} and {lower}" for higher, lower in scores)]
    taken = f"{of}, chosen from {chosen}, rejected from {rejected}"
    taken += f", preferences and ties by {', '.join(by)}" if by else ""
    if (prompt, chosen, rejected, by) == ("prompt", "chosen", "rejected", []):
        taken = ""  # as everybody names them
    known = (
        f"Known are {chosen}, {rejected}, tie and both bad. Name the columns of the two answers with {{setting}}chosen and "
        "{setting}rejected, write the preferences so, or give {setting}preference=none if chosen and rejected are in order already"
    )
    return Shape("preference pairs", (chosen, rejected), read, taken, known=known)


def _together(said: Set[Verdict | None]) -> Verdict:
    """What all columns say that say anything; the first answer, whose column is named for it, if none does."""
    if {"first", "second"} <= said:
        raise RowError("columns state different preferences")
    return next((word for word in ("tie", "both bad", "second") if word in said), "first")


def shape_of(rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str) -> Shape:
    """The shape of rows; `columns` maps our name to theirs, and `setting` maps `columns`. DataError: none is recognised, or a
    column that was named is missing."""
    present = dict.fromkeys(name for row in rows for name in row)
    named = {
        ours: theirs for ours, theirs in columns.items() if ours in _OURS and (ours, theirs) != ("preference", NONE)
    }
    check_columns(rows, named, where, setting)
    if not {"chosen", "rejected"} & columns.keys():
        if (sides := next((names for names in _ANSWERS if set(names) <= present.keys()), None)) is not None:
            return _generic({**columns, "chosen": sides[0], "rejected": sides[1]}, present)
        for shape in SHAPES:
            if all(name in present for name in shape.needs):
                return shape
        found = two_answers(present)
        stated = columns.get("preference") or next(
            (name for name in (*STATED, *(name for name in present if name.endswith(".responses"))) if name in present),
            None,
        )
        if found is not None and stated is not None and stated != NONE:
            asked = columns.get("prompt") or next((name for name in PROMPTS if name in present), None)
            return two_sided("two answers and a preference", asked, *found, stated)
    if not named and not any(side in present or did_you_mean(side, present) for side in ("chosen", "rejected")):
        raise DataError(
            f"{where}: no known shape of preferences. Found: {', '.join(map(inert, sorted(present)))}. Known are the columns prompt, "
            f"chosen and rejected (map yours with {setting}chosen=<your column> and so on), two answers with a column that says which "
            f"is preferred, and the columns of {', '.join(shape.name for shape in SHAPES)}"
        )
    check_columns(rows, {"chosen": "chosen", "rejected": "rejected", **named}, where, setting)
    return _generic(columns, present)


def _generic(columns: Mapping[str, str], present: Mapping[str, None]) -> Shape:
    chosen, rejected = (columns.get(side, side) for side in ("chosen", "rejected"))
    asked = columns.get("prompt") or next((name for name in PROMPTS if name in present), None)
    if (own := columns.get("preference")) is not None:
        return chosen_rejected(asked, chosen, rejected, [] if own == NONE else [own], [])
    stated = [name for name in ("tie", *STATED) if name in present and name not in (chosen, rejected, asked)]
    scores = [pair for pair in SCORES if (chosen, rejected) in _ANSWERS and all(name in present for name in pair)]
    return chosen_rejected(asked, chosen, rejected, stated, scores)


def grouped_rows(rows: Sequence[Row], column: str) -> Iterator[tuple[int, Row]]:
    """One row for all that share a value of a column, with the number of the first of them; all of them are its `answers`."""
    groups: dict[str, list[tuple[int, Row]]] = {}
    for number, row in enumerate(rows, 1):
        groups.setdefault(content_id(row.get(column)), []).append((number, row))
    for members in groups.values():
        number, first = members[0]
        yield number, {**first, "answers": [row for _, row in members]}
