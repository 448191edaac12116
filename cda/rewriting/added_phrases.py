"""Phrases that rewrites add again and again: a sign that an instruction is followed by rote."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cda.data.language import STOP_WORDS

LONGEST = 12
"""Words of the longest phrase that is looked for."""
_AS_MANY = 0.8
"""A longer phrase stands for its parts where it is in this share of the rewrites that hold them."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SENTENCE_END = re.compile(r"(?<![.!?…:;])[.!?…:;]++(?=\s|$)|\n+")
_SHORTEST_WORD = 4
"""Letters of a word that counts as a phrase by itself."""


@dataclass(frozen=True, slots=True)
class AddedPhrase:
    """A phrase that several rewrites hold and no original does.

    Attributes:
        words: In small letters, with single spaces between them.
        rows: The rewrites that hold it, in order; never two of the same text.
    """

    words: str
    rows: tuple[int, ...]


def added_phrases(
    originals: Sequence[str], rewrites: Sequence[str], at_least: int = 2, most: int = 10
) -> list[AddedPhrase]:
    """Phrases of one to LONGEST words in the most rewrites, found in none of the originals.

    Of phrases within each other one is given: the longest that at least four fifths as many rewrites hold as hold the
    part. Single words must have four letters and be no stop word.

    Args:
        originals: What was rewritten.
        rewrites: One for each.
        at_least: Fewer rewrites than this are no repetition.
        most: Phrases at most; those that most rewrites hold first, the longer first among equals.
    """
    ordinary = {phrase for text in set(originals) for phrase in _phrases(text)}
    holders: dict[str, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for row, text in enumerate(rewrites):
        if text not in seen:
            seen.add(text)
            for phrase in _phrases(text) - ordinary:
                holders[phrase].append(row)
    repeated = {phrase: rows for phrase, rows in holders.items() if len(rows) >= at_least}
    longer = _held_within_longer(repeated)
    order = sorted(repeated, key=lambda one: (-len(repeated[one]), -len(one.split()), one))
    kept: list[AddedPhrase] = []
    for phrase in order:
        rows = repeated[phrase]
        if len(kept) == most:
            break
        if longer.get(phrase, 0) < _AS_MANY * len(rows) and _says_something(phrase) and not _told(phrase, rows, kept):
            kept.append(AddedPhrase(phrase, tuple(rows)))
    return kept


def _held_within_longer(repeated: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Of each phrase within a longer one, how many rewrites hold the longer one, at the most."""
    found: dict[str, int] = {}
    for phrase in sorted(repeated, key=lambda one: -len(one.split())):
        words = phrase.split()
        n = max(len(repeated[phrase]), found.get(phrase, 0))
        for part in (words[1:], words[:-1]):
            shorter = " ".join(part)
            found[shorter] = max(n, found.get(shorter, 0))
    return found


def _told(phrase: str, rows: Collection[int], kept: Sequence[AddedPhrase]) -> bool:
    """Whether a phrase that is kept already says it: it is part of this one, or overlaps it in the same rewrites."""
    return any(
        f" {one.words} " in f" {phrase} " or (set(rows) <= set(one.rows) and _overlap(phrase, one.words))
        for one in kept
    )


def _overlap(one: str, other: str) -> bool:
    """Whether the end of one is the beginning of the other, as two windows on one long phrase are."""
    first, second = one.split(), other.split()
    shorter = min(len(first), len(second))
    return any(first[-n:] == second[:n] or second[-n:] == first[:n] for n in range(2, shorter))


def _phrases(text: str) -> set[str]:
    """Every run of one to LONGEST words within a sentence."""
    found = set()
    for sentence in _SENTENCE_END.split(text.lower().replace("’", "'")):
        words = _WORD.findall(sentence)
        for start in range(len(words)):
            for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
                found.add(" ".join(words[start:end]))
    return found


def _says_something(phrase: str) -> bool:
    """Not a lone short or common word, nor a number."""
    words = phrase.split()
    content = [word for word in words if word not in STOP_WORDS["en"] and not word.isdigit()]
    return bool(content) and (len(words) > 1 or len(content[0]) >= _SHORTEST_WORD)
