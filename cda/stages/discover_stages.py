"""What decides each stage of a discovery, and what its calls of LLMs will be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cda.config.load import LoadedRecipe
from cda.config.schema import LlmSection
from cda.config.scoring import kind_of
from cda.discover.records import Candidate
from cda.run import RunFolder, Stage, file_fingerprint
from cda.stages.discover_material import planned_material
from cda.stages.discover_parts import Asked, by_llm, llm_named, responses_each, rewriters, search_settings
from cda.stages.scorer_sources import scorer_source
from cda.stages.sources import llm_settings, source_fingerprint
from cda.stages.spending import Planned, sentence

_MATERIAL = (
    "responses", "columns", "split", "prompts", "topics", "scenarios", "prompts_each", "policies", "samples",
    "max_response_tokens", "parts",
)  # fmt: skip
_CONFIRM = (
    "max_validation", "max_test", "validation_alpha", "test_alpha", "required_rewriters", "max_failed", "trim", "removing",
)  # fmt: skip
_REWRITE_TOKENS, _VERDICT_TOKENS = 450, 80
_LOOK_TOKENS = 80
_RESPONSE_TOKENS = 350
"""Of a response, where it is not known yet."""


def material_stage(loaded: LoadedRecipe, model: Asked) -> Stage:
    """Prompts, responses, rewards."""
    section = loaded.recipe.discover
    settings = {
        "discover": section.model_dump(mode="json", include=set(_MATERIAL)),
        "model": _asked_settings(model),
        "seed": loaded.recipe.seed,
    }
    if by_llm(loaded):
        settings["llm"] = llm_settings(loaded.recipe.llm)
    inputs = {"model": _asked_source(model)} | {
        name: source_fingerprint(value)
        for name, value in (("responses", section.responses), ("prompts", section.prompts), ("topics", section.topics))
        if value is not None and not value.startswith("embedded")
    }
    return Stage("material", settings, inputs)


def search_stage(loaded: LoadedRecipe, run_folder: RunFolder, judge: Asked) -> Stage:
    """Generations."""
    settings = {
        "search": asdict(search_settings(loaded)),
        "by": "llm" if by_llm(loaded) else "rules",
        "rewriter": rewriters(loaded)[0].name,
        "judge": _asked_settings(judge),
        "seed": loaded.recipe.seed,
    }
    if by_llm(loaded):
        settings["llm"] = llm_settings(loaded.recipe.llm)
    return Stage("search", settings, {"material": run_folder.output_of("material"), "judge": _asked_source(judge)})


def held_out_stage(
    name: str, loaded: LoadedRecipe, run_folder: RunFolder, judge: Asked, candidates: Sequence[Candidate]
) -> Stage:
    """`validate` or `confirm`: these candidates, all rewriters."""
    settings = {
        "discover": loaded.recipe.discover.model_dump(mode="json", include=set(_CONFIRM)),
        "responses_each": responses_each(loaded),
        "rewriters": [one.name for one in rewriters(loaded)],
        "candidates": [one.id for one in candidates],
        "judge": _asked_settings(judge),
        "seed": loaded.recipe.seed,
    }
    if by_llm(loaded):
        settings["llm"] = llm_settings(loaded.recipe.llm)
    return Stage(name, settings, {"material": run_folder.output_of("material"), "judge": _asked_source(judge)})


def planned_calls(loaded: LoadedRecipe, judge: Asked, n_given: int) -> list[tuple[LlmSection, Planned]]:
    """LLM and calls of every step, at most; `n_given` attributes where nothing is searched for."""
    steps = planned_material(loaded)
    section, settings = loaded.recipe.discover, search_settings(loaded)
    by = len(settings.directions)
    sizes = [settings.populations[0], *(n * (1 + settings.mutations) for n in settings.populations[1:-1])]
    searched = 0 if n_given else sum(n * prompts * by for n, prompts in zip(sizes, settings.prompts, strict=True))
    n_entered = n_given or settings.populations[-1]
    held_out = sum(n or 64 for n in ([section.max_test] if n_given else [section.max_validation, section.max_test]))
    confirmed = n_entered * held_out * by * responses_each(loaded)
    if by_llm(loaded):
        llm = loaded.recipe.llm
        if not n_given:
            thoughts = 2 * settings.populations[0] // 5 + sum(settings.populations[1:-1])
            steps.append((llm, Planned("proposing, mutating, grouping", thoughts, 1600, 250)))
        for place, name in enumerate(section.rewriters):
            calls = confirmed + (searched if place == 0 else 0)
            what = f"rewriting by {name}"
            steps.append((llm_named(loaded, name), Planned(what, calls, 2 * _RESPONSE_TOKENS, _REWRITE_TOKENS)))
    if kind_of(judge.subject.name) == "judge":
        n_rewriters = len(rewriters(loaded))
        calls = 2 * (round(searched * (1 - section.reward_cut)) + n_rewriters * confirmed)
        steps.append(
            (judge.loaded.recipe.llm, Planned("judging in both orders", calls, 3 * _RESPONSE_TOKENS, _VERDICT_TOKENS))
        )
    if by_llm(loaded) and section.pair_quality:
        # Of what is confirmed: both sides labelled, the edit graded.
        calls = 3 * len(rewriters(loaded)) * n_entered * (section.max_test or 64) * by
        steps.append((loaded.recipe.llm, Planned("looking at the rewrites", calls, 2 * _RESPONSE_TOKENS, _LOOK_TOKENS)))
    return steps


def plan(loaded: LoadedRecipe, model: Asked, judge: Asked, given: Sequence[Candidate]) -> str:
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
    steps = planned_calls(loaded, judge, len(given))
    return "\n".join([*lines, *(sentence(planned, llm) for llm, planned in steps if planned.calls)])


def _asked_settings(asked: Asked) -> dict[str, Any]:
    recipe, subject = asked.loaded.recipe, asked.subject
    settings: dict[str, Any] = {
        "model": subject.section.model_dump(mode="json", exclude={"preset", "precision"}),
        "dose": subject.dose if subject.adapter else None,
        "score": recipe.score.model_dump(mode="json", exclude={"workers", "cache", "self_check"}),
    }
    if kind_of(subject.name) == "judge":
        settings["llm"] = llm_settings(recipe.llm)
    return settings


def _asked_source(asked: Asked) -> str:
    if kind_of(asked.subject.name) == "judge":
        return asked.subject.name
    source = scorer_source(asked.subject.section, asked.loaded)
    return source if asked.subject.adapter is None else f"{source}+{file_fingerprint(asked.subject.adapter)}"
