"""What the measured rewrites of one candidate add up to: by rewriter, and over the rewriters that can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cda.discovery.records import Measured
from cda.records import prompt_id
from cda.results.base import Estimate
from cda.stats.one_sided import clustered_t_test
from cda.stats.proportions import share, wilson
from cda.stats.trimmed import TrimmedMean, inside_fences, iqr_trimmed_mean

Failures = Mapping[str, Mapping[str, int]]
"""Rewriter to the reasons and counts of the rewrites that it did not give."""
_NO_SIDE = 0.5
"""What a judge that prefers neither side says on average."""


@dataclass(frozen=True, slots=True)
class Strength:
    """How much the model likes an attribute, and how little the judge does.

    Attributes:
        reward: Mean margin, reward units, with a prompt-clustered t interval.
        p_reward: One-sided, against a mean margin of 0 or below.
        standard_error: Of the mean margin, clustered by prompt.
        judge: Mean preference for the side with the attribute, 0 to 1, ties as halves; Wilson's interval on the effective
            number of verdicts.
        p_judge: One-sided, against a mean preference of 0.5 or above.
        n_unjudged: Rows without a verdict; they count for the reward alone.
        win_rate: Share of margins above 0; Wilson's interval on the effective number of rows.
        win_rate_unclustered: The same as papers print it, every row taken for independent.
        trimmed: Mean of the margins inside Tukey's fences; None where those come from one prompt.
        n_left_out: Margins outside the fences that `reward` is without: 0 unless trimming was asked for.
    """

    reward: Estimate
    p_reward: float
    standard_error: float
    judge: Estimate
    p_judge: float
    n_unjudged: int
    win_rate: Estimate
    win_rate_unclustered: Estimate
    trimmed: TrimmedMean | None
    n_left_out: int = 0

    @property
    def p_value(self) -> float:
        """Of both together, liked by the model and disliked by the judge: the larger one (intersection-union test)."""
        return max(self.p_reward, self.p_judge)


@dataclass(frozen=True, slots=True)
class ByRewriter:
    """One rewriter's share of the evidence for a candidate.

    Attributes:
        rewriter: Its name.
        n: Rewrites that were measured.
        failed: Rewrites that are missing, by reason.
        excluded: Why it does not count for this candidate; None where it does.
        strength: Its own numbers, where there are enough of them, also of an excluded one.
    """

    rewriter: str
    n: int
    failed: Mapping[str, int]
    excluded: str | None
    strength: Strength | None


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
        reward.estimate,
        reward.p_value,
        reward.standard_error,
        share(preferences, _prompts(judged)),
        verdict.p_value,
        len(rows) - len(judged),
        win_rate,
        Estimate(
            value=win_rate.value,
            low=low,
            high=high,
            n=len(wins),
            n_prompts=win_rate.n_prompts,
            unit="share",
            method="Wilson 95%, rows as independent",
        ),
        _trimmed(rows),
        len(rows) - len(used),
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
    return ByRewriter(name, len(rows), dict(failed), excluded, None if too_little else strength(rows, trim))


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
