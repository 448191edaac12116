"""Generations of a search on disk: a JSON file each, and the rewrites behind it as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cda.biases import Bias
from cda.data.messages import RowError, prompt_of
from cda.discovery.records import Candidate, Measured, PromptSamples, Rated, Standing
from cda.discovery.search import Generation
from cda.errors import DataError
from cda.files.jsonl import read_json, read_jsonl, write_json, write_jsonl
from cda.records import Exclusions
from cda.stages.rows import prompt_row


def save_generation(generation: Generation, folder: Path) -> None:
    """Write both files; the JSON last, so that a generation without it never finished."""
    name = f"generation-{generation.index}"
    write_jsonl(folder / f"{name}.jsonl", (measured_row(row) for row in generation.rows))
    content = {
        "index": generation.index,
        "n_prompts": generation.n_prompts,
        "n_merged": generation.n_merged,
        "proposed": asdict(generation.proposed),
        "standings": [standing_row(one) for one in generation.standings],
    }
    write_json(folder / f"{name}.json", content)


def saved_generations(folder: Path) -> list[Generation]:
    """The finished ones, from the first on, as far as they go without a gap.

    Raises:
        DataError: A file is not what `save_generation` wrote.
    """
    found: list[Generation] = []
    while (path := folder / f"generation-{len(found)}.json").is_file():
        try:
            content = read_json(path)
            found.append(
                Generation(
                    content["index"],
                    tuple(_standing(row) for row in content["standings"]),
                    tuple(measured_of(row) for row in read_jsonl(path.with_suffix(".jsonl"))),
                    content["n_prompts"],
                    Exclusions(**content["proposed"]),
                    content["n_merged"],
                )
            )
        except (KeyError, TypeError, ValueError, RowError) as error:
            raise DataError(f"{path}: not a generation of this version of cda ({error}); delete the folder") from None
    return found


def candidate_row(one: Candidate) -> dict[str, Any]:
    """A candidate as JSON; its bias without what is left at its default."""
    return {
        "id": one.id,
        "origin": one.origin,
        "generation": one.generation,
        "parents": list(one.parents),
        "bias": one.bias.model_dump(mode="json", exclude_defaults=True),
    }


def candidate_of(row: Mapping[str, Any]) -> Candidate:
    """What `candidate_row` wrote."""
    return Candidate(Bias.model_validate(row["bias"]), row["origin"], row["generation"], tuple(row["parents"]))


def standing_row(one: Standing) -> dict[str, Any]:
    """A standing as JSON."""
    return {
        "candidate": candidate_row(one.candidate),
        "n": one.n,
        "reward": one.reward,
        "judge": one.judge,
        "n_judged": one.n_judged,
        "failed": dict(one.failed),
        "fate": one.fate,
    }


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


def samples_rows(samples: Iterable[PromptSamples]) -> Iterable[dict[str, Any]]:
    """Prompts and their rated responses as JSON."""
    for one in samples:
        yield {"prompt": prompt_row(one.prompt), "responses": [asdict(response) for response in one.responses]}


def samples_of(rows: Iterable[Mapping[str, Any]]) -> list[PromptSamples]:
    """What `samples_rows` wrote."""
    return [PromptSamples(prompt_of(row["prompt"]), tuple(Rated(**one) for one in row["responses"])) for row in rows]


def _standing(row: Mapping[str, Any]) -> Standing:
    return Standing(**{**row, "candidate": candidate_of(row["candidate"])})
