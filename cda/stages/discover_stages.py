"""What decides each stage of a discovery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cda.config.load import LoadedRecipe
from cda.config.scoring import kind_of
from cda.discovery.records import Candidate
from cda.results.discover import MaterialCounts, SavedGeneration
from cda.results.evidence import HeldOutResult
from cda.run import RunFolder, Stage, file_fingerprint
from cda.stages.discover_parts import Asked, by_llm, responses_each, rewriters, search_settings
from cda.stages.scorers import open_scorer
from cda.stages.sources import llm_settings, prompt_settings, source_fingerprint

_MATERIAL = (
    "responses", "columns", "split", "prompts", "topics", "scenarios", "prompts_each", "policies", "samples",
    "max_response_tokens", "parts",
)  # fmt: skip
_NO_ANSWERS: dict[str, Any] = {
    "workers": True,
    "cache": True,
    "self_check": True,
    # They are part of the prompt, whose content is a setting of its own.
    "judge": {"prompt", "reasons", "orders"},
}
_CONFIRM = (
    "max_validation", "max_test", "validation_alpha", "test_alpha", "correct", "required_rewriters", "max_failed", "trim",
    "removing",
)  # fmt: skip


def material_stage(loaded: LoadedRecipe, model: Asked) -> Stage:
    """Prompts, responses, rewards."""
    section = loaded.recipe.discover
    settings = {
        "discover": section.model_dump(mode="json", include=set(_MATERIAL)),
        "schema_version": MaterialCounts.current_schema(),
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
        "search": search_settings(loaded).model_dump(),
        "schema_version": SavedGeneration.current_schema(),
        "by": "llm" if by_llm(loaded) else "rules",
        "rewriter": rewriters(loaded)[0].name,
        "judge": _asked_settings(judge),
        "seed": loaded.recipe.seed,
    }
    if by_llm(loaded):
        settings |= {"llm": llm_settings(loaded.recipe.llm), "prompts": prompt_settings(loaded, "rewrite")}
    return Stage("search", settings, {"material": run_folder.output_of("material"), "judge": _asked_source(judge)})


_COUNTING = 3
"""Raised when rewrites, verdicts or tests are counted otherwise, so that what was confirmed by the old counts is made anew."""


def held_out_stage(
    name: str, loaded: LoadedRecipe, run_folder: RunFolder, judge: Asked, candidates: Sequence[Candidate]
) -> Stage:
    """`validate` or `confirm`: these candidates, all rewriters."""
    settings = {
        "discover": loaded.recipe.discover.model_dump(mode="json", include=set(_CONFIRM)),
        "responses_each": responses_each(loaded),
        "rewriters": [one.name for one in rewriters(loaded)],
        "candidates": [one.id for one in candidates],
        "counting": _COUNTING,
        "schema_version": HeldOutResult.current_schema(),
        "judge": _asked_settings(judge),
        "seed": loaded.recipe.seed,
    }
    if by_llm(loaded):
        settings |= {"llm": llm_settings(loaded.recipe.llm), "prompts": prompt_settings(loaded, "rewrite")}
    return Stage(name, settings, {"material": run_folder.output_of("material"), "judge": _asked_source(judge)})


def _asked_settings(asked: Asked) -> dict[str, object]:
    recipe, subject = asked.loaded.recipe, asked.subject
    settings: dict[str, object] = {
        "model": subject.section.model_dump(mode="json", exclude={"preset", "precision"}),
        "dose": subject.dose if subject.adapter else None,
        "score": recipe.score.model_dump(mode="json", exclude=_NO_ANSWERS),
    }
    if kind_of(subject.name) == "judge":
        settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(asked.loaded, "judge")}
    return settings


def _asked_source(asked: Asked) -> str:
    source = open_scorer(asked.subject.section, asked.loaded).source()
    return source if asked.subject.adapter is None else f"{source}+{file_fingerprint(asked.subject.adapter)}"
