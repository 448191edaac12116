"""Which candidates hold on unseen prompts: pooled on validation prompts, then rewriter by rewriter on test prompts.

The two steps, their levels and Bonferroni's correction are those of "Automatically Finding Reward Model Biases". Each set of
prompts is to be used once: validation prompts choose who enters the test, test prompts decide, and neither has been searched on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cda.discovery.evidence import ByRewriter, Evidence, Failures, Strength, evidence
from cda.discovery.records import Measured
from cda.errors import DataError
from cda.stats.multiplicity import Correction, corrected, partial_conjunction
from cda.stats.one_sided import smallest_detectable

Rows = Mapping[str, Sequence[Measured]]
"""Candidate to its rows on one set of prompts. A candidate that entered stands here, if need be with no rows."""


@dataclass(frozen=True, slots=True)
class ConfirmSettings:
    """How strict the confirmation is.

    Attributes:
        validation_alpha: For adjusted p-values on the validation prompts.
        test_alpha: For the corrected p-value of the partial conjunction on the test prompts.
        correct: Method that corrects it for all candidates that entered the test; `none` tests each by itself.
        r: With how many rewriters an effect has to show. Where fewer can be used, a candidate is not tested.
        max_failed: Share of its calls that a rewriter may fail, and share of its rewrites that may lack a verdict of the
            judge; with more than this of either it is excluded for a candidate.
        trim: Leave margins outside Tukey's fences out; see `evidence`. Never by default.
        power: At which the smallest mean margin that would have been found is stated.
    """

    validation_alpha: float = 0.05
    test_alpha: float = 0.01
    correct: Correction = "bonferroni"
    r: int = 2
    max_failed: float = 0.5
    trim: bool = False
    power: float = 0.8

    def __post_init__(self) -> None:
        shares = {"validation_alpha": self.validation_alpha, "test_alpha": self.test_alpha, "power": self.power}
        for name, value in shares.items():
            if not 0 < value < 1:
                raise DataError(f"{name} is {value}: it lies between 0 and 1, both excluded")
        if not 0 <= self.max_failed <= 1:
            raise DataError(f"max_failed is {self.max_failed}: a share between 0 and 1 is needed")
        if self.r < 1:
            raise DataError(f"r is {self.r}: at least one rewriter has to show the effect")


@dataclass(frozen=True, slots=True)
class Validation:
    """What the validation prompts say of a candidate.

    Attributes:
        candidate: Its `id`.
        rewriters: Numbers by rewriter, excluded ones among them.
        pooled: Over all rows of the rewriters that count; None where nothing can be said.
        n_entered: Candidates that entered; the p-values are adjusted for so many (Bonferroni).
        p_reward: Adjusted, one-sided: the mean margin is not above 0. None where `untested`.
        p_judge: Adjusted, one-sided: the mean preference of the judge is not below 0.5. None where `untested`.
        passed: Both are below the level. That both hold is tested by the larger p-value, which needs no correction.
        untested: Why it could not be tested; such a candidate does not pass.
        smallest_detectable: The mean margin that would have been found with the wanted power, at the adjusted level,
            given these prompts and their spread, reward units; None where untested or without spread.
        warnings: For a person to read.
    """

    candidate: str
    rewriters: tuple[ByRewriter, ...]
    pooled: Strength | None
    n_entered: int
    p_reward: float | None
    p_judge: float | None
    passed: bool
    untested: str | None
    smallest_detectable: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the test prompts say of a candidate.

    Attributes:
        candidate: Its `id`.
        rewriters: Numbers by rewriter, excluded ones among them; `strength.p_value` is what enters the conjunction.
        pooled: Over all rows of the rewriters that count; it describes, and decides nothing.
        r: Rewriters that have to show the effect.
        k: Rewriters that count.
        p_value: Of "fewer than r of the k rewriters show it" (partial conjunction); None where `untested`.
        n_entered: Candidates that entered the test.
        correct: Method that corrects for them.
        p_corrected: `p_value` corrected, untested ones as p = 1; None where `untested`.
        confirmed: `p_corrected` is below the level.
        untested: Why it could not be tested; such a candidate is not confirmed.
        smallest_detectable: The mean margin, alike for all k rewriters, that would have been found with the wanted power
            if only the reward were in question, given these prompts and their spread, reward units; rewriters are taken
            as independent, and where the correction is Holm's, its first and strictest step. None where untested or without
            spread.
        warnings: For a person to read.
    """

    candidate: str
    rewriters: tuple[ByRewriter, ...]
    pooled: Strength | None
    r: int
    k: int
    p_value: float | None
    n_entered: int
    correct: Correction
    p_corrected: float | None
    confirmed: bool
    untested: str | None
    smallest_detectable: float | None
    warnings: tuple[str, ...]


def validate(
    rows_by_candidate: Rows,
    settings: ConfirmSettings = ConfirmSettings(),
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
    settings: ConfirmSettings = ConfirmSettings(),
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
    if untested or pooled is None:
        return Validation(
            name, found.rewriters, pooled, n_entered, None, None, False, untested, None, found.warnings
        )  # fmt: skip
    p_reward, p_judge = (min(1.0, n_entered * p) for p in (pooled.p_reward, pooled.p_judge))
    passed = max(p_reward, p_judge) < settings.validation_alpha
    level = settings.validation_alpha / n_entered
    detectable = _detectable([pooled], level, settings.power, 1)
    return Validation(
        name, found.rewriters, pooled, n_entered, p_reward, p_judge, passed, None, detectable, found.warnings
    )  # fmt: skip


def _confirmation(
    name: str, found: Evidence, p_value: float | None, p_corrected: float, n_entered: int, settings: ConfirmSettings
) -> Confirmation:
    strengths = [strength for _, strength in found.usable]
    k, r, correct = len(strengths), settings.r, settings.correct
    if p_value is None:
        return Confirmation(
            name, found.rewriters, found.pooled, r, k, None, n_entered, correct, None, False, _untested(found, r), None,
            found.warnings,
        )  # fmt: skip
    level = settings.test_alpha / (1 if correct == "none" else n_entered)
    detectable = _detectable(strengths, level / (k - r + 1), settings.power, r)
    confirmed = p_corrected < settings.test_alpha
    return Confirmation(
        name, found.rewriters, found.pooled, r, k, p_value, n_entered, correct, p_corrected, confirmed, None, detectable,
        found.warnings,
    )  # fmt: skip


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
