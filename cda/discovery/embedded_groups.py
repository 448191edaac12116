"""Attributes grouped by the likeness of their sentence embeddings: what stands in where no LLM groups them by meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.discovery.wordings import joined, same_wording

FloatArray = NDArray[np.float64]
MIN_COSINE = 0.65
# Embeddings put opposites about one thing close together, so words that tell them apart are looked at themselves.
_OPPOSED: tuple[tuple[str, str], ...] = (
    (r"avoid\w*|without|no(?!-)|not|never|lacks?|lacking|omits?|omitting|leaves? out|free of|rather than|instead of", ""),
    (r"opens?|opening|begins?|beginning|starts?|starting|first sentence", r"ends?|ending|clos(?:es?|ing)|concludes?|last sentence"),
    (r"short\w*|brief\w*|concise\w*|terse\w*", r"long\w*|length\w*|verbose\w*|wordy"),
    (r"more|many|frequent\w*|increas\w*", r"fewer|few|less|rare\w*|decreas\w*"),
    (r"formal\w*|academic\w*", r"informal\w*|casual\w*|conversational\w*|colloquial\w*"),
    (r"simple\w*|simplif\w*|plain\w*", r"complex\w*|technical\w*|jargon|sophisticated\w*"),
    (r"agree\w*|affirm\w*", r"disagree\w*|contradict\w*|reject\w*"),
    (r"first[- ]person", r"second[- ]person|third[- ]person"),
    (r"single|double", r"triple"),
    (r"bullet\w*", r"number(?:ed|ing)"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EmbeddedGrouper:
    """A Grouper by complete linkage of cosine distances.

    The default asks for much likeness: what is left apart costs a few measurements, what is put together wrongly is lost.
    Even so, attributes about one thing (triple and no-break spaces) may fall together, and the same in quite other words
    stays apart.

    Attributes:
        encode: Texts to embeddings of shape (n, d), of any length, such as cda.embedded.encoder.encode_sentences.
        min_cosine: Cosine similarity that every two members of a group have, −1 to 1.
    """

    encode: Callable[[Sequence[str]], FloatArray]
    min_cosine: float = MIN_COSINE

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        """A partition of the places by likeness, each group and the groups in ascending order.

        Raises:
            ValueError: The embeddings are not one finite row for each text.
        """
        worded = same_wording(biases)
        if len(worded) < 2:
            return worded
        texts = [biases[group[0]].description for group in worded]
        likeness = cosines(self.encode(texts), len(texts))
        likeness[_opposed(texts)] = -1.0
        return joined(worded, _linked(likeness, self.min_cosine))


def cosines(embeddings: FloatArray, n: int) -> FloatArray:
    """Cosine similarity of every two of n embeddings, shape (n, n); 0 to all others for one that is zero.

    Raises:
        ValueError: Not n finite rows.
    """
    rows = np.asarray(embeddings, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != n or not np.isfinite(rows).all():
        raise ValueError(f"embeddings of shape {rows.shape} for {n} texts: one finite row for each is needed")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    likeness: FloatArray = np.clip(unit @ unit.T, -1.0, 1.0)
    return likeness


def _opposed(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Which two texts stand on different sides of a pair of opposites. Shape (n, n).

    An opposite that is empty stands for the absence of the other: of a negation.
    """
    found = np.zeros((len(texts), len(texts)), dtype=np.bool_)
    for one, other in _OPPOSED:
        first = _named(one, texts)
        second = _named(other, texts) if other else ~first
        # A text that names both sides stands on neither.
        across = np.outer(first & ~second, second & ~first)
        found |= across | across.T
    return found


def _named(pattern: str, texts: Sequence[str]) -> NDArray[np.bool_]:
    word = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    return np.array([word.search(text) is not None for text in texts], dtype=np.bool_)


def _linked(likeness: FloatArray, min_cosine: float) -> list[list[int]]:
    from scipy.cluster.hierarchy import fcluster, linkage

    above = np.triu_indices(len(likeness), 1)
    clusters = fcluster(linkage(1.0 - likeness[above], method="complete"), 1.0 - min_cosine, criterion="distance")
    found: dict[int, list[int]] = {}
    for place, cluster in enumerate(clusters):
        found.setdefault(int(cluster), []).append(place)
    return list(found.values())
