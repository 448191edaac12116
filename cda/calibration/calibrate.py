"""`cda calibrate MODEL`: score what people voted on, fit corrections of the margins, write them with their report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import compress
from typing import Literal

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.audit import audit_texts
from cda.auditing.groups import (
    Group,
    contrast_comparisons,
    make_groups,
    pair_comparisons,
    read_margins,
    ties_of,
)
from cda.auditing.texts import AuditTexts
from cda.biases import Bias
from cda.calibration.effects import Effects, calibration_effects
from cda.calibration.fit import Problem, Scored
from cda.dosing.choice import MIN_PROMPTS
from cda.dosing.stage import Material, calls_on_votes, joint_majority, voted_in
from cda.errors import DataError
from cda.finetuning.applied import check_subject
from cda.jobs.perform import Job, Made, perform
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, TieRule
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import audit_inputs
from cda.results.base import Estimate, Missing
from cda.results.dose import BiasCorrection, CalibrationResult, OrderCorrection, TextMeasure
from cda.results.facts import JudgeFacts, PanelFacts
from cda.scorers.calibrated import log_odds, place_of_first, preference_of, text_terms
from cda.scorers.compared import Compared, Comparison
from cda.stats.estimators import of_draws
from cda.stats.votes import Majority

Unit = Literal["reward", "log odds"]
Part = Literal["offset", "slope", "order"]
NO_SIDES_DIFFER = "the sides of no voted contrast differ in it"


@dataclass(frozen=True, slots=True)
class Term:
    """One column of a problem: a bias's offset or slope, or the place of the judge's first text (without a bias)."""

    bias: str
    part: Part
    unit: str = ""
    """Unit of the bias's measure, of a slope."""


def text_measure(bias: Bias) -> TextMeasure | None:
    """The measure of a bias file, complete in itself; None if the file has none."""
    rule = bias.measure
    if rule is None:
        return None
    return TextMeasure(
        feature=rule.feature,
        logarithm=rule.relative,
        present_above=None if rule.relative else rule.present_above,
        present_below=None if rule.relative else rule.present_below,
        markers=tuple(bias.markers),
        pattern=bias.pattern,
    )


def text_columns(measures: Mapping[str, TextMeasure], one_order: bool) -> list[Term]:
    """The terms of a scorer's problem: an offset unless the measure is relative, a slope, and the place of the first text."""
    terms = []
    for name, own in measures.items():
        if not own.logarithm:
            terms.append(Term(name, "offset"))
        terms.append(Term(name, "slope", f"{'log ' * own.logarithm}{own.feature}"))
    return [*terms, *([Term("", "order")] if one_order else [])]


def text_matrix(
    terms: Sequence[Term], measures: Mapping[str, TextMeasure], comparisons: Sequence[Comparison]
) -> FloatArray:
    """Terms of comparisons, first text minus second. Shape (n, k)."""

    @cache
    def values(bias: str, text: str) -> dict[str, float]:
        return dict(zip(("offset", "slope"), text_terms(measures[bias], text), strict=True))

    def value(term: Term, comparison: Comparison) -> float:
        if term.part == "order":
            return place_of_first(comparison)
        _, first, second = comparison
        return values(term.bias, first)[term.part] - values(term.bias, second)[term.part]

    rows = [[value(term, comparison) for term in terms] for comparison in comparisons]
    return np.array(rows, dtype=np.float64).reshape(len(comparisons), len(terms))


UNREAD = "a text too long, or without a readable verdict"
BOTH_ORDERS = "it was asked in both orders, in which a taste for a place cancels"
NO_PLACES = "it sees one text at a time"
RELATIVE = "its measure compares the two sides, and says of no single text that it has the bias"
NO_MEASURE = "its file names no measure, so that no text shows how much of it there is"


@dataclass(frozen=True, slots=True)
class Voted:
    """What there is to calibrate by, before anything is scored: settings with the biases that people voted on enough; prompts
    with a majority by bias; measures of those that have one; and the number of quality pairs."""

    loaded: LoadedRecipe
    counts: Mapping[str, int]
    measures: Mapping[str, TextMeasure]
    n_quality: int

    @property
    def uncorrected(self) -> dict[str, str]:
        """Biases that people voted on without a correction, to the reason."""
        enough = [bias.name for bias in self.loaded.biases]
        short = {
            name: f"{n} prompts with a majority, {MIN_PROMPTS} needed"
            for name, n in self.counts.items()
            if n > 0 and name not in enough
        }
        return short | {name: NO_MEASURE for name in enough if name not in self.measures}


def voted_on(loaded: LoadedRecipe) -> Voted:
    """Check the scorer, count votes and quality pairs, and read the measures. DataError: too few prompts with a majority, no
    bias with a measure, or a calibration already; RunError: a model that cannot be used."""
    settings = scorer_settings(loaded)
    if settings.score.calibration is not None:
        raise DataError("score.calibration: leave it out, since what is calibrated is the scorer as it is")
    check_subject(Subject("model", loaded.recipe.model), settings)
    audit_inputs(loaded).check_opinions()
    material = Material.planned(loaded, "votes")
    material.check("calibrating")
    counts, n_quality = material.prompts, material.n_quality
    enough = sorted(name for name, n in counts.items() if n >= MIN_PROMPTS)
    biases = tuple(bias for bias in loaded.biases if bias.name in enough)
    measures = {bias.name: own for bias in biases if (own := text_measure(bias)) is not None}
    if not measures:
        raise DataError(f"{', '.join(enough)}: {NO_MEASURE}. Add `measure` to the bias file (cda/biases/README.md)")
    return Voted(replace(loaded, biases=biases), counts, measures, n_quality)


def run_calibrate(loaded: LoadedRecipe, figures: str | None = None) -> CalibrationResult:
    """Calibrate the recipe's model on its contrasts with votes. Errors as of `voted_on`, before anything is scored; RunError for a
    folder that holds something else."""
    voted = voted_on(loaded)

    def plan() -> list[str]:
        enough = ", ".join(f"{bias.name} {voted.counts[bias.name]}" for bias in voted.loaded.biases)
        return [
            f"model       {loaded.recipe.model.name_or_path}",
            f"votes       prompts with a majority: {enough}",
            *(f"            {name} is not corrected: {why}" for name, why in voted.uncorrected.items()),
            f"quality     {f'pairs of {voted.n_quality} prompts' if voted.n_quality else 'none'}",
        ]

    costs = partial(calls_on_votes, voted.loaded, [Subject("model", loaded.recipe.model)])
    job = Job(CalibrationResult, plan, lambda _: _calibrated(voted), costs, ("name",))
    return perform(job, loaded, loaded.recipe.run_path, figures)


def _calibrated(voted: Voted) -> Made[CalibrationResult]:
    loaded, recipe = voted.loaded, voted.loaded.recipe
    settings = scorer_settings(loaded)
    texts = audit_texts(loaded)
    scorer = open_scorer(Subject("model", recipe.model), settings, settings.shared_folder)
    contrasts = voted_in(texts.contrasts)
    compared, facts = scorer.compare([*contrast_comparisons(contrasts), *pair_comparisons(texts.pairs)])
    biases = {bias.name: bias for bias in loaded.biases}
    groups = make_groups(contrasts, biases, list(biases), {"model": compared})
    terms = text_columns(voted.measures, isinstance(facts, JudgeFacts | PanelFacts) and facts.orders == "one")
    problem, n_unread = _problem(groups, texts, compared, recipe.audit.ties, voted.measures, terms)
    if not problem.contrasts.terms[problem.people.used].any():
        raise DataError(
            "nothing to correct: the sides of no contrast with a majority differ in the measure of a bias. Name biases with a "
            "measure (--bias), or give contrasts that differ in it"
        )
    is_preference = compared.unit == "preference"
    order = next((at for at, term in enumerate(terms) if term.part == "order"), None)
    found = calibration_effects(problem, recipe.seed, recipe.dose.repeats, recipe.dose.max_quality_loss, order)
    left_out = _left_out(texts, groups, problem.people, n_unread)
    given = {"contrasts": recipe.audit.contrasts, "votes": recipe.audit.votes, "quality": recipe.audit.quality}
    unit: Unit = "log odds" if is_preference else "reward"
    corrections, order_found = _corrections(voted.measures, problem, terms, found, unit)
    result = CalibrationResult(
        scorer=shown_target(scorer.name),
        scored_as=scorer.scored_as,
        facts=facts.model_copy(update={"name": shown_target(facts.name)}),
        unit=unit,
        strength=found.strength,
        following=_drawn(problem, found.fit.following, found.drawn.following, "log odds per root mean square"),
        corrections=corrections,
        order=order_found,
        biases=found.biases,
        quality=found.quality,
        strengths=found.strengths,
        repeats=recipe.dose.repeats,
        max_quality_loss=recipe.dose.max_quality_loss,
        ties=problem.people.rule,
        uncorrected=voted.uncorrected,
        left_out={name: own for name, own in left_out.items() if own.dropped},
        sources={name: None if file is None else shown_path(file) for name, file in given.items()},
        seed=recipe.seed,
        versions=versions(),
    )
    return Made(result, {"out_of_fold.jsonl": _rows(groups, found, is_preference)})


def _corrections(
    measures: Mapping[str, TextMeasure], problem: Problem, terms: Sequence[Term], found: Effects, unit: Unit
) -> tuple[dict[str, BiasCorrection], OrderCorrection | Missing]:
    """Full corrections with the intervals of resampled prompts, by bias, and that of the order."""
    fits: dict[tuple[str, Part], Estimate | Missing] = {}
    for at, term in enumerate(terms):
        named = f"{unit} per {term.unit}" if term.part == "slope" else unit
        fits[term.bias, term.part] = (
            _drawn(problem, found.fit.corrections[:, at], found.drawn.corrections[:, at], named)
            if problem.contrasts.terms[problem.people.used, at].any()
            else Missing(reason=NO_SIDES_DIFFER)
        )
    corrections = {
        bias: BiasCorrection(
            measure=own,
            offset=Missing(reason=RELATIVE) if own.logarithm else fits[bias, "offset"],
            slope=fits[bias, "slope"],
        )
        for bias, own in sorted(measures.items())
    }
    place = fits.get(("", "order"), Missing(reason=BOTH_ORDERS if unit == "log odds" else NO_PLACES))
    if isinstance(place, Missing) or found.prefers_first is None:
        return corrections, place  # type: ignore[return-value]  # an estimate has its share of the first place
    return corrections, OrderCorrection(offset=place, prefers_first=found.prefers_first)


def _drawn(problem: Problem, fit: FloatArray, drawn: FloatArray, unit: str) -> Estimate:
    """A fitted number, shape (1,), with the interval of resampled prompts, shape (draws,)."""
    used, (value,) = problem.people.used, fit.tolist()
    n_prompts = len(set(compress(problem.contrasts.prompt_ids, used)))
    return of_draws(value, drawn, int(used.sum()), n_prompts, unit)


def _problem(
    groups: Sequence[Group],
    texts: AuditTexts,
    compared: Compared,
    rule: TieRule,
    measures: Mapping[str, TextMeasure],
    terms: Sequence[Term],
) -> tuple[Problem, int]:
    """The margins, terms and majorities of all groups, and the number of quality pairs that could not be read."""
    contrasts = [contrast for group in groups for contrast in group.contrasts]
    margins = np.concatenate([group.margins["model"] for group in groups])
    pairs = pair_comparisons(texts.pairs)
    quality, quality_ids, read = read_margins({"model": compared}, pairs)
    kept = [pair for pair, is_read in zip(pairs, read, strict=True) if is_read]

    def scored(values: FloatArray, ids: Sequence[str], comparisons: Sequence[Comparison]) -> Scored:
        odds = log_odds(values) if compared.unit == "preference" else values
        return Scored(odds, text_matrix(terms, measures, comparisons), ids)

    return Problem(
        contrasts=scored(
            margins, [name for group in groups for name in group.prompt_ids], contrast_comparisons(contrasts)
        ),
        people=joint_majority(groups, rule),
        biases=tuple(contrast.bias for contrast in contrasts),
        quality=scored(quality["model"], quality_ids, kept),
        ties=ties_of(compared.unit),
    ), len(pairs) - len(kept)


def _left_out(texts: AuditTexts, groups: Sequence[Group], people: Majority, n_unread: int) -> dict[str, Exclusions]:
    unscored = sum(group.n_unread for group in groups)
    seen = sum(map(len, groups)) + unscored
    unmatched = {"of no contrast": texts.votes_unmatched} if texts.votes_unmatched else {}
    return {
        **texts.excluded,
        "contrasts to be scored": Exclusions(seen, {UNREAD: unscored} if unscored else {}),
        "scored contrasts, by majority": people.exclusions,
        "quality pairs to be scored": Exclusions(len(texts.pairs), {UNREAD: n_unread} if n_unread else {}),
        "items of votes": Exclusions(seen + texts.votes_unmatched, unmatched),
    }


def _rows(groups: Sequence[Group], found: Effects, is_preference: bool) -> list[dict[str, object]]:
    """Every contrast with its margin, and its margin out of fold, in the scorer's own unit."""
    contrasts = [contrast for group in groups for contrast in group.contrasts]
    margins = np.concatenate([group.margins["model"] for group in groups])
    corrected = preference_of(found.corrected) if is_preference else found.corrected
    return [
        {"bias": contrast.bias, "id": contrast.id, "margin": margin, "out_of_fold": after}
        for contrast, margin, after in zip(contrasts, margins.tolist(), corrected.tolist(), strict=True)
    ]
