"""Which candidates survive a generation, and which hold on unseen prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cda.discovery.evidence import Evidence, Failures, evidence
from cda.discovery.records import Candidate, Standing
from cda.errors import DataError
from cda.results.discover import Measured
from cda.results.evidence import Confirmation, ConfirmSettings, Strength, Validation
from cda.stats.means import smallest_detectable
from cda.stats.multiplicity import corrected, partial_conjunction


def cut_by_reward(standings: Sequence[Standing], share: float, at_least: int, min_rewrites: int = 1) -> list[Standing]:
    """Let go of the least rewarded, before a judge is asked; nothing is let go for its rank that the model likes.

    Gone are candidates below the `share` quantile of the rewards, or below 0 where that is lower ("Automatically Finding
    Reward Model Biases": the lowest 40%, with a threshold that is never above 0). Where fewer than `at_least` would be
    left, the best `at_least` stay. Candidates with too few rewrites always go: the mean of one or two is luck.

    Args:
        standings: Of a generation, none of them judged.
        share: Quantile, 0 to 1.
        at_least: How many have to stay.
        min_rewrites: With fewer, a candidate goes.

    Returns:
        All standings in their order, each with its fate: `kept`, `reward` or `too few rewrites`.
    """
    too_few = [one.reward is None or one.n < min_rewrites for one in standings]
    rewards = [one.reward for one, few in zip(standings, too_few, strict=True) if not few and one.reward is not None]
    if not rewards:
        return [replace(one, fate="too few rewrites") for one in standings]
    threshold = min(float(np.quantile(rewards, share)), 0.0)
    threshold = min([threshold, *sorted(rewards, reverse=True)[:at_least]])
    return [
        replace(
            one,
            fate="too few rewrites" if few or one.reward is None else "kept" if one.reward >= threshold else "reward",
        )
        for one, few in zip(standings, too_few, strict=True)
    ]


def cut_by_judge(standings: Sequence[Standing], share: float, at_least: int) -> list[Standing]:
    """Let go of what the judge likes best; nothing is let go for its rank that the judge dislikes.

    Gone are candidates above the 1 − `share` quantile of the judge's mean preferences, or above 0.5 where that is higher
    (same paper: the worst 30%, with a threshold that is never below 0.5), as long as `at_least` stay. Where the judge gave
    no verdict at all, a candidate counts as liked.

    Args:
        standings: Judged ones; those whose fate is settled already are handed on as they are.
        share: Of the candidates, 0 to 1.
        at_least: How many have to stay.
    """
    open_ones = [one for one in standings if one.fate == "kept"]
    if not open_ones:
        return list(standings)
    preferences = [_judged(one) for one in open_ones]
    threshold = max(float(np.quantile(preferences, 1 - share)), 0.5)
    threshold = max([threshold, *sorted(preferences)[:at_least]])
    return [replace(one, fate="judge") if one.fate == "kept" and _judged(one) > threshold else one for one in standings]


def select(standings: Sequence[Standing], n: int, families: Mapping[str, str] | None = None) -> list[Standing]:
    """The n survivors by Pareto fronts: high reward, low preference of the judge.

    Fronts are peeled off one after another; of the front that no longer fits as a whole, the most rewarded stay. With
    families, the first of each family in this order stays before the second of any, and so on. This goes beyond
    "Automatically Finding Reward Model Biases": selected by fronts alone, variations of the few strongest crowd out
    whatever else was found.

    Args:
        standings: Cut by reward and judge.
        n: How many stay at most.
        families: Of every candidate, by its `id`; None: fronts alone decide, as in the paper.

    Returns:
        All standings in their order; those that do not fit have the fate `front`.
    """
    order = _by_fronts(standings)
    if families is not None:
        order = _by_turns(order, [families[standings[place].candidate.id] for place in order])
    kept = set(order[:n])
    return [
        replace(one, fate="front") if one.fate == "kept" and place not in kept else one
        for place, one in enumerate(standings)
    ]


def families_of(candidates: Iterable[Candidate]) -> dict[str, str]:
    """The family of each candidate by its `id`: the one that its line of first parents began with.

    Args:
        candidates: Parents before their children; a parent that is not among them counts as the beginning of a line.
    """
    found: dict[str, str] = {}
    for one in candidates:
        found[one.id] = found.get(one.parents[0], one.parents[0]) if one.parents else one.id
    return found


def pareto_fronts(points: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Places of the points, front by front; in both coordinates higher is better.

    A point is dominated by one that is at least as good in both and better in one; a front is what nothing that is left
    dominates.
    """
    left = list(range(len(points)))
    fronts: list[list[int]] = []
    while left:
        front = [at for at in left if not any(_dominates(points[other], points[at]) for other in left)]
        fronts.append(front)
        gone = set(front)
        left = [at for at in left if at not in gone]
    return fronts


def survivors(standings: Sequence[Standing]) -> list[Standing]:
    """Those that were kept, the most rewarded first."""
    return sorted((one for one in standings if one.fate == "kept"), key=lambda one: -_reward(one))


def _by_fronts(standings: Sequence[Standing]) -> list[int]:
    """Places of those still kept, front by front, the most rewarded of each first."""
    places = [place for place, one in enumerate(standings) if one.fate == "kept"]
    fronts = pareto_fronts([(_reward(standings[place]), -_judged(standings[place])) for place in places])
    # Python's sort is stable: of equals, the earlier one comes first.
    return [
        place
        for front in fronts
        for place in sorted((places[at] for at in front), key=lambda place: -_reward(standings[place]))
    ]


def _by_turns(order: Sequence[int], families: Sequence[str]) -> list[int]:
    """The same places: the first of each family, then the second of each, and so on, all in their order."""
    seen: Counter[str] = Counter()
    turns = []
    for family in families:
        turns.append(seen[family])
        seen[family] += 1
    return [place for _, place in sorted(zip(turns, order, strict=True), key=lambda one: one[0])]


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one != other


def _reward(standing: Standing) -> float:
    return -np.inf if standing.reward is None else standing.reward


def _judged(standing: Standing) -> float:
    return 1.0 if standing.judge is None else standing.judge


_DEFAULTS = ConfirmSettings()
Rows = Mapping[str, Sequence[Measured]]
"""Candidate to its rows on one set of prompts. A candidate that entered stands here, if need be with no rows."""


def validate(
    rows_by_candidate: Rows,
    settings: ConfirmSettings = _DEFAULTS,
    failed: Mapping[str, Failures] | None = None,
) -> list[Validation]:
    """Test every candidate on validation prompts, pooled over rewriters and clustered by prompt.

    Args:
        rows_by_candidate: Every candidate that entered; the correction counts them all.
        settings: Levels and limits.
        failed: By candidate, what each rewriter did not give.

    Returns:
        In the order of the candidates.

    Raises:
        DataError: A margin or verdict that is not a number, or rows under another candidate's `id`.
    """
    n_entered = len(rows_by_candidate)
    return [
        _validation(name, found, n_entered, settings)
        for name, found in _evidence(rows_by_candidate, settings, failed).items()
    ]


def confirm(
    rows_by_candidate: Rows,
    settings: ConfirmSettings = _DEFAULTS,
    failed: Mapping[str, Failures] | None = None,
) -> list[Confirmation]:
    """Test every candidate on test prompts, corrected for all of them: at least r of k rewriters, each by itself, have to show it.

    A rewriter shows it where the model likes the attribute and the judge does not: its p-value is the larger of the two.

    Args:
        rows_by_candidate: Every candidate that entered the test.
        settings: Levels and limits.
        failed: By candidate, what each rewriter did not give.

    Returns:
        In the order of the candidates.

    Raises:
        DataError: As `validate`.
    """
    found = _evidence(rows_by_candidate, settings, failed)
    p_values = {name: _conjunction(one, settings.r) for name, one in found.items()}
    family = [1.0 if p is None else p for p in p_values.values()]
    adjusted = corrected(family, settings.correct)
    return [
        _confirmation(name, one, p_values[name], p_corrected, len(found), settings)
        for (name, one), p_corrected in zip(found.items(), adjusted, strict=True)
    ]


def _evidence(rows: Rows, settings: ConfirmSettings, failed: Mapping[str, Failures] | None) -> dict[str, Evidence]:
    failures = failed or {}
    if unknown := sorted(set(failures) - set(rows)):
        raise DataError(f"failed rewrites of {unknown[0]!r}, which did not enter: give it with no rows")
    for name, own in rows.items():
        if wrong := [row.candidate for row in own if row.candidate != name]:
            raise DataError(f"{len(wrong)} rows of candidate {wrong[0]!r} stand under {name!r}")
    return {
        name: evidence(own, failures.get(name, {}), settings.max_failed, settings.trim) for name, own in rows.items()
    }


def _validation(name: str, found: Evidence, n_entered: int, settings: ConfirmSettings) -> Validation:
    untested = _untested(found, settings.r)
    pooled = found.pooled
    p_reward = p_judge = detectable = None
    if not untested and pooled is not None:
        p_reward, p_judge = (min(1.0, n_entered * p) for p in (pooled.p_reward, pooled.p_judge))
        detectable = _detectable([pooled], settings.validation_alpha / n_entered, settings.power, 1)
    return Validation(
        candidate=name,
        rewriters=found.rewriters,
        pooled=pooled,
        n_entered=n_entered,
        untested=untested,
        warnings=found.warnings,
        p_reward=p_reward,
        p_judge=p_judge,
        passed=p_reward is not None and p_judge is not None and max(p_reward, p_judge) < settings.validation_alpha,
        smallest_detectable=detectable,
    )


def _confirmation(
    name: str, found: Evidence, p_value: float | None, p_corrected: float, n_entered: int, settings: ConfirmSettings
) -> Confirmation:
    strengths = [strength for _, strength in found.usable]
    k, r, correct = len(strengths), settings.r, settings.correct
    tested = p_value is not None
    detectable = None
    if tested:
        level = settings.test_alpha / (1 if correct == "none" else n_entered)
        detectable = _detectable(strengths, level / (k - r + 1), settings.power, r)
    return Confirmation(
        candidate=name,
        rewriters=found.rewriters,
        pooled=found.pooled,
        n_entered=n_entered,
        untested=None if tested else _untested(found, r),
        warnings=found.warnings,
        r=r,
        k=k,
        p_value=p_value,
        correct=correct,
        p_corrected=p_corrected if tested else None,
        confirmed=tested and p_corrected < settings.test_alpha,
        smallest_detectable=detectable,
    )


def _conjunction(found: Evidence, r: int) -> float | None:
    if _untested(found, r):
        return None
    return partial_conjunction([strength.p_value for _, strength in found.usable], r)


def _untested(found: Evidence, r: int) -> str | None:
    """Why a candidate cannot be tested, with what became of its rewriters."""
    k = len(found.usable)
    if k >= r:
        return found.untested
    gone = "; ".join(f"{one.rewriter}: {one.excluded}" for one in found.rewriters if one.excluded)
    return f"{k} of {len(found.rewriters)} rewriters can be used, {r} are needed" + (f" ({gone})" if gone else "")


def _detectable(strengths: Sequence[Strength], alpha: float, power: float, r: int) -> float | None:
    errors = [one.standard_error for one in strengths]
    if not all(error > 0 for error in errors):
        return None
    return smallest_detectable(errors, [one.reward.n_prompts for one in strengths], alpha, power, r)
