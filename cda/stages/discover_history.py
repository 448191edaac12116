"""Generations of a search on disk: a JSON file each, and the rewrites behind it as JSON Lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cda.data.messages import RowError, prompt_of
from cda.discovery.records import Candidate, Standing
from cda.discovery.search import Generation
from cda.errors import DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.results.discover import CandidateRecord, GenerationRecord, Measured, SavedGeneration, StandingRecord
from cda.results.saved import load, save
from cda.stages.rows import prompt_row


def save_generation(generation: Generation, folder: Path) -> None:
    """Write both files; the JSON last, so that a generation without it never finished."""
    name = f"generation-{generation.index}"
    write_jsonl(folder / f"{name}.jsonl", (measured_row(row) for row in generation.rows))
    candidates = tuple(candidate_record(one.candidate) for one in generation.standings)
    save(SavedGeneration(generation=generation_record(generation), candidates=candidates), folder / f"{name}.json")


def saved_generations(folder: Path) -> list[Generation]:
    """The finished ones, from the first on, as far as they go without a gap.

    Raises:
        DataError: A file is not what `save_generation` wrote.
    """
    found: list[Generation] = []
    while (path := folder / f"generation-{len(found)}.json").is_file():
        saved = load(SavedGeneration, path, "cda discover")
        one = saved.generation
        try:
            rows = tuple(measured_of(row) for row in read_jsonl(path.with_suffix(".jsonl")))
            standings = tuple(_standing(row, of) for row, of in zip(one.standings, saved.candidates, strict=True))
        except (KeyError, TypeError, ValueError, RowError) as error:
            raise DataError(f"{path}: not a generation of this version of cda ({error}); delete the folder") from None
        found.append(Generation(one.index, standings, rows, one.n_prompts, one.proposed, one.n_merged))
    return found


def generation_record(generation: Generation) -> GenerationRecord:
    """What a result says of a generation."""
    return GenerationRecord(
        index=generation.index,
        n_prompts=generation.n_prompts,
        n_merged=generation.n_merged,
        proposed=generation.proposed,
        standings=tuple(standing_record(one) for one in generation.standings),
    )


def candidate_record(one: Candidate) -> CandidateRecord:
    """What a result says of a candidate."""
    return CandidateRecord(id=one.id, origin=one.origin, generation=one.generation, parents=one.parents, bias=one.bias)


def standing_record(one: Standing) -> StandingRecord:
    """What a result says of a standing."""
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
    """What `measured_row` wrote."""
    return Measured(**{**row, "prompt": prompt_of(row["prompt"])})


def _standing(row: StandingRecord, of: CandidateRecord) -> Standing:
    candidate = Candidate(of.bias, of.origin, of.generation, of.parents)
    if not candidate.id == of.id == row.candidate:
        raise ValueError(f"the standing of {row.candidate} stands beside the candidate {candidate.id}")
    return Standing(candidate, row.n, row.reward, row.judge, row.n_judged, row.failed, row.fate)
