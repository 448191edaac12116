"""Generations of a search on disk, and the settings and inputs that each stage of a discovery depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from cda.data.messages import RowError, prompt_of
from cda.discovery.records import Candidate, Standing
from cda.discovery.search import Generation
from cda.discovery.setup import Asked, Setup
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.resources.artifacts import prompt_row
from cda.resources.llm_access import llm_settings
from cda.resources.named_scorer import scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import prompt_settings, source_fingerprint
from cda.results.base import load, save
from cda.results.discover import (
    CandidateRecord,
    GenerationRecord,
    MaterialCounts,
    Measured,
    SavedGeneration,
    StandingRecord,
)
from cda.results.evidence import HeldOutResult, PairQualities
from cda.run import RunFolder, Stage, file_fingerprint


def save_generation(generation: Generation, folder: Path) -> None:
    """Write both files; the JSON last, so that a generation without it never finished."""
    name = f"generation-{generation.index}"
    write_jsonl(folder / f"{name}.jsonl", (measured_row(row) for row in generation.rows))
    candidates = tuple(candidate_record(standing.candidate) for standing in generation.standings)
    save(SavedGeneration(generation=generation_record(generation), candidates=candidates), folder / f"{name}.json")


def saved_generations(folder: Path) -> list[Generation]:
    """The finished ones, from the first on, as far as they go without a gap.

    Raises:
        DataError: A file is not in the format of `save_generation`.
    """
    generations: list[Generation] = []
    while (path := folder / f"generation-{len(generations)}.json").is_file():
        saved = load(SavedGeneration, path, "cda discover")
        record = saved.generation
        try:
            rows = tuple(measured_of(row) for row in read_jsonl(path.with_suffix(".jsonl")))
            standings = tuple(_standing(row, of) for row, of in zip(record.standings, saved.candidates, strict=True))
        except (KeyError, TypeError, ValueError, RowError) as error:
            raise DataError(f"{path}: not a generation of this version of cda ({error}); delete the folder") from None
        generations.append(
            Generation(record.index, standings, rows, record.n_prompts, record.proposed, record.n_merged)
        )
    return generations


def generation_record(generation: Generation) -> GenerationRecord:
    return GenerationRecord(
        index=generation.index,
        n_prompts=generation.n_prompts,
        n_merged=generation.n_merged,
        proposed=generation.proposed,
        standings=tuple(standing_record(standing) for standing in generation.standings),
    )


def candidate_record(one: Candidate) -> CandidateRecord:
    return CandidateRecord(id=one.id, origin=one.origin, generation=one.generation, parents=one.parents, bias=one.bias)


def standing_record(one: Standing) -> StandingRecord:
    return StandingRecord(
        candidate=one.candidate.id,
        n=one.n,
        reward=one.reward,
        judge=one.judge,
        n_judged=one.n_judged,
        failed=dict(one.failed),
        fate=one.fate,
    )


def measured_row(row: Measured) -> dict[str, Any]:
    """A measured rewrite as JSON."""
    return {
        "candidate": row.candidate,
        "rewriter": row.rewriter,
        "direction": row.direction,
        "prompt": prompt_row(row.prompt),
        "original": row.original,
        "rewrite": row.rewrite,
        "margin": row.margin,
        "preference": row.preference,
    }


def measured_of(row: Mapping[str, Any]) -> Measured:
    """Read a row written by `measured_row`."""
    return Measured(**{**row, "prompt": prompt_of(row["prompt"])})


def _standing(row: StandingRecord, of: CandidateRecord) -> Standing:
    candidate = Candidate(of.bias, of.origin, of.generation, of.parents)
    if not candidate.id == of.id == row.candidate:
        raise ValueError(f"the standing of {row.candidate} stands beside the candidate {candidate.id}")
    return Standing(candidate, row.n, row.reward, row.judge, row.n_judged, row.failed, row.fate)


_MATERIAL = (
    "responses", "columns", "split", "prompts", "topics", "scenarios", "prompts_each", "policies", "samples",
    "max_response_tokens", "parts",
)  # fmt: skip
_NO_ANSWERS: dict[str, Any] = {
    "workers": True,
    "cache": True,
    "self_check": True,
    # They are part of the prompt, whose content is a separate setting.
    "judge": {"prompt", "reasons", "orders"},
}
_CONFIRM = (
    "max_validation", "max_test", "validation_alpha", "test_alpha", "correct", "required_rewriters", "max_failed", "trim",
    "removing",
)  # fmt: skip


_COUNTING = 3
"""Version of the counts of rewrites, verdicts and tests; a new one makes confirmed results anew."""


def material_stage(setup: Setup, model: Asked) -> Stage:
    """Prompts, responses, rewards."""
    section = setup.section
    settings = {
        "discover": section.model_dump(mode="json", include=set(_MATERIAL)),
        "schema_version": MaterialCounts.current_schema(),
        "model": _asked_settings(model),
        "seed": setup.seed,
    }
    if setup.by_llm:
        settings["llm"] = llm_settings(setup.llm.settings)
    inputs = {"model": _asked_source(model)} | {
        name: source_fingerprint(value)
        for name, value in (("responses", section.responses), ("prompts", section.prompts), ("topics", section.topics))
        if value is not None and not value.startswith("embedded")
    }
    return Stage("material", settings, inputs)


def search_stage(setup: Setup, run_folder: RunFolder, judge: Asked) -> Stage:
    """Generations."""
    settings = {
        "search": setup.search.model_dump(),
        "schema_version": SavedGeneration.current_schema(),
        "by": "llm" if setup.by_llm else "rules",
        "rewriter": setup.rewriters()[0].name,
    }
    return _judged_stage("search", settings, setup, run_folder, judge)


def held_out_stage(
    name: str, setup: Setup, run_folder: RunFolder, judge: Asked, candidates: Sequence[Candidate]
) -> Stage:
    """`validate` or `confirm`: these candidates, all rewriters."""
    settings = {
        "discover": setup.section.model_dump(mode="json", include=set(_CONFIRM)),
        "responses_each": setup.responses_each,
        "rewriters": [rewriter.name for rewriter in setup.rewriters()],
        "candidates": [candidate.id for candidate in candidates],
        "counting": _COUNTING,
        "schema_version": HeldOutResult.current_schema(),
    }
    return _judged_stage(name, settings, setup, run_folder, judge)


def pairs_stage(setup: Setup, run_folder: RunFolder, candidates: Sequence[Candidate]) -> Stage:
    """The rewrites of the confirmation, and who looks at them."""
    settings = {
        "candidates": [candidate.id for candidate in candidates],
        "asked": setup.asks_about_pairs,
        "schema_version": PairQualities.current_schema(),
        "seed": setup.seed,
    }
    settings |= _llm(setup, "label") if setup.asks_about_pairs else {}
    return Stage("pairs", settings, {"confirm": run_folder.output_of("confirm")})


def _judged_stage(name: str, settings: dict[str, object], setup: Setup, run_folder: RunFolder, judge: Asked) -> Stage:
    settings = {**settings, "judge": _asked_settings(judge), "seed": setup.seed}
    settings |= _llm(setup, "rewrite") if setup.by_llm else {}
    return Stage(name, settings, {"material": run_folder.output_of("material"), "judge": _asked_source(judge)})


def _llm(setup: Setup, kind: Literal["label", "rewrite"]) -> dict[str, object]:
    return {"llm": llm_settings(setup.llm.settings), "prompts": prompt_settings(setup.llm.prompts, kind)}


def _asked_settings(asked: Asked) -> dict[str, object]:
    recipe, subject = asked.loaded.recipe, asked.subject
    settings: dict[str, object] = {
        "model": subject.section.model_dump(mode="json", exclude={"preset", "precision"}),
        "dose": subject.dose if subject.adapter else None,
        "score": recipe.score.model_dump(mode="json", exclude=_NO_ANSWERS),
    }
    if subject.section.is_judge:
        settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(asked.loaded.prompts, "judge")}
    return settings


def _asked_source(asked: Asked) -> str:
    source = open_scorer(asked.subject, scorer_settings(asked.loaded)).source()
    return source if asked.subject.adapter is None else f"{source}+{file_fingerprint(asked.subject.adapter)}"
