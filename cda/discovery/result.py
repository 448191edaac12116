"""Contrasts that a discovery leaves for training: its rewrites of validation responses, on which nothing is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import JsonValue

from cda.biases import Bias
from cda.data.messages import prompt_of
from cda.discovery.attribute import bias_yaml
from cda.discovery.evidence import evidence, strength_curve
from cda.discovery.grouping import LLMGrouper
from cda.discovery.held_out import ROWS, confirm_settings, counted_rows, read_pairs, read_result, read_rows
from cda.discovery.history import candidate_record, generation_record, measured_row, standing_record
from cda.discovery.material import Material, material_counts
from cda.discovery.page import discover_page, discover_plots
from cda.discovery.parts import Asked, by_llm, rewriters, search_settings
from cda.discovery.records import Candidate, Grouper
from cda.discovery.search import Generation, lineage
from cda.discovery.sentences import rewriters_shown
from cda.discovery.tables import discover_markdown, discover_text
from cda.errors import ModelError
from cda.files.jsonl import read_json, read_jsonl, write_json, write_jsonl, write_text
from cda.files.paths import own_folder, refuse_link
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe, contrasts_beside
from cda.records import prompt_id, text_key
from cda.resources.artifacts import write_figures
from cda.results.base import Missing, save
from cda.results.discover import DiscoverResult, Measured, SearchedModel, StrengthCurve, TestedAttribute
from cda.results.evidence import ConfirmationResult, Strength, ValidationResult
from cda.results.facts import StageRun
from cda.run import RunFolder


def write_contrasts(rows: Iterable[Measured], bias: str, path: Path) -> int:
    """Write each pair of sides once, and return how many there are.

    Args:
        rows: Rewrites of validation responses in either direction. Those of the test prompts must stay unseen.
        bias: Name of the bias.
        path: JSONL file.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        perturbed, base = row.with_attribute, row.without_attribute
        prompt = [{"role": turn.role, "content": turn.content} for turn in row.prompt]
        one = {"bias": bias, "prompt": prompt, "perturbed": perturbed, "base": base}
        found.setdefault(text_key(row.prompt, perturbed, base), one)
    write_jsonl(path, found.values())
    return len(found)


STAGES = ("material", "search", "validate", "confirm", "pairs")
_SUPERSEDED = "superseded"


def finished_stages(folder: RunFolder, searched: bool, validated: bool, tested: bool) -> dict[str, StageRun]:
    """The stages that took part, with their time and what they asked of LLMs.

    Args:
        folder: The run.
        searched: Whether the result is that of a search; a folder may hold stages of an earlier command.
        validated: Whether anybody entered the validation.
        tested: Whether anybody entered the test.
    """
    took_part = dict(zip(STAGES, (True, searched, validated, tested, tested), strict=True))
    records = {name: folder.record(name) for name in STAGES if took_part[name]}
    return {
        name: StageRun(seconds=one.seconds, finished=one.finished, llm=one.counts.get("llm", {}))
        for name, one in records.items()
        if one
    }


def grouping_repairs(folder: RunFolder) -> dict[str, int]:
    """What had to be mended in an LLM's groups, over all generations, by reason."""
    found: Counter[str] = Counter()
    for path in sorted(folder.stage("search").glob("repairs-*.json")):
        found.update(read_json(path))
    return dict(sorted(found.items()))


def earlier_tests(folder: RunFolder) -> int:
    """Confirmations of this folder that tested on any of the prompts of the present one, with other settings or candidates.

    What was made twice alike, such as after a file was damaged, is one test.
    """
    now, prompts = folder.record("confirm"), _prompts(folder.stage("confirm"))
    aside = RunFolder(folder.path / _SUPERSEDED)
    found = set()
    for path in aside.path.glob("confirm-[0-9]*"):
        made = aside.record(path.name).fingerprint
        if made not in (None, now.fingerprint) and prompts & _prompts(path):
            found.add(made)
    return len(found)


def save_repairs(grouper: Grouper, before: Mapping[str, int], index: int, folder: Path) -> Mapping[str, int]:
    """Write what had to be mended in the groups of a generation, and return all there was so far.

    Args:
        grouper: Who grouped; only an LLM's answers have to be mended.
        before: What this had returned for the generation before.
        index: Of the generation.
        folder: Of the search.
    """
    repairs = dict(grouper.repairs) if isinstance(grouper, LLMGrouper) else {}
    write_json(folder / f"repairs-{index}.json", dict(Counter(repairs) - Counter(before)))
    return repairs


def _prompts(confirmation: Path) -> set[str]:
    """Prompts on which something was measured."""
    path = confirmation / ROWS
    return {prompt_id(prompt_of(row["prompt"])) for row in read_jsonl(path)} if path.is_file() else set()


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


def write_result(found: Found, result: DiscoverResult, figures: str | None = None) -> str:
    """Write every file but those of the biases into the run folder, and with `figures` (svg, pdf) every figure into figures/.

    Returns:
        A table for a terminal.
    """
    out = found.folder.path
    rows = read_rows(found.folder.stage("confirm")) if found.tested else []
    save(result, out / RESULT)
    write_jsonl(out / LINEAGE, _lineage_rows(found))
    write_jsonl(out / PAIRS, (measured_row(row) for row in rows))
    write_text(out / REPORT, discover_markdown(result))
    write_text(out / PAGE, discover_page(result))
    written = f"Written: {out / PAGE}, {REPORT}, {RESULT}, {PAIRS}, {LINEAGE}, {BIASES}/"
    if figures is not None:
        written += f"\n{write_figures(discover_plots(result), out, figures)}"
    return f"{discover_text(result)}\n{written}"


def discover_result(found: Found) -> DiscoverResult:
    """Everything that a report shows; writes a bias file for each confirmed attribute."""
    return _with_files(found, _result(found), found.folder.path / BIASES)


def _result(found: Found) -> DiscoverResult:
    loaded, recipe, folder = found.loaded, found.loaded.recipe, found.folder
    validation = read_result(ValidationResult, folder.stage("validate")) if found.finalists else None
    test = read_result(ConfirmationResult, folder.stage("confirm")) if found.tested else None
    everyone = {one.id: one for one in (*found.finalists, *found.tested)}
    everyone |= {one.candidate.id: one.candidate for each in found.generations for one in each.standings}
    searched = bool(found.generations)
    return DiscoverResult(
        name=recipe.name,
        given=not searched and bool(found.tested),
        model=_searched(found.model),
        judge=_searched(found.judge),
        by=(recipe.llm.model or "") if by_llm(loaded) else "rules",
        rewriters=tuple(one.name for one in rewriters(loaded)),
        # One rule engine, at several strengths.
        n_rewriters=len(rewriters(loaded)) if by_llm(loaded) else 1,
        settings=recipe.discover.model_dump(mode="json"),
        strictness=confirm_settings(loaded),
        search=search_settings(loaded),
        material=material_counts(folder.stage("material")),
        generations=tuple(map(generation_record, found.generations)),
        candidates={name: candidate_record(one) for name, one in everyone.items()},
        validation=validation,
        tested=() if test is None else _tested(found, test),
        n_test_prompts=test.n_prompts if test else 0,
        already=test.already if test else {},
        verdicts=test.verdicts if test else None,
        cut_for_judge=test.cut_for_judge if test else 0,
        pairs=read_pairs(folder.stage("pairs")) if test else {},
        strength=_strength(found, validation),
        lineage={one.id: tuple(each.candidate.id for each in lineage(one, found.generations)) for one in found.tested},
        seed=recipe.seed,
        versions=versions(),
        stages=finished_stages(folder, searched, bool(found.finalists), bool(found.tested)),
        grouping=grouping_repairs(folder) if searched else {},
        earlier_tests=earlier_tests(folder) if found.tested else 0,
    )


def _searched(asked: Asked) -> SearchedModel:
    subject = asked.subject
    return SearchedModel(
        name=subject.name,
        adapter=None if subject.adapter is None else subject.adapter.name,
        dose=subject.dose if subject.adapter else None,
    )


def _tested(found: Found, test: ConfirmationResult) -> tuple[TestedAttribute, ...]:
    """Results of the test, the strongest first, with examples and the mean of each topic by the rewriters that count."""
    rows, by_id = counted_rows(read_rows(found.folder.stage("confirm")), test), {one.id: one for one in found.tested}
    trim = found.loaded.recipe.discover.trim
    tested = [
        TestedAttribute(
            **dict(result),
            attribute=by_id[result.candidate].attribute,
            name=by_id[result.candidate].bias.name,
            same_by_all=_same_by_all(rows[result.candidate]),
            examples=_examples(rows[result.candidate]),
            topics=_by_topic(rows[result.candidate], found.material, trim),
        )
        for result in test.results
    ]
    return tuple(
        sorted(tested, key=lambda one: (not one.confirmed, -one.pooled.reward.value if one.pooled else np.inf))
    )


def _same_by_all(rows: Sequence[Measured]) -> float | None:
    """Share of the responses that several rewriters rewrote, all of them to the same text; None where there is no such response."""
    texts: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        texts.setdefault((row.prompt_id, row.original, row.direction), []).append(row.rewrite)
    several = [one for one in texts.values() if len(one) > 1]
    return sum(len(set(one)) == 1 for one in several) / len(several) if several else None


def _examples(rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """Rewrites that show the disagreement best, and one that does not show it."""
    ranked = sorted(rows, key=lambda row: (row.preference if row.preference is not None else 0.5, -row.margin))
    return (*ranked[:_EXAMPLES], *ranked[_EXAMPLES:][-1:])


def _by_topic(rows: Sequence[Measured], material: Material, trim: bool) -> dict[str, Strength | Missing]:
    """Numbers by topic, where prompts have one; topics on which too little was measured say so."""
    topics = sorted({topic for row in rows if (topic := material.topics.get(row.prompt_id))})
    if len(topics) < 2:
        return {}
    found: dict[str, Strength | Missing] = {}
    for topic in topics:
        own = evidence([row for row in rows if material.topics.get(row.prompt_id) == topic], {}, 1.0, trim)
        found[topic] = own.pooled or Missing(reason=own.untested or "not measured")
    return found


def _strength(found: Found, validation: ValidationResult | None) -> StrengthCurve | Missing | None:
    """Of the finalists by their validation numbers, on which none of them was selected."""
    pooled = [(one.candidate, one.pooled) for one in validation.results if one.pooled] if validation else []
    if not pooled:
        return None
    by_id = {one.id: one for one in found.finalists}
    penalty = found.loaded.recipe.discover.penalty
    try:
        from cda.embedded.model import encode_sentences

        embeddings = encode_sentences([by_id[name].attribute for name, _ in pooled])
    except ModelError as error:
        return Missing(reason=str(error))
    rewards, judges = [one.reward.value for _, one in pooled], [one.judge.value for _, one in pooled]
    curve = strength_curve(rewards, judges, embeddings, _THRESHOLDS, penalty)
    return StrengthCurve(penalty=penalty, n=len(pooled), curve=tuple(curve))


def _with_files(found: Found, result: DiscoverResult, folder: Path) -> DiscoverResult:
    """Write a file for each confirmed attribute, and its contrasts beside it, and name it; files of an earlier result go."""
    refuse_link(folder)
    for old in (*folder.glob("*.yaml"), *folder.glob("*.contrasts.jsonl")):
        old.unlink()
    rows: Mapping[str, Sequence[Measured]] = {}
    if result.validation:
        rows = counted_rows(read_rows(found.folder.stage("validate")), result.validation)
    by_id = {one.id: one for one in found.tested}
    named = []
    for one in result.tested:
        if one.confirmed:
            own_folder(folder)
            bias: Bias = by_id[one.candidate].bias
            file = folder / f"{bias.name}.yaml"
            write_text(file, bias_yaml(bias, _comment(one, result)))
            if own := rows.get(one.candidate):
                write_contrasts(own, bias.name, contrasts_beside(file))
            one = one.model_copy(update={"file": f"{BIASES}/{bias.name}.yaml"})
        named.append(one)
    return result.model_copy(update={"tested": tuple(named)})


def _comment(one: TestedAttribute, result: DiscoverResult) -> str:
    numbers = ""
    # What is confirmed has all of them.
    if one.pooled is not None and one.p_value is not None and one.p_corrected is not None:
        reward, judge = one.pooled.reward, one.pooled.judge
        corrected = f", corrected for {one.n_entered} tested {one.p_corrected:.2g}" if one.correct != "none" else ""
        numbers = (
            f"On {result.n_test_prompts} test prompts: reward {reward.value:+.3g} [{reward.low:.3g}, {reward.high:.3g}], "
            f"preferred by the judge in {judge.value:.0%} [{judge.low:.0%}, {judge.high:.0%}], p = {one.p_value:.2g}{corrected} "
            f"({rewriters_shown(one, result).rstrip(',')}).\n"
        )
    return (
        f"Found by cda discover in {result.model.name}, held against {result.judge.name}.\n"
        f"{numbers}"
        "Debias with: cda train THIS_FILE model.name_or_path=... data.pairs=..."
    )


def _lineage_rows(found: Found) -> Iterator[dict[str, JsonValue]]:
    """Every standing of every candidate, in the order of the search."""
    for generation in found.generations:
        for one in generation.standings:
            candidate = candidate_record(one.candidate).model_dump(mode="json")
            yield {"generation": generation.index, **standing_record(one).model_dump(), "candidate": candidate}
