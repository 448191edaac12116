"""The rewrites that an inspection looks at, and its plan: rewrites, rewards, and the calls of LLMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cda.biases import Bias
from cda.files.paths import free_place, user_path
from cda.inspection.fresh import Answers, planned_calls
from cda.inspection.sources import InspectionTarget, InspectOptions, Seen, SourcedRewrites
from cda.resources.artifacts import shown_path, shown_target
from cda.resources.llm_access import Step, plan_lines
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import planned_verdicts
from cda.scorers.compared import Comparison
from cda.stats.draws import Stream, drawn


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
    steps: list[Step] = []
    if answers is not None and goal.loaded is not None:
        steps, recipe = planned_calls(goal.loaded, answers), goal.loaded.recipe
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
    page = [f"page        {free_place(user_path(options.html))}"] if options.html else []
    return [*lines, f"rewards     {rewards}", *page, *plan_lines([*steps, *_judging(goal, answers, options)])]


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
