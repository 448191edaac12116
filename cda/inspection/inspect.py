"""`cda inspect`: look at rewrites one by one, and at patterns common to all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cda.biases import Bias
from cda.errors import CdaError, DataError, RunError
from cda.files.jsonl import write_page
from cda.files.paths import user_path
from cda.finetuning.applied import check_subject
from cda.inspection import numbers
from cda.inspection.fresh import fresh_rewrites
from cda.inspection.page import render_inspection
from cda.inspection.sources import TRAINING, SourcedRewrites
from cda.inspection.tables import inspection_text
from cda.inspection.targets import InspectionTarget, InspectOptions, check_options, resolved
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.results.inspect import InspectedBias, InspectResult
from cda.stats.streams import Stream, drawn

_MANY_PROMPTS = 30  # from here on a bootstrap's interval of a mean covers about as often as it says
Group = tuple[str, str]
"""Bias and direction."""


def inspect_rewrites(target: str, overrides: Sequence[str], options: InspectOptions) -> str:
    """The text for the terminal; writes the page if one is wanted."""
    check_options(options)
    goal = resolved(target, overrides, options)
    if goal.scored_by is not None:
        with _hint(options):
            check_subject(Subject("model", goal.scored_by.recipe.model), scorer_settings(goal.scored_by))
    material = goal.material
    if material is None:
        if goal.loaded is None:
            raise ValueError("a target is material or a recipe")
        material = fresh_rewrites(goal.loaded, options.n, options.seed, options.responses)
    inspection = _inspection(target, material, goal, options)
    text = inspection_text(inspection)
    if options.html:
        path = user_path(options.html)
        try:
            write_page(path, render_inspection(inspection))
        except OSError as error:
            raise RunError(f"{options.html}: cannot be written: {error.strerror or error}") from None
        text += f"\nPage: {path}"
    return text


def _inspection(
    target: str, material: SourcedRewrites, goal: InspectionTarget, options: InspectOptions
) -> InspectResult:
    biases = list(material.biases.values())
    keys = [(bias.name, direction) for bias in biases for direction in ("add", "remove")]
    found = {key: [seen for seen in material.rewrites if (seen.bias, seen.direction) == key] for key in keys}
    groups = {key: own for key, own in found.items() if own}
    rewrites = {key: drawn(own, options.most, options.seed, Stream.INSPECTED) for key, own in groups.items()}
    unit, scored_by, notes = "reward", material.scored_by, list(material.notes)
    if goal.scored_by is not None:
        settings, comparisons = (
            goal.scored_by,
            numbers.comparisons_of([row for own in rewrites.values() for row in own]),
        )
        model = settings.recipe.model
        scored_by = shown_target(model.name_or_path)
        if comparisons:
            settings.recipe.run_path.parent.mkdir(parents=True, exist_ok=True)
            with _hint(options):
                compared, _ = open_scorer(Subject("model", model), scorer_settings(settings)).compare(comparisons)
            rewrites, unit = {key: numbers.with_rewards(own, compared) for key, own in rewrites.items()}, compared.unit
    rows = {
        key: [numbers.looked_at(rewrite, material.biases[key[0]], biases, material.words_within) for rewrite in own]
        for key, own in rewrites.items()
    }
    _check_worst(rows, material, options)
    summaries, examples = [], []
    for (name, direction), looked in rows.items():
        bias, spread = material.biases[name], numbers.spread_of(looked)
        # A run's failure counts have no direction; training pairs are made in one.
        lost = [gone for of, gone in material.lost if of == name and (direction == "add" or gone.source != TRAINING)]
        failed, available = material.with_failed, len(groups[name, direction])
        summary = numbers.summarize_rewrites(
            looked, lost, bias, unit, options.seed, with_failed=failed, available=available
        )
        summaries.append(summary)
        examples += [numbers.shown(row, bias, spread) for row in _chosen(looked, options, bias, spread)]
    if any(summary.n_prompts < _MANY_PROMPTS for summary in summaries):
        notes.append(f"Below about {_MANY_PROMPTS} prompts the intervals of means (reward, drift) are too narrow.")
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
            if bias.name in {name for name, _ in groups}
        ),
        summaries=tuple(summaries),
        examples=tuple(examples),
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


def _check_worst(
    rows: Mapping[Group, Sequence[numbers.Looked]], material: SourcedRewrites, options: InspectOptions
) -> None:
    everything = [row for own in rows.values() for row in own]
    if options.worst == "reward" and all(row.seen.difference is None for row in everything):
        raise RunError("--worst reward: there are no rewards here; name a model with --model TARGET")
    if options.worst == "failed" and not any(row.seen.failed or row.rejected for row in everything):
        counts = "; ".join(
            f"{bias}: {sum(missing.reasons.values())} of {missing.tried}"
            for bias, missing in material.lost
            if missing.reasons
        )
        kept = f" The run keeps only the number of those that failed ({counts}); --fresh makes some." if counts else ""
        raise DataError(f"--worst failed: none of {len(everything)} rewrites failed or would be rejected.{kept}")


def _chosen(
    rows: Sequence[numbers.Looked], options: InspectOptions, bias: Bias, spread: Mapping[str, float]
) -> list[numbers.Looked]:
    if options.worst is None:
        return drawn(rows, options.n, options.seed + 1, Stream.INSPECTED)
    if options.worst == "reward":
        return sorted(rows, key=lambda row: -abs(row.seen.difference or 0.0))[: options.n]
    if options.worst == "failed":
        return [row for row in rows if row.seen.failed or row.rejected][: options.n]
    return sorted(rows, key=lambda row: -numbers.off_target_distance(row, spread, bias.treatment))[: options.n]
