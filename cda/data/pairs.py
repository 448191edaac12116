"""Rows to clean pairs: TRL's preference formats in, every dropped row counted by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from cda.data.load import Row, load_rows
from cda.data.messages import RowError, as_messages, as_prompt, prompt_of, side_text
from cda.errors import DataError
from cda.records import (
    Exclusions,
    LabelledPair,
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
    """Turn preference rows into pairs, dropping and counting rows that cannot teach a preference.

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
    repeated = repeated_rows([text_key(pair.prompt, pair.chosen, pair.rejected) for pair in pairs])
    kept = tuple(pair for pair, reason in zip(pairs, repeated, strict=True) if reason is None)
    reasons += [reason for reason in repeated if reason is not None]
    return CleanPairs(kept, Exclusions(len(rows), count_reasons(reasons)))


def repeated_rows(keys: Sequence[tuple[str, ...]]) -> list[str | None]:
    """Reason for leaving out each row, if several are about the same two responses; None if it stays.

    Each row is a vote: the first row of the side that more rows prefer stays, and none if they are even.

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
    """True for each pair of validation, `validation_share` of the prompts rounded to whole ones; no prompt is in both parts."""
    ids = [prompt_id(pair.prompt) for pair in pairs]
    distinct = sorted(set(ids))
    wanted = round(validation_share * len(distinct))
    chosen = set(rng.choice(distinct, size=wanted, replace=False).tolist()) if wanted else set()
    return [name in chosen for name in ids]


def pair_of(prompt: Any, chosen: Any, rejected: Any) -> Pair:
    chosen, rejected = _nonempty(chosen, "chosen"), _nonempty(rejected, "rejected")
    if type(chosen) is not type(rejected):
        raise RowError("chosen and rejected of different types")
    if isinstance(chosen, str):
        pair = Pair(prompt_of(prompt), chosen, rejected) if prompt is not None else _split_shared(chosen, rejected)
    else:
        pair = _conversation_pair(prompt, as_messages(chosen), as_messages(rejected))
    if not pair.chosen.strip() or not pair.rejected.strip():
        raise RowError("empty side")
    if equal_texts(pair.chosen, pair.rejected):
        raise RowError("identical sides")
    return pair


def _nonempty(value: object, name: str) -> object:
    if value is not None and not isinstance(value, str | list | tuple):
        raise RowError(f"{name} is neither text nor messages")
    if not (value.strip() if isinstance(value, str) else value):
        raise RowError("empty side")
    return value


def _split_shared(chosen: str, rejected: str) -> Pair:
    """Implicit prompt in plain text: dialogue marks if there are any, else the shared beginning."""
    if chosen == rejected:
        raise RowError("identical sides")
    turns, other = _dialogue(chosen), _dialogue(rejected)
    marked = len(turns) > 1 and other and turns[-1].role == other[-1].role == "assistant"
    if marked and _same_turns(turns[:-1], other[:-1]):
        return Pair(tuple(turns[:-1]), turns[-1].content, other[-1].content)
    end = sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(chosen, rejected, strict=False)))
    # Back to a word's beginning, so that no response starts in the middle of a word.
    while end and not chosen[end - 1].isspace():
        end -= 1
    if not chosen[:end].strip():
        raise RowError("no prompt: none given, and the sides share no beginning")
    return Pair(user_prompt(chosen[:end].strip()), chosen[end:].strip(), rejected[end:].strip())


def _dialogue(text: str) -> list[Message]:
    """Turns of a text written as `\\n\\nHuman: … \\n\\nAssistant: …`; empty if it is not one."""
    parts = _TURN.split(text if text.startswith("\n\n") else "\n\n" + text)
    if len(parts) < 3 or parts[0].strip():
        return []
    roles = {"Human": "user", "Assistant": "assistant"}
    return [Message(roles[name], content.strip()) for name, content in zip(parts[1::2], parts[2::2], strict=True)]


def _conversation_pair(prompt: object, chosen: list[Message], rejected: list[Message]) -> Pair:
    if prompt is not None:
        shared = list(prompt_of(prompt))
        # Some data sets repeat the prompt inside the sides although it is given by itself.
        repeats = len(chosen) > 1 and all(_same_turns(shared, side[: len(shared)]) for side in (chosen, rejected))
        start = len(shared) if repeats else 0
    else:
        turns = zip(chosen[:-1], rejected[:-1], strict=False)
        shared = [first for first, _ in takewhile(lambda turn: _same_turns(turn[:1], turn[1:]), turns)]
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
    """A row that states that neither side was preferred."""
    words = {str(row.get(key, "")).strip().lower() for key in ("preference", "winner", "label")}
    if row.get("tie") is True or words & {"tie", "tie (bothbad)"}:
        return True
    scores = row.get("score_chosen"), row.get("score_rejected")
    return all(isinstance(score, int | float) for score in scores) and scores[0] == scores[1]


SIDES = ("chosen", "rejected")
_WORD = re.compile(r"\W*(yes|no|true|false|1|0)\b", re.IGNORECASE)
_YES = ("yes", "true", "1")


@dataclass(frozen=True, slots=True)
class PairLabels:
    """Labels of pairs for one bias.

    Attributes:
        chosen: True for each chosen response that exhibits the bias; None if the label cannot be read.
        rejected: The same for each rejected response.
        prompt_ids: Cluster of each pair: its prompt, or the row itself if the file names no prompt.
        sides: Texts of both sides; None if the file does not hold them.
    """

    chosen: tuple[bool | None, ...]
    rejected: tuple[bool | None, ...]
    prompt_ids: tuple[str, ...]
    sides: tuple[tuple[str, str], ...] | None = None

    def __len__(self) -> int:
        return len(self.chosen)


def training_labels(labelled: Sequence[LabelledPair], bias: str) -> PairLabels | None:
    """Labels of training pairs; None if none is labelled for the bias."""
    rows = [row for row in labelled if bias in row.labels]
    if not rows:
        return None
    return PairLabels(
        tuple(row.labels[bias]["chosen"] for row in rows),
        tuple(row.labels[bias]["rejected"] for row in rows),
        tuple(prompt_id(row.pair.prompt) for row in rows),
        tuple((row.pair.chosen, row.pair.rejected) for row in rows),
    )


def load_labels(reference: str, biases: Sequence[str]) -> dict[str, PairLabels]:
    """Labels of a file, by bias; biases that it says nothing of are left out.

    Rows hold `chosen_<bias>` and `rejected_<bias>` (yes or no; brackets and explanations behind the word are looked
    through), or `labels` as `cda label` writes them; `prompt`, `chosen` and `rejected` if the texts are known.

    Raises:
        DataError: Cannot be loaded, or holds labels of none of the biases.
    """
    rows = load_rows(reference)
    labels = {bias: own for bias in biases if (own := labels_in(rows, bias)) is not None}
    if not labels:
        columns = ", ".join(sorted({key for row in rows for key in row}))
        raise DataError(
            f"{reference}: no labels of {', '.join(biases)}. Found: {columns}. Needed: the columns chosen_{biases[0]} and "
            f"rejected_{biases[0]} (yes or no), or labels as `cda label` writes them"
        )
    return labels


def labels_in(rows: Sequence[Row], bias: str, column: str | None = None) -> PairLabels | None:
    """Labels of rows that were loaded; None if no row holds any.

    Args:
        rows: Loaded rows.
        bias: The bias.
        column: Ending of the columns' names after `chosen_` and `rejected_`; by default the bias.
    """
    read = [(row, _both(row, bias, column or bias)) for row in rows]
    labelled = [(row, both) for row, both in read if both is not None]
    if not labelled:
        return None
    texts = [_texts(row) for row, _ in labelled]
    return PairLabels(
        tuple(both[0] for _, both in labelled),
        tuple(both[1] for _, both in labelled),
        tuple(_cluster(row, number) for number, (row, _) in enumerate(labelled, 1)),
        None if None in texts else tuple(sides for sides in texts if sides is not None),
    )


def _both(row: Row, bias: str, column: str) -> tuple[bool | None, bool | None] | None:
    """Labels of chosen and rejected; None if the row has no place for them."""
    own = row.get("labels")
    if isinstance(own, Mapping) and isinstance(own.get(bias), Mapping):
        return _label(own[bias].get("chosen")), _label(own[bias].get("rejected"))
    names = [f"{side}_{column}" for side in SIDES]
    return (_label(row[names[0]]), _label(row[names[1]])) if all(name in row for name in names) else None


def _label(value: Any) -> bool | None:
    if isinstance(value, bool) or value is None:
        return value
    match = _WORD.match(str(value))
    return None if match is None else match[1].lower() in _YES


def _cluster(row: Row, number: int) -> str:
    try:
        return prompt_id(prompt_of(row.get("prompt")))
    except RowError:
        return f"row {number}"


def _texts(row: Row) -> tuple[str, str] | None:
    try:
        return side_text(_last(row.get("chosen"))), side_text(_last(row.get("rejected")))
    except RowError:
        return None


def _last(side: object) -> object:
    """A side that stands as messages, as the text of the last one."""
    if isinstance(side, list | tuple) and side and isinstance(side[-1], Mapping):
        return side[-1].get("content")
    return side
