"""Stage `pairs` of a discovery: how well the rewrites behind each tested attribute were made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cda.biases import Bias
from cda.config.load import LoadedRecipe
from cda.discovery.pair_quality import pair_quality
from cda.discovery.records import Candidate
from cda.records import Prompt
from cda.results.evidence import ConfirmationResult
from cda.results.rewrite_quality import PairQualities, PairQuality
from cda.results.saved import load, save
from cda.rewriting.protocol import Labeller
from cda.run import RunFolder, Stage
from cda.stages.discover_confirm import counted_rows, read_result, read_rows
from cda.stages.discover_parts import by_llm
from cda.stages.sources import labels_of, llm_settings, open_llm, prompt_settings
from cda.stats.streams import Stream, generator

RESULT = "pairs.json"


def pairs_stage(loaded: LoadedRecipe, run_folder: RunFolder, candidates: Sequence[Candidate]) -> Stage:
    """The rewrites of the confirmation, and who looks at them."""
    asks = _asks(loaded)
    settings: dict[str, Any] = {
        "candidates": [one.id for one in candidates],
        "asked": asks,
        "schema_version": PairQualities.current_schema(),
        "seed": loaded.recipe.seed,
    }
    if asks:
        settings |= {"llm": llm_settings(loaded.recipe.llm), "prompts": prompt_settings(loaded, "label")}
    return Stage("pairs", settings, {"confirm": run_folder.output_of("confirm")})


def run_pairs(
    loaded: LoadedRecipe, run_folder: RunFolder, candidates: Sequence[Candidate], folder: Path
) -> dict[str, int]:
    """Write pairs.json: what was found of the rewrites of each candidate by the rewriters that count for it."""
    confirmed = run_folder.stage("confirm")
    rows = counted_rows(read_rows(confirmed), read_result(ConfirmationResult, confirmed))
    llm = open_llm(loaded) if _asks(loaded) else None
    label: Labeller = labels_of(loaded) if llm is not None else _measured_labels
    found = {
        one.id: pair_quality(
            rows[one.id],
            one.bias,
            generator(loaded.recipe.seed, Stream.PAIR_QUALITY),
            label=label,
            # Rules are held to the measure as they rewrite, so that its labels find the attribute by construction.
            labelled_by="measure" if llm is None else "llm",
            llm=llm,
        )
        for one in candidates
        if rows[one.id]
    }
    save(PairQualities(candidates=found), folder / RESULT)
    return {"candidates": len(found)}


def read_pairs(folder: Path) -> dict[str, PairQuality]:
    """What `run_pairs` wrote, by candidate `id`."""
    return load(PairQualities, folder / RESULT, "cda discover").candidates


def _asks(loaded: LoadedRecipe) -> bool:
    return by_llm(loaded) and loaded.recipe.discover.pair_quality


def _measured_labels(prompts: Sequence[Prompt], responses: Sequence[str], bias: Bias) -> list[bool | None]:  # noqa: ARG001
    """Without an LLM: what the bias file's own measure says; None where it has none."""
    return [bias.shows(response) for response in responses]
