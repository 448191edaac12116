"""What the measured rewrites of one candidate add up to: by rewriter, and over the rewriters that can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import prompt_id
from cda.results.base import Estimate
from cda.results.discover import Measured, RunStrength, StrengthTerm
from cda.results.evidence import ByRewriter, Strength, TrimmedMean
from cda.stats.means import clustered_t_test, inside_fences, iqr_trimmed_mean
from cda.stats.proportions import share, wilson

Failures = Mapping[str, Mapping[str, int]]
"""Rewriter to the reasons and counts of the rewrites that it did not give."""
_NO_SIDE = 0.5
"""What a judge that prefers neither side says on average."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All there is on one candidate.

    Attributes:
        rewriters: In alphabetical order.
        pooled: Over the rewriters that count; None for the reason in `untested`.
        untested: Why there are no pooled numbers.
    """

    rewriters: tuple[ByRewriter, ...]
    pooled: Strength | None
    untested: str | None

    @property
    def usable(self) -> list[tuple[str, Strength]]:
        """Name and strength of the rewriters that count."""
        found = [(one.rewriter, one.strength) for one in self.rewriters if one.excluded is None]
        return [(name, strength) for name, strength in found if strength is not None]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where a mean owes its sign to a few rows: trimming would turn it."""
        named = [(one.rewriter, one.strength) for one in self.rewriters] + [("pooled", self.pooled)]
        return tuple(
            f"{name}: leaving out {found.trimmed.n_trimmed} of {found.trimmed.n_trimmed + found.trimmed.estimate.n} "
            f"margins outside the fences turns the mean from {found.trimmed.raw:+.3g} to "
            f"{found.trimmed.estimate.value:+.3g}"
            for name, found in named
            if found is not None and found.trimmed is not None and found.trimmed.sign_changes
        )


def evidence(rows: Sequence[Measured], failed: Failures, max_failed: float, trim: bool = False) -> Evidence:
    """Sum up one candidate's rows.

    Args:
        rows: Of this candidate, by any number of rewriters, in both directions.
        failed: What each rewriter did not give; a rewriter that gave nothing stands here alone.
        max_failed: Share of a rewriter's calls that may fail, and share of its rewrites that may lack a verdict of the
            judge; one with more than this of either is excluded, exactly this share is allowed. What is left is no fair
            sample of the prompts any more.
        trim: Leave margins outside Tukey's fences out of means and tests. The fences come from the same margins, so that
            p-values and intervals no longer hold strictly.
    """
    names = sorted({row.rewriter for row in rows} | set(failed))
    found = tuple(
        _by_rewriter(name, [row for row in rows if row.rewriter == name], failed.get(name, {}), max_failed, trim)
        for name in names
    )
    counted = {one.rewriter for one in found if one.excluded is None}
    pool = [row for row in rows if row.rewriter in counted]
    untested = _too_little(_in_bounds(pool, trim)) if counted else "no rewriter is left"
    return Evidence(found, None if untested else strength(pool, trim), untested)


def strength(rows: Sequence[Measured], trim: bool = False) -> Strength:
    """Numbers of some rows, clustered by prompt.

    Raises:
        DataError: Margins or verdicts of fewer than two prompts.
    """
    used, judged = _in_bounds(rows, trim), [row for row in rows if row.preference is not None]
    reward = clustered_t_test([row.margin for row in used], _prompts(used))
    preferences = [row.preference for row in judged if row.preference is not None]
    verdict = clustered_t_test(preferences, _prompts(judged), "less", _NO_SIDE, "share")
    wins = [float(row.margin > 0) for row in rows]
    win_rate = share(wins, _prompts(rows))
    low, high = wilson(sum(wins), len(wins))
    return Strength(
        reward=reward.estimate,
        p_reward=reward.p_value,
        standard_error=reward.standard_error,
        judge=share(preferences, _prompts(judged)),
        p_judge=verdict.p_value,
        n_unjudged=len(rows) - len(judged),
        win_rate=win_rate,
        win_rate_unclustered=Estimate(
            value=win_rate.value,
            low=low,
            high=high,
            n=len(wins),
            n_prompts=win_rate.n_prompts,
            unit="share",
            method="Wilson 95%, rows as independent",
        ),
        trimmed=_trimmed(rows),
        n_left_out=len(rows) - len(used),
    )


def _by_rewriter(
    name: str, rows: Sequence[Measured], failed: Mapping[str, int], max_failed: float, trim: bool
) -> ByRewriter:
    n_failed, n_unjudged = sum(failed.values()), sum(row.preference is None for row in rows)
    asked = len(rows) + n_failed
    excluded = too_little = _too_little(_in_bounds(rows, trim))
    if n_failed > max_failed * asked:
        excluded = f"{n_failed} of {asked} rewrites failed"
    elif too_little is None and n_unjudged > max_failed * len(rows):
        excluded = f"{n_unjudged} of {len(rows)} rewrites have no verdict of the judge"
    return ByRewriter(
        rewriter=name,
        n=len(rows),
        failed=dict(failed),
        excluded=excluded,
        strength=None if too_little else strength(rows, trim),
    )


def _too_little(rows: Sequence[Measured]) -> str | None:
    """Why these rows cannot be tested."""
    if len(set(_prompts(rows))) < 2:
        return f"{len(rows)} rewrites of {len(set(_prompts(rows)))} prompts: two prompts are needed"
    judged = set(_prompts([row for row in rows if row.preference is not None]))
    return f"verdicts of the judge on {len(judged)} prompts: two are needed" if len(judged) < 2 else None


def _in_bounds(rows: Sequence[Measured], trim: bool) -> list[Measured]:
    if not trim or not rows:
        return list(rows)
    return [row for row, keep in zip(rows, inside_fences([row.margin for row in rows]), strict=True) if keep]


def _trimmed(rows: Sequence[Measured]) -> TrimmedMean | None:
    if len(set(_prompts(_in_bounds(rows, True)))) < 2:
        return None
    return iqr_trimmed_mean([row.margin for row in rows], _prompts(rows))


def _prompts(rows: Sequence[Measured]) -> list[str]:
    return [_cluster(row.prompt) for row in rows]


# Naming a prompt by its content takes longer than all the arithmetic on its rows.
_cluster = lru_cache(maxsize=4096)(prompt_id)


def run_strength(
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
