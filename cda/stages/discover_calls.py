"""What a discovery asks of LLMs, at most, and what it will do, in a few lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cda.config.load import LoadedRecipe
from cda.config.schema import LlmSection
from cda.config.scoring import kind_of
from cda.discovery.records import Candidate
from cda.results.discover import Part
from cda.run import RunFolder
from cda.stages.discover_material import material_counts, parts_at_most, planned_material
from cda.stages.discover_parts import Asked, by_llm, responses_each, rewriters, search_settings
from cda.stages.discover_stages import material_stage
from cda.stages.sources import llm_named
from cda.stages.spending import Planned, sentence

AT_MOST = "calls of LLMs, at most; more only where an answer has to be asked for again:"
# As the parts of a search have them by default; a test holds them against these.
_WANTED_FOR_EACH, _NAMED_AT_ONCE = 2, 5
_GROUPED_AT_ONCE, _GROUPING_ROUNDS = 100, 4
_GUESSES = 5
_REWRITE_TOKENS, _VERDICT_TOKENS = 450, 80
_LOOK_TOKENS = 80
_RESPONSE_TOKENS = 350
"""Of a response, where it is not known yet."""


def planned_calls(
    loaded: LoadedRecipe, folder: RunFolder, model: Asked, judge: Asked, n_given: int
) -> list[tuple[LlmSection, Planned]]:
    """LLM and calls of every step: no more than these, but for answers that have to be asked for again.

    Nothing is counted out that is only likely, such as candidates let go before the judge is asked.

    Args:
        loaded: The recipe.
        folder: Its run; where the material is made already, its prompts are counted.
        model: What is searched.
        judge: What it is held against.
        n_given: Attributes that are given; 0 where they are searched for.
    """
    section, llm, is_judge = loaded.recipe.discover, loaded.recipe.llm, kind_of(judge.subject.name) == "judge"
    if not by_llm(loaded) and not is_judge:
        return []
    searched, validated, tested = _rewrites(loaded, n_given, _prompts(loaded, folder, model))
    held_out, n_rewriters = validated + tested, len(rewriters(loaded))
    steps = planned_material(loaded)
    if by_llm(loaded):
        if not n_given:
            steps.append((llm, Planned("proposing, mutating, grouping", _thoughts(loaded), 1600, 250)))
        for place, name in enumerate(section.rewriters):
            calls = held_out + (searched if place == 0 else 0)
            what = f"rewriting by {name}"
            steps.append((llm_named(loaded, name), Planned(what, calls, 2 * _RESPONSE_TOKENS, _REWRITE_TOKENS)))
    if is_judge:
        calls = 2 * (searched + n_rewriters * held_out)
        steps.append(
            (judge.loaded.recipe.llm, Planned("judging in both orders", calls, 3 * _RESPONSE_TOKENS, _VERDICT_TOKENS))
        )
    if by_llm(loaded) and section.pair_quality:
        # Of each pair both sides are labelled and the edit graded; of each candidate guesses are made and compared with it.
        n_candidates = n_given or search_settings(loaded).populations[-1]
        calls = 3 * n_rewriters * tested + 2 * _GUESSES * n_candidates
        steps.append((llm, Planned("looking at the rewrites", calls, 2 * _RESPONSE_TOKENS, _LOOK_TOKENS)))
    return steps


def plan(loaded: LoadedRecipe, folder: RunFolder, model: Asked, judge: Asked, given: Sequence[Candidate]) -> str:
    """What a discovery would do, and what it would cost, in a few lines."""
    settings, names = search_settings(loaded), ", ".join(one.name for one in rewriters(loaded))
    against = f"{model.subject.name} against {judge.subject.name}"
    if given:
        lines = [f"measure {len(given)} attributes in {against}, rewritten by {names}:"]
        lines += [f"  {one.attribute}" for one in given]
    else:
        lines = [
            f"search {against}: {settings.n_generations} generations, at most {settings.n_candidates} candidates",
            f"confirm with {names}",
        ]
    steps = [step for step in planned_calls(loaded, folder, model, judge, len(given)) if step[1].calls]
    return "\n".join([*lines, *([AT_MOST] if steps else []), *(sentence(planned, llm) for llm, planned in steps)])


def _prompts(loaded: LoadedRecipe, folder: RunFolder, model: Asked) -> Mapping[Part, int]:
    """Prompts of each part: as they are where the material is made, at most so many where it is not."""
    stage = material_stage(loaded, model)
    if folder.is_done(stage):
        return dict(material_counts(folder.stage(stage.name)).prompts)
    return parts_at_most(loaded)


def _rewrites(loaded: LoadedRecipe, n_given: int, prompts: Mapping[Part, int]) -> tuple[int, int, int]:
    """Rewrites by one rewriter for the search, the validation and the test."""
    section, settings = loaded.recipe.discover, search_settings(loaded)
    n_directions = len(settings.directions)

    def held_out(n_candidates: int, most: int | None, n_prompts: int) -> int:
        drawn = n_prompts if most is None else min(most, n_prompts)
        return n_candidates * drawn * responses_each(loaded) * n_directions

    if n_given:
        return 0, 0, held_out(n_given, section.max_test, sum(prompts.values()))
    first, *survivors, finalists = settings.populations
    sizes = [first * (1 + settings.variations), *(n * (1 + settings.mutations) for n in survivors)]
    searched = sum(n * min(batch, prompts["train"]) for n, batch in zip(sizes, settings.prompts, strict=True))
    return (
        searched * n_directions,
        held_out(finalists, section.max_validation, prompts["validation"]),
        held_out(finalists, section.max_test, prompts["test"]),
    )


def _thoughts(loaded: LoadedRecipe) -> int:
    """Questions for attributes, for their variations, and for their groups in every generation."""
    settings = search_settings(loaded)
    first, *survivors, _ = settings.populations
    proposing = math.ceil(_WANTED_FOR_EACH * first / _NAMED_AT_ONCE)
    varying = first if settings.variations else 0
    to_group = [proposing * _NAMED_AT_ONCE, varying * (1 + settings.variations)]
    to_group += [n * (1 + settings.mutations) for n in survivors]
    chunks = [math.ceil(n / _GROUPED_AT_ONCE) for n in to_group]
    grouping = sum(n if n == 1 else n * _GROUPING_ROUNDS for n in chunks)
    return proposing + varying + sum(survivors) + grouping
