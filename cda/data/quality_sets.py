"""Preferences as items to be ranked: RewardBench, RM-Bench, LLMBar, TRL pairs, and one set of outputs over another; every dropped row
is counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from cda.data.load import Row, RowError, Rows, load_rows, looks_like_path, prompt_of, readable, side_text
from cda.data.pairs import EVEN, OUTVOTED, PairReader, repeated_rows, text_digests
from cda.data.sampled import load_outputs
from cda.data.tables import structured
from cda.errors import DataError
from cda.records import Exclusions, Pair, Prompt, count_reasons, normal_text

Format = Literal["rewardbench", "rewardbench-2", "rm-bench", "llmbar", "pairs", "outputs"]

# XSTest as the data hold it (154 to refuse, 250 to answer); a list in RewardBench's repository has the two swapped.
SECTIONS: Mapping[str, Mapping[str, int]] = {
    "Chat": {
        "alpacaeval-easy": 100, "alpacaeval-length": 95, "alpacaeval-hard": 95, "mt-bench-easy": 28, "mt-bench-med": 40,
    },
    "Chat Hard": {
        "mt-bench-hard": 37, "llmbar-natural": 100, "llmbar-adver-neighbor": 134, "llmbar-adver-GPTInst": 92,
        "llmbar-adver-GPTOut": 47, "llmbar-adver-manual": 46,
    },
    "Safety": {
        "refusals-dangerous": 100, "refusals-offensive": 100, "xstest-should-refuse": 154, "xstest-should-respond": 250,
        "donotanswer": 136,
    },
    "Reasoning": {
        "math-prm": 447, "hep-cpp": 164, "hep-go": 164, "hep-java": 164, "hep-js": 164, "hep-python": 164, "hep-rust": 164,
    },
}  # fmt: skip
"""RewardBench's sections: the pairs of each of their subsets."""
N_PAIRS: Mapping[str, int] = {subset: n for subsets in SECTIONS.values() for subset, n in subsets.items()}
WEIGHTS: Mapping[str, float] = {**N_PAIRS, "math-prm": 984}
"""Weight of each subset within its section."""

_PRIOR_SETS = (
    "anthropic_harmless", "anthropic_helpful", "anthropic_hhh", "mtbench_gpt4", "mtbench_human", "shp", "summarize",
    "pku_better", "pku_safer",
)  # fmt: skip
_SECTIONS_2 = ("Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties")
_DOMAINS = ("chat", "math", "code", "safety")
_N_STYLES = 3
_SECTION_OF = {subset: section for section, subsets in SECTIONS.items() for subset in subsets}
_TIES_ID = re.compile(r"(ref|tied):(\d{1,18})")
_MAX_UNUSABLE = 0.2  # more broken rows than this share stop the command: the file probably has another format
_HARMLESS = ("duplicate", "prior set", "tie", "tie (both bad)", "no preference stated", EVEN, OUTVOTED)
_SHOWN_ROWS = 5


@dataclass(frozen=True, slots=True)
class QualityItem:
    """One prompt whose chosen responses are to be ranked above its rejected ones; in RM-Bench each by rising style.

    `row` counts from 1, and `name` is the file's own id, else the row. In RewardBench 2's Ties, `tied` is `ref` or `tied`, and
    the number that the two share.
    """

    row: int
    name: str
    prompt: Prompt
    chosen: tuple[str, ...]
    rejected: tuple[str, ...]
    subset: str
    section: str
    tied: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class QualitySet:
    """Items of one file, with the first rows left out for each reason.

    `weights` are those of each subset within its section, None if every item counts alike; `n_expected` the pairs of each
    subset in the whole benchmark, if that is known; `taken` says what was taken for what in pairs.
    """

    name: str
    source: str
    format: Format
    items: tuple[QualityItem, ...]
    exclusions: Exclusions
    left_out_rows: Mapping[str, tuple[int, ...]]
    weights: Mapping[str, float] | None
    n_expected: Mapping[str, int]
    taken: str = ""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """First chosen over first rejected response of each item: the item itself if it has one of each."""
        return tuple(Pair(item.prompt, item.chosen[0], item.rejected[0]) for item in self.items)


def load_quality_set(reference: str, split: str = "test", columns: Mapping[str, str] | None = None) -> QualitySet:
    """Items of a file, a saved folder or a hub id; see `quality_set`. RewardBench's `split` is `filtered`."""
    return quality_set(load_rows(reference, split), reference, columns)


def quality_set(rows: Sequence[Row], source: str, columns: Mapping[str, str] | None = None) -> QualitySet:
    """Items of rows; with `columns` (our name to theirs) they are taken for TRL's pairs under other names.

    Raises:
        DataError: No known format, nothing usable, or too many broken rows; names the rows.
    """
    rows = _with_lists(rows)
    form: Format = "pairs" if columns else _format_of(rows, source)
    name = _short_name(source)
    seen, taken = len(rows), ""
    if form not in _READERS:
        reader = PairReader(Rows.held(rows), columns or {}, source, "audit.quality_columns.")
        read = list(reader.read())
        numbered = [
            (number, _of_pair(rows[number - 1], pair, name if form == "llmbar" else "all pairs"))
            for number, pair in read
            if isinstance(pair, Pair)
        ]
        left_out = [(number, why) for number, why in read if isinstance(why, str)]
        seen, taken = reader.seen, reader.taken
    else:
        numbered, left_out = readable(rows, lambda row: _READERS[form](row, name))
    ids = [rows[number - 1].get("id") for number, _ in numbered]
    items = [
        replace(item, row=number, name=str(number if own is None else own))
        for (number, item), own in zip(numbered, ids, strict=True)
    ]
    if form == "pairs":
        keys = [text_digests(Pair(item.prompt, item.chosen[0], item.rejected[0])) for item in items]
        repeated = repeated_rows(np.array(keys, dtype=np.uint64).reshape(-1, 3))
        left_out += [(item.row, reason) for item, reason in zip(items, repeated, strict=True) if reason is not None]
        items = [item for item, reason in zip(items, repeated, strict=True) if reason is None]
    items = _partnered(items, left_out)
    broken = sorted((row, reason) for row, reason in left_out if reason not in _HARMLESS)
    if not items or len(broken) > _MAX_UNUSABLE * seen:
        shown = "; ".join(f"row {row}: {reason}" for row, reason in (broken or left_out)[:_SHOWN_ROWS])
        more = "; …" if len(broken or left_out) > _SHOWN_ROWS else ""
        many = f"{len(broken)} of {seen} rows cannot be used" if items else f"no usable row of {seen}"
        raise DataError(f"{source}: read as {form}: {many} ({shown}{more}). Correct or remove them")
    reasons = count_reasons([reason for _, reason in left_out])
    rows_out = {why: tuple(row for row, reason in left_out if reason == why)[:_SHOWN_ROWS] for why in reasons}
    # RewardBench has its own weights; domains of RM-Bench and subsets of RewardBench 2 weigh alike.
    alike = {item.subset: 1.0 for item in items} if form in ("rewardbench-2", "rm-bench") else None
    weights = WEIGHTS if form == "rewardbench" else alike
    expected = N_PAIRS if form == "rewardbench" else {}
    return QualitySet(name, source, form, tuple(items), Exclusions(seen, reasons), rows_out, weights, expected, taken)


def _with_lists(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows whose lists of responses stand in a table as text, read; all rows as they were if one cell is something else."""
    read = [{side: _texts_in(row.get(side)) for side in ("chosen", "rejected")} for row in rows]
    if any(texts is None for row in read for texts in row.values()):
        return rows
    return [{**row, **texts} for row, texts in zip(rows, read, strict=True)]


def _texts_in(cell: object) -> list[str] | None:
    texts = structured(cell) if isinstance(cell, str) else None
    return texts if _is_list_of_texts(texts) else None


def outputs_set(first: str, second: str, split: str = "test", columns: Mapping[str, str] | None = None) -> QualitySet:
    """One set of outputs over another: the i-th output to a prompt in the first file with the i-th in the second.

    Places are those before any output is left out, so that an empty one moves no other. Exclusions count rows that
    cannot be read, and places: of a prompt that one file lacks or of which a row cannot be read, beyond the other file's, and where
    an output cannot be used.

    Raises:
        DataError: A file cannot be used, or nothing can be compared.
    """
    one, other = load_outputs(first, columns, split), load_outputs(second, columns, split)
    items: list[QualityItem] = []
    reasons = [
        f"{reason} ({side} file)"
        for side, outputs in (("first", one), ("second", other))
        for reason, n in outputs.rows.reasons.items()
        for _ in range(n)
    ]
    for name in dict.fromkeys([*one.by_prompt, *other.by_prompt]):
        mine, theirs = one.by_prompt.get(name), other.by_prompt.get(name)
        if mine is None or theirs is None:
            reasons += ["to a prompt that one file lacks"] * len((mine or theirs).outputs)  # type: ignore[union-attr]
        elif not (mine.whole and theirs.whole):
            reasons += ["in a prompt with an unreadable row"] * max(len(mine.outputs), len(theirs.outputs))
        else:
            reasons += ["beyond the other file's outputs"] * abs(len(mine.outputs) - len(theirs.outputs))
            for left, right in zip(mine.outputs, theirs.outputs, strict=False):
                if left.text is None or right.text is None:
                    sides = ((left, "first"), (right, "second"))
                    reasons.append(" and ".join(f"{output.reason} ({side})" for output, side in sides if output.reason))
                    continue
                row = len(items) + 1
                items.append(QualityItem(row, str(row), mine.prompt, (left.text,), (right.text,), "outputs", "outputs"))
    exclusions = Exclusions(len(items) + len(reasons), count_reasons(reasons))
    if not items:
        raise DataError(
            f"{first} and {second}: no outputs can be compared, which is done prompt by prompt; {exclusions}"
        )
    names = " over ".join(map(_short_name, (first, second)))
    return QualitySet(names, f"{first} over {second}", "outputs", tuple(items), exclusions, {}, None, {})


def _short_name(source: str) -> str:
    if not looks_like_path(source):
        return source
    path = Path(source)
    # Resolved, since a folder is made of the name, and that of `..` would lie elsewhere.
    folder = path.parent.resolve().name
    return folder if path.stem == "dataset" and folder else path.stem


def _partnered(items: Sequence[QualityItem], left_out: list[tuple[int, str]]) -> list[QualityItem]:
    first = {item.tied: item.row for item in reversed(items) if item.tied}
    kept = []
    for item in items:
        if item.tied and first[item.tied] != item.row:
            left_out.append((item.row, "duplicate"))
        elif item.tied and ("tied" if item.tied[0] == "ref" else "ref", item.tied[1]) not in first:
            left_out.append((item.row, "Ties row without its partner"))
        else:
            kept.append(item)
    return kept


def _format_of(rows: Sequence[Row], source: str) -> Format:
    present = {key for row in rows for key in row}
    subsets = {subset for row in rows if isinstance(subset := row.get("subset"), str)}
    if {"output_1", "output_2"} <= present and "preference" not in present:  # AlpacaEval's preferences are pairs
        if missing := [name for name in ("input", "label") if name not in present]:
            raise DataError(f"{source}: looks like LLMBar, without its column {', '.join(missing)}")
        return "llmbar"
    if not {"chosen", "rejected"} <= present:
        return "pairs"
    if not any(_is_list_of_texts(row.get(side)) for row in rows for side in ("chosen", "rejected")):
        return "rewardbench" if subsets & {*_SECTION_OF, *_PRIOR_SETS} else "pairs"
    if {"num_correct", "total_completions"} & present or subsets & set(_SECTIONS_2):
        if "subset" not in present:
            raise DataError(f"{source}: looks like RewardBench 2, without its column subset")
        return "rewardbench-2"
    by_style = sum(_n_texts(row.get("chosen")) == _n_texts(row.get("rejected")) == _N_STYLES for row in rows)
    if "domain" in present or 2 * by_style > len(rows):
        return "rm-bench"
    raise DataError(
        f"{source}: chosen and rejected are lists of texts, but neither RewardBench 2's (columns subset, num_correct) nor "
        f"RM-Bench's ({_N_STYLES} responses on each side)"
    )


def _rewardbench(row: Row, _: str) -> QualityItem:
    subset = str(row.get("subset") or "")
    if subset in _PRIOR_SETS:
        raise RowError("prior set")
    if subset not in _SECTION_OF:
        raise RowError(f"unknown subset '{subset[:40]}'" if subset else "no subset")
    chosen, rejected = (
        side_text(row.get(side), "empty side", f"{side} is not text") for side in ("chosen", "rejected")
    )
    return _item(row.get("prompt"), (chosen,), (rejected,), subset, _SECTION_OF[subset])


def _rewardbench_2(row: Row, _: str) -> QualityItem:
    subset = str(row.get("subset") or "").strip()
    if not subset:
        raise RowError("no subset")
    item = _item(row.get("prompt"), *_lists(row), subset, subset)
    if subset.lower() != "ties":
        return item
    match = _TIES_ID.fullmatch(str(row.get("id")))
    if match is None:
        raise RowError("Ties row whose id is neither ref:N nor tied:N")
    if match[1] == "tied" and len(item.chosen) < 2:
        raise RowError("tied row with one chosen response")
    return replace(item, tied=(match[1], int(match[2])))


def _rm_bench(row: Row, file: str) -> QualityItem:
    """The file's name is the domain of rows without one."""
    sides = _lists(row)
    for side, texts in zip(("chosen", "rejected"), sides, strict=True):
        if len(texts) != _N_STYLES:
            raise RowError(f"{len(texts)} {side} responses, not {_N_STYLES}")
    given = str(row.get("domain") or file).lower()
    domain = next((known for known in _DOMAINS if given.startswith(known)), given)
    return _item(row.get("prompt"), *sides, domain, "")


def _of_pair(row: Row, pair: Pair, otherwise: str) -> QualityItem:
    section = str(row.get("section") or row.get("subset") or otherwise).strip()
    return QualityItem(0, "", pair.prompt, (pair.chosen,), (pair.rejected,), section, section)


_READERS: Mapping[Format, Callable[[Row, str], QualityItem]] = {
    "rewardbench": _rewardbench, "rewardbench-2": _rewardbench_2, "rm-bench": _rm_bench,
}  # fmt: skip
"""Readers of a row in a file of this name; number and name of the item are set later."""


def _item(prompt: object, chosen: tuple[str, ...], rejected: tuple[str, ...], subset: str, section: str) -> QualityItem:
    if set(map(normal_text, chosen)) & set(map(normal_text, rejected)):
        raise RowError("identical sides")
    return QualityItem(0, "", prompt_of(prompt), chosen, rejected, subset, section)


def _lists(row: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    def texts(side: str) -> tuple[str, ...]:
        value = row.get(side)
        if not isinstance(value, list | tuple) or not value:
            raise RowError(f"{side} is not a list of texts")
        return tuple(side_text(text, "empty side", f"{side} is not text") for text in value)

    return texts("chosen"), texts("rejected")


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(text, str) for text in value)


def _n_texts(value: object) -> int:
    return len(value) if isinstance(value, list | tuple) else 0
