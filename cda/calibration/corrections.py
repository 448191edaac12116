"""The result of a calibration from margins and their terms: what `cda calibrate` writes, of a scorer or of score files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cda.arrays import FloatArray
from cda.calibration.effects import Effects, effects
from cda.calibration.fit import Problem
from cda.dosing.choice import MIN_PROMPTS
from cda.errors import DataError
from cda.provenance import versions
from cda.records import Exclusions
from cda.results.base import Estimate, Missing
from cda.results.dose import BiasCorrection, CalibrationResult, OrderCorrection, TextMeasure
from cda.results.facts import Scorer
from cda.stats.estimators import of_draws

Unit = Literal["reward", "log odds"]
Part = Literal["offset", "slope", "order"]
RESULT = "calibration.json"
NO_SIDES_DIFFER = "the sides of no voted contrast differ in it"


@dataclass(frozen=True, slots=True)
class Term:
    """One column of a problem: a bias's offset or slope, or the place of the judge's first text (without a bias)."""

    bias: str
    part: Part
    unit: str = ""
    """Unit of the bias's measure, of a slope."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Facts of a calibration that nothing computes: the scorer, sources, and what was left out before."""

    unit: Unit
    measures: Mapping[str, TextMeasure | None]
    """By bias that may be corrected."""
    uncorrected: Mapping[str, str]
    no_offset: Mapping[str, str]
    """Bias without an offset to the reason."""
    no_slope: Mapping[str, str]
    no_order: str
    """Why there is no correction of the order, if there is none."""
    left_out: Mapping[str, Exclusions]
    sources: Mapping[str, str | None]
    notes: Sequence[str] = ()
    scorer: str | None = None
    scored_as: str | None = None
    facts: Scorer | None = None


def check_prompts(n_prompts: Mapping[str, int], n_quality: int, left_out: str = "") -> list[str]:
    """Biases with enough prompts with a majority, in alphabetical order. DataError: none has, or too few prompts have quality
    pairs; `left_out`: a sentence on rows that could not be used."""
    enough = sorted(name for name, n in n_prompts.items() if n >= MIN_PROMPTS)
    if not enough:
        found = ", ".join(f"{name} {n}" for name, n in sorted(n_prompts.items())) or "none"
        raise DataError(
            f"too few votes to calibrate by: prompts with a majority of people: {found}; a bias needs {MIN_PROMPTS}.{left_out} Collect "
            "votes on more contrasts (cda study), and give them with --votes"
        )
    if 0 < n_quality < MIN_PROMPTS:
        raise DataError(
            f"{n_quality} prompts with quality pairs: {MIN_PROMPTS} are needed to see a loss of accuracy; give more pairs, or "
            "--quality none"
        )
    return enough


def calibration_result(
    problem: Problem, terms: Sequence[Term], origin: Origin, seed: int, repeats: int, max_loss: float
) -> tuple[CalibrationResult, Effects]:
    """Fit, choose and measure; the result, and the effects with out-of-fold margins behind it. DataError: no term differs
    between the sides of any voted contrast."""
    if not problem.contrasts.terms[problem.people.used].any():
        raise DataError(
            "nothing to correct: the sides of no contrast with a majority differ in the measure of a bias. Name biases with a "
            "measure (--bias), or give contrasts that differ in it"
        )
    order = next((at for at, term in enumerate(terms) if term.part == "order"), None)
    found = effects(problem, seed, repeats, max_loss, order)
    fits = {(term.bias, term.part): _estimate(problem, found, at, term, origin.unit) for at, term in enumerate(terms)}
    corrections = {
        bias: BiasCorrection(
            measure=own,
            offset=fits.get((bias, "offset"), Missing(reason=origin.no_offset.get(bias, NO_SIDES_DIFFER))),
            slope=fits.get((bias, "slope"), Missing(reason=origin.no_slope.get(bias, NO_SIDES_DIFFER))),
        )
        for bias, own in sorted(origin.measures.items())
    }
    place, first = fits.get(("", "order")), found.prefers_first
    order_found: OrderCorrection | Missing = Missing(reason=origin.no_order)
    if isinstance(place, Estimate) and first is not None:
        order_found = OrderCorrection(offset=place, prefers_first=first)
    return CalibrationResult(
        scorer=origin.scorer,
        scored_as=origin.scored_as,
        facts=origin.facts,
        unit=origin.unit,
        strength=found.strength,
        following=_drawn(problem, found.fit.following, found.drawn.following, "log odds per root mean square"),
        corrections=corrections,
        order=order_found,
        biases=found.biases,
        quality=found.quality,
        strengths=found.strengths,
        repeats=repeats,
        max_quality_loss=max_loss,
        ties=problem.people.rule,
        uncorrected=dict(origin.uncorrected),
        left_out={name: own for name, own in origin.left_out.items() if own.dropped},
        notes=tuple(origin.notes),
        sources=dict(origin.sources),
        seed=seed,
        versions=versions(),
    ), found


def _estimate(problem: Problem, found: Effects, at: int, term: Term, unit: Unit) -> Estimate | Missing:
    """A full correction with the interval of resampled prompts."""
    if not problem.contrasts.terms[problem.people.used, at].any():
        return Missing(reason=NO_SIDES_DIFFER)
    named = f"{unit} per {term.unit}" if term.part == "slope" else unit
    return _drawn(problem, found.fit.corrections[:, at], found.drawn.corrections[:, at], named)


def _drawn(problem: Problem, fit: FloatArray, drawn: FloatArray, unit: str) -> Estimate:
    """A fitted number, shape (1,), with the interval of resampled prompts, shape (draws,)."""
    used, (value,) = problem.people.used, fit.tolist()
    n_prompts = len({name for name, kept in zip(problem.contrasts.prompt_ids, used, strict=True) if kept})
    return of_draws(value, drawn, int(used.sum()), n_prompts, unit)
