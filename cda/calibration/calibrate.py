"""`cda calibrate MODEL`: score what people voted on, fit corrections of the margins, with their effect on votes that did not
fit them, write them with their report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from cda.calibration.fit import (
    Fit,
    Held,
    Problem,
    Scored,
    choose_strength,
    corrected_apart,
    fit_of,
)
from cda.dosing.choice import MIN_PROMPTS, DoseCurve, OutOfFold, PromptNumbers, Rows
from cda.dosing.held_out import (
    Drawn,
    Resampled,
    covering,
    draw_prompts,
    halves,
    held_out_change,
    held_out_people,
    joined,
)
from cda.dosing.stage import Material, calls_on_votes, joint_majority, voted_in
from cda.errors import DataError
from cda.finetuning.applied import check_subject
from cda.jobs.perform import Job, Made, ResultsFolder, perform
from cda.numbers.measures import VotedRows, of_people, sizes
from cda.numbers.people import row_values
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, TieRule
from cda.resources.artifacts import as_given, shown_path, shown_target
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import audit_inputs
from cda.results.base import BeforeAfter, Estimate, Missing
from cda.results.dose import BiasCorrection, CalibratedBias, CalibrationResult, OrderCorrection, TextMeasure
from cda.results.facts import JudgeFacts, PanelFacts
from cda.scorers.calibrated import log_odds, place_of_first, preference_of, text_terms
from cda.scorers.compared import Compared, Comparison
from cda.stats.draws import Stream, generator
from cda.stats.estimators import of_draws, paired_change, share_of
from cda.stats.proportions import hits_of
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
    place = ResultsFolder(loaded.recipe.run_path, CalibrationResult.made_by)
    return perform(Job(plan, lambda _: _calibrated(voted), place, costs, ("name",)), loaded, figures)


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
        following=_of_fit(problem, found.fit.following, found.drawn.following, "log odds per root mean square"),
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
    names = as_given(scorer.name, *given.values())
    return Made(result, {"out_of_fold.jsonl": _rows(groups, found, is_preference)}, names=names)


def _corrections(
    measures: Mapping[str, TextMeasure], problem: Problem, terms: Sequence[Term], found: Effects, unit: Unit
) -> tuple[dict[str, BiasCorrection], OrderCorrection | Missing]:
    """Full corrections with the intervals of resampled prompts, by bias, and that of the order."""
    fits: dict[tuple[str, Part], Estimate | Missing] = {}
    for at, term in enumerate(terms):
        named = f"{unit} per {term.unit}" if term.part == "slope" else unit
        fits[term.bias, term.part] = (
            _of_fit(problem, found.fit.corrections[:, at], found.drawn.corrections[:, at], named)
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


def _of_fit(problem: Problem, fit: FloatArray, drawn: FloatArray, unit: str) -> Estimate:
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


N_DRAWS = 500
SPLITS = 2
"""Splits of each draw; fewer than the estimate has, which widens intervals a little."""
_MAX_NUMBERS = 1 << 20  # draws × rows at a time


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Out-of-fold numbers, and the final correction: its strength, what each strength gains in squared error, the full fit, and fits on
    resampled prompts. `corrected`: margins out of fold, mean over repeats, shape (n,)."""

    biases: dict[str, CalibratedBias]
    quality: BeforeAfter | None
    prefers_first: BeforeAfter | None
    strengths: dict[str, Estimate]
    strength: float
    fit: Fit
    drawn: Fit
    corrected: FloatArray


def calibration_effects(
    problem: Problem, seed: int, repeats: int, max_loss: float, order_column: int | None = None
) -> Effects:
    """Choose a strength on all rows, and measure corrections of this strength out of fold (repeated 2-fold, split by prompt).

    Every number after calibration comes from corrections that the row's prompt had no part in, at the strength that is given out; gaps
    are computed on each half and averaged, as those of doses are. Intervals resample prompts, split and fit anew.
    `order_column`: the term that is 1 if the first side was shown first, −1 if it was not.
    """
    rng = generator(seed, Stream.INTERVALS)
    prompts = problem.prompts
    strength, gains = choose_strength(problem, repeats, rng, max_loss)
    ones = np.ones((repeats, len(prompts.strata)))
    first = halves(prompts.strata, ones, rng)
    held = corrected_apart(problem, prompts, ones, first, strength)
    weights = draw_prompts(prompts.strata, rng, N_DRAWS)
    drawn = _drawn(problem, prompts, weights, np.random.default_rng(int(rng.integers(2**63))), strength)
    biases = {bias: _bias(problem, prompts, bias, held, first, drawn[bias]) for bias in problem.names}
    return Effects(
        biases=biases,
        quality=_quality(problem, held, biases[problem.names[0]], drawn[problem.names[0]]),
        prefers_first=None if order_column is None else _prefers_first(problem, held, order_column),
        strengths={f"{tried:g}": gain.estimate for tried, gain in gains.items()},
        strength=strength,
        fit=fit_of(problem, prompts, ones[:1]),
        drawn=fit_of(problem, prompts, weights),
        corrected=held.margins.mean(axis=0),
    )


def _curve(problem: Problem, rows: Rows) -> DoseCurve:
    """Margins as they are, of one bias's rows with a majority; both doses are these."""
    people = problem.people
    kept = Majority(people.target[rows], np.ones(int(rows.sum()), dtype=bool), people.rule, Exclusions(0, {}))
    quality = problem.quality
    return DoseCurve(
        (0.0, 1.0),
        np.repeat(problem.contrasts.margins[None, rows], 2, axis=0),
        kept,
        list(compress(problem.contrasts.prompt_ids, rows)),
        np.repeat(quality.margins[None], 2, axis=0) if len(quality.margins) else None,
        quality.prompt_ids,
    )


def _bias(
    problem: Problem, prompts: PromptNumbers, bias: str, held: Held, first: Rows, drawn: Resampled
) -> CalibratedBias:
    rows = problem.rows_of(bias)
    curve, ties = _curve(problem, rows), problem.ties
    quality = held.quality if len(problem.quality.margins) else None
    out = OutOfFold(held.margins[:, rows], quality, first[:, prompts.of_contrast[rows]], np.empty(0))
    after = held_out_people(curve, out.margins, out, drawn.dose, ties=ties)
    base = held_out_people(curve, curve.margins[:1], out, drawn.base, fixed=True, ties=ties)
    change = held_out_change(curve, 0.0, out, drawn, (base, after), ties)
    return CalibratedBias(base=base, calibrated=after, change=change)


def _quality(problem: Problem, held: Held, any_bias: CalibratedBias, drawn: Resampled) -> BeforeAfter | None:
    change = any_bias.change.get("accuracy")
    if change is None:
        return None
    ids = problem.quality.prompt_ids
    after = share_of(hits_of(held.quality, problem.ties).mean(axis=0), ids)
    return BeforeAfter(
        before=share_of(hits_of(problem.quality.margins, problem.ties), ids),
        after=covering(after, drawn.dose["accuracy"]),
        change=change,
    )


def _prefers_first(problem: Problem, held: Held, column: int) -> BeforeAfter:
    """Share of all pairs in which the text shown first is preferred, as the scorer is and corrected out of fold."""
    sides = ((problem.contrasts, held.margins), (problem.quality, held.quality))
    places = np.concatenate([rows.terms[:, column] for rows, _ in sides])
    ids = [name for rows, _ in sides for name in rows.prompt_ids]
    before = hits_of(np.concatenate([rows.margins for rows, _ in sides]) * places, problem.ties)
    after = hits_of(np.concatenate([corrected for _, corrected in sides], axis=1) * places, problem.ties).mean(axis=0)
    return BeforeAfter(
        before=share_of(before, ids), after=share_of(after, ids), change=paired_change(before, after, ids)
    )


def _drawn(
    problem: Problem, prompts: PromptNumbers, weights: FloatArray, rng: np.random.Generator, strength: float
) -> dict[str, Resampled]:
    """The whole procedure on resampled prompts: what each bias measures, as it is and corrected, on the same halves."""
    step = max(1, _MAX_NUMBERS // (len(problem.contrasts.margins) + len(problem.quality.margins)))
    parts: dict[str, list[list[Drawn]]] = {bias: [] for bias in problem.names}
    for at in range(0, len(weights), step):
        here = weights[at : at + step]
        splits = [halves(prompts.strata, here, rng) for _ in range(SPLITS)]
        held = [corrected_apart(problem, prompts, here, first, strength) for first in splits]
        for bias in problem.names:
            parts[bias].append(list(_measures(problem, prompts, bias, here, splits, held)))
    drawn = {bias: tuple(map(joined, zip(*chunks, strict=True))) for bias, chunks in parts.items()}
    return {bias: Resampled(corrected, as_it_is, as_it_is) for bias, (corrected, as_it_is) in drawn.items()}


def _measures(
    problem: Problem, prompts: PromptNumbers, bias: str, weights: FloatArray, splits: list[Rows], held: list[Held]
) -> Iterator[Drawn]:
    """Of one bias in some draws: corrected, then as the scorer is."""
    rows = problem.rows_of(bias)
    of_row, target = prompts.of_contrast[rows], problem.people.target[rows]
    own, quality_weights = weights[:, of_row], weights[:, prompts.of_quality]
    quality = problem.quality.margins
    as_it_is = [Held(problem.contrasts.margins[None], quality[None])] * len(held)
    for scored in (held, as_it_is):
        margins = [part.margins[:, rows] for part in scored]
        voted = [VotedRows(each, hits_of(each, problem.ties), target, ()) for each in margins]
        found = {
            key: _average(own, np.mean([row_values(measure, split) for split in voted], axis=0))
            for key, measure in of_people(rows=True).items()
        }
        for key, measure in sizes().items():
            halves_of = ((split, half) for split, first in zip(voted, splits, strict=True) for half in (first, ~first))
            means = [_average(own * half[:, of_row], row_values(measure, split)) for split, half in halves_of]
            found[key] = np.stack(means, axis=1)
        if len(quality):
            right = np.mean([hits_of(part.quality, problem.ties) for part in scored], axis=0)
            found["accuracy"] = _average(quality_weights, right)
        yield found


def _average(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Weighted means over the rows, shape (draws,); NaN for a draw without any."""
    with np.errstate(invalid="ignore"):
        return np.asarray((weights * values).sum(axis=1) / weights.sum(axis=1))
