"""Word differences of two texts, for showing them side by side."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

MAX_WORDS = 2000
MAX_MATCHES = 3_000_000
"""Limit of matches between single words: a text that repeats one word has as many as its length squared."""
_WORD = re.compile(r"\s+|[^\s\w]|\w+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text, with True if the other text lacks it."""

    text: str
    differs: bool


def word_differences(first: str, second: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces; joined, the pieces are the text again. Texts beyond MAX_WORDS or MAX_MATCHES come back unmarked.

    >>> word_differences("use a pan", "utilize a pan")[1]
    [Piece(text='utilize', differs=True), Piece(text=' a pan', differs=False)]
    """
    words = _WORD.findall(first), _WORD.findall(second)
    if max(map(len, words)) > 2 * MAX_WORDS or _n_matches(*words) > MAX_MATCHES:
        return [Piece(first, False)], [Piece(second, False)]
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, i, j, k, m in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        if j > i:
            left.append(Piece("".join(words[0][i:j]), kind != "equal"))
        if m > k:
            right.append(Piece("".join(words[1][k:m]), kind != "equal"))
    return _joined(left), _joined(right)


def _n_matches(first: list[str], second: list[str]) -> int:
    counts, others = Counter(first), Counter(second)
    return sum(count * others[word] for word, count in counts.items())


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Pieces with marks joined across a lone space or sign, which would otherwise flicker."""
    joined: list[Piece] = []
    for index, piece in enumerate(pieces):
        between = 0 < index < len(pieces) - 1 and pieces[index - 1].differs and pieces[index + 1].differs
        differs = piece.differs or (between and not piece.text.strip())
        if joined and joined[-1].differs == differs:
            joined[-1] = Piece(joined[-1].text + piece.text, differs)
        else:
            joined.append(Piece(piece.text, differs))
    return joined
