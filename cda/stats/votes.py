"""People's raw votes: majorities under a stated tie rule, agreement, and the noise ceiling of a second majority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from cda.arrays import BoolArray, FloatArray
from cda.errors import DataError
from cda.records import Exclusions, Preference, TieRule, count_reasons
from cda.results.base import Estimate, or_missing
from cda.results.skew import Agreement, Leading, NoiseCeiling
from cda.stats.estimators import FEWEST_DRAWN, resampled, share_of

Counts = NDArray[np.int64]
"""Votes of each item in the order of `WORDS`. Shape (n, 3)."""

WORDS: tuple[Preference, ...] = ("perturbed", "base", "tie")
_PERTURBED, _BASE, _TIE = range(3)
N_SUMS = len(WORDS) + 1
"""Columns of `coincidences`."""
_CORRELATIONS = np.arange(0.005, 1.0, 0.01)  # grid of how alike two votes on one item are
_STEP = 1e-4  # of the pooled shares towards one word, for the slope of the ceiling


@dataclass(frozen=True, slots=True)
class Majority:
    """Preference of most people, item by item. Arrays of shape (n,).

    `target` is 1 for perturbed, 0 for base, 0.5 for neither (rule `half` only); 0.5 as a filler where `used`, the items that
    count, is False. `rule` is the treatment of ties and splits; `exclusions` counts the other items by reason.
    """

    target: FloatArray
    used: BoolArray
    rule: TieRule
    exclusions: Exclusions


def count_votes(votes: Sequence[Sequence[str]]) -> Counts:
    """Votes of each item as counts of (perturbed, base, tie); an item may have any number, none included. DataError: no
    items, no votes at all, or a vote that is none of the three words.
    """
    if not len(votes):
        raise DataError("no items: without votes nothing about people can be estimated")
    counts = np.zeros((len(votes), len(WORDS)), dtype=np.int64)
    for item, words in enumerate(votes):
        for word in words:
            if word not in WORDS:
                raise DataError(f"item {item}: vote '{word}' is none of {', '.join(WORDS)}")
            counts[item, WORDS.index(word)] += 1
    if not counts.any():
        raise DataError(f"no votes on any of {len(votes)} items: human skew and miscalibration cannot be estimated")
    return counts


def majority(counts: Counts, rule: TieRule, released: Sequence[Preference | None] | None = None) -> Majority:
    """Most frequent word of each item; if it is `tie`, or two words lead together (a split), the rule decides.

    `drop` leaves ties and splits out; `half` counts them half for each side; `as-released` takes `released`, the
    aggregated label of each item, and leaves its ties out; DataError without one an item, or if no item has a preferred
    side.
    """
    if rule == "as-released":
        if released is None or len(released) != len(counts):
            raise DataError(f"the tie rule as-released needs one released label for each of {len(counts)} items")
        words: Sequence[str] = [label or "no label" for label in released]
    else:
        words = leading_words(counts)
    target = np.array([{"perturbed": 1.0, "base": 0.0}.get(word, 0.5) for word in words])
    sided = np.isin(words, ("perturbed", "base"))
    used = sided | np.isin(words, ("tie", "split")) if rule == "half" else sided
    exclusions = Exclusions(len(words), count_reasons(list(compress(words, ~used))))
    if not sided.any():
        raise DataError(
            f"no item has a majority for one side ({exclusions}): whom people prefer, and whether a model agrees, "
            "cannot be estimated"
        )
    return Majority(target, used, rule, exclusions)


def assumed_ties(n: int) -> Majority:
    """Ties throughout, in place of votes: the assumption that both sides are worth the same."""
    return Majority(np.full(n, 0.5), np.ones(n, dtype=bool), "half", Exclusions(n, {}))


def leading_words(counts: Counts) -> list[Leading]:
    """Most frequent word of each item: one of `WORDS`, `split` if two lead together, or `no votes`."""
    top = counts.max(axis=1)
    splits = (counts == top[:, None]).sum(axis=1) > 1
    best = counts.argmax(axis=1)
    return [
        "no votes" if not most else "split" if split else WORDS[word]
        for most, split, word in zip(top, splits, best, strict=True)
    ]


def agreement(counts: Counts, item_ids: Sequence[str], people: Majority | None = None) -> Agreement:
    """Mean majority share by `share_of`, and Krippendorff's alpha with one from resampled clusters of items. With `people`, also the
    share of votes for the majority where that counts and is for one side.

    Alpha is Krippendorff's (2011, "Computing Krippendorff's alpha-reliability"); its interval takes the draws that have
    one. If the votes give none, `alpha` says why; the majority share stands. DataError: no item with two votes.
    """
    several = counts.sum(axis=1) >= 2
    used, ids = counts[several], np.asarray(item_ids, dtype=str)[several]
    exclusions = Exclusions(len(counts), {"fewer than two votes": int((~several).sum())} if not several.all() else {})
    if not several.any():
        raise DataError(f"no item of {len(counts)} has two votes: agreement between people cannot be estimated")
    n_votes = int(used.sum())
    top = share_of(used.max(axis=1) / used.sum(axis=1), ids.tolist(), n_votes / len(used))
    alpha = or_missing(partial(_estimated_alpha, used, ids))
    decided = None if people is None else or_missing(partial(_with_majority, counts, item_ids, people))
    return Agreement(
        majority_share=top, with_majority=decided, alpha=alpha, level="nominal", n_votes=n_votes, exclusions=exclusions
    )


def _with_majority(counts: Counts, item_ids: Sequence[str], people: Majority) -> Estimate:
    """DataError: no item has votes and a majority for one side."""
    decided = people.used & (people.target != 0.5) & (counts.sum(axis=1) > 0)
    if not decided.any():
        raise DataError(f"no item of {len(counts)} has votes and a majority for one side")
    votes, target = counts[decided], people.target[decided]
    own = np.where(target == 1, votes[:, 0], votes[:, 1]) / votes.sum(axis=1)
    return share_of(own, np.asarray(item_ids, dtype=str)[decided].tolist(), float(votes.sum(axis=1).mean()))


def _estimated_alpha(used: Counts, ids: NDArray[np.str_]) -> Estimate:
    """Alpha with its interval; DataError for one word throughout (chance alone then agrees), or in too many draws."""
    if (used.sum(axis=0) > 0).sum() < 2:
        raise DataError("every vote is the same word: Krippendorff's alpha is undefined, chance alone would agree")
    return resampled(coincidences(used), ids.tolist(), alphas, "alpha", (-1.0, 1.0))


def coincidences(counts: Counts) -> FloatArray:
    """For each contrast the weight of its pairs of different verdicts, and its verdicts by word; 0 with fewer than two. Shape
    (n, 4). A pair weighs 1 / (verdicts on the contrast − 1)."""
    totals = counts.sum(axis=1)
    several = np.where(totals > 1, totals, 2)
    used = counts * (totals > 1)[:, None]
    differing = (totals**2 - (counts**2).sum(axis=1)) * (totals > 1) / (several - 1)
    return np.column_stack([differing, used]).astype(np.float64)


def alphas(sums: FloatArray) -> FloatArray:
    """Alpha from sums of `coincidences`, (draws, 4); NaN if one word is all there is. Shape (draws,)."""
    differing, words = sums[:, 0], sums[:, 1:]
    total = words.sum(axis=1)
    expected = total**2 - (words**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - differing * (total - 1) / expected, np.nan))


def noise_ceiling(counts: Counts, first: Majority, item_ids: Sequence[str]) -> NoiseCeiling:
    """Miscalibration of a second, independent majority of as many votes an item against `first`, under a stated vote
    model.

    The model: an item's votes are independent draws from its own shares of (perturbed, base, tie), and these shares
    come from a Dirichlet around the pooled shares of all votes (half a vote added to each word). The spread of items, ρ
    = 1 / (1 + Σα), has a flat prior on (0, 1) and is integrated out on a grid, so that few votes are shrunk as far as
    the data require. Given ρ, everything is exact: second votes follow the Dirichlet-multinomial predictive
    distribution of the item's own votes, and every outcome is enumerated. Raw shares would be far too optimistic: three
    votes that agree would agree for ever. The rule of `first` holds for the second too (`as-released` as `drop`). For
    the interval, items' clusters are drawn, ρ fitted anew, and the pooled shares moved to the draw's to first order. Not a bound on a model: one that knows the true shares
    disagrees with `first` less than three more people do. DataError: no item with two votes (how far people differ is
    then unknown), or fewer than twice `FEWEST_DRAWN` prompts.
    """
    totals = counts.sum(axis=1)
    if totals.max(initial=0) < 2:
        raise DataError(
            f"no item of {len(counts)} has two votes: with one vote an item, disagreement between people cannot be "
            "told from items that differ, so there is no noise ceiling"
        )
    keep = first.used & (totals > 0)
    if not keep.any():
        raise DataError("no item has both votes and a majority: a second majority has nothing to be compared with")
    if (n_prompts := len(set(item_ids))) < 2 * FEWEST_DRAWN:
        raise DataError(f"votes on {n_prompts} prompts, and a noise ceiling needs at least {2 * FEWEST_DRAWN}")
    pooled = (counts.sum(axis=0) + 0.5) / (counts.sum() + 1.5)
    likelihood, disagreed, compared = _on_grid(counts, first, keep, pooled)
    sums = np.hstack([likelihood, disagreed, compared]).sum(axis=0)[None]
    slopes = np.zeros(len(pooled))
    for word in range(len(pooled)):
        moved = pooled + _STEP * (np.eye(len(pooled))[word] - pooled)
        there = np.hstack(_on_grid(counts, first, keep, moved)).sum(axis=0)[None]
        slopes[word] = float((_ceiling(there) - _ceiling(sums))[0]) / _STEP
    shares = counts.sum(axis=0) / counts.sum()

    def ceiling_of(sums: FloatArray) -> FloatArray:
        """Each draw's own, with the ceiling's first-order change by the draw's own pooled shares."""
        on_grid, votes = sums[:, : -len(shares)], sums[:, -len(shares) :]
        return np.asarray(_ceiling(on_grid) + (votes / votes.sum(axis=1, keepdims=True) - shares) @ slopes)

    drawn = resampled(np.hstack([likelihood, disagreed, compared, counts]), item_ids, ceiling_of, "share", (0.0, 1.0))
    estimate = drawn.model_copy(update={"n": int(keep.sum())})
    correlation = float(_posterior(likelihood.sum(axis=0)) @ _CORRELATIONS)
    return NoiseCeiling(miscalibration=estimate, vote_correlation=correlation, n_votes=None)


def _on_grid(
    counts: Counts, first: Majority, keep: BoolArray, pooled: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of each item under each vote correlation: log-likelihood of its votes, and the chances that a second majority disagrees and that it
    counts. Shapes (n, grid)."""
    likelihood = np.zeros((len(counts), len(_CORRELATIONS)))
    compared, disagreed = np.zeros_like(likelihood), np.zeros_like(likelihood)
    alphas = (1 / _CORRELATIONS - 1)[:, None] * pooled  # (grid, 3)
    keys = np.column_stack([counts, np.where(keep, 2 * first.target, -1).astype(np.int64)])
    patterns, which = np.unique(keys, axis=0, return_inverse=True)
    for at, pattern in enumerate(patterns):
        seen, rows = pattern[:3], which == at
        likelihood[rows] = _dirichlet_multinomial(alphas, seen[None])[:, 0]
        if pattern[3] < 0:
            continue
        outcomes = _outcomes(int(seen.sum()))
        chance = np.exp(_dirichlet_multinomial(alphas + seen, outcomes))  # (grid, outcomes)
        second = majority_targets(outcomes)
        counted = np.ones(len(outcomes)) if first.rule == "half" else (second != 0.5).astype(float)
        compared[rows] = chance @ counted
        disagreed[rows] = chance @ (counted * np.abs(second - pattern[3] / 2))
    return likelihood, disagreed, compared


def majority_targets(counts: Counts) -> FloatArray:
    """1 if most votes are for the perturbed side, 0 for the base, 0.5 if neither leads alone. Shape (n,)."""
    others = np.sort(counts[:, [_BASE, _TIE]], axis=1)[:, 1], np.sort(counts[:, [_PERTURBED, _TIE]], axis=1)[:, 1]
    return np.asarray(0.5 + 0.5 * (counts[:, _PERTURBED] > others[0]) - 0.5 * (counts[:, _BASE] > others[1]))


def _ceiling(sums: FloatArray) -> FloatArray:
    """Ceiling from sums over items of (log-likelihood, disagreed, compared) on the grid; NaN if none is compared."""
    log_likelihood, disagreed, compared = np.split(sums, 3, axis=1)
    posterior = _posterior(log_likelihood)
    weight = (posterior * compared).sum(axis=1)
    undefined = np.full(len(sums), np.nan)
    return np.asarray(np.divide((posterior * disagreed).sum(axis=1), weight, out=undefined, where=weight > 0))


def _posterior(log_likelihood: FloatArray) -> FloatArray:
    """Weights of the grid of vote correlations under a flat prior, along the last axis."""
    return np.asarray(np.exp(log_likelihood - logsumexp(log_likelihood, axis=-1, keepdims=True)))


def _dirichlet_multinomial(alphas: FloatArray, outcomes: Counts) -> FloatArray:
    """Log-probability of each outcome under each Dirichlet: (g, 3) and (m, 3) to (g, m)."""
    size = outcomes.sum(axis=1)
    ways = gammaln(size + 1) - gammaln(outcomes + 1).sum(axis=1)
    total = alphas.sum(axis=1)[:, None]
    gained = (gammaln(alphas[:, None, :] + outcomes) - gammaln(alphas)[:, None, :]).sum(axis=2)
    return np.asarray(ways + gammaln(total) - gammaln(total + size) + gained)


def _outcomes(n_votes: int) -> Counts:
    """All ways in which `n_votes` votes can fall on three words. Shape (m, 3)."""
    return np.array([(a, b, n_votes - a - b) for a in range(n_votes + 1) for b in range(n_votes + 1 - a)])
