"""Evidence for a candidate from its rewrites: by rewriter, pooled, tested on held-out prompts; agreement of rewriters."""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from cda.arrays import FloatArray
from cda.errors import DataError
from cda.records import prompt_id
from cda.results.base import Estimate, Missing
from cda.results.discover import Measured
from cda.results.evidence import (
    ByRewriter,
    Confirmation,
    ConfirmSettings,
    Distance,
    QuantilePair,
    RewriterAgreement,
    Strength,
    Validation,
)
from cda.stats.digits import two_digits
from cda.stats.estimators import mean_of, of_draws, share_of, wilson
from cda.stats.means import inside_fences, iqr_trimmed_mean, smallest_detectable
from cda.stats.multiplicity import corrected, partial_conjunction

Failures = Mapping[str, Mapping[str, int]]
"""Rewriter to the reasons and counts of the rewrites that it did not give."""
_NO_SIDE = 0.5
"""Mean preference of a judge that prefers neither side."""
# Naming a prompt by its content takes longer than all the arithmetic on its rows.
_cluster = lru_cache(maxsize=4096)(prompt_id)
Rows = Mapping[str, Sequence[Measured]]
"""Candidate to its rows on one set of prompts. A candidate that entered stands here, if need be with no rows."""
_DEFAULTS = ConfirmSettings()
_N_DRAWS = 10_000
_MIN_PROMPTS = 5  # with fewer, too many draws are of one prompt alone and have no correlation
_UNDEFINED_LIMIT = 0.01
_CHUNK_BYTES = 4 << 20
_QUANTILES = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
    """All there is on one candidate: its rewriters in alphabetical order, and numbers pooled over those that count, or why none."""

    rewriters: tuple[ByRewriter, ...]
    pooled: Strength | None
    untested: str | None

    @property
    def usable(self) -> list[Strength]:
        return [entry.strength for entry in self.rewriters if entry.excluded is None and entry.strength is not None]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Means that owe their sign to a few rows: trimming would turn them."""
        named = [(entry.rewriter, entry.strength) for entry in self.rewriters] + [("pooled", self.pooled)]
        trimmed = [(name, strength.trimmed) for name, strength in named if strength is not None]
        return tuple(
            f"{name}: leaving out {trim.n_trimmed} of {trim.n_trimmed + trim.estimate.n} margins outside the fences turns "
            f"the mean from {two_digits(trim.raw)} to {two_digits(trim.estimate.value)}"
            for name, trim in trimmed
            if trim is not None and trim.sign_changes
        )


def evidence(rows: Sequence[Measured], failed: Failures, max_failed: float, trim: bool = False) -> CandidateEvidence:
    """Sum up one candidate's rows, by any number of rewriters, in both directions.

    A rewriter without any rewrite appears in `failed` alone. One that failed, or whose rewrites lack a verdict of the judge, by
    more than the share `max_failed` is excluded, since the rest is no fair sample of the prompts. `trim` leaves margins outside
    Tukey's fences out of means and tests; the fences come from the same margins, so that p-values and intervals no longer hold
    strictly.
    """
    rewriters = tuple(
        _by_rewriter(name, [row for row in rows if row.rewriter == name], failed.get(name, {}), max_failed, trim)
        for name in sorted({row.rewriter for row in rows} | set(failed))
    )
    counted = {entry.rewriter for entry in rewriters if entry.excluded is None}
    pool = [row for row in rows if row.rewriter in counted]
    untested = _too_little(_in_bounds(pool, trim)) if counted else "no rewriter is left"
    return CandidateEvidence(rewriters, None if untested else strength(pool, trim), untested)


def strength(rows: Sequence[Measured], trim: bool = False) -> Strength:
    """Numbers of some rows, clustered by prompt; DataError for margins or verdicts of fewer than two prompts."""
    used, judged = _in_bounds(rows, trim), [row for row in rows if row.preference is not None]
    reward = mean_of([row.margin for row in used], _prompts(used))
    preferences = [row.preference for row in judged if row.preference is not None]
    verdict = mean_of(preferences, _prompts(judged), "share")
    wins = [float(row.margin > 0) for row in rows]
    win_rate = share_of(wins, _prompts(rows))
    low, high = wilson(sum(wins), len(wins))
    ends = {"low": low, "high": high}
    trimmable = len(set(_prompts(_in_bounds(rows, True)))) >= 2
    return Strength(
        reward=reward.estimate,
        p_reward=reward.p_value(side="greater"),
        standard_error=reward.error,
        judge=share_of(preferences, _prompts(judged)),
        p_judge=verdict.p_value(_NO_SIDE, "less"),
        n_unjudged=len(rows) - len(judged),
        win_rate=win_rate,
        win_rate_unclustered=win_rate.model_copy(update=ends),
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
    """Test every candidate on validation prompts, pooled over rewriters and clustered by prompt, in the order given.

    The correction (Bonferroni) counts every candidate that entered; `failed` holds each one's missing rewrites by rewriter.
    DataError for a margin or verdict that is not a number, and for rows under another candidate's `id`.
    """
    n_entered, alpha = len(rows_by_candidate), settings.validation_alpha
    validations = []
    for found, shared in _entered(rows_by_candidate, settings, failed):
        p_reward = p_judge = detectable = None
        if not shared["untested"] and (pooled := found.pooled) is not None:
            p_reward, p_judge = (min(1.0, n_entered * p) for p in (pooled.p_reward, pooled.p_judge))
            detectable = _detectable([pooled], alpha / n_entered, settings.power, 1)
        own = {
            "p_reward": p_reward,
            "p_judge": p_judge,
            "passed": p_reward is not None and p_judge is not None and max(p_reward, p_judge) < alpha,
            "smallest_detectable": detectable,
        }
        validations.append(Validation.model_validate(shared | own))
    return validations


def confirm(
    rows_by_candidate: Rows, settings: ConfirmSettings = _DEFAULTS, failed: Mapping[str, Failures] | None = None
) -> list[Confirmation]:
    """Test every candidate on test prompts, corrected for all of them: at least r of k rewriters, each by itself, have to show it.

    A rewriter shows it if the model likes the attribute and the judge does not: its p-value is the larger of the two. Arguments,
    order and errors as of `validate`.
    """
    entered, r = _entered(rows_by_candidate, settings, failed), settings.r
    p_values = [
        None if shared["untested"] else partial_conjunction([strength.p_value for strength in found.usable], r)
        for found, shared in entered
    ]
    corrected_ps = corrected([1.0 if p is None else p for p in p_values], settings.correct)
    level = settings.test_alpha / (1 if settings.correct == "none" else len(entered) or 1)
    confirmations = []
    for (found, shared), p_value, p_corrected in zip(entered, p_values, corrected_ps, strict=True):
        tested, k = p_value is not None, len(found.usable)
        own = {
            "r": r,
            "k": k,
            "p_value": p_value,
            "correct": settings.correct,
            "p_corrected": p_corrected if tested else None,
            "confirmed": tested and p_corrected < settings.test_alpha,
            "smallest_detectable": _detectable(found.usable, level / (k - r + 1), settings.power, r)
            if tested
            else None,
        }
        confirmations.append(Confirmation.model_validate(shared | own))
    return confirmations


def _entered(
    rows: Rows, settings: ConfirmSettings, failed: Mapping[str, Failures] | None
) -> list[tuple[CandidateEvidence, dict[str, object]]]:
    """Evidence for each candidate, and the fields that both of its tests share."""
    failures = failed or {}
    if unknown := sorted(set(failures) - set(rows)):
        raise DataError(f"failed rewrites of {unknown[0]!r}, which did not enter: give it with no rows")
    entered = []
    for name, own in rows.items():
        if wrong := [row.candidate for row in own if row.candidate != name]:
            raise DataError(f"{len(wrong)} rows of candidate {wrong[0]!r} stand under {name!r}")
        found = evidence(own, failures.get(name, {}), settings.max_failed, settings.trim)
        shared: dict[str, object] = {
            "candidate": name,
            "rewriters": found.rewriters,
            "pooled": found.pooled,
            "n_entered": len(rows),
            "untested": _untested(found, settings.r),
            "warnings": found.warnings,
        }
        entered.append((found, shared))
    return entered


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


def agreements(rows: Sequence[Measured], rng: np.random.Generator) -> tuple[RewriterAgreement, ...]:
    """Agreement of every two rewriters of one candidate, in the order in which they first come.

    Only responses that both rewrote are compared, so that a difference is not one of prompts; their margins are averaged
    within each prompt, since only prompts are independent.
    """
    names = list(dict.fromkeys(row.rewriter for row in rows))
    return tuple(_agreement(rows, first, second, rng) for first, second in itertools.combinations(names, 2))


def _agreement(rows: Sequence[Measured], first: str, second: str, rng: np.random.Generator) -> RewriterAgreement:
    x, y, n_responses = _shared(rows, first, second)
    n = len(x)
    try:
        r: Sequence[Estimate | Missing] = correlations(x, y, rng)
    except DataError as error:
        r = [Missing(reason=str(error) if n else "no response that both rewrote")] * 2
    quantiles = zip(_QUANTILES, np.quantile(x, _QUANTILES), np.quantile(y, _QUANTILES), strict=True) if n else ()
    with (
        warnings.catch_warnings()
    ):  # where the exact p cannot be computed, SciPy takes the asymptotic one, and warns of it
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful")
        tested = stats.ks_2samp(x, y) if n else None
    return RewriterAgreement(
        first=first,
        second=second,
        n_prompts=n,
        n_responses=n_responses,
        pearson=r[0],
        spearman=r[1],
        quantiles=tuple(QuantilePair(share=at, first=own, second=other) for at, own, other in quantiles),
        distance=Distance(statistic=tested.statistic, p_value=tested.pvalue, n_first=n, n_second=n) if tested else None,
    )


def correlations(x: FloatArray, y: FloatArray, rng: np.random.Generator) -> tuple[Estimate, Estimate]:
    """Pearson's and Spearman's correlation over prompts, with intervals from prompts drawn with replacement.

    In each draw the ranks are those among the prompts drawn, ties sharing the mean of theirs: ranks that were fixed before
    would hide that ranks are themselves estimated. x and y hold one value a prompt, shape (n,). DataError for fewer than five
    prompts, or values that (nearly) do not vary.
    """
    n = len(x)
    if n < _MIN_PROMPTS:
        raise DataError(f"{n} shared prompts: a correlation with an interval needs {_MIN_PROMPTS} or more")
    # Rounding errors are not variation.
    if any(np.ptp(side) <= 1e-12 * np.abs(side).max() for side in (x, y)):
        raise DataError(f"margins do not vary over the {n} shared prompts: they have no correlation")
    values = _weighted(x, y, np.ones((1, n)))[:, 0]
    step = max(1, _CHUNK_BYTES // (8 * n))
    chunks = [min(step, _N_DRAWS - start) for start in range(0, _N_DRAWS, step)]
    even = np.full(n, 1 / n)
    draws = np.concatenate(
        [_weighted(x, y, rng.multinomial(n, even, size=size).astype(float)) for size in chunks], axis=1
    )
    if np.mean(~np.isfinite(draws)) > _UNDEFINED_LIMIT:
        raise DataError(f"margins hardly vary over the {n} shared prompts: they have no correlation")
    estimates = []
    for value, drawn in zip(values.tolist(), draws, strict=True):
        estimates.append(of_draws(value, drawn, n, n, "correlation", (-1.0, 1.0)))
    return estimates[0], estimates[1]


def _shared(rows: Sequence[Measured], first: str, second: str) -> tuple[FloatArray, FloatArray, int]:
    """Mean margins of both rewriters by prompt over the responses both rewrote, and how many responses these are."""
    margins: dict[str, dict[tuple[str, str, str], list[float]]] = {first: defaultdict(list), second: defaultdict(list)}
    for row in rows:
        if row.rewriter in margins:
            margins[row.rewriter][row.prompt_id, row.direction, row.original].append(row.margin)
    both = [item for item in margins[first] if item in margins[second]]
    by_prompt: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in both:
        by_prompt[item[0]].append((float(np.mean(margins[first][item])), float(np.mean(margins[second][item]))))
    means = np.array([np.mean(pairs, axis=0) for pairs in by_prompt.values()]).reshape(-1, 2)
    return means[:, 0], means[:, 1], len(both)


def _weighted(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Pearson and Spearman under each row of weights (how often each prompt is drawn). Shape (2, draws)."""
    centred, ranks = (x - x.mean(), y - y.mean()), (_ranks(x, weights), _ranks(y, weights))
    return np.stack([_pearson(*centred, weights), _pearson(*ranks, weights)])


def _ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Mid-rank of every value among the values drawn, shape (draws, n)."""
    distinct, level = np.unique(values, return_inverse=True)
    counts = weights @ (level[:, None] == np.arange(len(distinct)))
    return np.asarray((np.cumsum(counts, axis=1) - (counts - 1) / 2)[:, level], dtype=np.float64)


def _pearson(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted correlation of each row, shape (draws,); NaN if a side does not vary."""
    total = weights.sum(axis=1, keepdims=True)
    x, y = (side - (weights * side).sum(axis=1, keepdims=True) / total for side in (x, y))
    xx, yy, xy = ((weights * side * other).sum(axis=1) for side, other in ((x, x), (y, y), (x, y)))
    varies = (xx > 1e-12 * xx.max()) & (yy > 1e-12 * yy.max())
    return np.asarray(np.clip(xy / np.sqrt(np.where(varies, xx * yy, np.nan)), -1, 1), dtype=np.float64)
