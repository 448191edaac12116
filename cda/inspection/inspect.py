"""`cda inspect`: look at rewrites one by one, and at patterns common to all of them: label, gate, rewards and drift."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cda.arrays import FloatArray
from cda.auditing.report import audit_document
from cda.biases import Bias
from cda.embedded.model import EMBEDDED
from cda.errors import CdaError, DataError, RunError
from cda.features import PATTERN_FEATURES
from cda.files.paths import user_path
from cda.finetuning.applied import check_subject
from cda.inspection.sources import (
    TRAINING,
    Answers,
    InspectionTarget,
    Seen,
    SourcedRewrites,
    answers_to_rewrite,
    check_options,
    fresh_calls,
    fresh_rewrites,
    has_rewrites,
    prompts_text,
    resolved,
    rewrites_of_run,
)
from cda.inspection.tables import inspect_document, with_section
from cda.jobs.options import InspectOptions
from cda.jobs.perform import Job, Made, OneFile, Within, perform
from cda.launch import say
from cda.recipe.load import load_model_audit
from cda.records import RewriteRequest, count_reasons, prompt_id, prompt_text
from cda.report.next_step import as_called, inspection_conclusion
from cda.resources.artifacts import as_given, shown_path, shown_target
from cda.resources.llm_access import Step, llm_problems
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer, planned_verdicts
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing, or_missing
from cda.results.commands import PromptsShown
from cda.results.effects import FeatureDrift
from cda.results.inspect import (
    FeatureChange,
    InspectedBias,
    InspectResult,
    PhraseAdded,
    RewriteLabel,
    RewriteShown,
    RewriteSummary,
)
from cda.rewriting.fidelity import ENFORCED, added_phrases, limits_of, violations
from cda.run import RunFolder
from cda.scorers.compared import Compared, Comparison, Rewards
from cda.stats.draws import Stream, drawn
from cda.stats.drift import feature_drift, measured
from cda.stats.estimators import mean_of, share_of

if TYPE_CHECKING:
    from cda.report.document import Document


@dataclass(frozen=True, slots=True)
class Sample:
    """Rewrites of one bias in one direction, out of those that there are."""

    bias: Bias
    rows: list[Seen]
    n_available: int


def samples_of(material: SourcedRewrites, options: InspectOptions) -> list[Sample]:
    """At most `limit` rewrites of each bias and direction, drawn with the seed."""
    samples = []
    for bias in material.biases.values():
        for way in ("add", "remove"):
            found = [row for row in material.rewrites if (row.bias, row.direction) == (bias.name, way)]
            rows = drawn(found, options.limit, options.seed, Stream.INSPECTED)
            samples.append(Sample(bias, rows, len(found)))
    return samples


def compared_rewrites(samples: Sequence[Sample]) -> list[Comparison]:
    """Each rewrite against its original."""
    rows = (row for sample in samples for row in sample.rows)
    return [(row.prompt, row.rewrite, row.original) for row in rows if row.rewrite is not None]


def inspection_plan(goal: InspectionTarget, answers: Answers | None, options: InspectOptions) -> list[str]:
    """Steps of a dry run; `answers` are those to rewrite now."""
    if answers is not None and goal.loaded is not None:
        recipe = goal.loaded.recipe
        where = shown_path(options.responses) if options.responses else "embedded answers"
        by = recipe.llm.model if recipe.rewrites_by_llm else "embedded rules"
        lines = [
            f"rewrites    of {len(own)} {where}, made now for {name} by {by}{', and back' if name in answers.back else ''}"
            for name, own in answers.texts.items()
        ]
    else:
        lines = [f"rewrites    {len(goal.material.rewrites)} of {goal.material.where}"] if goal.material else []
    rewards = "none" if goal.scored_by is None else f"by {shown_target(goal.scored_by.recipe.model.name_or_path)}"
    if goal.scored_by is None and goal.material is not None and goal.material.scored_by is not None:
        rewards = f"by {goal.material.scored_by}, as stored"
    return [*lines, f"rewards     {rewards}"]


def _costs(goal: InspectionTarget, answers: Answers | None, options: InspectOptions) -> list[Step]:
    made_now = [] if answers is None or goal.loaded is None else fresh_calls(goal.loaded, answers)
    return [*made_now, *_judging(goal, answers, options)]


def _judging(goal: InspectionTarget, answers: Answers | None, options: InspectOptions) -> list[Step]:
    """The calls of an LLM judge whose preferences are shown; a rewrite still to be made counts with its original's length."""
    if goal.scored_by is None:
        return []
    if goal.material is not None:
        compared = compared_rewrites(samples_of(goal.material, options))
    else:
        texts = answers.texts if answers else {}
        # The number tells the comparisons of one answer apart.
        compared = [
            (row.prompt, f"{row.response} {number}", row.response)
            for name, own in texts.items()
            for row in own
            for number in range(2 if answers and name in answers.back else 1)
        ]
    subject = Subject("model", goal.scored_by.recipe.model)
    return planned_verdicts([subject], scorer_settings(goal.scored_by), compared)


_OWN = ("markers_per_100_words", *PATTERN_FEATURES)
_RARE = 0.1  # share of the rewrites from which a phrase counts as a habit
Features = Mapping[str, FloatArray]


def inspect_rewrites(target: str, overrides: Sequence[str], options: InspectOptions) -> InspectResult | PromptsShown:
    """The result, with its text for a terminal; writes the page if one is wanted. With `prompts`, what an LLM would be told."""
    if options.prompts:
        prompts = PromptsShown(text=prompts_text(target, overrides, options))
        prompts.tell(prompts.text)
        return prompts
    check_options(options)
    goal = resolved(target, overrides, options)
    if goal.scored_by is not None:
        with _hint(options):
            check_subject(Subject("model", goal.scored_by.recipe.model), scorer_settings(goal.scored_by))
    material = goal.material
    loaded = goal.loaded or goal.scored_by or load_model_audit(EMBEDDED, {})
    answers = None
    if material is None and goal.loaded is not None:
        answers = answers_to_rewrite(goal.loaded, options.n, options.seed, options.responses)
        llm = goal.loaded.recipe.llm
        if goal.loaded.recipe.rewrites_by_llm and (problems := llm_problems(llm, [str(llm.model)])):
            raise RunError("\n".join(problems))
    of_run = goal.loaded is None and goal.scored_by is None  # nothing is made or scored
    unused = (
        "name",
        "lora",
        "train",
        "data",
        *(("biases",) if material is not None else ()),
        *(("model",) if of_run else ()),
    )
    html = user_path(options.html) if options.html else None

    def work(_: Path) -> Made[InspectResult]:
        rewrites = material
        if rewrites is None:
            if goal.loaded is None or answers is None:
                raise ValueError("a target is material or a recipe")
            rewrites = fresh_rewrites(goal.loaded, answers, options.responses)
        inspection = _inspection(target, rewrites, goal, options)
        document = inspect_document(inspection)
        # A file's biases, of which the result keeps the names, as they were given.
        files = dict(zip(rewrites.biases, options.bias, strict=False)) if goal.loaded is None else {}
        page = {html.name: document.page} if html else {}
        text = document.text(
            [inspection_conclusion(inspection), f"Page: {html}" if html else "All tables: --html PAGE"],
            as_called(as_given(target, options.model) | files, None),
        )
        return Made(inspection, page, text)

    plan, costs = partial(inspection_plan, goal, answers, options), partial(_costs, goal, answers, options)
    return perform(Job(plan, work, OneFile(html) if html else Within(), costs, unused), loaded)


def report_of(audit: AuditResult) -> Document:
    """The report of an audit, with the rewrites of the run that it lies in."""
    document = audit_document(audit)
    return document if audit.folder is None else with_rewrites(document, RunFolder(audit.folder))


def with_rewrites(document: Document, run: RunFolder) -> Document:
    """A run's report with its rewrites after the examples, rewards where they are kept; the report itself if there are none."""
    try:
        material = rewrites_of_run(run.path) if has_rewrites(run) else None
    except CdaError as error:
        say(f"No rewrites in the report: {error}")
        return document
    if material is None or not material.rewrites:
        return document
    found = _inspection(run.path.name, material, InspectionTarget(material, None, None), InspectOptions())
    return with_section(document, found)


def _inspection(
    target: str, material: SourcedRewrites, goal: InspectionTarget, options: InspectOptions
) -> InspectResult:
    biases = list(material.biases.values())
    groups = samples_of(material, options)
    samples = [group.rows for group in groups]
    unit, scored_by, notes = "reward", material.scored_by, list(material.notes)
    if goal.scored_by is not None:
        model = goal.scored_by.recipe.model
        scored_by = shown_target(model.name_or_path)
        if comparisons := compared_rewrites(groups):
            goal.scored_by.recipe.run_path.parent.mkdir(parents=True, exist_ok=True)
            with _hint(options):
                scorer = open_scorer(Subject("model", model), scorer_settings(goal.scored_by))
                compared, _ = scorer.compare(comparisons)
            samples, unit = [[_with_reward(row, compared) for row in own] for own in samples], compared.unit
    looked = [
        _looked_at(own, group.bias, material, group.n_available)
        for group, own in zip(groups, samples, strict=True)
        if own
    ]
    _check_worst([row for group in looked for row in group.rows], material, options)
    summaries = [_summary(group, material, unit) for group in looked]
    return InspectResult(
        target=shown_path(target),
        where=material.where,
        by=", ".join(dict.fromkeys(material.by)),
        scored_by=scored_by,
        unit=unit,
        notes=tuple(notes),
        worst=options.worst,
        seed=options.seed,
        biases=tuple(
            InspectedBias(name=bias.name, description=bias.description, **dict(bias.instructions))
            for bias in biases
            if bias in [group.bias for group in looked]
        ),
        summaries=tuple(summaries),
        examples=tuple(row for group in looked for row in _chosen(group.rows, options)),
    )


@contextmanager
def _hint(options: InspectOptions) -> Iterator[None]:
    """Tell how to run without a model that was not requested by name."""
    try:
        yield
    except CdaError as error:
        if options.model is not None:
            raise
        raise RunError(f"{error}\n--model none shows the rewrites without rewards") from None


def looked_at(material: SourcedRewrites) -> list[RewriteShown]:
    """Every rewrite with its label, and what the gate and the features say of it."""
    groups = samples_of(material, InspectOptions())
    return [
        row
        for group in groups
        if group.rows
        for row in _looked_at(group.rows, group.bias, material, group.n_available).rows
    ]


def _check_worst(rows: Sequence[RewriteShown], material: SourcedRewrites, options: InspectOptions) -> None:
    if options.worst == "reward" and all(row.difference is None for row in rows):
        raise RunError("--worst reward: there are no rewards here; name a model with --model TARGET")
    if options.worst == "failed" and not any(row.failed or row.rejected for row in rows):
        counts = "; ".join(
            f"{bias}: {sum(missing.reasons.values())} of {missing.tried}"
            for bias, missing in material.lost
            if missing.reasons
        )
        kept = f" The run keeps only the number of those that failed ({counts}); --fresh makes some." if counts else ""
        raise DataError(f"--worst failed: none of {len(rows)} rewrites failed or would be rejected.{kept}")


def _chosen(rows: Sequence[RewriteShown], options: InspectOptions) -> list[RewriteShown]:
    if options.worst is None:
        return drawn(rows, options.n, options.seed + 1, Stream.INSPECTED)
    if options.worst == "failed":
        return [row for row in rows if row.failed or row.rejected][: options.n]
    by_reward = options.worst == "reward"
    return sorted(rows, key=lambda row: -abs(row.difference or 0.0) if by_reward else -row.distance)[: options.n]


def _with_reward(row: Seen, compared: Compared) -> Seen:
    """A rewrite with a model's rewards in place of those that were kept; a judge gives differences alone."""
    if row.rewrite is None:
        return row
    margin, rewards = float(compared.margins([(row.prompt, row.rewrite, row.original)])[0]), None
    if isinstance(compared, Rewards):
        both = (compared.of(row.prompt, row.original), compared.of(row.prompt, row.rewrite))
        rewards = None if np.isnan(both).any() else both
    return replace(row, rewards=rewards, difference=None if np.isnan(margin) else margin)


@dataclass(frozen=True, slots=True)
class _Looked:
    """Rewrites of one bias in one direction: a sample of those `available`, their prompts, and the features of those that
    have a text (before, after)."""

    bias: Bias
    available: int
    rows: Sequence[RewriteShown]
    prompt_ids: Sequence[str]
    before: Features
    after: Features


def _looked_at(rewrites: Sequence[Seen], bias: Bias, material: SourcedRewrites, available: int) -> _Looked:
    """Label, gate and drift of each rewrite."""
    written = [row for row in rewrites if row.rewrite is not None]
    before = _features([row.original for row in written], bias)
    after = _features([str(row.rewrite) for row in written], bias)
    differences = iter(_differences(before, after, bias))
    shown = []
    for seen in rewrites:
        label = _label(seen, bias)
        changes, distance = ((), 0.0) if seen.rewrite is None else next(differences)
        rejected, noticed = _violations(seen, label, bias, material)
        shown.append(
            RewriteShown(
                bias=seen.bias,
                source=seen.source,
                direction=seen.direction,
                prompt=prompt_text(seen.prompt),
                original=seen.original,
                rewrite=seen.rewrite,
                failed=seen.failed,
                rejected=rejected,
                noticed=noticed,
                label=label,
                rewards=seen.rewards,
                difference=seen.difference,
                drift=changes,
                distance=distance,
            )
        )
    return _Looked(bias, available, shown, [prompt_id(row.prompt) for row in rewrites], before, after)


def _label(seen: Seen, bias: Bias) -> RewriteLabel:
    (before, after), by, rule, text = seen.labels, seen.labelled_by, bias.measure, seen.rewrite
    if text is None:
        return RewriteLabel(before=before, after=None, by=by, flipped=None)
    if by is None and rule is not None:
        by = f"measured {rule.feature.replace('_', ' ')}{', against each other' if rule.relative else ''}"
        others = (text, seen.original) if rule.relative else (None, None)
        before, after = bias.shows(seen.original, others[0]), bias.shows(text, others[1])
    elif by is None:
        before = after = None
    known = before is not None and after is not None
    flipped = before != after and after == (seen.direction == "add") if known else None
    return RewriteLabel(before=before, after=after, by=by, flipped=flipped)


def _violations(
    seen: Seen, label: RewriteLabel, bias: Bias, material: SourcedRewrites
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Violations that the gate rejects, gravest first, and those that it only notes; measured labels of all biases are to
    stay."""
    if seen.rewrite is None:
        return (), ()
    request = RewriteRequest(seen.prompt, seen.original, seen.direction, seen.reference)
    relabelled: bool | Literal["measure"] | None = label.after if seen.labelled_by is not None else "measure"
    found = violations(
        request, seen.rewrite, bias, words_within=material.words_within, others=list(material.biases.values()),
        relabelled=relabelled,
    )  # fmt: skip
    rejected = tuple(violation.reason for violation in found if violation.check in ENFORCED)
    return rejected, tuple(violation.reason for violation in found if violation.check not in ENFORCED)


def _features(texts: Sequence[str], bias: Bias) -> dict[str, FloatArray]:
    if not texts:
        return {}
    own = [name for name in _OWN if (bias.pattern is not None if name in PATTERN_FEATURES else bool(bias.markers))]
    return measured(texts) | {name: np.array([bias.measured(text, name) for text in texts], float) for name in own}


def _differences(before: Features, after: Features, bias: Bias) -> Iterator[tuple[tuple[FeatureChange, ...], float]]:
    """By rewrite: the features that changed, and the distance from its original in all that is not the bias itself, in
    standard deviations of originals (1 for a constant feature)."""
    limits = limits_of(bias)
    beyond = {
        name: ~limits[name].holds(after[name], before[name])
        for name in before
        if name in limits and name not in bias.treatment
    }
    others = [name for name in before if name not in bias.treatment]
    # A feature that does not hold for a text (NaN) has not changed.
    steps = [np.nan_to_num((after[name] - before[name]) / (float(np.nanstd(before[name])) or 1.0)) for name in others]
    for at, row in enumerate(np.column_stack(steps) if steps else ()):
        changes = (
            FeatureChange(
                feature=name,
                before=float(values[at]),
                after=float(after[name][at]),
                is_treatment=name in bias.treatment,
                beyond=name in beyond and bool(beyond[name][at]),
            )
            for name, values in before.items()
            if abs(values[at] - after[name][at]) > 0
        )
        yield tuple(changes), float(np.linalg.norm(row))


def _summary(looked: _Looked, material: SourcedRewrites, unit: str) -> RewriteSummary:
    """Numbers of all rewrites of one bias in one direction, each with n and a prompt-clustered 95% interval."""
    bias, rows, ids, direction = looked.bias, looked.rows, looked.prompt_ids, looked.rows[0].direction

    def among(keep: Callable[[RewriteShown], bool]) -> tuple[list[RewriteShown], list[str]]:
        kept = [keep(row) for row in rows]
        return list(compress(rows, kept)), list(compress(ids, kept))

    written, of_written = among(lambda row: row.rewrite is not None)
    labelled, of_labelled = among(lambda row: row.label.flipped is not None)
    scored, of_scored = among(lambda row: row.difference is not None)
    accepted, of_accepted = among(lambda row: row.rewrite is not None and row.failed is None)
    differences = [row.difference or 0.0 for row in scored]
    failed = _share([row.failed is not None for row in rows], ids)
    # A run's failure counts have no direction; training pairs are made in one.
    lost = [gone for of, gone in material.lost if of == bias.name and (direction == "add" or gone.source != TRAINING)]

    def drift() -> tuple[FeatureDrift, ...]:
        sides = looked.after, looked.before
        found = feature_drift(*sides, of_written, limits=limits_of(bias), treatment=bias.treatment)
        return tuple(found)

    return RewriteSummary(
        bias=bias.name,
        direction=direction,
        n=len(rows),
        n_prompts=len(set(ids)),
        available=looked.available,
        n_written=len(written),
        sources=count_reasons([row.source for row in rows]),
        labelled_by=count_reasons([str(row.label.by) for row in labelled]),
        flipped=_share([row.label.flipped is True for row in labelled], of_labelled),
        had_it_before=sum(row.label.before == (direction == "add") for row in labelled),
        failed=failed if material.with_failed else Missing(reason="only what succeeded was kept"),
        failed_reasons=count_reasons([row.failed for row in rows if row.failed is not None]),
        lost=tuple(lost),
        rejected=_share([bool(row.rejected) for row in accepted], of_accepted),
        rejected_reasons=count_reasons([row.rejected[0] for row in accepted if row.rejected]),
        noticed=count_reasons([reason for row in written for reason in row.noticed]),
        reward=or_missing(lambda: mean_of(differences, of_scored, unit).estimate)
        if scored
        else Missing(reason="no rewards"),
        n_without_reward=len(written) - len(scored),
        drift=or_missing(drift),
        phrases=tuple(_phrases(written, of_written)),
    )


def _phrases(rows: Sequence[RewriteShown], ids: Sequence[str]) -> Iterator[PhraseAdded]:
    """Phrases that at least two rewrites and a tenth of all hold, and no original."""
    least = max(2, int(np.ceil(_RARE * len(rows))))
    for phrase in added_phrases([row.original for row in rows], [str(row.rewrite) for row in rows], least):
        held = set(phrase.rows)
        yield PhraseAdded(words=phrase.words, share=_share([at in held for at in range(len(rows))], ids))


def _share(hits: Sequence[bool], ids: Sequence[str]) -> Estimate | Missing:
    return or_missing(lambda: share_of(hits, ids)) if hits else Missing(reason="none")
