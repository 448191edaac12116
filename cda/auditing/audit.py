"""Stage `audit`: score contrasts, triples and quality pairs, before and after training in the same way, and compare.

Without a training the same is done for one model or judge. Everything that a report shows comes from the audit.json
written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from cda.auditing import analysis as audit_analysis
from cda.auditing import analysis as audit_rewards
from cda.auditing import detail as audit_detail
from cda.auditing import detail as audit_examples
from cda.auditing import paper as audit_paper
from cda.auditing import rate as audit_rate
from cda.auditing import rate as audit_triple_skew
from cda.auditing import result as audit_quality
from cda.auditing import result as audit_result
from cda.auditing import seeds as audit_plain
from cda.auditing import seeds as audit_seeds
from cda.auditing import votes as audit_panel
from cda.auditing import votes as audit_votes
from cda.auditing.groups import MAIN, PLAIN, Scorings, main_group, main_of, make_groups
from cda.auditing.sources import AuditTexts, given_labels, load_audit_texts
from cda.biases import Bias, load_bias
from cda.counterfactuals.label import PAIRS
from cda.data.messages import prompt_of
from cda.data.pairs import PairLabels, training_labels
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.texts import BIASES as EMBEDDED_BIASES
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.files.paths import own_folder
from cda.finetuning.applied import NAME as ADAPTER_STAGE
from cda.finetuning.applied import applied_dose, texts_of_dose
from cda.finetuning.train import ADAPTER, trainings
from cda.launch import launch_id, wait_until, world_size
from cda.provenance import versions
from cda.recipe.load import LoadedRecipe
from cda.records import Triple
from cda.resources.artifacts import prompt_row, read_labelled, training_stages
from cda.resources.llm_access import llm_access, llm_settings
from cda.resources.named_scorer import Subject, scorer_settings, texts_of
from cda.resources.scorers import open_scorer
from cda.resources.sources import bias_settings, prompt_name, prompt_settings, rewriter, source_fingerprint
from cda.results.audit import AuditResult
from cda.results.base import save
from cda.results.facts import AuditedBias, RewardModelFacts, Scorer, ScoringCounts, Sources
from cda.run import RunFolder, Stage, fingerprint
from cda.scorers.compared import Compared, Comparison, Rewards, Text, text_id

RESULT = "audit.json"


def stage(loaded: LoadedRecipe, run_folder: RunFolder) -> Stage:
    """What decides the audit: what is measured, and of a training its adapters and the dose that is the run's result."""
    settings, inputs = what_is_measured(loaded)
    settings["schema_version"] = AuditResult.current_schema()
    if not loaded.only_audit:
        several = trainings(loaded.recipe.seeds)
        settings |= {"dose": applied_dose(run_folder), "ties_aimed_at": loaded.recipe.aims_at_ties}
        settings |= {"seeds": [one.seed for one in several]} if len(several) > 1 else {}
        inputs |= {
            name: run_folder.output_of(name)
            for one in several
            for name in (one.stage("train"), one.stage(ADAPTER_STAGE))
        }
    return Stage("audit", settings, inputs)


def what_is_measured(loaded: LoadedRecipe) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings and inputs of what an audit measures; of a training without what was trained."""
    recipe = loaded.recipe
    judged = recipe.model.is_judge
    scorer = open_scorer(Subject("model", recipe.model), scorer_settings(loaded))
    settings = {
        "audit": recipe.audit.model_dump(mode="json", exclude={"preset"}),
        "model": recipe.model.model_dump(mode="json", exclude={"preset", "precision"}),
        "score": scorer.deciding_settings(),
        "biases": bias_settings(loaded.biases),
        "seed": recipe.seed,
    }
    rewritten = _rewrites(loaded)
    if rewritten:
        settings["rewriting"] = recipe.synthesize.model_dump(include={"by", "show_prompt", "gate"})
    if judged or (rewritten and recipe.rewrites_by_llm):
        settings["llm"] = llm_settings(recipe.llm)
    if rewritten and recipe.rewrites_by_llm:
        settings["prompts"] = prompt_settings(loaded.prompts, "rewrite", "label")
    inputs = {
        "contrasts": source_fingerprint(recipe.audit.contrasts, "audit"),
        "votes": source_fingerprint(recipe.audit.votes),
        "verdicts": source_fingerprint(recipe.audit.verdicts),
        "triples": source_fingerprint(recipe.audit.triples, "triples"),
        "release": source_fingerprint(recipe.audit.release),
        "labels": source_fingerprint(recipe.audit.labels),
        "quality": source_fingerprint(recipe.audit.quality, "quality"),
        "embedded contrasts": source_fingerprint(EMBEDDED, "audit"),
        "embedded contrasts, removed": source_fingerprint(EMBEDDED, "shown"),
    }
    if loaded.only_audit and not judged:
        inputs["model"] = scorer.source()
    return settings, inputs


def run(loaded: LoadedRecipe, run_folder: RunFolder, folder: Path) -> dict[str, object]:
    """Score, compare, write audit.json and the scores behind it, and return what was counted."""
    recipe, seed = loaded.recipe, loaded.recipe.seed
    texts = load_audit_texts(loaded)
    biases = _biases(loaded, texts)
    scored, scoring = _score(loaded, run_folder, texts)
    everywhere = make_groups(texts.contrasts, biases, [bias.name for bias in loaded.biases], scored)
    groups, scorings = [main_group(group) for group in everywhere], main_of(scored)
    by_llm = recipe.rewrites_by_llm
    labels = given_labels(loaded) if loaded.only_audit else _labels(loaded, run_folder)
    failed = {name: count.reasons for name, count in texts.failed.items()}
    rate = audit_rate.rate(texts.triples, texts.flips, scorings, recipe.audit.min_flipped, seed)
    result: dict[str, Any] = {
        "recipe": recipe.name,
        "scorings": list(scorings),
        "dose_applied": None if loaded.only_audit else applied_dose(run_folder),
        "aim": "tie" if recipe.aims_at_ties and not loaded.only_audit else None,
        "model": scoring,
        "biases": tuple(AuditedBias(name=bias.name, description=bias.description) for bias in loaded.biases),
        "sources": _sources(loaded, texts),
        "skew": audit_result.skews(groups, texts.available, failed),
        "votes": audit_votes.votes(groups, recipe.audit.ties, seed),
        "votes_undecided": audit_votes.votes_undecided(groups, recipe.audit.ties),
        "panel": audit_panel.panels(groups, scorings, recipe.audit.ties),
        "quality": audit_result.quality(texts.pairs, scorings),
        "beyond_noise": audit_result.beyond_noise_of(groups, texts.pairs, scorings),
        "quality_sections": audit_quality.quality_by_section(texts.quality, scorings, seed),
        "triple_skew": audit_triple_skew.triple_skews(texts.triples, texts.released_triples, scorings),
        "paper": audit_paper.paper(loaded, seed),
        "effects": audit_detail.effects(groups, seed),
        "drift": audit_detail.drifts(groups, biases, _encoder(loaded), seed),
        "plain": audit_plain.plain(everywhere, texts, scored, recipe.audit.ties, seed),
        "rate": rate,
        "rewards": audit_rewards.rewards(groups, texts.triples, scorings, seed),
        "analysis": audit_analysis.analysis(groups, labels, texts.pairs, scorings, recipe.audit.ties, seed),
        "seeds": None if loaded.only_audit else audit_seeds.seeds(loaded, run_folder, everywhere, texts, scored, rate),
        "unseen_phrases": {} if by_llm or loaded.only_audit else audit_result.unseen_phrases(groups),
        "examples": audit_examples.examples(groups),
        "excluded": {
            **texts.excluded,
            **{f"triples of {name}": failed for name, failed in texts.triples_failed.items()},
        },
        "votes_unmatched": texts.votes_unmatched,
        "available_quality": texts.available_pairs,
        "stages": training_stages(run_folder),
        "versions": versions(),
        "seed": seed,
    }
    made = AuditResult(**result, n_tests=0)
    if made.dose_applied == 0:
        made = audit_result.unchanged(made)
    save(audit_result.adjust_for_all_tests(made), folder / RESULT)
    write_jsonl(folder / "margins.jsonl", audit_result.margin_rows(texts.contrasts, texts.pairs, scored))
    if texts.triples:
        write_jsonl(folder / "triples.jsonl", (_triple_row(one, scorings) for one in texts.triples))
    return {
        "contrasts": len(texts.contrasts),
        "quality_pairs": len(texts.pairs),
        "triples": len(texts.triples),
        **scoring.model_dump(exclude={"name"}),
    }


def _rewrites(loaded: LoadedRecipe) -> bool:
    """Whether the audit itself has answers rewritten."""
    recipe = loaded.recipe
    return bool(recipe.audit.rate) or any(bias.name not in EMBEDDED_BIASES for bias in loaded.biases)


def _sources(loaded: LoadedRecipe, texts: AuditTexts) -> Sources:
    """Where the data came from; the prompts by which an LLM labelled and rewrote only where one did."""
    recipe, prompts, trains = loaded.recipe, loaded.prompts, not loaded.only_audit
    by_llm = recipe.rewrites_by_llm
    rewrote = by_llm and (trains or _rewrites(loaded))
    labelled = (trains and recipe.labels_by_llm) or (rewrote and recipe.synthesize.gate.on)
    return Sources(
        pairs=recipe.data.pairs if trains else None,
        contrasts=recipe.audit.contrasts,
        votes=recipe.audit.votes,
        verdicts=recipe.audit.verdicts,
        triples=", ".join(dict.fromkeys(one.by for one in texts.flips.values())) or None,
        quality=recipe.audit.quality,
        release=recipe.audit.release,
        labels=recipe.audit.labels,
        labelled_by=str(recipe.llm.model) if recipe.labels_by_llm else "embedded rules",
        rewritten_by=rewriter(loaded.recipe.synthesize, loaded.biases, loaded.recipe.seed, llm_access(loaded)).name
        if by_llm
        else "embedded rules",
        label_prompt=prompt_name(recipe.label.prompt, prompts.label) if labelled else None,
        rewrite_prompt=prompt_name(recipe.rewrite.prompt, prompts.rewrite) if rewrote else None,
    )


def _biases(loaded: LoadedRecipe, texts: AuditTexts) -> dict[str, Bias]:
    """The recipe's biases, and those of every other contrast."""
    named = {bias.name: bias for bias in loaded.biases}
    others = sorted({contrast.bias for contrast in texts.contrasts} - set(named))
    return named | {name: load_bias(name) for name in others}


def _score(loaded: LoadedRecipe, run_folder: RunFolder, texts: AuditTexts) -> tuple[Scorings, Scorer]:
    """What every scorer says of every comparison, and how it was asked."""
    comparisons: list[Comparison] = [(one.prompt, one.perturbed, one.base) for one in texts.contrasts]
    comparisons += [(one.prompt, one.chosen, one.rejected) for one in texts.pairs]
    for triple in dict.fromkeys([*texts.triples, *texts.released_triples]):
        comparisons += audit_rate.triple_comparisons(triple)
    comparisons += audit_rate.naive_comparisons(texts.triples)
    if world_size() > 1 and _is_shared(loaded):
        shared = _shared_file(stage(loaded, run_folder), run_folder)
        for old in own_folder(shared.parent).glob("comparisons-*.jsonl"):
            old.unlink(missing_ok=True)
        rows = ({"prompt": prompt_row(prompt), "first": one, "second": other} for prompt, one, other in comparisons)
        write_jsonl(shared, rows)
    return _asked(loaded, run_folder, comparisons)


def assist(loaded: LoadedRecipe, run_folder: RunFolder) -> None:
    """The other processes of a launch: score a share of what the main one audits on, once it has said what that is."""
    if not _is_shared(loaded):
        return
    expected = stage(loaded, run_folder)
    shared = _shared_file(expected, run_folder)
    wait_until(lambda: shared.is_file() or run_folder.is_done(expected), run_folder.path)
    if not run_folder.is_done(expected):
        rows = [(prompt_of(row["prompt"]), row["first"], row["second"]) for row in read_jsonl(shared)]
        _asked(loaded, run_folder, rows)


def _is_shared(loaded: LoadedRecipe) -> bool:
    return loaded.recipe.model.is_trainable


def _shared_file(expected: Stage, run_folder: RunFolder) -> Path:
    """Named by what decides its content, so that none of an earlier launch is taken for it, whatever clocks say."""
    name = fingerprint([expected.fingerprint, launch_id()])
    return run_folder.path / "scoring" / f"comparisons-{name}.jsonl"


def _asked(loaded: LoadedRecipe, run_folder: RunFolder, comparisons: Sequence[Comparison]) -> tuple[Scorings, Scorer]:
    scorings: dict[str, Compared] = {}
    facts: Scorer | None = None
    notes: list[str] = []
    counted: dict[str, ScoringCounts] = {}
    together = [] if loaded.only_audit else _together(run_folder, comparisons)
    for label, subject in _subjects(loaded, run_folder).items():
        if subject is None:  # at dose 0 the result is the model before
            scorings[label], counted[label] = scorings["before"], counted["before"]
            continue
        scorer = open_scorer(subject, scorer_settings(loaded))
        scorings[label], own = scorer.compare(comparisons, run_folder.path / "scoring", together)
        notes += own.notes
        counted[label] = _counts(own)
        facts = own if label in MAIN else facts
    assert facts is not None  # one subject at least is of the main ones
    # What both say of their one tokenizer is said once.
    return scorings, facts.model_copy(update={"notes": tuple(dict.fromkeys(notes)), "by_scoring": counted})


def _counts(facts: Scorer) -> ScoringCounts:
    if isinstance(facts, RewardModelFacts):
        return ScoringCounts(texts=facts.texts, truncated=facts.truncated, dropped=facts.dropped, cached=facts.cached)
    return ScoringCounts(comparisons=facts.comparisons, unread=facts.unread)


def _together(run_folder: RunFolder, comparisons: Sequence[Comparison]) -> list[Text]:
    """The texts that the dose was chosen on, as that stage scored them: one model has one score of a text in a run."""
    by_id = {text_id(*text): text for text in texts_of(comparisons)}
    return [by_id[name] for name in texts_of_dose(run_folder) if name in by_id]


def _subjects(loaded: LoadedRecipe, run_folder: RunFolder) -> dict[str, Subject | None]:
    """The model alone; or before a training, as the run's result, where its dose is not 1 as plain CDA too, and as every
    further training left it."""
    model = loaded.recipe.model
    if loaded.only_audit:
        return {"model": Subject("model", model)}
    adapter, dose = run_folder.stage("train") / ADAPTER, applied_dose(run_folder)
    assert dose is not None  # the audit's stage needs that of the adapter
    found = {"before": Subject("before", model), "after": Subject("after", model, adapter, dose) if dose else None}
    found |= {} if dose == 1 else {PLAIN: Subject(PLAIN, model, adapter)}
    for one in trainings(loaded.recipe.seeds)[1:]:
        trained, dose = run_folder.stage(one.stage("train")) / ADAPTER, applied_dose(run_folder, one)
        assert dose is not None
        found[one.label] = Subject(one.label, model, trained, dose) if dose else None
    return found


def _labels(loaded: LoadedRecipe, run_folder: RunFolder) -> dict[str, PairLabels]:
    """Labels of the training pairs, by bias."""
    labelled = list(read_labelled(run_folder.stage("label") / PAIRS))
    found = {bias.name: training_labels(labelled, bias.name) for bias in loaded.biases}
    return {name: one for name, one in found.items() if one is not None}


def _encoder(loaded: LoadedRecipe) -> audit_detail.Encode | None:
    if not loaded.recipe.audit.similarity:
        return None
    from cda.embedded.model import encode_sentences

    return encode_sentences


def _triple_row(triple: Triple, scorings: Scorings) -> dict[str, Any]:
    row: dict[str, object] = to_jsonable_python(triple)
    for label, scoring in scorings.items():
        if isinstance(scoring, Rewards):
            row[f"rewards_{label}"] = [
                audit_result.known(scoring.of(triple.prompt, text))
                for text in (triple.original, triple.rewrite, triple.rewrite_of_rewrite)
            ]
    return row
