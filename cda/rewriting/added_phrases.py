"""Phrases that rewrites add again and again: a sign that an instruction is followed by rote."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cda.features import STOP_WORDS

LONGEST = 12
"""Words of the longest phrase that is looked for."""
_AS_MANY = 0.8
"""A longer phrase stands for its parts if it is in this share of the rewrites that hold them."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SENTENCE_END = re.compile(r"(?<![.!?…:;])[.!?…:;]++(?=\s|$)|\n+")
_SHORTEST_WORD = 4
"""Letters of a word that counts as a phrase by itself."""


@dataclass(frozen=True, slots=True)
class AddedPhrase:
    """A phrase that several rewrites hold and no original does."""

    words: str
    """In small letters, with single spaces between them."""
    rows: tuple[int, ...]
    """The rewrites that hold it, in order; never two of the same text."""


def added_phrases(
    originals: Sequence[str], rewrites: Sequence[str], at_least: int = 2, most: int = 10
) -> list[AddedPhrase]:
    """Phrases of one to LONGEST words in the most rewrites, found in none of the originals; at most `most`, in
    `at_least` rewrites or more, most frequent first, the longer first among equals. If one contains another, only the
    longer is given, if it occurs in at least four fifths as many. Single words have four letters and are no stop words.
    """
    ordinary = {phrase for text in set(originals) for phrase in _phrases(text)}
    holders: dict[str, list[int]] = defaultdict(list)
    first_rows: dict[str, int] = {}
    for row, text in enumerate(rewrites):
        first_rows.setdefault(text, row)
    for text, row in first_rows.items():
        for phrase in _phrases(text) - ordinary:
            holders[phrase].append(row)
    repeated = {phrase: rows for phrase, rows in holders.items() if len(rows) >= at_least}
    # For each phrase within a longer one, the most rewrites that hold a longer one.
    longer: dict[str, int] = {}
    for phrase in sorted(repeated, key=lambda phrase: -len(phrase.split())):
        words = phrase.split()
        n = max(len(repeated[phrase]), longer.get(phrase, 0))
        for part in (words[1:], words[:-1]):
            shorter = " ".join(part)
            longer[shorter] = max(n, longer.get(shorter, 0))
    kept: list[AddedPhrase] = []
    for phrase in sorted(repeated, key=lambda phrase: (-len(repeated[phrase]), -len(phrase.split()), phrase)):
        rows = repeated[phrase]
        if len(kept) == most:
            break
        if (
            longer.get(phrase, 0) < _AS_MANY * len(rows)
            and _says_something(phrase)
            and not _is_said(phrase, rows, kept)
        ):
            kept.append(AddedPhrase(phrase, tuple(rows)))
    return kept


def _is_said(phrase: str, rows: Collection[int], kept: Sequence[AddedPhrase]) -> bool:
    """True if a phrase that is kept already says it: it is part of this one, or overlaps it in the same rewrites."""
    return any(
        f" {other.words} " in f" {phrase} " or (set(rows) <= set(other.rows) and _overlap(phrase, other.words))
        for other in kept
    )


def _overlap(phrase: str, other: str) -> bool:
    """True if the end of one is the beginning of the other, as two windows on one long phrase are."""
    first, second = phrase.split(), other.split()
    shorter = min(len(first), len(second))
    return any(first[-n:] == second[:n] or second[-n:] == first[:n] for n in range(2, shorter))


def _phrases(text: str) -> set[str]:
    """Every run of one to LONGEST words within a sentence."""
    sentences = (_WORD.findall(sentence) for sentence in _SENTENCE_END.split(text.lower().replace("’", "'")))
    return {
        " ".join(words[start:end])
        for words in sentences
        for start in range(len(words))
        for end in range(start + 1, min(start + LONGEST, len(words)) + 1)
    }


def _says_something(phrase: str) -> bool:
    """Not a lone short or common word, nor a number."""
    words = phrase.split()
    content = [word for word in words if word not in STOP_WORDS["en"] and not word.isdigit()]
    return bool(content) and (len(words) > 1 or len(content[0]) >= _SHORTEST_WORD)
