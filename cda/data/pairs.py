"""Rows to clean pairs: TRL's preference formats in, every dropped row counted by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cda.data.load import Row
from cda.data.messages import RowError, as_messages, as_prompt, prompt_of
from cda.records import (
    Exclusions,
    Message,
    Pair,
    count_reasons,
    equal_texts,
    normal_prompt,
    prompt_id,
    text_key,
    user_prompt,
)

OUTVOTED = "preferred the other way by more rows"
EVEN = "preferred both ways by as many rows"
_TURN = re.compile(r"\n\n(Human|Assistant): ?")


@dataclass(frozen=True, slots=True)
class CleanPairs:
    pairs: tuple[Pair, ...]
    exclusions: Exclusions


def clean_pairs(rows: Sequence[Row], columns: Mapping[str, str] | None = None) -> CleanPairs:
    """Turn preference rows into pairs, dropping and counting what cannot teach a preference.

    Accepts explicit prompts (`prompt`, `chosen`, `rejected`) and implicit ones (the prompt is what `chosen` and
    `rejected` share), as plain strings or as lists of messages with `role` and `content`.

    Args:
        rows: Loaded rows.
        columns: Our name to the name of the column in the rows.

    Returns:
        Pairs in row order, and counts by reason: empty prompt or side, identical sides, tie, duplicate, no assistant
        turn at the end, wrong type, rows that disagree (see `repeated_rows`).
    """
    names = {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected", **(columns or {})}
    pairs: list[Pair] = []
    reasons: list[str] = []
    for row in rows:
        try:
            pair = pair_of(row.get(names["prompt"]), row.get(names["chosen"]), row.get(names["rejected"]))
            if _is_tie(row):
                raise RowError("tie")
            pairs.append(pair)
        except RowError as problem:
            reasons.append(str(problem))
    repeated = repeated_rows([text_key(one.prompt, one.chosen, one.rejected) for one in pairs])
    kept = tuple(one for one, reason in zip(pairs, repeated, strict=True) if reason is None)
    reasons += [reason for reason in repeated if reason is not None]
    return CleanPairs(kept, Exclusions(len(rows), count_reasons(reasons)))


def repeated_rows(keys: Sequence[tuple[str, ...]]) -> list[str | None]:
    """Why each row is left out where several are about the same two responses; None where it stays.

    Each row is a vote: the first row of the side that more rows prefer stays, and none where they are even.

    Args:
        keys: `text_key` of prompt, chosen and rejected of each row.
    """
    rows = Counter(keys)
    seen: set[tuple[str, ...]] = set()
    reasons: list[str | None] = []
    for prompt, chosen, rejected in keys:
        key, against = (prompt, chosen, rejected), rows[prompt, rejected, chosen]
        if against >= rows[key]:
            reasons.append(OUTVOTED if against > rows[key] else EVEN)
        else:
            reasons.append("duplicate" if key in seen else None)
        seen.add(key)
    return reasons


def split_by_prompt(pairs: Sequence[Pair], validation_share: float, rng: np.random.Generator) -> list[bool]:
    """Which pairs belong to validation, so that no prompt is in both parts.

    Args:
        pairs: Pairs to split.
        validation_share: Share of the prompts, rounded to the nearest whole one.
        rng: Decides which prompts.

    Returns:
        One flag a pair: True for validation.
    """
    ids = [prompt_id(pair.prompt) for pair in pairs]
    distinct = sorted(set(ids))
    wanted = round(validation_share * len(distinct))
    chosen = set(rng.choice(distinct, size=wanted, replace=False).tolist()) if wanted else set()
    return [one in chosen for one in ids]


def pair_of(prompt: Any, chosen: Any, rejected: Any) -> Pair:
    chosen, rejected = _nonempty(chosen, "chosen"), _nonempty(rejected, "rejected")
    if type(chosen) is not type(rejected):
        raise RowError("chosen and rejected of different types")
    if isinstance(chosen, str):
        pair = _plain_pair(prompt, chosen, rejected)
    else:
        pair = _conversation_pair(prompt, as_messages(chosen), as_messages(rejected))
    if not pair.chosen.strip() or not pair.rejected.strip():
        raise RowError("empty side")
    if equal_texts(pair.chosen, pair.rejected):
        raise RowError("identical sides")
    return pair


def _nonempty(value: object, name: str) -> object:
    if (
        value is None
        or (isinstance(value, str | list | tuple) and not value)
        or (isinstance(value, str) and not value.strip())
    ):
        raise RowError("empty side")
    if not isinstance(value, str | list | tuple):
        raise RowError(f"{name} is neither text nor messages")
    return value


def _plain_pair(prompt: object, chosen: str, rejected: str) -> Pair:
    if prompt is None:
        if chosen == rejected:
            raise RowError("identical sides")
        return _split_shared(chosen, rejected)
    return Pair(prompt_of(prompt), chosen, rejected)


def _split_shared(chosen: str, rejected: str) -> Pair:
    """Implicit prompt in plain text: dialogue marks where there are any, else the shared beginning."""
    turns, other = _dialogue(chosen), _dialogue(rejected)
    if (
        turns
        and other
        and turns[-1].role == other[-1].role == "assistant"
        and _same_turns(turns[:-1], other[:-1])
        and turns[:-1]
    ):
        return Pair(tuple(turns[:-1]), turns[-1].content, other[-1].content)
    end = next(
        (i for i, (a, b) in enumerate(zip(chosen, rejected, strict=False)) if a != b),
        min(len(chosen), len(rejected)),
    )
    # Back to a word's beginning, so that no response starts in the middle of a word.
    while end and not chosen[end - 1].isspace():
        end -= 1
    if not chosen[:end].strip():
        raise RowError("no prompt: none given, and the sides share no beginning")
    return Pair(user_prompt(chosen[:end].strip()), chosen[end:].strip(), rejected[end:].strip())


def _dialogue(text: str) -> list[Message]:
    """Turns of a text written as `\\n\\nHuman: … \\n\\nAssistant: …`; empty where it is not one."""
    parts = _TURN.split(text if text.startswith("\n\n") else "\n\n" + text)
    if len(parts) < 3 or parts[0].strip():
        return []
    roles = {"Human": "user", "Assistant": "assistant"}
    return [Message(roles[name], content.strip()) for name, content in zip(parts[1::2], parts[2::2], strict=True)]


def _conversation_pair(prompt: object, chosen: list[Message], rejected: list[Message]) -> Pair:
    shared: list[Message] = []
    if prompt is not None:
        shared = list(prompt_of(prompt))
    else:
        for one, other in zip(chosen[:-1], rejected[:-1], strict=False):
            if not _same_turns([one], [other]):
                break
            shared.append(one)
    start = 0 if prompt is not None else len(shared)
    # Some data sets repeat the prompt inside the sides although it is given by itself.
    if (
        prompt is not None
        and len(chosen) > 1
        and all(_same_turns(shared, side[: len(shared)]) for side in (chosen, rejected))
    ):
        start = len(shared)
    chosen, rejected = chosen[start:], rejected[start:]
    if len(chosen) != 1 or len(rejected) != 1:
        raise RowError("more than one turn after the shared prompt")
    if chosen[0].role != "assistant" or rejected[0].role != "assistant":
        raise RowError("last turn is not the assistant's")
    return Pair(as_prompt(shared), chosen[0].content, rejected[0].content)


def _same_turns(first: Sequence[Message], second: Sequence[Message]) -> bool:
    return normal_prompt(tuple(first)) == normal_prompt(tuple(second))


def _is_tie(row: Row) -> bool:
    """A row that says of itself that neither side was preferred."""
    if row.get("tie") is True:
        return True
    if any(
        str(row.get(key, "")).strip().lower() in {"tie", "tie (bothbad)"} for key in ("preference", "winner", "label")
    ):
        return True
    scores = row.get("score_chosen"), row.get("score_rejected")
    return all(isinstance(score, int | float) for score in scores) and scores[0] == scores[1]
