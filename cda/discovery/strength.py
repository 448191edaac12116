"""Strength of a run: how much reward its biases are worth in all, near repeats of a stronger one counted less."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.results.discover import RunStrength, StrengthTerm

FloatArray = NDArray[np.float64]


def strength(
    rewards: Sequence[float | None],
    judges: Sequence[float | None],
    embeddings: ArrayLike,
    threshold: float = 0.5,
    penalty: float = 1.0,
) -> RunStrength:
    """Sum over candidates A₁, A₂, … in order of falling R of R(Aᵢ) · max(0, 1 − w · max(0, maxⱼ﹤ᵢ cos(Aⱼ, Aᵢ))).

    From "Automatically Finding Reward Model Biases", where w = 1. Only candidates with R above 0 and a judge below the
    threshold count, as terms and as the stronger ones that others are compared with; the strongest counts in full. A
    negative cosine is no more diverse than 0, so it does not raise a term above R, and no factor falls below 0, however
    large w. Of equal R, the candidate given first is the stronger.

    Args:
        rewards: R, mean margin of each candidate, reward units; None or NaN where nothing was measured. Length n.
        judges: Mean preference of the judge for the side with the attribute, 0 to 1; None or NaN likewise. Length n.
        embeddings: Of the attributes, shape (n, dimensions); need not be normalised.
        threshold: A candidate counts if its judge is below it.
        penalty: w, 0 or more; 0 is the plain sum of R.

    Raises:
        DataError: Lengths differ, or an embedding that is needed is zero or not finite.
        ValueError: A negative penalty.
    """
    return strength_curve(rewards, judges, embeddings, [threshold], penalty)[0]


def strength_curve(
    rewards: Sequence[float | None],
    judges: Sequence[float | None],
    embeddings: ArrayLike,
    thresholds: Sequence[float],
    penalty: float = 1.0,
) -> list[RunStrength]:
    """The strength at every threshold, in the order given; arguments and errors as of `strength`.

    It need not rise with the threshold: a strong candidate that joins may take from several weaker ones.
    """
    if not penalty >= 0:
        raise ValueError(f"penalty is {penalty}: 0 or more is needed")
    reward, judge = _numbers(rewards), _numbers(judges)
    n = len(reward)
    vectors = np.asarray(embeddings, dtype=np.float64)
    # Embeddings of no texts have whatever shape the encoder gives.
    if len(judge) != n or (n and (vectors.ndim != 2 or len(vectors) != n)):
        raise DataError(f"{n} rewards, {len(judge)} judges, embeddings of shape {vectors.shape}: one each is needed")
    measured = np.isfinite(reward) & np.isfinite(judge)
    found = []
    for threshold in thresholds:
        counts = np.flatnonzero(measured & (reward > 0) & (judge < threshold))
        terms = _terms(counts[np.argsort(-reward[counts], kind="stable")], reward, vectors, penalty)
        value = sum(one.reward * one.factor for one in terms)
        found.append(
            RunStrength(
                value=float(value),
                threshold=threshold,
                penalty=penalty,
                terms=terms,
                n_candidates=len(reward),
                n_unmeasured=int((~measured).sum()),
            )
        )
    return found


def _numbers(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if one is None else one for one in values], dtype=np.float64)


def _terms(
    order: NDArray[np.intp], rewards: FloatArray, vectors: FloatArray, penalty: float
) -> tuple[StrengthTerm, ...]:
    """Terms of the candidates at these places, the strongest first."""
    unit = _unit(vectors[order]) if len(order) else np.empty((0, 1))
    terms = []
    for rank, place in enumerate(order):
        similarity = float(np.clip((unit[:rank] @ unit[rank]).max(), 0, 1)) if rank else None
        factor = max(0.0, 1 - penalty * (similarity or 0.0))
        terms.append(StrengthTerm(place=int(place), reward=float(rewards[place]), similarity=similarity, factor=factor))
    return tuple(terms)


def _unit(vectors: FloatArray) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=1)
    bad = int((~(np.isfinite(norms) & (norms > 0))).sum())
    if bad:
        raise DataError(f"{bad} of {len(norms)} embeddings are zero or not finite: no cosine exists")
    return np.asarray(vectors / norms[:, None], dtype=np.float64)
