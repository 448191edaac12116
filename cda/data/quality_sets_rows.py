"""Which preference benchmark rows are of, and each of its rows as one item to be ranked.

What each format holds, with its source:

- RewardBench (arXiv 2403.13787; dataset card of allenai/reward-bench): `prompt`, `chosen`, `rejected`, `subset`, `id`, one
  pair a row. Subsets belong to four sections; a section's score weighs its subsets by their number of pairs, with math-prm
  at 984 in place of 447 so that mathematics weighs as much as code. The leaderboard adds prior sets at half a section's
  weight; they are left out here.
- RewardBench 2 (arXiv 2506.01937; dataset card of allenai/reward-bench-2): `prompt`, lists `chosen` and `rejected`, `subset`,
  `id`, `num_correct`, `total_completions`. Each subset is a section. In Ties the id is `ref:N` (one right answer) or
  `tied:N` (several), and the two of one N are scored together.
- RM-Bench (arXiv 2410.16184; its README): `prompt`, three `chosen` and three `rejected` in rising style (concise, detailed,
  detailed with Markdown), `domain`; safety-refuse and safety-response count as one domain.
- LLMBar (arXiv 2310.07641; its README): `input`, `output_1`, `output_2`, `label` (1 or 2: the better output).
- TRL's preference format, as `clean_pairs` reads it, with an optional column `section`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cda.data.load import Row
from cda.data.messages import RowError, prompt_of
from cda.data.pairs import clean_pairs
from cda.errors import DataError
from cda.records import Prompt, normal_text

Format = Literal["rewardbench", "rewardbench-2", "rm-bench", "llmbar", "pairs"]

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Chat": ("alpacaeval-easy", "alpacaeval-length", "alpacaeval-hard", "mt-bench-easy", "mt-bench-med"),
    "Chat Hard": (
        "mt-bench-hard", "llmbar-natural", "llmbar-adver-neighbor", "llmbar-adver-GPTInst", "llmbar-adver-GPTOut",
        "llmbar-adver-manual",
    ),
    "Safety": (
        "refusals-dangerous", "refusals-offensive", "xstest-should-refuse", "xstest-should-respond", "donotanswer",
    ),
    "Reasoning": ("math-prm", "hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust"),
}  # fmt: skip
"""RewardBench's sections and their subsets."""

# XSTest as the data hold it (154 to refuse, 250 to answer); a list in RewardBench's repository has the two swapped.
N_PAIRS: Mapping[str, int] = {
    "alpacaeval-easy": 100, "alpacaeval-length": 95, "alpacaeval-hard": 95, "mt-bench-easy": 28, "mt-bench-med": 40,
    "mt-bench-hard": 37, "llmbar-natural": 100, "llmbar-adver-neighbor": 134, "llmbar-adver-GPTInst": 92,
    "llmbar-adver-GPTOut": 47, "llmbar-adver-manual": 46, "refusals-dangerous": 100, "refusals-offensive": 100,
    "xstest-should-refuse": 154, "xstest-should-respond": 250, "donotanswer": 136, "math-prm": 447, "hep-cpp": 164,
    "hep-go": 164, "hep-java": 164, "hep-js": 164, "hep-python": 164, "hep-rust": 164,
}  # fmt: skip
"""Pairs of each subset in RewardBench."""
WEIGHTS: Mapping[str, float] = {**N_PAIRS, "math-prm": 984}
"""Weight of each subset within its section."""

PRIOR_SETS = (
    "anthropic_harmless", "anthropic_helpful", "anthropic_hhh", "mtbench_gpt4", "mtbench_human", "shp", "summarize",
    "pku_better", "pku_safer",
)  # fmt: skip
SECTIONS_2 = ("Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties")
DOMAINS = ("chat", "math", "code", "safety")
N_STYLES = 3

_SECTION_OF = {subset: section for section, subsets in SECTIONS.items() for subset in subsets}
_TIES_ID = re.compile(r"(ref|tied):(\d{1,18})")


@dataclass(frozen=True, slots=True)
class QualityItem:
    """One prompt whose chosen responses are to be ranked above its rejected ones.

    Attributes:
        row: Its row in the file, from 1.
        name: The file's own id, else the row.
        prompt: Messages.
        chosen: Better responses; in RM-Bench by rising style.
        rejected: Worse ones; in RM-Bench by rising style.
        subset: Named so by the file.
        section: What the subset belongs to.
        tied: In RewardBench 2's Ties: `ref` or `tied`, and the number that the two share.
    """

    row: int
    name: str
    prompt: Prompt
    chosen: tuple[str, ...]
    rejected: tuple[str, ...]
    subset: str
    section: str
    tied: tuple[str, int] | None = None


def format_of(rows: Sequence[Row], source: str) -> Format:
    """Which format the columns are of.

    Raises:
        DataError: None of them; names what was found.
    """
    present = {key for row in rows for key in row}
    if {"output_1", "output_2"} <= present:
        needed = {"input": "input", "label": "label"}
        if missing := [name for name in needed if name not in present]:
            raise DataError(f"{source}: looks like LLMBar, without its column {', '.join(missing)}")
        return "llmbar"
    if not {"chosen", "rejected"} <= present:
        raise DataError(
            f"{source}: no known format. Found: {', '.join(sorted(present))}. Needed: prompt, chosen, rejected (TRL's pairs, "
            "RewardBench, RM-Bench), or input, output_1, output_2, label (LLMBar); or map them with audit.quality_columns"
        )
    if any(_is_list_of_texts(row.get("chosen")) or _is_list_of_texts(row.get("rejected")) for row in rows):
        return _list_format(rows, present, source)
    known = any(_word(row.get("subset")) in {*_SECTION_OF, *PRIOR_SETS} for row in rows)
    return "rewardbench" if known else "pairs"


def quality_item(
    form: Format, row: Row, number: int, name: str, columns: Mapping[str, str] | None = None
) -> QualityItem:
    """One row as an item.

    Args:
        form: Format of the file.
        row: As it was read.
        number: Of the row in the file, from 1.
        name: Of the file: the section of LLMBar's items, the domain of RM-Bench's where they name none.
        columns: Our name to theirs; of TRL's pairs alone.

    Raises:
        RowError: Why the row is left out.
    """
    return _READ[form](row, number, name, columns)


def _list_format(rows: Sequence[Row], present: set[str], source: str) -> Format:
    """RewardBench 2 has columns of its own; RM-Bench has three responses on each side."""
    if {"num_correct", "total_completions"} & present or any(_word(row.get("subset")) in SECTIONS_2 for row in rows):
        if "subset" not in present:
            raise DataError(f"{source}: looks like RewardBench 2, without its column subset")
        return "rewardbench-2"
    by_style = sum(_n_texts(row.get("chosen")) == _n_texts(row.get("rejected")) == N_STYLES for row in rows)
    if "domain" in present or 2 * by_style > len(rows):
        return "rm-bench"
    raise DataError(
        f"{source}: chosen and rejected are lists of texts, but neither RewardBench 2's (columns subset, num_correct) nor "
        f"RM-Bench's ({N_STYLES} responses on each side)"
    )


def _rewardbench(row: Row, number: int, _name: str, _columns: Mapping[str, str] | None) -> QualityItem:
    subset = str(row.get("subset") or "")
    if subset in PRIOR_SETS:
        raise RowError("prior set")
    if subset not in _SECTION_OF:
        raise RowError(f"unknown subset '{subset[:40]}'" if subset else "no subset")
    sides = (_text(row.get("chosen"), "chosen"),), (_text(row.get("rejected"), "rejected"),)
    return _item(row, number, row.get("prompt"), sides, subset, _SECTION_OF[subset])


def _rewardbench_2(row: Row, number: int, _name: str, _columns: Mapping[str, str] | None) -> QualityItem:
    subset = str(row.get("subset") or "").strip()
    if not subset:
        raise RowError("no subset")
    sides = _texts(row.get("chosen"), "chosen"), _texts(row.get("rejected"), "rejected")
    item = _item(row, number, row.get("prompt"), sides, subset, subset)
    if subset.lower() != "ties":
        return item
    match = _TIES_ID.fullmatch(str(row.get("id")))
    if match is None:
        raise RowError("Ties row whose id is neither ref:N nor tied:N")
    if match[1] == "tied" and len(item.chosen) < 2:
        raise RowError("tied row with one chosen response")
    return replace(item, tied=(match[1], int(match[2])))


def _rm_bench(row: Row, number: int, name: str, _columns: Mapping[str, str] | None) -> QualityItem:
    sides = _texts(row.get("chosen"), "chosen"), _texts(row.get("rejected"), "rejected")
    for side, texts in zip(("chosen", "rejected"), sides, strict=True):
        if len(texts) != N_STYLES:
            raise RowError(f"{len(texts)} {side} responses, not {N_STYLES}")
    given = str(row.get("domain") or name).lower()
    domain = next((one for one in DOMAINS if given.startswith(one)), given)
    return _item(row, number, row.get("prompt"), sides, domain, "")


def _llmbar(row: Row, number: int, name: str, _columns: Mapping[str, str] | None) -> QualityItem:
    label = str(row.get("label")).strip().removesuffix(".0")
    if label not in ("1", "2"):
        raise RowError("label is neither 1 nor 2")
    first, second = (_text(row.get(key), key) for key in ("output_1", "output_2"))
    better, worse = (first, second) if label == "1" else (second, first)
    return _item(row, number, row.get("input"), ((better,), (worse,)), name, name)


def _pairs(row: Row, number: int, _name: str, columns: Mapping[str, str] | None) -> QualityItem:
    found = clean_pairs([row], columns)
    if not found.pairs:
        raise RowError(next(iter(found.exclusions.reasons)))
    pair = found.pairs[0]
    section = str(row.get("section") or row.get("subset") or "all pairs").strip()
    return QualityItem(number, _own_id(row, number), pair.prompt, (pair.chosen,), (pair.rejected,), section, section)


_READ: Mapping[Format, Callable[[Row, int, str, Mapping[str, str] | None], QualityItem]] = {
    "rewardbench": _rewardbench,
    "rewardbench-2": _rewardbench_2,
    "rm-bench": _rm_bench,
    "llmbar": _llmbar,
    "pairs": _pairs,
}


def _item(
    row: Row, number: int, prompt: object, sides: tuple[tuple[str, ...], tuple[str, ...]], subset: str, section: str
) -> QualityItem:
    if set(map(normal_text, sides[0])) & set(map(normal_text, sides[1])):
        raise RowError("identical sides")
    return QualityItem(number, _own_id(row, number), prompt_of(prompt), *sides, subset, section)


def _own_id(row: Row, number: int) -> str:
    return str(number if row.get("id") is None else row["id"])


def _text(value: object, side: str) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RowError("empty side")
    if not isinstance(value, str):
        raise RowError(f"{side} is not text")
    return value


def _texts(value: object, side: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise RowError(f"{side} is not a list of texts")
    return tuple(_text(one, side) for one in value)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, str) for one in value)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _n_texts(value: object) -> int:
    return len(value) if isinstance(value, list | tuple) else 0
