"""Turns before a prompt that stand in columns of their own: a system prompt, and earlier exchanges."""

from __future__ import annotations

from collections.abc import Sequence

from cda.data.load import Row, as_messages
from cda.data.tables import structured
from cda.records import Message, Prompt

_SYSTEMS, _EXCHANGES = ("system", "system_prompt"), "history"


def with_earlier(row: Row, prompt: Prompt) -> Prompt:
    """A prompt after the turns in its row's other columns, unless it holds such turns itself. RowError for turns that are none."""
    own_system = prompt[:1] if prompt[0].role == "system" else ()
    rest, system = prompt[len(own_system) :], own_system or _system(row)
    return (*system, *(_exchanges(row) if len(rest) == 1 else ()), *rest)


def earlier_in(rows: Sequence[Row]) -> str:
    """The columns of rows that hold such turns, in words; empty without any."""
    found = dict.fromkeys(name for row in rows for name in _SYSTEMS if _system(row) and _text(row, name))
    exchanges = [f"earlier turns from {_EXCHANGES}"] if any(_listed(row) for row in rows) else []
    return ", ".join([*(f"system turns from {name}" for name in found), *exchanges])


def _text(row: Row, name: str) -> str:
    cell = row.get(name)
    return cell if isinstance(cell, str) and cell.strip() else ""


def _system(row: Row) -> Prompt:
    text = next(filter(None, (_text(row, name) for name in _SYSTEMS)), None)
    return () if text is None else (Message("system", text),)


def _listed(row: Row) -> list[object]:
    cell = structured(row.get(_EXCHANGES))
    return cell if isinstance(cell, list) else []


def _exchanges(row: Row) -> Prompt:
    """LLaMA-Factory's history: question and answer of each exchange; or turns."""
    turns: list[object] = []
    for each in _listed(row):
        if isinstance(each, list) and len(each) == 2:
            turns += [{"role": role, "content": text} for role, text in zip(("user", "assistant"), each, strict=True)]
        else:
            turns.append(each)
    return tuple(as_messages(turns))
