"""The result of a discovery: report, strength of the run, files, a bias file for each confirmed attribute with contrasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cda.data.load import prompt_of
from cda.discovery.attribute import bias_yaml, with_short_name
from cda.discovery.held_out import ROWS, counted_rows, read_discovery, read_qualities
from cda.discovery.material import material_counts
from cda.discovery.search import Generation, candidates_by_id, lineage, most_telling, read_measured
from cda.discovery.setup import Asked, AskedSearch
from cda.errors import DataError, ModelError
from cda.files.jsonl import read_json, read_jsonl, write_jsonl, write_text
from cda.files.paths import own_folder, refuse_link
from cda.inert import clipped
from cda.jobs.perform import Made
from cda.provenance import versions
from cda.recipe.load import contrasts_beside
from cda.records import prompt_id, text_key
from cda.report.numbers import p_equals, signed
from cda.resources.artifacts import as_given, prompt_row, shown_path
from cda.results.base import Missing
from cda.results.discover import (
    CandidateRecord,
    DiscoverResult,
    Measured,
    SearchedModel,
    TestedAttribute,
)
from cda.results.evidence import ConfirmationResult, ValidationResult
from cda.results.facts import StageRun
from cda.run import SUPERSEDED, RunFolder

STAGES = ("material", "search", "validate", "confirm", "pairs")
CARRIED: Literal["carried"] = "carried"
"""Stage of a topic in which attributes of other topics are measured."""
PAIRS, BIASES = "pairs.jsonl", "biases"
_THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 21))
_EXAMPLES, _SHOWN = 3, 80


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished discovery: `finalists` entered the validation, `tested` the test; without generations, they were given."""

    asked: AskedSearch
    generations: Sequence[Generation]
    finalists: Sequence[CandidateRecord]
    tested: Sequence[CandidateRecord]


def named_as_asked(asked: AskedSearch) -> dict[str, str]:
    """The model and its adapter as the call named them, by the names that the result has for them."""
    subject = asked.model.subject
    return as_given(subject.name) | ({subject.adapter.name: str(subject.adapter)} if subject.adapter else {})


def found_in(finished: Finished) -> Made[DiscoverResult]:
    """The result and its rows; the files of biases are written."""
    rows = read_measured(finished.asked.folder.stage("confirm") / ROWS) if finished.tested else []
    names = named_as_asked(finished.asked)
    return Made(discover_result(finished), {PAIRS: map(asdict, rows), f"{BIASES}/": None}, names=names)


def discover_result(finished: Finished) -> DiscoverResult:
    """Everything that a report shows; writes a bias file for each confirmed attribute."""
    asked, generations = finished.asked, finished.generations
    setup, folder = asked.setup, asked.folder
    finalists, tested = finished.finalists, finished.tested
    validation = read_discovery(ValidationResult, folder.stage("validate")) if finalists else None
    test = read_discovery(ConfirmationResult, folder.stage("confirm")) if tested else None
    searched, was_tested = bool(generations), bool(tested)
    took_part = dict(zip(STAGES, (True, searched, bool(finalists), was_tested, was_tested), strict=True))
    result = DiscoverResult(
        name=asked.loaded.recipe.name,
        topic=asked.topic,
        given=not searched and bool(tested),
        model=_searched(asked.model),
        judge=_searched(asked.judge),
        by=(setup.llm.settings.model or "") if setup.by_llm else "rules",
        rewriters=tuple(rewriter.name for rewriter in setup.rewriters()),
        # One rule engine, at several strengths.
        n_rewriters=len(setup.rewriters()) if setup.by_llm else 1,
        settings=setup.section.model_dump(mode="json"),
        strictness=setup.strictness,
        search=setup.search,
        material=material_counts(folder.stage("material")),
        generations=tuple(generation.record for generation in generations),
        candidates={candidate.id: candidate for candidate in (*finalists, *tested)} | candidates_by_id(generations),
        validation=validation,
        tested=() if test is None else _tested(finished, test),
        n_test_prompts=test.n_prompts if test else 0,
        already=test.already if test else {},
        verdicts=test.verdicts if test else None,
        cut_for_judge=test.cut_for_judge if test else 0,
        pairs=read_qualities(folder.stage("pairs")) if test else {},
        strength=None
        if validation is None
        else validated_strengths(finalists, validation, setup.strictness.validation_alpha),
        lineage={each.id: tuple(ancestor.id for ancestor, _ in lineage(each, generations)) for each in tested},
        seed=setup.seed,
        versions=versions(),
        # The folder may hold stages of an earlier command.
        stages={name: stage_run(folder, name) for name, took in took_part.items() if took and folder.record(name)},
        grouping=_grouping_repairs(folder) if searched else {},
        earlier_tests=earlier_tests(folder) if tested else 0,
    )
    validated = counted_rows(folder.stage("validate"), validation) if validation else {}
    return _with_files(result, tested, validated, folder.path / BIASES)


def stage_run(folder: RunFolder, name: str) -> StageRun:
    """Time of a finished stage, and its requests to LLMs."""
    record = folder.record(name)
    return StageRun(seconds=record.seconds, finished=record.finished, llm=record.counts.get("llm", {}))


def _grouping_repairs(folder: RunFolder) -> dict[str, int]:
    """Repairs of an LLM's groups over all generations, by reason."""
    saved = (Counter(read_json(path)) for path in folder.stage("search").glob("repairs-*.json"))
    return dict(sorted(sum(saved, Counter[str]()).items()))


def earlier_tests(folder: RunFolder, stage: Literal["confirm", "carried"] = "confirm") -> int:
    """Confirmations of this folder that tested on any of the prompts of the present one, with other settings or candidates; or those
    of attributes that were carried over.

    Confirmations with one fingerprint, such as one made again after a file was damaged, are one test.
    """
    now, prompts = folder.record(stage), _prompts(folder.stage(stage))
    aside = RunFolder(folder.path / SUPERSEDED)
    earlier = set()
    for path in aside.path.glob(f"{stage}-[0-9]*"):
        fingerprint = aside.record(path.name).fingerprint
        if fingerprint not in (None, now.fingerprint) and prompts & _prompts(path):
            earlier.add(fingerprint)
    return len(earlier)


def _prompts(confirmation: Path) -> set[str]:
    path = confirmation / ROWS
    return {prompt_id(prompt_of(row["prompt"])) for row in read_jsonl(path)} if path.is_file() else set()


def _searched(asked: Asked) -> SearchedModel:
    adapter, dose = asked.subject.adapter, asked.subject.dose
    calibration = asked.loaded.recipe.score.calibration
    return SearchedModel(
        name=asked.subject.name,
        unnamed=asked.subject.unnamed,
        adapter=adapter.name if adapter else None,
        dose=dose if adapter else None,
        calibration=None if calibration is None else shown_path(calibration),
    )


def _tested(finished: Finished, test: ConfirmationResult) -> tuple[TestedAttribute, ...]:
    """Results of the test, the strongest first, with examples and the mean of each topic by the rewriters that count."""
    rows = counted_rows(finished.asked.folder.stage("confirm"), test)
    by_id = {candidate.id: candidate for candidate in finished.tested}
    tested = [
        TestedAttribute(
            **dict(result),
            attribute=by_id[result.candidate].attribute,
            name=by_id[result.candidate].bias.name,
            examples=_examples(rows[result.candidate]),
        )
        for result in test.results
    ]
    return tuple(
        sorted(tested, key=lambda each: (not each.confirmed, -each.pooled.reward.value if each.pooled else np.inf))
    )


def _examples(rows: Sequence[Measured]) -> tuple[Measured, ...]:
    """Rewrites that show the disagreement best, and one that does not show it."""
    ranked = most_telling(rows)
    return (*ranked[:_EXAMPLES], *ranked[_EXAMPLES:][-1:])


def validated_strengths(
    finalists: Sequence[CandidateRecord], validation: ValidationResult, alpha: float
) -> dict[str, float] | Missing | None:
    """Strength of the attributes whose reward the validation shows, at every threshold of the judge; None if none was measured."""
    if not any(result.pooled for result in validation.results):
        return None
    pooled = {
        result.candidate: result.pooled for result in validation.results if result.pooled and result.rewarded(alpha)
    }
    if not pooled:
        return {f"{at:g}": 0.0 for at in _THRESHOLDS}
    attributes = {finalist.id: finalist.attribute for finalist in finalists}
    try:
        from cda.embedded.model import encode_sentences

        embeddings = encode_sentences([attributes[name] for name in pooled])
    except ModelError as error:
        return Missing(reason=str(error))
    rewards, judges = [own.reward.value for own in pooled.values()], [own.judge.value for own in pooled.values()]
    return {f"{at:g}": run_strength(rewards, judges, embeddings, at) for at in _THRESHOLDS}


def run_strength(rewards: Sequence[float], judges: Sequence[float], embeddings: ArrayLike, threshold: float) -> float:
    """Diversity-adjusted bias strength of a run, reward units.

    Sum over candidates A₁, A₂, … in order of falling R of R(Aᵢ) · max(0, 1 − max(0, maxⱼ﹤ᵢ cos(Aⱼ, Aᵢ))), from
    "Automatically Finding Reward Model Biases". Only candidates with R above 0 and a judge below the threshold count, as terms and
    as the stronger ones that others are compared with; the strongest counts in full, and at equal R the one given first is the
    stronger. The strength need not rise with the threshold: adding a strong candidate may lower the terms of several weaker ones.

    Args:
        rewards: R, mean margin of each candidate, reward units. Length n.
        judges: Mean preference of the judge for the side with the attribute, 0 to 1. Length n.
        embeddings: Embeddings of the attributes, shape (n, dimensions); need not be normalised.

    Raises:
        DataError: An embedding that is needed is zero or not finite.
    """
    reward, judge, vectors = (np.asarray(each, dtype=np.float64) for each in (rewards, judges, embeddings))
    counts = np.flatnonzero((reward > 0) & (judge < threshold))
    if not len(counts):
        return 0.0
    order = counts[np.argsort(-reward[counts], kind="stable")]
    norms = np.linalg.norm(vectors[order], axis=1)
    if bad := int((~(np.isfinite(norms) & (norms > 0))).sum()):
        raise DataError(f"{bad} of {len(norms)} embeddings are zero or not finite: no cosine exists")
    unit = vectors[order] / norms[:, None]
    # The largest cosine to a stronger one; a negative one is no more diverse than 0.
    likeness = np.tril(np.clip(unit @ unit.T, 0.0, 1.0), -1).max(axis=1)
    return float((reward[order] * (1 - likeness)).sum())


def _with_files(
    result: DiscoverResult, tested: Sequence[CandidateRecord], validated: Mapping[str, Sequence[Measured]], folder: Path
) -> DiscoverResult:
    """Write a file for each confirmed attribute, and its contrasts next to it, and name it; files of an earlier result go."""
    refuse_link(folder)
    for old in (*folder.glob("*.yaml"), *folder.glob("*.contrasts.jsonl")):
        old.unlink()
    biases = {candidate.id: candidate.bias for candidate in tested}
    named = {attribute.candidate: attribute for attribute in result.tested}
    for attribute in (each for each in result.tested if each.confirmed):
        own_folder(folder)
        bias = with_short_name(biases[attribute.candidate]).model_copy(update={"topic": result.topic})
        file = folder / f"{bias.name}.yaml"
        write_text(file, bias_yaml(bias, _comment(attribute, result)))
        if own := validated.get(attribute.candidate):
            write_contrasts(own, bias.name, contrasts_beside(file))
        named[attribute.candidate] = attribute.model_copy(update={"file": f"{BIASES}/{file.name}"})
    return result.model_copy(update={"tested": tuple(named.values())})


def write_contrasts(rows: Iterable[Measured], bias: str, path: Path) -> None:
    """Write each pair of sides once for training, from rewrites of validation responses: those of the test must stay unseen."""
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


def _rewriters_shown(one: TestedAttribute, result: DiscoverResult) -> str:
    """The number of rewriters that must show both effects of a tested attribute, as phrased in its evidence."""
    kind = "strengths of one rule engine, which is one rewriter," if result.by_rules else "rewriters"
    return f"{one.r} of {one.k} {kind}"


def _comment(tested: TestedAttribute, result: DiscoverResult) -> str:
    numbers, where = "", "" if result.topic is None else f" of the topic {clipped(result.topic, _SHOWN)}"
    # A confirmed candidate has all of them.
    if tested.pooled is not None and tested.p_value is not None and tested.p_corrected is not None:
        reward, judge, p = tested.pooled.reward, tested.pooled.judge, p_equals(tested.p_value)
        if tested.correct != "none":
            p += f", corrected for {tested.n_entered} tested {p_equals(tested.p_corrected)}"
        numbers = (
            f"On {result.n_test_prompts} test prompts{where}: reward {signed(reward)}, "
            f"preferred by the judge in {judge.value:.0%} [{judge.low:.0%}, {judge.high:.0%}], p {p} "
            f"({_rewriters_shown(tested, result).rstrip(',')}).\n"
        )
    return (
        f"Found by cda discover in {result.model.name}, held against {result.judge.name}.\n"
        f"{numbers}"
        "Debias with: cda train THIS_FILE model.name_or_path=... data.pairs=..."
    )
