"""Stage `audit`: score contrasts, triples and quality pairs before and after training alike, or once for one model or judge,
and compare. Everything that a report shows comes from the audit.json written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from cda.auditing import analysis, policy, rate
from cda.auditing import shares as result
from cda.auditing.analysis import by_columns, criteria, panels
from cda.auditing.groups import (
    MAIN,
    PLAIN,
    Group,
    Scorings,
    contrast_comparisons,
    main_group,
    main_of,
    make_groups,
    pair_comparisons,
    votes,
    votes_undecided,
)
from cda.auditing.texts import AuditTexts, Rewriting, load_audit_texts, unwritten
from cda.auditing.verdict_sentences import not_rewarded
from cda.biases import Bias, load_bias
from cda.counterfactuals.label import PAIRS
from cda.data.load import prompt_of
from cda.data.pairs import PairLabels, training_labels
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import WITH_CONTRASTS, shown_prompt
from cda.errors import RunError
from cda.files.hub import commits
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.files.paths import own_folder
from cda.finetuning.applied import NAME as ADAPTER_STAGE
from cda.finetuning.applied import applied_dose, chosen_dose, texts_of_dose
from cda.finetuning.train import ADAPTER, Training, trainings
from cda.launch import launch_id, say, unsaid, wait_until, world_size
from cda.prompts import Prompts
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ModelSection, Recipe
from cda.records import OF_TRIPLES, Contrast, Exclusions, Pair, Prompt, Triple, prompt_id
from cda.resources.artifacts import prompt_row, read_labelled, training_stages
from cda.resources.llm_access import Step, llm_access, llm_settings
from cda.resources.named_scorer import Subject, scorer_settings, texts_of
from cda.resources.scorers import open_scorer
from cda.resources.sources import audit_inputs, bias_settings, prompt_name, prompt_settings, source_fingerprint
from cda.results.audit import AuditResult
from cda.results.base import save
from cda.results.facts import AuditedBias, Scorer, Sources
from cda.run import RunFolder, Stage, fingerprint
from cda.scorers.compared import Compared, Comparison, Rewards, text_id
from cda.stats.proportions import positive_shares
from cda.stats.verdict import TIE


def planned_calls(loaded: LoadedRecipe) -> list[Step]:
    """Every LLM call that the audit is about to make, cached answers not deducted; none if it is finished, or asks no LLM.

    A text that is still to be written counts in an LLM's comparisons with the length of the answer that it is rewritten from.
    """
    recipe, inputs, rewriting = loaded.recipe, audit_inputs(loaded), audit_rewriting(loaded)
    to_write = unwritten(inputs, rewriting)
    steps: list[Step] = [(recipe.llm, each.planned) for each in to_write]
    if recipe.model.kind.asks_llm:
        scorer = open_scorer(Subject("model", recipe.model), scorer_settings(loaded))
        with unsaid():
            texts = load_audit_texts(inputs, rewriting.planning(), only_audit=loaded.only_audit)
        # The number tells the comparisons of one answer apart.
        further = [
            (prompt, text, f"{text} {number}")
            for each in to_write
            for prompt, text in each.answers
            for number in range(each.n_comparisons)
        ]
        steps += scorer.planned([*comparisons_of(texts), *further])
    folder = RunFolder(recipe.run_path)
    can_be_done = all(folder.record(name) for name in stages_before(loaded))
    return [] if steps and can_be_done and folder.is_done(stage(loaded, folder)) else steps


AUDIT_FILE = "audit.json"
MADE_FILE = "contrasts.jsonl"
"""Contrasts that the audit made itself, in its stage."""
_OF_SAMPLES = ("samples", "sample_columns", "max_samples")
"""Settings that no dose depends on."""


def stage(loaded: LoadedRecipe, run_folder: RunFolder) -> Stage:
    """The stage with the settings and inputs that determine it: the measured texts, and the adapters at their doses."""
    settings, inputs = measured_settings(loaded)
    settings["schema_version"] = AuditResult.current_schema()
    if (source := audit_inputs(loaded).sampled_from) is not None:
        settings["samples"] = loaded.recipe.audit.model_dump(mode="json", include=set(_OF_SAMPLES))
        inputs["samples"] = source_fingerprint(source, "samples")
    if not loaded.only_audit:
        several = trainings(loaded.recipe.seeds)
        settings |= {"dose": applied_dose(run_folder), "ties_aimed_at": loaded.recipe.aims_at_ties}
        settings |= {"seeds": [training.seed for training in several]} if len(several) > 1 else {}
        inputs |= {name: run_folder.output_of(name) for name in stages_before(loaded)}
        # Held-out numbers are read from the choice of the dose, which may change while the dose stays.
        chosen = run_folder.record(ADAPTER_STAGE).inputs.get("dose")
        inputs |= {"dose": chosen} if chosen else {}
    return Stage("audit", settings, inputs)


def stages_before(loaded: LoadedRecipe) -> list[str]:
    """Stages that an audit follows: each training and its adapter; none if one model is measured as it is."""
    several = () if loaded.only_audit else trainings(loaded.recipe.seeds)
    return [training.stage(name) for training in several for name in ("train", ADAPTER_STAGE)]


def measured_settings(loaded: LoadedRecipe) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and inputs of everything that an audit measures, apart from the adapters; the dose stage has them too."""
    recipe = loaded.recipe
    by_answers = recipe.model.kind.asks_llm
    scorer = open_scorer(Subject("model", recipe.model), scorer_settings(loaded))
    settings = {
        "audit": recipe.audit.model_dump(mode="json", exclude={"preset", *_OF_SAMPLES}),
        "model": recipe.model.model_dump(mode="json", exclude={"preset", "precision", "dequantize_once"}),
        "score": scorer.deciding_settings(),
        "biases": bias_settings(loaded.biases),
        "seed": recipe.seed,
    }
    if recipe.score.calibration is not None:
        settings["calibration"] = source_fingerprint(recipe.score.calibration)
    rewrites = _rewrites(recipe.audit.rate, loaded.biases)
    by_llm = rewrites and recipe.rewrites_by_llm
    if rewrites:
        settings["rewriting"] = recipe.synthesize.model_dump(include={"by", "show_prompt", "gate"})
    if by_answers or by_llm:
        settings["llm"] = llm_settings(recipe.llm)
    if by_llm:
        settings["prompts"] = prompt_settings(loaded.prompts, "rewrite", "label")
    audit = recipe.audit
    inputs = {name: source_fingerprint(getattr(audit, name)) for name in ("votes", "verdicts", "labels")}
    inputs |= {
        "contrasts": source_fingerprint(audit.contrasts, "audit"),
        "triples": source_fingerprint(audit.triples, "triples"),
        "quality": source_fingerprint(audit.quality, "quality"),
        "embedded contrasts": source_fingerprint(EMBEDDED, "audit"),
        "embedded contrasts, removed": source_fingerprint(EMBEDDED, "shown"),
        "embedded contrasts, second turn": source_fingerprint(EMBEDDED, "second_turn"),
    }
    if loaded.only_audit and not by_answers:
        inputs["model"] = scorer.source()
    return settings, inputs


def audit_texts(loaded: LoadedRecipe) -> AuditTexts:
    """Texts that the audit of a recipe measures on; the dose is chosen on them too."""
    return load_audit_texts(audit_inputs(loaded), audit_rewriting(loaded), only_audit=loaded.only_audit)


def audit_rewriting(loaded: LoadedRecipe) -> Rewriting:
    """The rewriter of texts that the audit's sources lack."""
    recipe = loaded.recipe
    return Rewriting(recipe.synthesize, loaded.biases, recipe.seed, llm_access(loaded))


def run(loaded: LoadedRecipe, run_folder: RunFolder, folder: Path) -> dict[str, object]:
    """Score, compare, write audit.json and the scores behind it, and return counts."""
    recipe, only_audit, inputs = loaded.recipe, loaded.only_audit, audit_inputs(loaded)
    ties = recipe.audit.ties
    texts = audit_texts(loaded)
    triples = texts.triples.kept
    others = sorted({contrast.bias for contrast in texts.contrasts} - set(inputs.names))
    biases = {bias.name: bias for bias in loaded.biases} | {name: load_bias(name) for name in others}
    doses = {} if only_audit else _doses(run_folder, trainings(recipe.seeds))
    shared = _shared_file(stage(loaded, run_folder), run_folder) if _is_shared(recipe.model) else None
    sampled = [(placed.prompt, text) for placed in texts.samples for text in placed.responses]
    grades = [grade for placed in texts.samples for grade in placed.quality]
    scored, facts = _score(loaded, doses, run_folder, comparisons_of(texts), shared, len(sampled))
    # A training never has a second turn as its target; a model as it is has a verdict on each.
    beside = inputs.second_turns()
    given = {contrast.bias for contrast in texts.contrasts}
    # A file of triples need not be of every bias.
    beside += [name for name in inputs.names if recipe.audit.contrasts is None and name not in given]
    audited_names = list(dict.fromkeys([*inputs.names, *(beside if only_audit else ())]))
    all_groups = make_groups(texts.contrasts, biases, audited_names, scored, may_lack=[*beside, *others])
    unmeasured = _unmeasured(texts.contrasts, all_groups)
    groups, scorings = [main_group(group) for group in all_groups], main_of(scored)
    labels = inputs.labels() if only_audit else _training_labels(run_folder, inputs.names)
    rates = rate.rate(triples, texts.triples.flips, scorings, recipe.audit.min_flipped)
    refused = {name: rate.refusals(flips, recipe.audit.min_flipped) for name, flips in texts.triples.flips.items()}
    tilt = policy.tilts([group.bias for group in groups], sampled, scorings, grades)
    rewrote = recipe.rewrites_by_llm and (not only_audit or _rewrites(recipe.audit.rate, loaded.biases))
    by_rules = not (recipe.rewrites_by_llm or only_audit)
    rows = result.material(groups, texts, scorings, by_rules)
    audited = AuditResult(
        recipe=recipe.name,
        scorings=tuple(scorings),
        dose_applied=next(iter(doses.values()), None),
        aim="tie" if recipe.aims_at_ties and not only_audit else None,
        model=result.with_places(facts, groups, scorings),
        biases=tuple(
            AuditedBias.model_validate(biases[name], from_attributes=True)
            for name in audited_names
            if any(group.bias.name == name for group in groups)
        ),
        sources=_sources(recipe, loaded.prompts, texts, inputs.sampled_from, trains=not only_audit, rewrote=rewrote),
        skew=result.skews(groups, texts.available, {name: failed.reasons for name, failed in texts.failed.items()}),
        votes=votes(groups, ties),
        votes_undecided=votes_undecided(groups, ties),
        panel=panels(groups, scorings, ties),
        criteria=criteria(groups, scorings, ties),
        by=by_columns(groups, triples, scorings, recipe.audit.by, recipe.audit.cutoffs, refused),
        measured=(*result.measured_numbers(rows), *tilt.numbers),
        ties=result.tied(rows),
        quality_unread=len(texts.pairs) - sum(len(own.prompt_ids) for own in rows["quality"]),
        quality_sections=result.quality_by_section(texts.quality, scorings),
        effects=analysis.effects(groups),
        drift=analysis.drifts(groups),
        plain=result.plain_part(all_groups, texts, scored, ties, by_rules),
        rate=rates,
        analysis=analysis.analysis(groups, labels, ties),
        seeds=result.seeds(doses, all_groups, texts, scored, rates, ties) if doses else None,
        examples=analysis.examples(groups),
        excluded=texts.excluded
        | unmeasured
        | tilt.excluded
        | {f"triples of {name}": failed for name, failed in texts.triples.failed.items()},
        votes_unmatched=texts.votes_unmatched,
        available_quality=texts.available_pairs,
        stages=training_stages(run_folder),
        versions=versions() | commits(recipe.model_dump_json()),
        seed=recipe.seed,
        n_tests=0,
    )
    if audited.dose_applied == 0:
        audited = result.unchanged(audited)
    chosen = None if only_audit else chosen_dose(run_folder)
    save(result.held_out(result.adjust_for_all_tests(audited), chosen), folder / AUDIT_FILE)
    write_jsonl(folder / "margins.jsonl", margin_rows(texts.contrasts, texts.pairs, scored))
    if made := [row for contrast in texts.contrasts if (row := _made_row(contrast))]:
        write_jsonl(folder / MADE_FILE, made)
    if triples:
        write_jsonl(folder / "triples.jsonl", triple_rows(triples, scorings))
    if sampled:
        write_jsonl(folder / "samples.jsonl", policy.rows(sampled, scorings))
    counts = {"contrasts": len(texts.contrasts), "quality_pairs": len(texts.pairs), "triples": len(triples)}
    return counts | facts.model_dump(exclude={"name"})


def first_look(loaded: LoadedRecipe, run_folder: RunFolder) -> None:
    """Before a training, say which targets without votes the model is not shown to prefer, on the contrasts that are there already; their
    scores are kept for the audit."""
    recipe, targets = loaded.recipe, {bias.name: bias for bias in loaded.biases}
    drawn = audit_inputs(loaded).drawn_contrasts(recipe.seed)
    voted = {contrast.bias for contrast in drawn if contrast.votes}
    contrasts = [contrast for contrast in drawn if contrast.bias in targets.keys() - voted]
    if not contrasts:
        return
    scorer = open_scorer(Subject("before", recipe.model), scorer_settings(loaded), run_folder.path / "scoring")
    scored, _ = scorer.compare(contrast_comparisons(contrasts))
    low = {}
    for each in make_groups(contrasts, targets, list(targets), {"model": scored}, may_lack=list(targets)):
        share = positive_shares(each.margins.values(), each.prompt_ids, each.ties).before
        if share.low <= TIE and (share.high >= TIE or not recipe.aims_at_ties):
            low[each.bias.name] = share
    if low:
        say(f"  {not_rewarded(low)}; the training goes on: let it finish, or stop it now (Ctrl-C)")


def _unmeasured(contrasts: Sequence[Contrast], groups: Sequence[Group]) -> dict[str, Exclusions]:
    """Contrasts of the biases that no group measures, since none of them has a margin; each is said."""
    there = Counter(contrast.bias for contrast in contrasts)
    for group in groups:
        del there[group.bias.name]
    reason = "no margin: texts too long, both sides the same after cutting, or no readable verdict"
    found = {f"contrasts of {name}": Exclusions(n, {reason: n}) for name, n in sorted(there.items())}
    for name, excluded in found.items():
        say(f"  {name}: {excluded}")
    return found


def assist(loaded: LoadedRecipe, run_folder: RunFolder) -> None:
    """In the other processes of a launch: score a share of the audit's texts, once the main process has written them."""
    recipe = loaded.recipe
    if not _is_shared(recipe.model):
        return
    expected = stage(loaded, run_folder)
    shared = _shared_file(expected, run_folder)
    wait_until(lambda: shared.is_file() or run_folder.is_done(expected), run_folder.path)
    if not run_folder.is_done(expected):
        rows = list(read_jsonl(shared))
        comparisons = [(prompt_of(row["prompt"]), row["first"], row["second"]) for row in rows]
        doses = {} if loaded.only_audit else _doses(run_folder, trainings(recipe.seeds))
        _score(loaded, doses, run_folder, comparisons, n_sampled=sum(row["sampled"] for row in rows))


def _rewrites(n_rated: int | None, biases: Sequence[Bias]) -> bool:
    return bool(n_rated) or any(bias.name not in WITH_CONTRASTS for bias in biases)


def _sources(
    recipe: Recipe, prompts: Prompts, texts: AuditTexts, samples: str | None, *, trains: bool, rewrote: bool
) -> Sources:
    """Sources of the data, and the LLM's prompts for labels and rewrites if an LLM made them."""
    llm = str(recipe.llm.model)
    labelled = (trains and recipe.labels_by_llm) or (rewrote and recipe.synthesize.gate.on)
    return Sources(
        contrasts=recipe.audit.contrasts or OF_TRIPLES,
        **{name: getattr(recipe.audit, name) for name in ("votes", "verdicts", "quality", "labels")},
        samples=samples,
        pairs=recipe.data.pairs if trains else None,
        triples=", ".join(dict.fromkeys(flips.by for flips in texts.triples.flips.values())) or None,
        labelled_by=llm if recipe.labels_by_llm else "embedded rules",
        rewritten_by=llm if recipe.rewrites_by_llm else "embedded rules",
        label_prompt=prompt_name(recipe.label.prompt, prompts.label) if labelled else None,
        rewrite_prompt=prompt_name(recipe.rewrite.prompt, prompts.rewrite) if rewrote else None,
    )


def comparisons_of(texts: AuditTexts) -> list[Comparison]:
    """Everything that is scored: both sides of contrasts and pairs, the texts of triples, and last samples, each next to itself."""
    triples = texts.triples.kept
    return [
        *contrast_comparisons(texts.contrasts),
        *pair_comparisons(texts.pairs),
        *(compared for triple in dict.fromkeys(triples) for compared in rate.triple_comparisons(triple)),
        *rate.naive_comparisons(triples, rate.naive_pairs(triples)),
        *((placed.prompt, text, text) for placed in texts.samples for text in placed.responses),
    ]


def _is_shared(model: ModelSection) -> bool:
    return world_size() > 1 and model.kind.trainable


def _shared_file(expected: Stage, run_folder: RunFolder) -> Path:
    """File named by a fingerprint of its inputs, so that a file of an earlier launch is never mistaken for it."""
    name = fingerprint([expected.fingerprint, launch_id()])
    return run_folder.path / "scoring" / f"comparisons-{name}.jsonl"


def _doses(run_folder: RunFolder, several: Sequence[Training]) -> dict[Training, float]:
    doses: dict[Training, float] = {}
    for training in several:
        dose = applied_dose(run_folder, training)
        if dose is None:
            raise ValueError(f"the audit's stage needs the adapter of seed {training.seed}")
        doses[training] = dose
    return doses


def _score(
    loaded: LoadedRecipe, doses: Mapping[Training, float], run_folder: RunFolder, comparisons: Sequence[Comparison],
    shared: Path | None = None, n_sampled: int = 0,
) -> tuple[Scorings, Scorer]:  # fmt: skip
    """Every scoring of every comparison, and the facts of the scoring; without `doses`, of an audit alone. `shared` is the file
    that gives the comparisons to the other processes of a launch; the last `n_sampled` are of the main scorings alone."""
    of_all = comparisons[: len(comparisons) - n_sampled]
    if shared is not None:
        for old in own_folder(shared.parent).glob("comparisons-*.jsonl"):
            old.unlink(missing_ok=True)
        rows = (
            {"prompt": prompt_row(prompt), "first": first, "second": other, "sampled": at >= len(of_all)}
            for at, (prompt, first, other) in enumerate(comparisons)
        )
        write_jsonl(shared, rows)
    # Texts that the dose was chosen on come first, as that stage scored them: one model has one score of a text in a run.
    by_id = {text_id(*text): text for text in texts_of(comparisons)} if doses else {}
    together = [by_id[name] for name in (texts_of_dose(run_folder) if doses else ()) if name in by_id]
    scorings: dict[str, Compared] = {}
    facts: list[Scorer] = []
    of_main: Scorer | None = None
    settings = scorer_settings(loaded)
    for label, subject in _subjects(loaded.recipe.model, doses, run_folder).items():
        if subject is None:  # at dose 0 the result is the model before
            scorings[label] = scorings["before"]
            continue
        scorer = open_scorer(subject, settings, run_folder.path / "scoring", together)
        scorings[label], own = scorer.compare(comparisons if label in MAIN else of_all)
        facts.append(own)
        of_main = own if label in MAIN else of_main
    assert of_main is not None  # one subject at least is of the main ones
    # A note that several scorings give about their one tokenizer appears once.
    notes = tuple(dict.fromkeys(note for own in facts for note in own.notes))
    return scorings, of_main.model_copy(update={"notes": notes})


def _subjects(model: ModelSection, doses: Mapping[Training, float], run_folder: RunFolder) -> dict[str, Subject | None]:
    """The model alone; or before a training, as the run's result, as plain CDA too if the result's dose is not 1, and after
    every further training."""
    if not doses:
        return {"model": Subject("model", model)}
    subjects: dict[str, Subject | None] = {"before": Subject("before", model)}
    for training, dose in doses.items():
        label = "after" if training.is_first else training.label
        adapter = run_folder.stage(training.stage("train")) / ADAPTER
        subjects[label] = Subject(label, model, adapter, dose) if dose else None
        if training.is_first and dose != 1:
            subjects[PLAIN] = Subject(PLAIN, model, adapter)
    return subjects


def _training_labels(run_folder: RunFolder, biases: Sequence[str]) -> dict[str, PairLabels]:
    labelled = list(read_labelled(run_folder.stage("label") / PAIRS))
    labels = {name: training_labels(labelled, name) for name in biases}
    return {name: of_bias for name, of_bias in labels.items() if of_bias is not None}


def margin_rows(contrasts: Sequence[Contrast], pairs: Sequence[Pair], scorings: Scorings) -> list[dict[str, object]]:
    """One row for each comparison with its margins; with the rewards of both sides if there are rewards. Its `prompt_id` is
    its cluster, so that audits can be compared from their folders alone."""
    rows: list[dict[str, object]] = []
    for contrast, (prompt, perturbed, base) in zip(contrasts, contrast_comparisons(contrasts), strict=True):
        row: dict[str, object] = {"kind": "contrast", "bias": contrast.bias, "id": contrast.id}
        row["prompt_id"] = prompt_id(prompt)
        row["preferred"] = contrast.preferred
        if contrast.votes:
            row["votes"] = list(contrast.votes)
        rows.append(row | _scores(prompt, ("perturbed", perturbed), ("base", base), scorings))
    for pair in pairs:
        scores = _scores(pair.prompt, ("chosen", pair.chosen), ("rejected", pair.rejected), scorings)
        rows.append({"kind": "quality", "id": pair.id, "prompt_id": prompt_id(pair.prompt)} | scores)
    return rows


def _made_row(contrast: Contrast) -> dict[str, object]:
    """A contrast that no file and no embedded text has, as `audit.contrasts` reads it; empty for others."""
    if contrast.tags.get("source", "file") in ("file", EMBEDDED):
        return {}
    sides = {"base": contrast.base, "perturbed": contrast.perturbed}
    return {"prompt": shown_prompt(contrast.prompt), **sides, "bias": contrast.bias}


def made_contrasts(run: Path) -> list[dict[str, object]]:
    """Rows of the contrasts that a finished audit made by rules, by an LLM, or from triples.

    Raises:
        RunError: The folder has no finished audit, or its audit made no contrasts.
    """
    folder = RunFolder(run)
    if not folder.record("audit"):
        raise RunError(f"{run}: no finished audit. Give the folder of one, as its end names it (runs/…)")
    file = folder.stage("audit") / MADE_FILE
    if not file.is_file():
        raise RunError(
            f"{run}: its audit keeps no contrasts of its own: those of files lie there, `cda texts` without --run writes the embedded "
            "ones, and an audit by an earlier version has to be made again (--out NEW)"
        )
    return list(read_jsonl(file))


def triple_rows(triples: Sequence[Triple], scorings: Scorings) -> list[dict[str, object]]:
    """Every triple, with the rewards of its texts if there are rewards."""
    rows = []
    for triple in triples:
        row: dict[str, object] = to_jsonable_python(triple)
        if not triple.by:
            del row["by"]
        texts = (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
        for label, scoring in scorings.items():
            if isinstance(scoring, Rewards):
                row[f"rewards_{label}"] = [_json_number(scoring.of(triple.prompt, text)) for text in texts]
        rows.append(row)
    return rows


def _scores(prompt: Prompt, first: tuple[str, str], second: tuple[str, str], scorings: Scorings) -> dict[str, object]:
    scores: dict[str, object] = {}
    for label, scoring in scorings.items():
        if isinstance(scoring, Rewards):
            scores |= {f"{name}_{label}": _json_number(scoring.of(prompt, text)) for name, text in (first, second)}
        else:
            scores[f"margin_{label}"] = _json_number(float(scoring.margins([(prompt, first[1], second[1])])[0]))
    return scores


def _json_number(value: float) -> float | None:
    return None if np.isnan(value) else value
