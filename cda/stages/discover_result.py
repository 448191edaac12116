"""What a discovery found: discover.json with everything, bias files, example pairs, lineage, and the report drawn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cda.biases import Bias
from cda.config.load import LoadedRecipe, contrasts_beside
from cda.discovery.attribute import bias_yaml
from cda.discovery.evidence import evidence
from cda.discovery.records import Candidate, Measured
from cda.discovery.search import Generation, lineage
from cda.discovery.strength import strength_curve
from cda.errors import ModelError
from cda.files.jsonl import read_json, write_json, write_jsonl, write_text
from cda.files.paths import own_folder, refuse_link
from cda.report.discover_page import discover_page, discover_plots
from cda.report.discover_sentences import rewriters_shown
from cda.report.discover_tables import discover_markdown, discover_text
from cda.results.base import as_json
from cda.run import RunFolder, versions
from cda.stages.discover_confirm import counted_rows, read_result, read_rows
from cda.stages.discover_contrasts import write_contrasts
from cda.stages.discover_history import candidate_row, measured_row, standing_row
from cda.stages.discover_material import Material, material_counts
from cda.stages.discover_pairs import RESULT as PAIRS_RESULT
from cda.stages.discover_parts import Asked, by_llm, rewriters, search_settings
from cda.stages.discover_provenance import provenance
from cda.stages.figures import write_figures

RESULT, REPORT, LINEAGE, PAIRS = "discover.json", "discover.md", "lineage.jsonl", "pairs.jsonl"
PAGE = "report.html"
BIASES = "biases"
_THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 21))
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A finished discovery.

    Attributes:
        loaded: The recipe.
        folder: Its stages.
        model: What was searched.
        judge: What it was held against.
        material: Prompts and responses.
        generations: Of the search; empty where the attributes were given.
        finalists: Candidates that entered the validation.
        tested: Candidates that entered the test.
    """

    loaded: LoadedRecipe
    folder: RunFolder
    model: Asked
    judge: Asked
    material: Material
    generations: tuple[Generation, ...]
    finalists: tuple[Candidate, ...]
    tested: tuple[Candidate, ...]


def write_result(found: Found, figures: str | None = None) -> str:
    """Write every file into the run folder, and with `figures` (svg, pdf) every figure into figures/.

    Returns:
        A table for a terminal.
    """
    out = found.folder.path
    result = _result(found)
    rows = read_rows(found.folder.stage("confirm")) if found.tested else []
    files = _bias_files(found, result, out / BIASES)
    for one in result["tested"]:
        one["file"] = files.get(one["candidate"])
    write_json(out / RESULT, result)
    write_jsonl(out / LINEAGE, _lineage_rows(found))
    write_jsonl(out / PAIRS, (measured_row(row) for row in rows))
    write_text(out / REPORT, discover_markdown(result))
    write_text(out / PAGE, discover_page(result))
    written = f"Written: {out / PAGE}, {REPORT}, {RESULT}, {PAIRS}, {LINEAGE}, {BIASES}/"
    if figures is not None:
        written += f"\n{write_figures(discover_plots(result), out, figures)}"
    return f"{discover_text(result)}\n{written}"


def _result(found: Found) -> dict[str, Any]:
    """Everything that a report shows."""
    recipe, folder = found.loaded.recipe, found.folder
    validation = read_result(folder.stage("validate")) if found.finalists else None
    test = read_result(folder.stage("confirm")) if found.tested else None
    pairs = read_json(folder.stage("pairs") / PAIRS_RESULT) if found.tested else {}
    counted = counted_rows(read_rows(folder.stage("confirm")), test) if test else {}
    everyone = {one.id: one for one in (*found.finalists, *found.tested)}
    everyone |= {one.candidate.id: one.candidate for each in found.generations for one in each.standings}
    return {
        "name": recipe.name,
        "given": not found.generations and bool(found.tested),
        "model": _named(found.model),
        "judge": _named(found.judge),
        "by": recipe.llm.model if by_llm(found.loaded) else "rules",
        "rewriters": [one.name for one in rewriters(found.loaded)],
        "n_rewriters": len(rewriters(found.loaded))
        if by_llm(found.loaded)
        else 1,  # one rule engine, at several strengths
        "settings": recipe.discover.model_dump(mode="json"),
        "search": as_json(search_settings(found.loaded)),
        "material": material_counts(folder.stage("material")),
        "generations": [_generation(one) for one in found.generations],
        "candidates": {name: candidate_row(one) for name, one in everyone.items()},
        "validation": validation,
        "tested": _tested(found.tested, test, counted, found.material, recipe.discover.trim),
        "n_test_prompts": test["n_prompts"] if test else 0,
        "already": test["already"] if test else {},
        "verdicts": test.get("verdicts") if test else None,
        "cut_for_judge": test.get("cut_for_judge", 0) if test else 0,
        "pairs": pairs,
        "strength": _strength(found, validation),
        "lineage": {one.id: [each.candidate.id for each in lineage(one, found.generations)] for one in found.tested},
        "seconds": {name: folder.record(name).get("seconds") for name in ("material", "search", "validate", "confirm")},
        "seed": recipe.seed,
        "versions": versions(),
        **provenance(folder, bool(found.generations), bool(found.finalists), bool(found.tested)),
    }


def _named(asked: Asked) -> dict[str, Any]:
    subject = asked.subject
    return {
        "name": subject.name,
        "adapter": None if subject.adapter is None else subject.adapter.name,
        "dose": subject.dose if subject.adapter else None,
    }


def _generation(generation: Generation) -> dict[str, Any]:
    return {
        "index": generation.index,
        "n_prompts": generation.n_prompts,
        "n_merged": generation.n_merged,
        "proposed": as_json(generation.proposed),
        "standings": [standing_row(one) | {"candidate": one.candidate.id} for one in generation.standings],
    }


def _tested(
    tested: Sequence[Candidate],
    test: Mapping[str, Any] | None,
    rows: Mapping[str, Sequence[Measured]],
    material: Material,
    trim: bool,
) -> list[dict[str, Any]]:
    """Results of the test, the strongest first, with examples and the mean of each topic by the rewriters that count."""
    if test is None:
        return []
    by_id = {one.id: one for one in tested}
    found = [
        result
        | {
            "attribute": by_id[result["candidate"]].attribute,
            "name": by_id[result["candidate"]].bias.name,
            "same_by_all": _same_by_all(rows[result["candidate"]]),
            "examples": _examples(rows[result["candidate"]]),
            "topics": _by_topic(rows[result["candidate"]], material, trim),
        }
        for result in test["results"]
    ]
    return sorted(
        found,
        key=lambda one: (not one["confirmed"], -(one["pooled"] or {"reward": {"value": -np.inf}})["reward"]["value"]),
    )


def _same_by_all(rows: Sequence[Measured]) -> float | None:
    """Share of the responses that several rewriters rewrote, all of them to the same text; None where there is no such response."""
    texts: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        texts.setdefault((row.prompt_id, row.original, row.direction), []).append(row.rewrite)
    several = [one for one in texts.values() if len(one) > 1]
    return sum(len(set(one)) == 1 for one in several) / len(several) if several else None


def _examples(rows: Sequence[Measured]) -> list[dict[str, Any]]:
    """Rewrites that show the disagreement best, and one that does not show it."""
    ranked = sorted(rows, key=lambda row: (row.preference if row.preference is not None else 0.5, -row.margin))
    return [measured_row(row) for row in [*ranked[:_EXAMPLES], *ranked[_EXAMPLES:][-1:]]]


def _by_topic(rows: Sequence[Measured], material: Material, trim: bool) -> dict[str, Any]:
    """Numbers by topic, where prompts have one; topics on which too little was measured say so."""
    topics = sorted({topic for row in rows if (topic := material.topics.get(row.prompt_id))})
    if len(topics) < 2:
        return {}
    found = {}
    for topic in topics:
        own = evidence([row for row in rows if material.topics.get(row.prompt_id) == topic], {}, 1.0, trim)
        found[topic] = {"untested": own.untested} if own.pooled is None else as_json(own.pooled)
    return found


def _strength(found: Found, validation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Of the finalists by their validation numbers, on which none of them was selected."""
    pooled = [(one["candidate"], one["pooled"]) for one in (validation or {"results": []})["results"] if one["pooled"]]
    if not pooled:
        return None
    by_id = {one.id: one for one in found.finalists}
    penalty = found.loaded.recipe.discover.penalty
    try:
        from cda.embedded.encoder import encode_sentences

        embeddings = encode_sentences([by_id[name].attribute for name, _ in pooled])
    except ModelError as error:
        return {"missing": str(error)}
    rewards, judges = ([one[what]["value"] for _, one in pooled] for what in ("reward", "judge"))
    curve = strength_curve(rewards, judges, embeddings, _THRESHOLDS, penalty)
    return {
        "penalty": penalty,
        "n": len(pooled),
        "curve": [as_json(one) | {"threshold": at} for at, one in zip(_THRESHOLDS, curve, strict=True)],
    }


def _bias_files(found: Found, result: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """A file for each confirmed attribute, and its contrasts beside it; files of an earlier result go."""
    refuse_link(folder)
    for old in (*folder.glob("*.yaml"), *folder.glob("*.contrasts.jsonl")):
        old.unlink()
    rows: Mapping[str, Sequence[Measured]] = {}
    if found.finalists:
        validated = found.folder.stage("validate")
        rows = counted_rows(read_rows(validated), read_result(validated))
    by_id = {one.id: one for one in found.tested}
    names = {}
    for one in result["tested"]:
        if one["confirmed"]:
            own_folder(folder)
            bias: Bias = by_id[one["candidate"]].bias
            file = folder / f"{bias.name}.yaml"
            write_text(file, bias_yaml(bias, _comment(one, result)))
            if own := rows.get(one["candidate"]):
                write_contrasts(own, bias.name, contrasts_beside(file))
            names[one["candidate"]] = f"{BIASES}/{bias.name}.yaml"
    return names


def _comment(one: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    reward, judge = one["pooled"]["reward"], one["pooled"]["judge"]
    corrected = (
        f", corrected for {one['n_entered']} tested {one['p_corrected']:.2g}" if one["correct"] != "none" else ""
    )
    return (
        f"Found by cda discover in {result['model']['name']}, held against {result['judge']['name']}.\n"
        f"On {result['n_test_prompts']} test prompts: reward {reward['value']:+.3g} [{reward['low']:.3g}, {reward['high']:.3g}], "
        f"preferred by the judge in {judge['value']:.0%} [{judge['low']:.0%}, {judge['high']:.0%}], p = {one['p_value']:.2g}{corrected} "
        f"({rewriters_shown(one, result['by']).rstrip(',')}).\n"
        "Debias with: cda train THIS_FILE model.name_or_path=... data.pairs=..."
    )


def _lineage_rows(found: Found) -> list[dict[str, Any]]:
    """Every standing of every candidate, in the order of the search."""
    return [
        {"generation": generation.index, **standing_row(one)}
        for generation in found.generations
        for one in generation.standings
    ]
