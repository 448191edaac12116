"""The texts of a row that a reward model scores: a prompt with its response, both sides of a pair, or a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cda.data.load import Row, RowError, as_messages, as_prompt, check_columns, prompt_of, side_text
from cda.data.pairs import pair_in
from cda.data.sampled import COLUMN_OPTION, response_text
from cda.data.shapes import UnreadableError, shape_of
from cda.data.tables import message_columns, structured, with_messages
from cda.errors import DataError, did_you_mean, refuse
from cda.records import Prompt

REWARDS = ("reward", "reward_chosen", "reward_rejected", "margin")
_PAIR, _SINGLE = ("chosen", "rejected", "preference"), ("response",)
_MESSAGES = ("messages", "conversations", "conversation")
COLUMNS = ("prompt", *_SINGLE, "messages", *_PAIR, *REWARDS)
"""Names that a user can map: columns that are read, and columns that are added."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the texts stand in a row."""

    words: str
    """What is read as what."""
    pairs: bool
    find: Callable[[Row], tuple[tuple[Prompt, str], ...]]
    messages: tuple[str, ...]
    """Columns that hold messages as text."""
    where: str

    @property
    def added(self) -> tuple[str, ...]:
        """Columns of rewards that each row gets."""
        return REWARDS[1:] if self.pairs else REWARDS[:1]

    def texts(self, row: Row) -> tuple[tuple[Prompt, str], ...]:
        """One text, or both sides of a pair, chosen first. RowError: the row has none, with the reason that is counted."""
        problems: list[str] = []
        given = {name: row[name] for name in self.messages if name in row}
        read = {**row, **with_messages(given, self.where, problems)} if given else row
        if problems:
            raise RowError("messages as text that cannot be read")
        try:
            return self.find(read)
        except UnreadableError as problem:
            raise RowError(f"column '{problem.column}' states a preference that is not known") from None


def layout_of(rows: Sequence[Row], columns: Mapping[str, str], where: str) -> Layout:
    """The layout of rows, all columns among them; `columns` maps our names to theirs. DataError: none is known, a named column is
    missing, or rows must be put together to make a pair."""
    refuse([
        f"{where}: {COLUMN_OPTION}{name} is unknown.{did_you_mean(name, COLUMNS)} Known: {', '.join(COLUMNS)}"
        for name in columns if name not in COLUMNS
    ])  # fmt: skip
    read = {name: theirs for name, theirs in columns.items() if name not in REWARDS}
    as_text = tuple(message_columns(rows))
    present = dict.fromkeys(name for row in rows for name in row)
    sided = {*_PAIR[:2]} & read.keys() or (
        {*_PAIR[:2]} <= present.keys() and not read.keys() & {"response", "messages"}
    )
    turns = read.get("messages") or next((name for name in _MESSAGES if name in present), None)
    response = read.get("response", "response")
    if not sided and "messages" not in read and ("response" in read or response in present):
        prompt = read.get("prompt", "prompt")
        check_columns(rows, {"prompt": prompt, "response": response}, where, COLUMN_OPTION)

        def one(row: Row) -> tuple[tuple[Prompt, str], ...]:
            return ((prompt_of(row.get(prompt)), response_text(row.get(response))),)

        return Layout(f"prompt from {prompt}, response from {response}", False, one, as_text, where)
    if not sided and turns is not None:
        check_columns(rows, {"messages": turns}, where, COLUMN_OPTION)
        column = turns
        return Layout(
            f"conversations from {turns}", False, lambda row: (_conversation(row.get(column)),), as_text, where
        )
    try:
        shape = shape_of(rows, read, where, COLUMN_OPTION)
    except DataError as error:
        raise DataError(
            f"{error}. Or single texts: prompt and response, or messages that end with the answer"
        ) from None
    if shape.grouped:
        raise DataError(
            f"{where}: read as {shape.name}, where several rows make one pair; give a pair or one response a row"
        )

    def both(row: Row) -> tuple[tuple[Prompt, str], ...]:
        pair = pair_in(row, shape)
        return (pair.prompt, pair.chosen), (pair.prompt, pair.rejected)

    return Layout(shape.taken or "prompt, chosen and rejected", True, both, as_text, where)


def _conversation(value: object) -> tuple[Prompt, str]:
    turns = structured(value)
    if not isinstance(turns, list | tuple) or not turns:
        raise RowError("empty conversation" if turns in (None, "", []) else "conversation is not a list of messages")
    messages = as_messages(turns)
    if messages[-1].role != "assistant":
        raise RowError("last turn is not the assistant's")
    return as_prompt(messages[:-1]), side_text(messages[-1].content, "empty response")
