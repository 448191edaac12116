"""Rows to clean pairs: TRL's preference formats in, every dropped row counted by reason."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile
from sys import intern
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cda.data.load import (
    Row,
    RowError,
    Rows,
    as_messages,
    as_prompt,
    is_turn,
    load_rows,
    message_text,
    prompt_of,
    side_text,
)
from cda.data.shapes import Shape, UnreadableError, grouped_rows, shape_of
from cda.data.tables import structured
from cda.errors import DataError, refuse
from cda.records import (
    Exclusions,
    LabelledPair,
    Message,
    Pair,
    Prompt,
    count_reasons,
    equal_texts,
    normal_prompt,
    prompt_id,
    text_key,
    user_prompt,
)

T = TypeVar("T")
OUTVOTED = "preferred the other way by more rows"
EVEN = "preferred both ways by as many rows"
_TURN = re.compile(r"\n\n(Human|Assistant): ?")
_OPEN = re.compile(r"\n\nAssistant:\s*\Z")


@dataclass(frozen=True, slots=True)
class CleanPairs:
    """Usable pairs, and the rows left out. `numbers` are the pairs' rows, from 1; `taken` says what was taken for what, in a line;
    `left_out` has the reason for each other row, by number (of several rows that make one item the first)."""

    pairs: tuple[Pair, ...]
    exclusions: Exclusions
    numbers: tuple[int, ...] = ()
    taken: str = ""
    left_out: Mapping[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class PairReader:
    """Pairs of rows that are gone through one by one, repeated ones included; `seen` are rows, or items of several."""

    rows: Rows
    columns: Mapping[str, str]
    where: str
    setting: str
    seen: int = 0
    earlier: dict[str, None] = field(default_factory=dict)
    """Columns with turns before the prompt, in words."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.shape = shape_of([dict.fromkeys(self.rows.columns)], self.columns, self.where, self.setting)

    @property
    def taken(self) -> str:
        taken = "; ".join(filter(None, (self.shape.taken, ", ".join(sorted(self.earlier, key=_TURNS_FROM.__eq__)))))
        return taken and f"read as {self.shape.name}: {taken}"

    def items(self) -> Iterable[tuple[int, Row]]:
        """Number and row of each item. Rows of several that are one item have to be held."""
        return grouped_rows(list(self.rows), self.shape.grouped) if self.shape.grouped else enumerate(self.rows, 1)

    def read(self) -> Iterator[tuple[int, Pair | str]]:
        """The pair of each item with its number, or the reason why there is none. DataError, behind the last: a column states
        preferences in an unknown way, with the number of rows and the first."""
        self.seen = 0
        unknown: dict[str, list[tuple[int, str]]] = {}
        for number, row in self.items():
            self.seen += 1
            self.earlier |= earlier_in(row)
            try:
                yield number, pair_in(row, self.shape)
            except RowError as problem:
                yield number, intern(str(problem))
            except UnreadableError as problem:
                unknown.setdefault(problem.column, []).append((number, problem.value))
        refuse([
            f"{self.where}: column '{column}' states a preference that is not known in {len(cells)} of {self.seen} rows (the first is "
            f"row {cells[0][0]}: {', '.join(dict.fromkeys(value for _, value in cells[:100]))[:200]}). {self.shape.known.format(setting=self.setting)}"
            for column, cells in unknown.items()
        ])  # fmt: skip


def clean_pairs(
    rows: Sequence[Row], columns: Mapping[str, str] | None = None, where: str = "rows", setting: str = "data.columns."
) -> CleanPairs:
    """Pairs in row order, without those that cannot teach a preference, counted by reason.

    Rows have one of the known `SHAPES`, or the columns `chosen` and `rejected`. Prompts are explicit (`prompt`) or implicit (what
    `chosen` and `rejected` share), plain strings or lists of messages. `columns` maps our name to that of the column in the rows,
    and `setting` maps `columns`.

    Raises:
        DataError: No such columns; or a column states preferences in an unknown way, with the number of rows and the first.
    """
    reader = PairReader(Rows.held(rows), columns or {}, where, setting)
    read = list(reader.read())
    found = clean_numbers(read)
    pairs = tuple(own for number, own in read if isinstance(own, Pair) and number not in found.left_out)
    exclusions = Exclusions(reader.seen, count_reasons([*found.left_out.values()]))
    return CleanPairs(pairs, exclusions, tuple(found.numbers.tolist()), reader.taken, found.left_out)


@dataclass(frozen=True, slots=True, eq=False)
class CleanNumbers:
    """Numbers of the items that are usable pairs, shape (n,), with the digests of their prompts and texts, shape (n, 3): equal for equal
    texts, however they are stored; and the reason for every other item."""

    numbers: NDArray[np.int64]
    keys: NDArray[np.uint64]
    left_out: dict[int, str]


def clean_numbers(read: Iterable[tuple[int, Pair | str]]) -> CleanNumbers:
    """The items that are usable, and not said again by an earlier one; of the texts only digests of 64 bits stay."""
    numbers, keys, left_out = array("q"), array("Q"), dict[int, str]()
    for number, own in read:
        if isinstance(own, str):
            left_out[number] = own
        else:
            numbers.append(number)
            keys.extend(text_digests(own))
    all_numbers, all_keys = np.array(numbers, dtype=np.int64), np.array(keys, dtype=np.uint64).reshape(-1, 3)
    reasons = repeated_rows(all_keys)
    stay = np.array([reason is None for reason in reasons], dtype=bool)
    left_out |= {number: reason for number, reason in zip(numbers, reasons, strict=True) if reason is not None}
    return CleanNumbers(all_numbers[stay], all_keys[stay], left_out)


def text_digests(pair: Pair) -> tuple[int, int, int]:
    """Digests of prompt, chosen and rejected in their normal forms; that of the prompt is its `prompt_id`."""
    prompt, *sides = text_key(pair.prompt, pair.chosen, pair.rejected)
    return int(prompt, 16), digest(sides[0]), digest(sides[1])


def digest(text: str) -> int:
    """64 bits that name a text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def pair_in(row: Row, shape: Shape) -> Pair:
    """The pair of one row of a shape. RowError or UnreadableError: it has none."""
    sides = shape.read(row)
    pair = pair_of(sides.prompt, sides.chosen, sides.rejected)
    return replace(pair, prompt=with_earlier(row, pair.prompt))


def repeated_rows(keys: NDArray[np.uint64]) -> list[str | None]:
    """Reason for leaving out each row, by the digests of its prompt, chosen and rejected, shape (n, 3); None if it stays.

    Rows on the same two responses are votes: the first row of the side that more rows prefer stays, and none if they are even.
    """
    turned = keys[:, 1] > keys[:, 2]
    alike = np.column_stack(
        [keys[:, 0], np.where(turned, keys[:, 2], keys[:, 1]), np.where(turned, keys[:, 1], keys[:, 2])]
    )
    order = np.lexsort(alike.T)
    item = np.empty(len(keys), dtype=np.int64)
    item[order] = np.cumsum((np.diff(alike[order], axis=0, prepend=alike[order[:1]]) != 0).any(axis=1))
    own = 2 * item + turned
    n_each = np.bincount(own, minlength=2 * len(keys))
    lead = n_each[own] - n_each[own ^ 1]
    first = np.zeros(len(keys), dtype=bool)
    first[np.unique(own, return_index=True)[1]] = True
    return [
        OUTVOTED if by < 0 else EVEN if by == 0 else None if stays else "duplicate"
        for by, stays in zip(lead.tolist(), first.tolist(), strict=True)
    ]


def split_by_prompt(pairs: Sequence[Pair], validation_share: float, rng: np.random.Generator) -> list[bool]:
    """True for each pair of validation, `validation_share` of the prompts rounded to whole ones; no prompt is in both parts."""
    ids = [prompt_id(pair.prompt) for pair in pairs]
    distinct = sorted(set(ids))
    wanted = round(validation_share * len(distinct))
    chosen = set(rng.choice(distinct, size=wanted, replace=False).tolist()) if wanted else set()
    return [name in chosen for name in ids]


def pair_of(prompt: Any, chosen: Any, rejected: Any) -> Pair:
    """The pair of a row's prompt (None: the sides begin with it) and sides. RowError if they are none."""
    chosen, rejected = _nonempty(chosen, "chosen"), _nonempty(rejected, "rejected")
    if isinstance(chosen, str) != isinstance(rejected, str):
        raise RowError("chosen and rejected of different types")
    asked = _asked(prompt)
    if not isinstance(chosen, str):
        pair = _conversation_pair(asked, as_messages(chosen), as_messages(rejected))
    elif all(turns := [_dialogue(side) for side in (chosen, rejected)]):
        pair = _conversation_pair(asked, *turns)
    elif asked is not None:
        pair = Pair(asked, chosen, rejected)
    elif prompt is None:
        pair = _split_shared(chosen, rejected, any(turns))
    else:
        raise RowError("empty prompt")
    if not pair.chosen.strip() or not pair.rejected.strip():
        raise RowError("empty side")
    if equal_texts(pair.chosen, pair.rejected):
        raise RowError("identical sides")
    return pair


def _asked(prompt: Any) -> Prompt | None:
    """The prompt given by itself, None without one; a transcript that ends where the assistant answers is read as its turns."""
    if prompt is None or not (prompt.strip() if isinstance(prompt, str) else prompt):
        return None
    turns = _dialogue(prompt) if isinstance(prompt, str) and _OPEN.search(prompt) else []
    return as_prompt(turns[:-1]) if turns else prompt_of(prompt)


def _nonempty(value: object, name: str) -> object:
    if (
        value is not None
        and not isinstance(value, str | list | tuple)
        and not (isinstance(value, Mapping) and is_turn(value))
    ):
        raise RowError(f"{name} is neither text nor messages")
    if not (value.strip() if isinstance(value, str) else value):
        raise RowError("empty side")
    return value


def _split_shared(chosen: str, rejected: str, one_dialogue: bool) -> Pair:
    """Implicit prompt in plain text: the shared beginning."""
    if chosen == rejected:
        raise RowError("identical sides")
    if one_dialogue:
        raise RowError("one side is a transcript and the other is not")
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
    if len(parts) < 5 or parts[0].strip() or parts[1] != "Human":
        return []
    roles = {"Human": "user", "Assistant": "assistant"}
    return [Message(roles[name], content.strip()) for name, content in zip(parts[1::2], parts[2::2], strict=True)]


def _conversation_pair(prompt: Prompt | None, chosen: list[Message], rejected: list[Message]) -> Pair:
    if prompt is not None:
        shared, before = list(prompt), chosen[:-1]
        # Some data sets repeat the prompt inside the sides although it is given by itself, or give its first or last turn alone.
        repeats = before and any(_same_turns(shared, own) for own in (before[: len(shared)], before[-len(shared) :]))
        if repeats and _same_turns(before, rejected[:-1]):
            shared = before
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


# --- turns before a prompt in columns of their own: a system prompt, and earlier exchanges ---

_SYSTEMS, _EXCHANGES = ("system", "system_prompt"), "history"
_TURNS_FROM = f"earlier turns from {_EXCHANGES}"


def with_earlier(row: Row, prompt: Prompt) -> Prompt:
    """A prompt after the turns in its row's other columns, unless it holds such turns itself. RowError for turns that are none."""
    own_system = prompt[:1] if prompt[0].role == "system" else ()
    rest, system = prompt[len(own_system) :], own_system or _system(row)
    return (*system, *(_exchanges(row) if len(rest) == 1 else ()), *rest)


def earlier_in(row: Row) -> dict[str, None]:
    """The columns of a row that hold such turns, in words."""
    found = [f"system turns from {name}" for name in _SYSTEMS if _cell(row, name)]
    return dict.fromkeys([*found, *([_TURNS_FROM] if _EXCHANGES in row and _listed(row) else [])])


def _cell(row: Row, name: str) -> str:
    cell = row.get(name)
    return cell if isinstance(cell, str) and cell.strip() else ""


def _system(row: Row) -> Prompt:
    text = next(filter(None, (_cell(row, name) for name in _SYSTEMS)), None)
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


# --- labels of pairs ---

SIDES = ("chosen", "rejected")
_WORD = re.compile(r"\W*(yes|no|true|false|1|0)\b", re.IGNORECASE)
_YES = ("yes", "true", "1")


@dataclass(frozen=True, slots=True)
class PairLabels:
    """Labels of pairs for one bias: True for each side that exhibits it, None if the label cannot be read.

    `prompt_ids` are the clusters of the pairs, rows of their own if the file names no prompt; `sides` the texts, if it holds them.
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
    """Labels of a file, by bias; biases that it says nothing of are left out, and DataError if it says nothing of any.

    Rows hold `chosen_<bias>` and `rejected_<bias>` (yes or no; brackets and explanations behind the word are looked
    through), or `labels` as `cda label` writes them; `prompt`, `chosen` and `rejected` if the texts are known.
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


def labels_in(rows: Sequence[Row], bias: str) -> PairLabels | None:
    """Labels in rows; None if no row holds any."""
    labelled = [(row, both) for row in rows if (both := row_labels(row, bias)) is not None]
    if not labelled:
        return None
    texts = [text for row, _ in labelled if (text := _or_none(_texts, row)) is not None]
    return PairLabels(
        tuple(chosen for _, (chosen, _) in labelled),
        tuple(rejected for _, (_, rejected) in labelled),
        tuple(cluster_of(row, number) for number, (row, _) in enumerate(labelled, 1)),
        tuple(texts) if len(texts) == len(labelled) else None,
    )


def row_labels(row: Row, bias: str) -> tuple[bool | None, bool | None] | None:
    """Labels of chosen and rejected, by `labels` or `chosen_<bias>`; None if the row has no place for them."""
    own = row.get("labels")
    if isinstance(own, Mapping) and isinstance(own.get(bias), Mapping):
        return _label(own[bias].get("chosen")), _label(own[bias].get("rejected"))
    names = [f"{side}_{bias}" for side in SIDES]
    return (_label(row[names[0]]), _label(row[names[1]])) if all(name in row for name in names) else None


def _label(value: Any) -> bool | None:
    if isinstance(value, bool) or value is None:
        return value
    match = _WORD.match(str(value))
    return None if match is None else match[1].lower() in _YES


def _or_none(read: Callable[[Row], T], row: Row) -> T | None:
    try:
        return read(row)
    except RowError:
        return None


def cluster_of(row: Row, number: int) -> str:
    """The prompt's id; the row's number if it names none."""
    return _or_none(lambda own: prompt_id(prompt_of(own.get("prompt"))), row) or f"row {number}"


def _texts(row: Row) -> tuple[str, str]:
    """Texts of both sides; those of messages are the last one's."""
    chosen, rejected = (
        message_text(side[-1:] if isinstance(side, list) else side) for side in (row.get("chosen"), row.get("rejected"))
    )
    return side_text(chosen), side_text(rejected)
