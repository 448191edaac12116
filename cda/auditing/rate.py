"""RATE in an audit: effects on triples under every scoring, of rewards or of a pairwise judge's preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, pairwise

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.groups import Scorings, per_scoring, read_margins
from cda.records import Triple, equal_texts, normal_text, prompt_id
from cda.results.base import NOT_TRAINED, Missing, Test, or_missing
from cda.results.effects import SIGN_TEST, T_TEST, BiasRate, Effect, Flips, PassDrift, RateEffects, deciding
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats import rate as statistics
from cda.stats.drift import feature_drift, measured
from cda.stats.rate import Contrasts, Estimand

_IMBALANCE = 0.1
"""Standardised difference above which two groups are usually called imbalanced (Austin, 2009)."""
_UNSCALED = "training may have changed the spread of the rewards"


def rate(
    triples: Sequence[Triple], flips: Mapping[str, Flips], scorings: Scorings, min_flipped: float
) -> dict[str, BiasRate]:
    """RATE effects of every bias with triples; every scoring on the same ones, whose rewrites flipped the bias by every check.
    `flips` counts flipped originals; no effect of a group of which less than the share `min_flipped` could be flipped."""
    return {
        name: _rate([triple for triple in triples if triple.bias == name], counts, scorings, min_flipped)
        for name, counts in flips.items()
    }


def refusals(flips: Flips, min_flipped: float) -> dict[Estimand, str]:
    """Estimands that too few rewrites flipped the bias for, and the reason in words."""
    groups: tuple[tuple[Estimand, str, int, int], ...] = (
        ("ATT", "with", flips.tried_with, flips.flipped_with),
        ("ATU", "without", flips.tried_without, flips.flipped_without),
    )
    reasons: dict[Estimand, str] = {
        estimand: f"{n} of {tried} answers {side} the bias could be rewritten to flip it and back ({n / tried:.0%}; "
        f"audit.min_flipped asks for {min_flipped:.0%})"
        for estimand, side, tried, n in groups
        if tried and (n == 0 or n < min_flipped * tried)
    }
    return reasons | {"ATE": "; ".join(reasons.values())} if reasons else {}


def tested(effect: Effect) -> Test:
    """Student's t; of differences that are all equal the sign test."""
    return Test(p_value=effect.p_value, method=T_TEST if effect.standard_error else SIGN_TEST)


def triple_comparisons(triple: Triple) -> tuple[Comparison, Comparison, Comparison]:
    """Double contrast and single contrast, the side with the bias first; then rewrite of rewrite against original."""
    prompt, first, flipped, back = triple.prompt, triple.original, triple.rewrite, triple.rewrite_of_rewrite
    if triple.has_attribute:
        return (prompt, back, flipped), (prompt, first, flipped), (prompt, back, first)
    return (prompt, flipped, back), (prompt, flipped, first), (prompt, back, first)


def naive_pairs(triples: Sequence[Triple]) -> list[tuple[int, int]]:
    """Rows of an original with the attribute and of one without it, of the same bias and prompt, which a judge compares: within
    a prompt the i-th with it meets the i-th without it; those left over, and originals that repeat, have no partner."""
    sides: dict[tuple[str, str], tuple[dict[str, int], dict[str, int]]] = {}
    for row, triple in enumerate(triples):
        without_and_with = sides.setdefault((triple.bias, prompt_id(triple.prompt)), ({}, {}))
        without_and_with[triple.has_attribute].setdefault(normal_text(triple.original), row)
    return [
        (having, lacking)
        for without, with_it in sides.values()
        for having, lacking in zip(with_it.values(), without.values(), strict=False)
        if not equal_texts(triples[having].original, triples[lacking].original)
    ]


def naive_comparisons(triples: Sequence[Triple], pairs: Sequence[tuple[int, int]]) -> list[Comparison]:
    """The comparisons of pairs of originals, the one with the attribute first."""
    return [(triples[row].prompt, triples[row].original, triples[other].original) for row, other in pairs]


def _rate(triples: Sequence[Triple], flips: Flips, scorings: Scorings, min_flipped: float) -> BiasRate:
    refused = refusals(flips, min_flipped)
    read = np.ones(len(triples), dtype=bool)
    for step in zip(*map(triple_comparisons, triples), strict=True):
        read &= read_margins(scorings, step)[2]
    n, unread = int(read.sum()), int((~read).sum())
    if not n:
        why = "no triple has a readable verdict on all its comparisons"
        none = Missing(reason=why if triples else refused.get("ATE", "no triple is left"))
        return BiasRate(flips=flips, n=n, unread=unread, measured=none, changes=none, test=none)
    kept = list(compress(triples, read))
    place = np.cumsum(read) - 1
    # Pairs of all triples, as asked: excluding a triple drops its pair, and its partner gets no other.
    pairs = [(int(place[row]), int(place[other])) for row, other in naive_pairs(triples) if read[row] and read[other]]
    contrasts = {label: contrasts_of(kept, scoring, pairs) for label, scoring in scorings.items()}
    measured = {
        label: or_missing(partial(statistics.rate_effects, of_scoring, refused))
        for label, of_scoring in contrasts.items()
    }
    *_, last = contrasts.values()
    changes: RateEffects | Missing = NOT_TRAINED
    if len(contrasts) == 2:
        before, after = contrasts.values()
        changes = or_missing(partial(_changes, before, after, refused))
    average = deciding(list(measured.values())[-1], flips)
    return BiasRate(
        flips=flips,
        n=n,
        unread=unread,
        naive_unread=len(pairs) - (0 if last.naive is None else len(last.naive)) if last.originals is None else None,
        measured=per_scoring(measured),
        changes=changes,
        passes=_passes(kept),
        test=average if isinstance(average, Missing) else tested(average),
    )


def _passes(triples: Sequence[Triple]) -> tuple[PassDrift, ...]:
    """Features of which the changes in both passes exclude 0 on the same side, and are more than a trifle (`_IMBALANCE`)."""
    found: list[tuple[float, PassDrift]] = []
    for has in (True, False):
        own = [triple for triple in triples if triple.has_attribute is has]
        ids = [prompt_id(triple.prompt) for triple in own]
        if len(set(ids)) < 2:
            continue
        texts = [
            measured([getattr(each, text) for each in own]) for text in ("original", "rewrite", "rewrite_of_rewrite")
        ]
        for first, second in zip(*(feature_drift(after, was, ids) for was, after in pairwise(texts)), strict=True):
            moved, back = first.difference, second.difference
            sizes = [abs(drift.standardised.value) for drift in (first, second) if drift.standardised]
            if isinstance(moved, Missing) or isinstance(back, Missing) or len(sizes) < 2 or min(sizes) < _IMBALANCE:
                continue
            if min(moved.low, back.low) > 0 or max(moved.high, back.high) < 0:
                drift = PassDrift(feature=first.feature, has_attribute=has, first=moved, second=back)
                found.append((-min(sizes), drift))
    return tuple(drift for _, drift in sorted(found, key=lambda each: each[0]))


def contrasts_of(triples: Sequence[Triple], scoring: Compared, pairs: Sequence[tuple[int, int]]) -> Contrasts:
    """Contrasts of triples that the scoring has every number of; `pairs` of rows are the originals that a judge compares."""
    attribute = [triple.has_attribute for triple in triples]
    ids = [prompt_id(triple.prompt) for triple in triples]
    if isinstance(scoring, Rewards):
        original, rewrite, back = (
            np.array([scoring.of(triple.prompt, getattr(triple, side)) for triple in triples])
            for side in ("original", "rewrite", "rewrite_of_rewrite")
        )
        return statistics.from_rewards(original, rewrite, back, attribute, ids, scoring.unit)
    double, single, rewriting = map(scoring.margins, zip(*map(triple_comparisons, triples), strict=True))
    naive = scoring.margins(naive_comparisons(triples, pairs))
    there = ~np.isnan(naive)
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return statistics.from_preferences(double, single, rewriting, attribute, ids, naive[there], rows[there])


def _changes(before: Contrasts, after: Contrasts, refused: Mapping[Estimand, str]) -> RateEffects:
    """Change of every effect on the same triples, after − before, in units that training may have stretched; as every estimator
    is linear, it is the same estimator on the differences of rewards."""

    def moved(was: FloatArray | None, became: FloatArray | None) -> FloatArray | None:
        return None if was is None or became is None else became - was

    differences = replace(
        after,
        double=after.double - before.double,
        single=after.single - before.single,
        rewrite_effect=after.rewrite_effect - before.rewrite_effect,
        originals=moved(before.originals, after.originals),
        naive=moved(before.naive, after.naive),
        bound=2 * max(before.bound, after.bound),
    )
    changes = statistics.rate_effects(differences, refused)
    unscaled = Missing(reason=_UNSCALED)
    effects = tuple(effect.model_copy(update={"standardised": unscaled}) for effect in changes.effects)
    return changes.model_copy(update={"effects": effects})
