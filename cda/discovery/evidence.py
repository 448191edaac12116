"""Evidence for a candidate from its rewrites: by rewriter, pooled, tested on held-out prompts; the strength of a run."""

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
from cda.results.evidence import ByRewriter, Confirmation, ConfirmSettings, Strength, Validation
from cda.stats.means import clustered_t_test, inside_fences, iqr_trimmed_mean, smallest_detectable
from cda.stats.multiplicity import corrected, partial_conjunction
from cda.stats.proportions import wilson, wilson_share

Failures = Mapping[str, Mapping[str, int]]
"""Rewriter to the reasons and counts of the rewrites that it did not give."""
_NO_SIDE = 0.5
"""Mean preference of a judge that prefers neither side."""
# Naming a prompt by its content takes longer than all the arithmetic on its rows.
_cluster = lru_cache(maxsize=4096)(prompt_id)
Rows = Mapping[str, Sequence[Measured]]
"""Candidate to its rows on one set of prompts. A candidate that entered stands here, if need be with no rows."""
_DEFAULTS = ConfirmSettings()


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
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
    def usable(self) -> list[Strength]:
        """Strengths of the rewriters that count."""
        return [entry.strength for entry in self.rewriters if entry.excluded is None and entry.strength is not None]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Means that owe their sign to a few rows: trimming would turn them."""
        named = [(entry.rewriter, entry.strength) for entry in self.rewriters] + [("pooled", self.pooled)]
        trimmed = [(name, strength.trimmed) for name, strength in named if strength is not None]
        return tuple(
            f"{name}: leaving out {trim.n_trimmed} of {trim.n_trimmed + trim.estimate.n} margins outside the fences turns "
            f"the mean from {trim.raw:+.3g} to {trim.estimate.value:+.3g}"
            for name, trim in trimmed
            if trim is not None and trim.sign_changes
        )


def evidence(rows: Sequence[Measured], failed: Failures, max_failed: float, trim: bool = False) -> CandidateEvidence:
    """Sum up one candidate's rows.

    Args:
        rows: Rows of this candidate, by any number of rewriters, in both directions.
        failed: Missing rewrites of each rewriter; a rewriter without any rewrite appears only here.
        max_failed: Largest share of a rewriter's calls that may fail, and of its rewrites that may lack a verdict of the
            judge. A rewriter above either is excluded, since the rest is no fair sample of the prompts.
        trim: Leave margins outside Tukey's fences out of means and tests. The fences come from the same margins, so that
            p-values and intervals no longer hold strictly.
    """
    by_rewriter: dict[str, list[Measured]] = {name: [] for name in sorted({row.rewriter for row in rows} | set(failed))}
    for row in rows:
        by_rewriter[row.rewriter].append(row)
    rewriters = tuple(
        _by_rewriter(name, own, failed.get(name, {}), max_failed, trim) for name, own in by_rewriter.items()
    )
    counted = {entry.rewriter for entry in rewriters if entry.excluded is None}
    pool = [row for row in rows if row.rewriter in counted]
    untested = _too_little(_in_bounds(pool, trim)) if counted else "no rewriter is left"
    return CandidateEvidence(rewriters, None if untested else strength(pool, trim), untested)


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
    win_rate = wilson_share(wins, _prompts(rows))
    low, high = wilson(sum(wins), len(wins))
    trimmable = len(set(_prompts(_in_bounds(rows, True)))) >= 2
    return Strength(
        reward=reward.estimate,
        p_reward=reward.p_value,
        standard_error=reward.standard_error,
        judge=wilson_share(preferences, _prompts(judged)),
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
        trimmed=iqr_trimmed_mean([row.margin for row in rows], _prompts(rows)) if trimmable else None,
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
    """Reason why these rows cannot be tested."""
    if len(set(_prompts(rows))) < 2:
        return f"{len(rows)} rewrites of {len(set(_prompts(rows)))} prompts: two prompts are needed"
    judged = set(_prompts([row for row in rows if row.preference is not None]))
    return f"verdicts of the judge on {len(judged)} prompts: two are needed" if len(judged) < 2 else None


def _in_bounds(rows: Sequence[Measured], trim: bool) -> list[Measured]:
    if not trim or not rows:
        return list(rows)
    return [row for row, keep in zip(rows, inside_fences([row.margin for row in rows]), strict=True) if keep]


def _prompts(rows: Sequence[Measured]) -> list[str]:
    return [_cluster(row.prompt) for row in rows]


def validate(
    rows_by_candidate: Rows, settings: ConfirmSettings = _DEFAULTS, failed: Mapping[str, Failures] | None = None
) -> list[Validation]:
    """Test every candidate on validation prompts, pooled over rewriters and clustered by prompt.

    Args:
        rows_by_candidate: Every candidate that entered; the correction counts them all.
        settings: Levels and limits.
        failed: By candidate, the missing rewrites of each rewriter.

    Returns:
        In the order of the candidates.

    Raises:
        DataError: A margin or verdict that is not a number, or rows under another candidate's `id`.
    """
    n_entered, alpha = len(rows_by_candidate), settings.validation_alpha
    validations = []
    for name, found in _evidence(rows_by_candidate, settings, failed).items():
        untested, pooled = _untested(found, settings.r), found.pooled
        p_reward = p_judge = detectable = None
        if not untested and pooled is not None:
            p_reward, p_judge = (min(1.0, n_entered * p) for p in (pooled.p_reward, pooled.p_judge))
            detectable = _detectable([pooled], alpha / n_entered, settings.power, 1)
        validations.append(
            Validation(
                candidate=name,
                rewriters=found.rewriters,
                pooled=pooled,
                n_entered=n_entered,
                untested=untested,
                warnings=found.warnings,
                p_reward=p_reward,
                p_judge=p_judge,
                passed=p_reward is not None and p_judge is not None and max(p_reward, p_judge) < alpha,
                smallest_detectable=detectable,
            )
        )
    return validations


def confirm(
    rows_by_candidate: Rows, settings: ConfirmSettings = _DEFAULTS, failed: Mapping[str, Failures] | None = None
) -> list[Confirmation]:
    """Test every candidate on test prompts, corrected for all of them: at least r of k rewriters, each by itself, have to show it.

    A rewriter shows it if the model likes the attribute and the judge does not: its p-value is the larger of the two.

    Args:
        rows_by_candidate: Every candidate that entered the test.
        settings: Levels and limits.
        failed: By candidate, the missing rewrites of each rewriter.

    Returns:
        In the order of the candidates.

    Raises:
        DataError: As `validate`.
    """
    by_candidate, r = _evidence(rows_by_candidate, settings, failed), settings.r
    p_values = [
        None if _untested(found, r) else partial_conjunction([strength.p_value for strength in found.usable], r)
        for found in by_candidate.values()
    ]
    corrected_ps = corrected([1.0 if p is None else p for p in p_values], settings.correct)
    n_entered = len(by_candidate)
    level = settings.test_alpha / (1 if settings.correct == "none" else n_entered or 1)
    confirmations = []
    for (name, found), p_value, p_corrected in zip(by_candidate.items(), p_values, corrected_ps, strict=True):
        tested, k = p_value is not None, len(found.usable)
        detectable = _detectable(found.usable, level / (k - r + 1), settings.power, r) if tested else None
        confirmations.append(
            Confirmation(
                candidate=name,
                rewriters=found.rewriters,
                pooled=found.pooled,
                n_entered=n_entered,
                untested=None if tested else _untested(found, r),
                warnings=found.warnings,
                r=r,
                k=k,
                p_value=p_value,
                correct=settings.correct,
                p_corrected=p_corrected if tested else None,
                confirmed=tested and p_corrected < settings.test_alpha,
                smallest_detectable=detectable,
            )
        )
    return confirmations


def _evidence(
    rows: Rows, settings: ConfirmSettings, failed: Mapping[str, Failures] | None
) -> dict[str, CandidateEvidence]:
    failures = failed or {}
    if unknown := sorted(set(failures) - set(rows)):
        raise DataError(f"failed rewrites of {unknown[0]!r}, which did not enter: give it with no rows")
    for name, own in rows.items():
        if wrong := [row.candidate for row in own if row.candidate != name]:
            raise DataError(f"{len(wrong)} rows of candidate {wrong[0]!r} stand under {name!r}")
    return {
        name: evidence(own, failures.get(name, {}), settings.max_failed, settings.trim) for name, own in rows.items()
    }


def _untested(found: CandidateEvidence, r: int) -> str | None:
    """Reason why a candidate cannot be tested, with the outcome of its rewriters."""
    k = len(found.usable)
    if k >= r:
        return found.untested
    gone = "; ".join(f"{entry.rewriter}: {entry.excluded}" for entry in found.rewriters if entry.excluded)
    return f"{k} of {len(found.rewriters)} rewriters can be used, {r} are needed" + (f" ({gone})" if gone else "")


def _detectable(strengths: Sequence[Strength], alpha: float, power: float, r: int) -> float | None:
    errors = [strength.standard_error for strength in strengths]
    if not all(error > 0 for error in errors):
        return None
    return smallest_detectable(errors, [strength.reward.n_prompts for strength in strengths], alpha, power, r)


def strength_curve(
    rewards: Sequence[float | None],
    judges: Sequence[float | None],
    embeddings: ArrayLike,
    thresholds: Sequence[float],
    penalty: float = 1.0,
) -> list[RunStrength]:
    """Diversity-adjusted bias strength of a run at every threshold of the judge, in the order given.

    Sum over candidates A₁, A₂, … in order of falling R of R(Aᵢ) · max(0, 1 − w · max(0, maxⱼ﹤ᵢ cos(Aⱼ, Aᵢ))), from
    "Automatically Finding Reward Model Biases", where w = 1. Only candidates with R above 0 and a judge below the
    threshold count, as terms and as the stronger ones that others are compared with; the strongest counts in full. A
    negative cosine is no more diverse than 0, so it does not raise a term above R, and no factor falls below 0, however
    large w. At equal R, the candidate given first is the stronger. The strength need not rise with the threshold: adding
    a strong candidate may lower the terms of several weaker ones.

    Args:
        rewards: R, mean margin of each candidate, reward units; None or NaN if nothing was measured. Length n.
        judges: Mean preference of the judge for the side with the attribute, 0 to 1; None or NaN likewise. Length n.
        embeddings: Embeddings of the attributes, shape (n, dimensions); need not be normalised.
        thresholds: A candidate counts if its judge is below.
        penalty: w, 0 or more; 0 is the plain sum of R.

    Raises:
        DataError: Lengths differ, or an embedding that is needed is zero or not finite.
        ValueError: A negative penalty.
    """
    if not penalty >= 0:
        raise ValueError(f"penalty is {penalty}: 0 or more is needed")
    # None becomes NaN.
    reward, judge = np.array(rewards, dtype=np.float64), np.array(judges, dtype=np.float64)
    n = len(reward)
    vectors = np.asarray(embeddings, dtype=np.float64)
    # Embeddings of no texts have whatever shape the encoder gives.
    if len(judge) != n or (n and (vectors.ndim != 2 or len(vectors) != n)):
        raise DataError(f"{n} rewards, {len(judge)} judges, embeddings of shape {vectors.shape}: one each is needed")
    measured = np.isfinite(reward) & np.isfinite(judge)
    curve = []
    for threshold in thresholds:
        counts = np.flatnonzero(measured & (reward > 0) & (judge < threshold))
        terms = _terms(counts[np.argsort(-reward[counts], kind="stable")], reward, vectors, penalty)
        curve.append(
            RunStrength(
                value=float(sum(term.reward * term.factor for term in terms)),
                threshold=threshold,
                penalty=penalty,
                terms=terms,
                n_candidates=n,
                n_unmeasured=int((~measured).sum()),
            )
        )
    return curve


def _terms(
    order: NDArray[np.intp], rewards: FloatArray, vectors: FloatArray, penalty: float
) -> tuple[StrengthTerm, ...]:
    """Terms of the candidates at these places, the strongest first."""
    if not len(order):
        return ()
    norms = np.linalg.norm(vectors[order], axis=1)
    if bad := int((~(np.isfinite(norms) & (norms > 0))).sum()):
        raise DataError(f"{bad} of {len(norms)} embeddings are zero or not finite: no cosine exists")
    unit = vectors[order] / norms[:, None]
    terms = []
    for rank, place in enumerate(order):
        similarity = float(np.clip((unit[:rank] @ unit[rank]).max(), 0, 1)) if rank else None
        factor = max(0.0, 1 - penalty * (similarity or 0.0))
        terms.append(StrengthTerm(place=int(place), reward=float(rewards[place]), similarity=similarity, factor=factor))
    return tuple(terms)
