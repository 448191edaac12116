"""`cda calibrate MODEL`: score what people voted on, fit corrections of the margins, write them with their report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.audit import audit_rewriting, audit_texts
from cda.auditing.groups import (
    Group,
    contrast_comparisons,
    make_groups,
    pair_comparisons,
    people_of,
    read_margins,
    ties_of,
)
from cda.auditing.texts import AuditTexts, load_audit_texts
from cda.biases import Bias
from cda.calibration.corrections import RESULT, Origin, Term, calibration_result, check_prompts
from cda.calibration.effects import Effects
from cda.calibration.fit import Problem, Scored
from cda.calibration.report import PAGE, made
from cda.dosing.choice import MIN_PROMPTS
from cda.dosing.stage import aimed
from cda.errors import DataError
from cda.finetuning.applied import check_subject
from cda.jobs.perform import Done, Job, Made, perform
from cda.launch import unsaid
from cda.recipe.load import LoadedRecipe
from cda.records import Contrast, Exclusions, TieRule, prompt_id
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.llm_access import Step
from cda.resources.named_scorer import NamedScorer, Subject, scorer_settings
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.resources.sources import audit_inputs
from cda.results.dose import CalibrationResult, TextMeasure
from cda.results.facts import JudgeFacts, PanelFacts, Scorer
from cda.scorers.calibrated import log_odds, place_of_first, preference_of, text_terms
from cda.scorers.compared import Compared, Comparison
from cda.stats.draws import drawn
from cda.stats.votes import Majority


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
    settings, audit = scorer_settings(loaded), loaded.recipe.audit
    if settings.score.calibration is not None:
        raise DataError("score.calibration: leave it out, since what is calibrated is the scorer as it is")
    check_subject(Subject("model", loaded.recipe.model), settings)
    inputs = audit_inputs(loaded)
    inputs.check_opinions()
    of_files = {contrast.bias for contrast in inputs.contrasts().contrasts}
    contrasts = [
        contrast
        for contrast in inputs.existing_contrasts()
        if contrast.bias not in of_files or contrast.tags.get("source", "file") == "file"
    ]
    _, _, counts = aimed(contrasts, loaded.biases, "votes", audit.ties, ties_taught=False)
    quality = inputs.quality()
    pairs = drawn(quality.pairs if quality else (), audit.max_quality, loaded.recipe.seed)
    enough = check_prompts(counts, len({prompt_id(pair.prompt) for pair in pairs}))
    biases = tuple(bias for bias in loaded.biases if bias.name in enough)
    measures = {bias.name: own for bias in biases if (own := text_measure(bias)) is not None}
    if not measures:
        raise DataError(
            f"{', '.join(enough)}: {NO_MEASURE}. Add `measure` to the bias file (cda/biases/README.md), or calibrate score files "
            "(--scores)"
        )
    return Voted(replace(loaded, biases=biases), counts, measures, len(pairs))


def _judging(loaded: LoadedRecipe) -> list[Step]:
    """The calls of an LLM; none for another scorer, whose texts are not even drawn."""
    if not loaded.recipe.model.kind.asks_llm:
        return []
    with unsaid():
        texts = load_audit_texts(audit_inputs(loaded), audit_rewriting(loaded).planning(), only_audit=loaded.only_audit)
    subject = Subject("model", loaded.recipe.model)
    return planned_verdicts([subject], scorer_settings(loaded), _compared(texts))


def _voted(texts: AuditTexts) -> list[Contrast]:
    return [contrast for contrast in texts.contrasts if contrast.votes or contrast.preferred]


def _compared(texts: AuditTexts) -> list[Comparison]:
    return [*contrast_comparisons(_voted(texts)), *pair_comparisons(texts.pairs)]


def run_calibrate(loaded: LoadedRecipe, figures: str | None = None) -> Done[CalibrationResult]:
    """Calibrate the recipe's model on its contrasts with votes. Errors as of `voted_on`, before anything is scored; RunError for a
    folder that holds something else."""
    voted = voted_on(loaded)

    def plan(out: Path) -> list[str]:
        enough = ", ".join(f"{bias.name} {voted.counts[bias.name]}" for bias in voted.loaded.biases)
        return [
            f"model       {loaded.recipe.model.name_or_path}",
            f"votes       prompts with a majority: {enough}",
            *(f"            {name} is not corrected: {why}" for name, why in voted.uncorrected.items()),
            f"quality     {f'{voted.n_quality} pairs' if voted.n_quality else 'none'}",
            f"report      {out / PAGE}",
        ]

    costs = partial(_judging, voted.loaded)
    job = Job("cda calibrate", RESULT, plan, lambda _: _calibrated(voted), costs, ("name",))
    return perform(job, loaded, loaded.recipe.run_path, figures)


def _calibrated(voted: Voted) -> Made[CalibrationResult]:
    loaded, recipe = voted.loaded, voted.loaded.recipe
    settings = scorer_settings(loaded)
    texts = audit_texts(loaded)
    scorer = open_scorer(Subject("model", recipe.model), settings, settings.shared_folder)
    contrasts = _voted(texts)
    compared, facts = scorer.compare(_compared(texts))
    biases = {bias.name: bias for bias in loaded.biases}
    groups = make_groups(contrasts, biases, list(biases), {"model": compared})
    terms = text_columns(voted.measures, isinstance(facts, JudgeFacts | PanelFacts) and facts.orders == "one")
    problem, n_unread = _problem(groups, texts, compared, recipe.audit.ties, voted.measures, terms)
    left_out = _left_out(texts, groups, problem.people, n_unread)
    is_preference = compared.unit == "preference"
    origin = _origin(voted, scorer, facts, left_out, is_preference)
    dose = recipe.dose
    result, found = calibration_result(problem, terms, origin, recipe.seed, dose.repeats, dose.max_quality_loss)
    return made(result, _rows(groups, found, is_preference))


def _problem(
    groups: Sequence[Group],
    texts: AuditTexts,
    compared: Compared,
    rule: TieRule,
    measures: Mapping[str, TextMeasure],
    terms: Sequence[Term],
) -> tuple[Problem, int]:
    """The margins, terms and majorities of all groups, and the number of quality pairs that could not be read."""
    majorities = [_majority(group, rule) for group in groups]
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
        people=Majority(
            np.concatenate([majority.target for majority in majorities]),
            np.concatenate([majority.used for majority in majorities]),
            rule,
            Exclusions(len(contrasts), dict(sum((Counter(own.exclusions.reasons) for own in majorities), Counter()))),
        ),
        biases=tuple(contrast.bias for contrast in contrasts),
        quality=scored(quality["model"], quality_ids, kept),
        ties=ties_of(compared.unit),
    ), len(pairs) - len(kept)


def _majority(group: Group, rule: TieRule) -> Majority:
    people = people_of(group, rule)
    if people is None:
        raise DataError(f"{group.bias.name}: no contrast that could be scored has a majority of people")
    return people.majority


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


def _origin(
    voted: Voted, scorer: NamedScorer, facts: Scorer, left_out: Mapping[str, Exclusions], is_preference: bool
) -> Origin:
    audit, measures = voted.loaded.recipe.audit, voted.measures
    given = {"contrasts": audit.contrasts, "votes": audit.votes, "quality": audit.quality}
    return Origin(
        unit="log odds" if is_preference else "reward",
        measures=measures,
        uncorrected=voted.uncorrected,
        no_offset={name: RELATIVE for name, own in measures.items() if own.logarithm},
        no_slope={},
        no_order=BOTH_ORDERS if is_preference else NO_PLACES,
        left_out=left_out,
        sources={name: None if file is None else shown_path(file) for name, file in given.items()},
        scorer=shown_target(scorer.name),
        scored_as=scorer.scored_as,
        facts=facts.model_copy(update={"name": shown_target(facts.name)}),
    )


def _rows(groups: Sequence[Group], found: Effects, is_preference: bool) -> list[dict[str, object]]:
    """Every contrast with its margin, and its margin out of fold, in the scorer's own unit."""
    contrasts = [contrast for group in groups for contrast in group.contrasts]
    margins = np.concatenate([group.margins["model"] for group in groups])
    corrected = preference_of(found.corrected) if is_preference else found.corrected
    return [
        {"bias": contrast.bias, "id": contrast.id, "margin": margin, "out_of_fold": after}
        for contrast, margin, after in zip(contrasts, margins.tolist(), corrected.tolist(), strict=True)
    ]
