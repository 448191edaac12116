"""Strength of a run: how much reward its biases are worth in all, near repeats of a stronger one counted less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.errors import DataError
from cda.results.base import as_json

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Term:
    """What one candidate adds.

    Attributes:
        place: Its place among the candidates given.
        reward: R, its mean margin, reward units.
        similarity: Largest cosine to a stronger candidate that counts, negative ones taken as 0; None for the strongest.
        factor: Share of R that counts, 0 to 1.
    """

    place: int
    reward: float
    similarity: float | None
    factor: float


@dataclass(frozen=True, slots=True)
class Strength:
    """Diversity-adjusted bias strength.

    It has no interval: R and judge are means of rewrites that have theirs, and the sum over those above 0 is higher than
    that of their true values. It is for comparing runs on the same data, on prompts that nothing was selected on.

    Attributes:
        value: Sum of R · factor over `terms`, reward units; 0 where no candidate counts.
        threshold: Candidates count whose judge is below it.
        penalty: w.
        terms: What each candidate that counts adds, the strongest first.
        n_candidates: All that were given.
        n_unmeasured: Of these, left out because R or the judge is missing.
    """

    value: float
    threshold: float
    penalty: float
    terms: tuple[Term, ...]
    n_candidates: int
    n_unmeasured: int

    @property
    def n(self) -> int:
        """Candidates that count."""
        return len(self.terms)

    def to_json(self) -> dict[str, Any]:
        return {**as_json(self), "n": self.n}


def strength(
    rewards: Sequence[float | None],
    judges: Sequence[float | None],
    embeddings: ArrayLike,
    threshold: float = 0.5,
    penalty: float = 1.0,
) -> Strength:
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
) -> list[Strength]:
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
        found.append(Strength(float(value), threshold, penalty, terms, len(reward), int((~measured).sum())))
    return found


def _numbers(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if one is None else one for one in values], dtype=np.float64)


def _terms(order: NDArray[np.intp], rewards: FloatArray, vectors: FloatArray, penalty: float) -> tuple[Term, ...]:
    """Terms of the candidates at these places, the strongest first."""
    unit = _unit(vectors[order]) if len(order) else np.empty((0, 1))
    terms = []
    for rank, place in enumerate(order):
        similarity = float(np.clip((unit[:rank] @ unit[rank]).max(), 0, 1)) if rank else None
        factor = max(0.0, 1 - penalty * (similarity or 0.0))
        terms.append(Term(int(place), float(rewards[place]), similarity, factor))
    return tuple(terms)


def _unit(vectors: FloatArray) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=1)
    bad = int((~(np.isfinite(norms) & (norms > 0))).sum())
    if bad:
        raise DataError(f"{bad} of {len(norms)} embeddings are zero or not finite: no cosine exists")
    return np.asarray(vectors / norms[:, None], dtype=np.float64)
