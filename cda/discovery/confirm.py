"""Which candidates hold on unseen prompts: pooled on validation prompts, then rewriter by rewriter on test prompts.

The two steps, their levels and Bonferroni's correction are those of "Automatically Finding Reward Model Biases". Each set of
prompts is to be used once: validation prompts choose who enters the test, test prompts decide, and neither has been searched on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cda.discovery.evidence import Evidence, Failures, evidence
from cda.errors import DataError
from cda.results.discover import Measured
from cda.results.evidence import Confirmation, ConfirmSettings, Strength, Validation
from cda.stats.multiplicity import corrected, partial_conjunction
from cda.stats.one_sided import smallest_detectable

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
