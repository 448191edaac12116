"""Triples as signed contrasts: the one input of every RATE estimator, from rewards or from a pairwise judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray
from cda.errors import DataError

BoolArray = NDArray[np.bool_]
Scores = Sequence[float | None] | FloatArray
"""One score a row; None or NaN where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """One row a triple. Every contrast is the side with the attribute minus the side without it.

    Attributes:
        attribute: Whether the original has the attribute (w = 1). Shape (n,).
        prompt_ids: Cluster of each row. Length n.
        double: Between the two rewrites: rewrite of rewrite − rewrite at w = 1, the reverse at w = 0. Shape (n,).
        single: Between original and rewrite: original − rewrite at w = 1, the reverse at w = 0. Shape (n,).
        rewrite_effect: Rewrite of rewrite − original, whatever w: what rewriting alone does. Shape (n,).
        originals: Rewards of the originals, shape (n,); None for a pairwise judge, which gives no reward.
        naive: A pairwise judge's margins of an original with the attribute over one without it. Shape (m,).
        naive_rows: The two rows of each of them, with and without. Shape (m, 2).
        unit: Unit of all of these.
    """

    attribute: BoolArray
    prompt_ids: tuple[str, ...]
    double: FloatArray
    single: FloatArray
    rewrite_effect: FloatArray
    originals: FloatArray | None
    naive: FloatArray | None
    naive_rows: NDArray[np.int64] | None
    unit: str

    def __len__(self) -> int:
        return len(self.attribute)


def from_rewards(
    original: Scores,
    rewrite: Scores,
    rewrite_of_rewrite: Scores,
    attribute: ArrayLike,
    prompt_ids: Sequence[str],
    unit: str = "reward",
) -> Contrasts:
    """Contrasts of a pointwise reward.

    Args:
        original: Reward of the response as it is, shape (n,).
        rewrite: Of the response with the attribute flipped to 1 − w, shape (n,).
        rewrite_of_rewrite: Of the rewrite flipped back to w, shape (n,).
        attribute: w of the original, 0 or 1, shape (n,).
        prompt_ids: Cluster of each row. Length n.
        unit: Unit of the rewards.

    Raises:
        DataError: No triples, a triple without one of its sides, NaN or infinite rewards, lengths that differ, or an
            attribute that is not 0 or 1.
    """
    w = _attribute(attribute, prompt_ids)
    first = _complete("original", original, len(w))
    flipped = _complete("rewrite", rewrite, len(w))
    back = _complete("rewrite of rewrite", rewrite_of_rewrite, len(w))
    sign = np.where(w, 1.0, -1.0)
    return Contrasts(
        w, tuple(prompt_ids), sign * (back - flipped), sign * (first - flipped), back - first, first, None, None, unit
    )


def from_preferences(
    double: Scores,
    single: Scores,
    rewrite_effect: Scores,
    attribute: ArrayLike,
    prompt_ids: Sequence[str],
    naive: Scores = (),
    naive_rows: ArrayLike = (),
) -> Contrasts:
    """Contrasts of a pairwise judge (RATE's contrastive form): it compares two versions instead of scoring each.

    A judge need not be additive, so that the identities between single, double and rewrite effect need not hold.

    Args:
        double: Preference, −1 to 1, for the rewrite with the attribute over the rewrite without it. Shape (n,).
        single: The same between original and rewrite, whichever has the attribute. Shape (n,).
        rewrite_effect: Preference for the rewrite of the rewrite over the original. Shape (n,).
        attribute: w of the original, 0 or 1, shape (n,).
        prompt_ids: Cluster of each row. Length n.
        naive: Preference for an original with the attribute over one without it, on the same prompt. Shape (m,).
        naive_rows: The rows of those two originals, with and without. Shape (m, 2).

    Raises:
        DataError: As `from_rewards`; a preference outside −1 to 1; naive pairs across prompts or of the wrong sides.
    """
    w = _attribute(attribute, prompt_ids)
    named = {"double contrast": double, "single contrast": single, "rewrite effect": rewrite_effect}
    values = {name: _complete(name, scores, len(w)) for name, scores in named.items()}
    pairs = np.asarray(naive_rows, dtype=np.int64).reshape(-1, 2)
    values["naive pair"] = _complete("naive pair", naive, len(pairs))
    for name, margins in values.items():
        if (np.abs(margins) > 1).any():
            raise DataError(f"{name}: a judge's preference lies between −1 and 1, found {_extreme(margins):g}")
    if pairs.size and (pairs.min() < 0 or pairs.max() >= len(w)):
        raise DataError(f"naive pairs name row {pairs.max()} (lowest {pairs.min()}), but there are {len(w)} triples")
    for row, (treated, control) in enumerate(pairs):
        if not w[treated] or w[control] or prompt_ids[treated] != prompt_ids[control]:
            raise DataError(
                f"naive pair {row}: needs an original with the attribute, then one without it, of the same prompt"
            )
    return Contrasts(
        w,
        tuple(prompt_ids),
        values["double contrast"],
        values["single contrast"],
        values["rewrite effect"],
        None,
        values["naive pair"] if len(pairs) else None,
        pairs if len(pairs) else None,
        "preference",
    )


def _attribute(attribute: ArrayLike, prompt_ids: Sequence[str]) -> BoolArray:
    values = np.asarray(attribute, dtype=np.float64)
    if values.ndim != 1 or len(values) != len(prompt_ids):
        raise DataError(f"{values.shape} attribute values for {len(prompt_ids)} prompts: one each is needed")
    if not len(values):
        raise DataError("no triples: nothing can be estimated")
    if not np.isin(values, (0, 1)).all():
        raise DataError(
            "the attribute of an original is 0 or 1; audit.attribute cuts numbers by a threshold and takes two of several categories"
        )
    return np.asarray(values == 1, dtype=bool)


def _complete(name: str, scores: Scores, n: int) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"{name}: {values.shape} scores for {n} rows: one each is needed")
    missing = np.isnan(values)
    if missing.any():
        raise DataError(
            f"{name}: {int(missing.sum())} of {n} scores are missing or NaN (first: row {int(np.argmax(missing))}); "
            "a triple needs all its sides: drop these rows from every estimator and count them"
        )
    if not np.isfinite(values).all():
        raise DataError(f"{name}: {int((~np.isfinite(values)).sum())} of {n} scores are infinite")
    return values


def _extreme(values: FloatArray) -> float:
    return float(values[np.argmax(np.abs(values))])
