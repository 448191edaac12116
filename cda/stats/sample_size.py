"""Numbers of triples, prompts and votes that an audit needs for a 95% interval of at most ± `half_width`.

`design_effect`: variance over that of as many independent triples: 1 + (m − 1)·ICC for m triples a prompt (Kish 1965, Survey
Sampling). All raise DataError for an argument outside its range.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from cda.errors import DataError
from cda.stats.estimators import Z, wilson

MAX_VOTES = 9_999  # an item; nobody would collect more
_MOST_ROOT = 1e9  # root of the largest number of rows


def triples_for_share(half_width: float, share: float = 0.5, design_effect: float = 1.0) -> int:
    """Fewest triples for Wilson's interval of an expected share, such as the skew; 0.5 needs the most. Wilson (1927),
    J. Am. Stat. Assoc. 22, 209–212: half the width is z·√(p(1−p)n + z²/4) / (n + z²), at n divided by the design
    effect. At p = 0.5 this is z²/(4h²) − z², rounded up.
    """
    _inside(half_width, 0.0, 0.5, "half-width of a share")
    _positive(design_effect, "design effect")
    if not 0 <= share <= 1:
        raise DataError(f"an expected share of {share}: it lies between 0 and 1")

    def narrow(n: int) -> bool:
        low, high = wilson(share * n / design_effect, n / design_effect)
        return (high - low) / 2 <= half_width

    return _smallest(narrow)


def triples_for_change(half_width: float, discordant_share: float, design_effect: float = 1.0) -> int:
    """Fewest triples for the interval of a paired change of a share.

    n = z²·d / h², with d the discordant share of triples, on which the preference flips: the variance of one triple's
    difference is d − c² (Connor 1987, Biometrics 43, 207–211), the most at an expected change c of 0. Large-sample: if few
    triples flip, Newcombe's interval of `paired_change` is somewhat wider.
    """
    _inside(half_width, 0.0, 1.0, "half-width of a change")
    _positive(design_effect, "design effect")
    if not 0 < discordant_share <= 1:
        raise DataError(f"a discordant share of {discordant_share}: it lies above 0 and at most at 1")
    return _rows(half_width, math.sqrt(discordant_share * design_effect))


def prompts_for_effect(half_width: float, sd: float) -> int:
    """Fewest prompts for the interval of a mean margin, in reward units: n = (z·sd / h)², with sd that between prompts
    of the margin, averaged within the prompt. Large-sample: below some 30 prompts it comes out wider.
    """
    _positive(half_width, "half-width")
    _positive(sd, "standard deviation")
    return _rows(half_width, sd)


def majority_error(n_votes: int, vote_correlation: float) -> float:
    """Expected share of items on which the majority of `n_votes` votes, an odd number, is not that of infinitely many.

    The vote model is `cda.stats.votes.noise_ceiling`'s with two words: an item's votes are independent draws from its
    own share for the perturbed side, which is Beta(a, a) over items with ρ = 1 / (1 + 2a) (ties are not modelled), the
    correlation of two votes on one item; `NoiseCeiling.vote_correlation`. Exact: over all counts x of k votes, the
    beta-binomial chance of x times the chance that Beta(a + x, a + k − x), the item's share given x, lies on the other
    side of ½.

    If a model disagrees with true majorities on a share m of the items, then measured against majorities that are wrong on a
    share e, independently of the model, its miscalibration is m + e·(1 − 2m). More votes reduce this, more items do not.
    """
    if n_votes < 1 or n_votes % 2 == 0:
        raise DataError(f"a majority of {n_votes} votes: an odd number is needed")
    _inside(vote_correlation, 0.0, 1.0, "vote correlation")
    a = (1 / vote_correlation - 1) / 2
    for_perturbed = np.arange(n_votes + 1)
    chance = stats.betabinom.pmf(for_perturbed, n_votes, a, a)
    below_half = special.betainc(a + for_perturbed, a + n_votes - for_perturbed, 0.5)
    wrong = np.where(for_perturbed > n_votes / 2, below_half, 1 - below_half)
    return float(chance @ wrong)


def votes_for_majority(wanted_error: float, vote_correlation: float) -> int:
    """Fewest votes an item, an odd number, for a `majority_error` of at most `wanted_error`; DataError beyond 9,999."""
    _inside(wanted_error, 0.0, 1.0, "wanted error")

    def reliable(half: int) -> bool:
        return majority_error(2 * half - 1, vote_correlation) <= wanted_error

    # Two more votes never make a majority worse (Condorcet), so that the search may skip.
    most = (MAX_VOTES + 1) // 2
    if not reliable(most):
        raise DataError(
            f"even {MAX_VOTES} votes an item leave more than {wanted_error} of the majorities wrong at a vote "
            f"correlation of {vote_correlation}: allow a larger error, or report disagreement without majorities"
        )
    return 2 * _smallest(reliable) - 1


def _rows(half_width: float, sd: float) -> int:
    """Smallest n with z·sd / √n ≤ half-width, at least 2: one row has no spread."""
    root = sd / half_width * Z
    if not root <= _MOST_ROOT:
        raise DataError(
            f"a half-width of {half_width:g} at a standard deviation of {sd:g}: more rows than there can be"
        )
    return max(2, math.ceil(root**2))


def _smallest(holds: Callable[[int], bool]) -> int:
    """Smallest n ≥ 1 for which `holds`, given that it holds for all larger n too."""
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _inside(value: float, low: float, high: float, name: str) -> None:
    if not low < value < high:
        raise DataError(f"a {name} of {value}: it lies between {low:g} and {high:g}, both excluded")


def _positive(value: float, name: str) -> None:
    if not 0 < value < math.inf:
        raise DataError(f"a {name} of {value}: a positive number is needed")
