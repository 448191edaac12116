"""Numbers with a unit in the documents: where each stands, and what says that it is true."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
_NUMBER = r"[+−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[½⅓⅔])?"
_UNITS = (
    "%", "percent", "points?", "GB", "MB", "GiB", "kB", "tokens?", "seconds?", "s", "min", "minutes?", "hours?", "days?", "ms",
    "calls?", "requests?", "times", "cores?", "parameters", "bytes?", "dollars?", "nats?", "texts", "pairs", "contrasts",
    "conversations", "triples", "prompts", "rows", "answers", "responses", "questions", "judges?", "people", "votes", "lines",
    "comparisons", "rewrites", "models?", "runs", "trainings?", "steps", "epochs?", "biases", "characters", "words", "columns",
    "levels", "splits?", "draws", "processes", "GPUs?", "attributes?", "items", "samples", "repeats", "seeds", "folds",
)  # fmt: skip
UNIT = re.compile(
    rf"(?<![\w.,/=:@#^·])(?:\$\s?{_NUMBER}|{_NUMBER}(?:\s?(?:–|-|to|or|and)\s?{_NUMBER})?(?:\s?(?:{'|'.join(_UNITS)})(?![\w-])))"
)
_LINK = re.compile(r"\]\([^)]*\)")
_GENERATED = re.compile(r"<!-- ([a-z ]+) -->\n(.*?)<!-- end of \1 -->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def blanked(text: str) -> str:
    """The text, of the same length, without code, links' targets and parts that are made from code or results."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    for pattern in (_GENERATED, _CODE, _LINK):
        text = pattern.sub(blank, text)
    return text


def numbers_in(document: Path) -> Iterator[tuple[int, int, str]]:
    """Start, end and words of each number with a unit in a document's own sentences."""
    for match in UNIT.finditer(blanked(document.read_text(encoding="utf-8"))):
        yield match.start(), match.end(), match[0]


def numbers_of(text: str) -> list[tuple[float, int]]:
    """Every number of a text without its sign, with its decimals; what stands on both sides of a dash is two.

    >>> numbers_of("falls from 34.2% to 27.7% (−6.5 points) in 5,000 calls, 2–3%"), numbers_of("2B, gpt-4o, H200, 10¹⁴")
    ([(34.2, 1), (27.7, 1), (6.5, 1), (5000.0, 0), (2.0, 0), (3.0, 0)], [])
    """
    found = re.findall(r"(?<![\w.,])(?<!\w-)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w¹²³⁴])(?!\.\d)", text)
    return [(float(whole.replace(",", "") + part), len(part[1:])) for whole, part in found]


def leaves(found: object) -> Iterator[float]:
    """Every number in a part of a result, those within its sentences too."""
    if isinstance(found, bool):
        return
    if isinstance(found, int | float):
        yield abs(float(found))
    elif isinstance(found, str):
        yield from (number for number, _ in numbers_of(found.replace("%", " ")))
    elif isinstance(found, Mapping):
        for key, part in found.items():
            yield from leaves(part)
            yield from (number for number, _ in numbers_of(key))
        yield float(len(found))
    elif isinstance(found, list | tuple | set):
        yield float(len(found))
        for part in found:
            yield from leaves(part)


def agree(number: float, decimals: int, pool: Iterable[float], scales: Iterable[float] = (1, 100)) -> bool:
    """True if a source has the number, as it is or as a share, to the digits that are written."""
    half = 0.5 * 10.0**-decimals * (1 + 1e-9)
    return any(abs(value * scale - number) <= half for value in pool for scale in scales)
