"""Attributes in the same words are one, whoever judges their meaning."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from cda.biases import Bias

_AROUND = "\"'“”‘’*_`.,;:()"


def wording(text: str) -> str:
    """The words of a text alone: case, spacing, and the marks around words aside; marks that stand alone are words.

    >>> wording("Uses  *short* sentences.") == wording("uses short sentences")
    True
    >>> wording("Ends with '!'") == wording("Ends with '?'")
    False
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(word.strip(_AROUND) if any(map(str.isalnum, word)) else word for word in words)


def same_wording(biases: Sequence[Bias]) -> list[list[int]]:
    """The partition of the places of biases by the words of their descriptions, in ascending order."""
    found: dict[str, list[int]] = {}
    for place, bias in enumerate(biases):
        found.setdefault(wording(bias.description), []).append(place)
    return list(found.values())


def joined(groups: Sequence[Sequence[int]], together: Iterable[Sequence[int]]) -> list[list[int]]:
    """A coarser partition: the groups whose own places stand together in `together`; ascending."""
    return sorted(sorted(place for group in one for place in groups[group]) for one in together)
