"""The result of a discovery: its report, its files, a bias file for each confirmed attribute, contrasts for training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cda.data.messages import prompt_of
from cda.discovery.attribute import bias_yaml
from cda.discovery.evidence import evidence, strength_curve
from cda.discovery.grouping import LLMGrouper
from cda.discovery.held_out import ROWS, counted_rows, read_pairs, read_result, read_rows
from cda.discovery.history import candidate_record, generation_record, measured_row, standing_record
from cda.discovery.material import Material, material_counts
from cda.discovery.page import discover_page, discover_plots
from cda.discovery.records import Candidate, Grouper
from cda.discovery.search import Generation, candidates_by_id, lineage, most_telling
from cda.discovery.sentences import rewriters_shown
from cda.discovery.setup import Asked, Setup
from cda.discovery.tables import discover_markdown, discover_text
from cda.errors import ModelError
from cda.files.jsonl import read_json, read_jsonl, write_json, write_jsonl, write_text
from cda.files.paths import own_folder, refuse_link
from cda.provenance import versions
from cda.recipe.load import contrasts_beside
from cda.records import prompt_id, text_key
from cda.resources.artifacts import prompt_row, write_figures
from cda.results.base import Missing, save
from cda.results.discover import DiscoverResult, Measured, SearchedModel, StrengthCurve, TestedAttribute
from cda.results.evidence import ConfirmationResult, Strength, ValidationResult
from cda.results.facts import StageRun
from cda.run import RunFolder


def write_contrasts(rows: Iterable[Measured], bias: str, path: Path) -> int:
    """Write each pair of sides once for training, and return the number of pairs.

    Args:
        rows: Rewrites of validation responses in either direction. Those of the test prompts must stay unseen.
        bias: Name of the bias.
        path: JSONL file.
    """
    contrasts = {
        text_key(row.prompt, row.with_attribute, row.without_attribute): {
            "bias": bias,
            "prompt": prompt_row(row.prompt),
            "perturbed": row.with_attribute,
            "base": row.without_attribute,
        }
        for row in rows
    }
    write_jsonl(path, contrasts.values())
    return len(contrasts)


STAGES = ("material", "search", "validate", "confirm", "pairs")
_SUPERSEDED = "superseded"


def finished_stages(folder: RunFolder, searched: bool, validated: bool, tested: bool) -> dict[str, StageRun]:
    """The stages that took part, with their time and their requests to LLMs; a folder may hold stages of an earlier command."""
    took_part = zip(STAGES, (True, searched, validated, tested, tested), strict=True)
    records = {name: folder.record(name) for name, took in took_part if took}
    return {
        name: StageRun(seconds=record.seconds, finished=record.finished, llm=record.counts.get("llm", {}))
        for name, record in records.items()
        if record
    }


def grouping_repairs(folder: RunFolder) -> dict[str, int]:
    """Repairs of an LLM's groups over all generations, by reason."""
    repairs: Counter[str] = Counter()
    for path in sorted(folder.stage("search").glob("repairs-*.json")):
        repairs.update(read_json(path))
    return dict(sorted(repairs.items()))


def earlier_tests(folder: RunFolder) -> int:
    """Confirmations of this folder that tested on any of the prompts of the present one, with other settings or candidates.

    Confirmations with one fingerprint, such as one made again after a file was damaged, are one test.
    """
    now, prompts = folder.record("confirm"), _prompts(folder.stage("confirm"))
    aside = RunFolder(folder.path / _SUPERSEDED)
    earlier = set()
    for path in aside.path.glob("confirm-[0-9]*"):
        fingerprint = aside.record(path.name).fingerprint
        if fingerprint not in (None, now.fingerprint) and prompts & _prompts(path):
            earlier.add(fingerprint)
    return len(earlier)


def save_repairs(grouper: Grouper, before: Mapping[str, int], index: int, folder: Path) -> Mapping[str, int]:
    """Write the repairs of the groups of one generation, and return all repairs so far.

    Args:
        grouper: Only an LLM's answers have to be repaired.
        before: The repairs returned for the previous generation.
        index: Index of the generation.
        folder: Folder of the search.
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
class Finished:
    """A finished discovery.

    Attributes:
        name: Name of the recipe.
        model: The model that was searched.
        judge: The scorer that it was compared with.
        material: Prompts and responses.
        generations: Generations of the search; empty if the attributes were given.
        finalists: Candidates that entered the validation.
        tested: Candidates that entered the test.
    """

    name: str
    setup: Setup
    folder: RunFolder
    model: Asked
    judge: Asked
    material: Material
    generations: Sequence[Generation]
    finalists: Sequence[Candidate]
    tested: Sequence[Candidate]


def write_result(finished: Finished, result: DiscoverResult, figures: str | None = None) -> str:
    """Write every file but those of the biases into the run folder, and with `figures` (svg, pdf) every figure into figures/.

    Returns:
        A table for a terminal.
    """
    out = finished.folder.path
    rows = read_rows(finished.folder.stage("confirm")) if finished.tested else []
    save(result, out / RESULT)
    write_jsonl(
        out / LINEAGE,
        (
            {
                "generation": generation.index,
                **standing_record(standing).model_dump(),
                "candidate": candidate_record(standing.candidate).model_dump(mode="json"),
            }
            for generation in finished.generations
            for standing in generation.standings
        ),
    )
    write_jsonl(out / PAIRS, (measured_row(row) for row in rows))
    write_text(out / REPORT, discover_markdown(result))
    write_text(out / PAGE, discover_page(result))
    written = f"Written: {out / PAGE}, {REPORT}, {RESULT}, {PAIRS}, {LINEAGE}, {BIASES}/"
    if figures is not None:
        written += f"\n{write_figures(discover_plots(result), out, figures)}"
    return f"{discover_text(result)}\n{written}"


def discover_result(finished: Finished) -> DiscoverResult:
    """Everything that a report shows; writes a bias file for each confirmed attribute."""
    setup, folder, generations = finished.setup, finished.folder, finished.generations
    finalists, tested = finished.finalists, finished.tested
    validation = read_result(ValidationResult, folder.stage("validate")) if finalists else None
    test = read_result(ConfirmationResult, folder.stage("confirm")) if tested else None
    candidates = {candidate.id: candidate for candidate in (*finalists, *tested)} | candidates_by_id(generations)
    searched = bool(generations)
    result = DiscoverResult(
        name=finished.name,
        given=not searched and bool(tested),
        model=_searched(finished.model),
        judge=_searched(finished.judge),
        by=(setup.llm.settings.model or "") if setup.by_llm else "rules",
        rewriters=tuple(rewriter.name for rewriter in setup.rewriters()),
        # One rule engine, at several strengths.
        n_rewriters=len(setup.rewriters()) if setup.by_llm else 1,
        settings=setup.section.model_dump(mode="json"),
        strictness=setup.strictness,
        search=setup.search,
        material=material_counts(folder.stage("material")),
        generations=tuple(map(generation_record, generations)),
        candidates={name: candidate_record(candidate) for name, candidate in candidates.items()},
        validation=validation,
        tested=() if test is None else _tested(finished, test),
        n_test_prompts=test.n_prompts if test else 0,
        already=test.already if test else {},
        verdicts=test.verdicts if test else None,
        cut_for_judge=test.cut_for_judge if test else 0,
        pairs=read_pairs(folder.stage("pairs")) if test else {},
        strength=None if validation is None else _strength(finalists, validation, setup.section.penalty),
        lineage={
            candidate.id: tuple(each.candidate.id for each in lineage(candidate, generations)) for candidate in tested
        },
        seed=setup.seed,
        versions=versions(),
        stages=finished_stages(folder, searched, bool(finalists), bool(tested)),
        grouping=grouping_repairs(folder) if searched else {},
        earlier_tests=earlier_tests(folder) if tested else 0,
    )
    validated = counted_rows(read_rows(folder.stage("validate")), validation) if validation else {}
    return _with_files(result, tested, validated, folder.path / BIASES)


def _searched(asked: Asked) -> SearchedModel:
    subject = asked.subject
    return SearchedModel(
        name=subject.name,
        adapter=None if subject.adapter is None else subject.adapter.name,
        dose=subject.dose if subject.adapter else None,
    )


def _tested(finished: Finished, test: ConfirmationResult) -> tuple[TestedAttribute, ...]:
    """Results of the test, the strongest first, with examples and the mean of each topic by the rewriters that count."""
    rows = counted_rows(read_rows(finished.folder.stage("confirm")), test)
    by_id = {candidate.id: candidate for candidate in finished.tested}
    topics, trim = finished.material.topics, finished.setup.section.trim
    tested = [
        TestedAttribute(
            **dict(result),
            attribute=by_id[result.candidate].attribute,
            name=by_id[result.candidate].bias.name,
            same_by_all=_same_by_all(rows[result.candidate]),
            examples=_examples(rows[result.candidate]),
            topics=_by_topic(rows[result.candidate], topics, trim),
        )
        for result in test.results
    ]
    return tuple(
        sorted(tested, key=lambda one: (not one.confirmed, -one.pooled.reward.value if one.pooled else np.inf))
    )


def _same_by_all(rows: Sequence[Measured]) -> float | None:
    """Share of the responses with several rewrites that all rewriters rewrote to the same text; None without such a response."""
    texts: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        texts.setdefault((row.prompt_id, row.original, row.direction), []).append(row.rewrite)
    several = [own for own in texts.values() if len(own) > 1]
    return sum(len(set(own)) == 1 for own in several) / len(several) if several else None


def _examples(rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """Rewrites that show the disagreement best, and one that does not show it."""
    ranked = most_telling(rows)
    return (*ranked[:_EXAMPLES], *ranked[_EXAMPLES:][-1:])


def _by_topic(rows: Sequence[Measured], topic_of: Mapping[str, str], trim: bool) -> dict[str, Strength | Missing]:
    """Numbers by topic, if prompts have one; topics on which too little was measured say so."""
    topics = sorted({topic for row in rows if (topic := topic_of.get(row.prompt_id))})
    if len(topics) < 2:
        return {}
    strengths: dict[str, Strength | Missing] = {}
    for topic in topics:
        own = evidence([row for row in rows if topic_of.get(row.prompt_id) == topic], {}, 1.0, trim)
        strengths[topic] = own.pooled or Missing(reason=own.untested or "not measured")
    return strengths


def _strength(
    finalists: Sequence[Candidate], validation: ValidationResult, penalty: float
) -> StrengthCurve | Missing | None:
    """Strength of the finalists by their validation numbers, on which none of them was selected."""
    pooled = [(result.candidate, result.pooled) for result in validation.results if result.pooled]
    if not pooled:
        return None
    attributes = {finalist.id: finalist.attribute for finalist in finalists}
    try:
        from cda.embedded.model import encode_sentences

        embeddings = encode_sentences([attributes[name] for name, _ in pooled])
    except ModelError as error:
        return Missing(reason=str(error))
    rewards, judges = [own.reward.value for _, own in pooled], [own.judge.value for _, own in pooled]
    curve = strength_curve(rewards, judges, embeddings, _THRESHOLDS, penalty)
    return StrengthCurve(penalty=penalty, n=len(pooled), curve=tuple(curve))


def _with_files(
    result: DiscoverResult, tested: Sequence[Candidate], validated: Mapping[str, Sequence[Measured]], folder: Path
) -> DiscoverResult:
    """Write a file for each confirmed attribute, and its contrasts next to it, and name it; files of an earlier result go."""
    refuse_link(folder)
    for old in (*folder.glob("*.yaml"), *folder.glob("*.contrasts.jsonl")):
        old.unlink()
    biases = {candidate.id: candidate.bias for candidate in tested}
    named = []
    for attribute in result.tested:
        if attribute.confirmed:
            own_folder(folder)
            bias = biases[attribute.candidate]
            file = folder / f"{bias.name}.yaml"
            write_text(file, bias_yaml(bias, _comment(attribute, result)))
            if own := validated.get(attribute.candidate):
                write_contrasts(own, bias.name, contrasts_beside(file))
            attribute = attribute.model_copy(update={"file": f"{BIASES}/{bias.name}.yaml"})
        named.append(attribute)
    return result.model_copy(update={"tested": tuple(named)})


def _comment(one: TestedAttribute, result: DiscoverResult) -> str:
    numbers = ""
    # A confirmed candidate has all of them.
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
