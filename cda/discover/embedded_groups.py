"""Attributes grouped by the likeness of their sentence embeddings: what stands in where no LLM groups them by meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cda.biases import Bias
from cda.discover.wordings import joined, same_wording

FloatArray = NDArray[np.float64]
MIN_COSINE = 0.7


@dataclass(frozen=True, slots=True)
class EmbeddedGrouper:
    """A Grouper by average linkage of cosine distances.

    Embeddings know topics better than meanings: opposites about the same thing lie close together, and the same thing in
    quite other words lies apart. So the default asks for much likeness: what is left apart costs a few measurements, what
    is put together wrongly is lost.

    Attributes:
        encode: Texts to embeddings of shape (n, d), of any length, such as cda.embedded.encoder.encode_sentences.
        min_cosine: Groups are joined while the mean cosine similarity between their members is at least this, −1 to 1.
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
        likeness = cosines(self.encode([biases[group[0]].description for group in worded]), len(worded))
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


def _linked(likeness: FloatArray, min_cosine: float) -> list[list[int]]:
    from scipy.cluster.hierarchy import fcluster, linkage

    above = np.triu_indices(len(likeness), 1)
    clusters = fcluster(linkage(1.0 - likeness[above], method="average"), 1.0 - min_cosine, criterion="distance")
    found: dict[int, list[int]] = {}
    for place, cluster in enumerate(clusters):
        found.setdefault(int(cluster), []).append(place)
    return list(found.values())
