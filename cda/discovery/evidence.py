"""What the measured rewrites of one candidate add up to: by rewriter, and over the rewriters that can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cda.records import prompt_id
from cda.results.base import Estimate
from cda.results.discover import Measured
from cda.results.evidence import ByRewriter, Strength, TrimmedMean
from cda.stats.one_sided import clustered_t_test
from cda.stats.proportions import share, wilson
from cda.stats.trimmed import inside_fences, iqr_trimmed_mean

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
