"""Stage `synthesize`: the training mix of counterfactual pairs for each bias, contrasts of a file, conversations and unchanged pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cda.biases import Bias, load_bias
from cda.counterfactuals import label
from cda.counterfactuals.dataset_card import dataset_card
from cda.counterfactuals.label import LABEL_TOKENS
from cda.counterfactuals.pairs import (
    BATCH,
    IN_AUDIT,
    Counterfactuals,
    assign_splits,
    contrast_examples,
    counterfactual_examples,
    draw_supplementary,
    eligible_pairs,
    label_frequencies,
    make_anchors,
    make_counterfactuals,
    second_turn_examples,
    teachable,
    unchanged_examples,
    weighted_examples,
)
from cda.counterfactuals.people_targets import with_people
from cda.data.contrasts import CleanContrasts
from cda.embedded.texts import EMBEDDED_BIASES
from cda.errors import DataError
from cda.files.jsonl import write_jsonl, write_text
from cda.launch import say
from cda.llm.money import request_tokens, tokens_of
from cda.prompts import RewritePrompt
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ObjectiveSection, Recipe, SynthesizeSection
from cda.records import Contrast, Exclusions, LabelledPair, Pair, RewriteRequest, TrainingPair, prompt_id, text_key
from cda.resources.artifacts import read_labelled, stage_counts, training_row
from cda.resources.llm_access import Planned, llm_access, llm_settings
from cda.resources.sources import (
    audit_inputs,
    audited_prompts,
    bias_settings,
    pair_weights,
    prompt_name,
    prompt_settings,
    rewriter,
    source_fingerprint,
    taught_contrasts,
    unchanged_source,
)
from cda.results.stages import LabelCounts, PairWeights, Rewritten, SynthesizeCounts, TaughtContrasts
from cda.rewriting.rewriter import GatedRewriter, Rewriter, rewrite_request
from cda.run import RunFolder, Stage, fingerprint
from cda.stats.choice_weights import effective_n
from cda.stats.draws import Stream, drawn, generator

MIX = "train.jsonl"


def stage(loaded: LoadedRecipe, run_folder: RunFolder) -> Stage:
    """The settings and inputs that determine the training mix."""
    recipe = with_people(loaded)
    settings = {
        "synthesize": recipe.synthesize.model_dump(mode="json"),
        "objectives": [objective.model_dump(mode="json") for objective in recipe.objectives],
        "biases": bias_settings((*loaded.biases, *anchored(recipe, loaded.biases))),
        "seed": recipe.seed,
        "schema_version": SynthesizeCounts.schema_version,
    }
    # Texts that the audit measures are not trained on.
    inputs = {
        "label": run_folder.output_of("label"),
        "audited prompts": fingerprint(sorted(audited_prompts(audit_inputs(loaded)))),
    }
    if recipe.data.contrasts is not None:
        settings |= recipe.data.model_dump(
            mode="json", include={"contrast_columns", "max_contrasts", "validation_share"}
        )
        inputs["contrasts"] = source_fingerprint(recipe.data.contrasts)
    if recipe.data.weights is not None:
        settings["weights"] = recipe.data.weights
        inputs["weights"] = source_fingerprint(unchanged_source(recipe.data)[0])
    if recipe.rewrites_by_llm:
        settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(loaded.prompts, "rewrite", "label")}
    return Stage("synthesize", settings, inputs)


def run(loaded: LoadedRecipe, run_folder: RunFolder, folder: Path) -> SynthesizeCounts:
    """Write the training mix and return the counts."""
    recipe, llm = with_people(loaded, say), llm_access(loaded)
    source, audited = run_folder.stage("label"), audited_prompts(audit_inputs(loaded))
    in_audit: dict[str, Exclusions] = {}
    rows = _not_audited(source / label.PAIRS, audited, recipe.data.pairs, in_audit)
    supplement = rows
    if (source / label.SUPPLEMENT).is_file():
        supplement = _not_audited(source / label.SUPPLEMENT, audited, str(recipe.data.supplement), in_audit)
    weights = pair_weights(recipe.data, loaded.opened)
    n_supplement, supplement = len(supplement), [row for row in supplement if weights.get(row.pair.id, 1.0) > 0]
    objectives = recipe.objectives
    by = rewriter(recipe.synthesize, [*loaded.biases, *anchored(recipe, loaded.biases)], recipe.seed, llm)
    biases: dict[str, Rewritten] = {}
    mix: list[TrainingPair] = []
    anchors: dict[str, int] = {}
    for number, (bias, requested, each) in enumerate(rewrites_wanted(recipe, loaded.biases)):
        rng, is_taught = generator(recipe.seed, Stream.REWRITTEN, number), bias in loaded.biases
        if requested != 0 and recipe.rewrites_by_llm:
            pool = [row.pair for row in (eligible_pairs(rows, bias) if is_taught else rows)]
            llm.confirm(planned_rewrites(pool, bias, requested, each, recipe.synthesize, llm.prompts.rewrite))
        if not is_taught:
            kept = list(_anchors(rows, bias, recipe, by, rng))
            anchors[bias.name] = len(kept)
            mix += kept
            continue
        made = Counterfactuals((), 0, Exclusions(0, {}))
        if requested != 0:
            made = _counterfactuals(rows, bias, requested, recipe, by, rng)
        n_supplementary = recipe.n_pairs("supplementary", bias.name) or 0
        extra = _supplementary(rows, supplement, bias, made, n_supplementary, rng)
        mix += [*counterfactual_examples(made, rows, objectives), *unchanged_examples(extra, objectives)]
        biases[bias.name] = Rewritten(
            by=by.name,
            requested=requested,
            eligible=made.eligible,
            tried=made.exclusions.seen,
            made=len(made.pairs),
            rejected=dict(made.exclusions.reasons),
            supplementary=len(extra),
            prompt=prompt_name(recipe.rewrite.prompt, llm.prompts.rewrite) if recipe.rewrites_by_llm else None,
            gate=by.report(bias) if isinstance(by, GatedRewriter) else None,
        )
    contrasts: TaughtContrasts | None = None
    if recipe.data.contrasts is not None:
        cleaned = taught_contrasts(recipe.data, loaded.biases, loaded.opened)
        examples, contrasts = _contrasts(cleaned, recipe, [*rows, *supplement], audited, [*biases])
        mix += examples
    if recipe.data.second_turn == "yes":
        conversations = _not_audited(source / label.SECOND_TURN, audited, "conversations", in_audit)
        turns = list(second_turn_examples(conversations, objectives))
        say(f"  {len(turns)} conversations, taught as they were written (data.second_turn)")
        mix += turns
    _check_examples(mix, [*biases], objectives)
    counted = None
    if weights:
        mix = weighted_examples(mix, weights)
        counted = _weights(mix, weights, str(recipe.data.weights), n_supplement - len(supplement))
    write_jsonl(folder / MIX, map(training_row, mix))
    n_validation = sum(row.split == "validation" for row in mix)
    say(f"  training mix: {len(mix) - n_validation} pairs, and {n_validation} for validation")
    counts = SynthesizeCounts(
        in_audit=in_audit,
        biases=biases,
        anchors=anchors,
        contrasts=contrasts,
        weights=counted,
        mix={"train": len(mix) - n_validation, "validation": n_validation},
        kinds=dict(sorted(Counter(row.kind for row in mix).items())),
    )
    labels = stage_counts(run_folder, "label", LabelCounts)
    write_text(folder / "README.md", dataset_card(MIX, recipe, loaded.biases, labels, counts))
    return counts


def _weights(mix: Sequence[TrainingPair], weights: Mapping[str, float], column: str, n_zero: int) -> PairWeights | None:
    """Count the weights of the unchanged pairs in a mix; None without such pairs."""
    own = np.array([weights[row.source_id] for row in mix if row.kind == "supplementary"])
    if not len(own):
        return None
    own /= own.mean()
    found = PairWeights(
        column=column,
        n=len(own),
        effective_n=effective_n(own),
        smallest=float(own.min()),
        largest=float(own.max()),
        zero=n_zero,
    )
    zero = f"; {n_zero} pairs of weight 0 are left out" if n_zero else ""
    say(f"  {found.n} unchanged pairs weighted by '{column}': effective n {found.effective_n:.0f}{zero}")
    return found


def _not_audited(path: Path, audited: set[str], name: str, counts: dict[str, Exclusions]) -> list[LabelledPair]:
    """Labelled pairs whose prompt is not in the audit; the others are counted and reported. DataError if none is left."""
    rows = list(read_labelled(path))
    kept, in_audit = teachable(rows, audited)
    counts[path.stem] = in_audit
    if in_audit.dropped:
        say(f"  {name}: {in_audit}: nothing is audited on what was taught")
    if rows and not kept:
        raise DataError(
            f"{name}: the audit measures on the prompts of all {len(rows)} pairs; teach on others (data.pairs, "
            "data.supplement, data.second_turn), or audit on others (audit.contrasts, audit.quality, audit.triples)"
        )
    return kept


def _check_examples(mix: Sequence[TrainingPair], biases: Sequence[str], objectives: Sequence[ObjectiveSection]) -> None:
    """DataError if a bias is taught by nothing: unchanged pairs alone do not debias."""
    taught = {row.bias for row in mix if row.kind not in ("supplementary", "contrast") and row.split == "train"}
    if missing := [name for name in biases if name not in taught]:
        raise DataError(
            f"{', '.join(missing)}: nothing in the training part teaches against it under the objectives "
            f"{_kinds(objectives)}. Give more pairs (data.pairs), contrasts of it (data.contrasts), or lower "
            "data.validation_share"
        )


def _kinds(objectives: Sequence[ObjectiveSection]) -> str:
    return ", ".join(objective.kind for objective in objectives)


def _contrasts(
    cleaned: CleanContrasts, recipe: Recipe, rows: Sequence[LabelledPair], audited: set[str], biases: Sequence[str]
) -> tuple[list[TrainingPair], TaughtContrasts]:
    """Training examples on the contrasts of the recipe's file, and the counts."""
    data = recipe.data
    kept, in_audit = teachable(cleaned.contrasts, audited)
    say(f"  {data.contrasts}: {cleaned.exclusions}")
    if in_audit.dropped:
        say(f"    {in_audit}: nothing is audited on what was taught")
    if not kept:
        raise DataError(
            f"{data.contrasts}: the audit measures on the prompts of all {len(cleaned.contrasts)} contrasts; teach on "
            "others (data.contrasts), or audit on others (audit.contrasts)"
        )
    by_bias: dict[str, list[Contrast]] = {}
    for contrast in kept:
        by_bias.setdefault(contrast.bias, []).append(contrast)
    used = [
        contrast for contrasts in by_bias.values() for contrast in drawn(contrasts, data.max_contrasts, recipe.seed)
    ]
    known = {prompt_id(row.pair.prompt): row.split for row in rows}
    splits = assign_splits(used, known, data.validation_share, generator(recipe.seed, Stream.TAUGHT_SPLIT))
    examples = list(contrast_examples(used, splits, biases, recipe.objectives))
    if not examples:
        raise DataError(
            f"{data.contrasts}: no contrast teaches anything under the objectives {_kinds(recipe.objectives)}; those of a debiased "
            "bias need paired, neutral or shift, others keep. Or teach none (data.contrasts=null)"
        )
    taught_ids = {example.source_id for example in examples}
    counts = TaughtContrasts(
        file=cleaned.exclusions,
        left_out={
            IN_AUDIT: in_audit.dropped,
            "not drawn (data.max_contrasts)": len(kept) - len(used),
            "no objective teaches its bias": sum(contrast.id not in taught_ids for contrast in used),
        },
        taught={name: sum(example.bias == name for example in examples) for name in by_bias},
    )
    say(f"    {len(examples)} lessons on contrasts")
    return examples, counts


def is_made_specific(bias: Bias, synthesize: SynthesizeSection) -> bool:
    """True if the chosen side of the bias's pairs is made more specific."""
    return synthesize.specific_chosen and "specific" in bias.aspects


def anchored(recipe: Recipe, taught: Sequence[Bias]) -> list[Bias]:
    """Biases that are not taught, between whose sides the base model's preference is kept (synthesize.anchors)."""
    names = {bias.name for bias in taught}
    return [load_bias(name) for name in EMBEDDED_BIASES if recipe.synthesize.anchors and name not in names]


def rewrites_wanted(recipe: Recipe, taught: Sequence[Bias]) -> list[tuple[Bias, int | None, int]]:
    """Each bias with its counterfactuals or anchors (null: every eligible pair), and with the texts that are rewritten for one: the rejected
    side; of a counterfactual also the chosen one, to be specific and to carry the bias."""
    wanted = [
        (
            bias,
            recipe.n_pairs("counterfactuals", bias.name),
            1 + is_made_specific(bias, recipe.synthesize) + recipe.balances,
        )
        for bias in taught
    ]
    return wanted + [(bias, recipe.synthesize.anchors, 1) for bias in anchored(recipe, taught)]


def planned_rewrites(
    pairs: Sequence[Pair],
    bias: Bias,
    requested: int | None,
    each: int,
    synthesize: SynthesizeSection,
    prompt: RewritePrompt,
) -> Planned:
    """Distinct rewrites for every requested counterfactual (None: every pair), `each` for one, labelled again if the gate asks."""
    n = each * (len(pairs) if requested is None else min(requested, len(pairs)))
    relabelled = synthesize.gate.on and bias.label_by == "ask"
    sample = pairs[:: max(1, len(pairs) // 200)]
    requests = [RewriteRequest(pair.prompt, pair.rejected, "add", pair.chosen) for pair in sample]
    tokens_in = [
        request_tokens(rewrite_request(request, bias, synthesize.show_prompt, told=prompt)) for request in requests
    ]
    mean_in = sum(tokens_in) / max(1, len(requests))
    mean_out = sum(tokens_of(request.response) for request in requests) / max(1, len(requests))
    if relabelled:
        # A label reads the rewrite, and answers in a few words: two calls of half the output each.
        mean_out = (mean_out + LABEL_TOKENS) / 2
    return Planned(f"rewriting for {bias.name}", n * (2 if relabelled else 1), mean_in, mean_out)


def _counterfactuals(
    rows: list[LabelledPair], bias: Bias, requested: int | None, recipe: Recipe, by: Rewriter, rng: np.random.Generator
) -> Counterfactuals:
    made = make_counterfactuals(
        rows,
        bias,
        by,
        requested,
        rng,
        check_measure=not recipe.rewrites_by_llm or bias.label_by == "measure",
        specific_chosen=is_made_specific(bias, recipe.synthesize),
        balanced=recipe.balances,
        stop_above=recipe.synthesize.max_failed,
        batch_size=None if recipe.llm.mode == "batch" else BATCH,
    )
    if not made.eligible:
        rule = "chosen is longer" if bias.eligible == "chosen_longer" else "neither side exhibits the bias"
        raise DataError(
            f"{bias.name}: none of {len(rows)} pairs is eligible (needed: {rule}). "
            "Use other pairs (data.pairs=...), or look at the labels in the run folder's label/pairs.jsonl"
        )
    tried, failed, limit = made.exclusions.seen, made.exclusions.dropped, recipe.synthesize.max_failed
    if failed > limit * tried:
        raise DataError(
            f"{bias.name}: {made.exclusions} while rewriting, more than synthesize.max_failed={limit:g} allows. "
            "Have an LLM rewrite (llm.model=NAME), use other pairs (data.pairs=...), or raise the limit"
        )
    say(f"  {bias.name}: {made.eligible} eligible, {tried} rewritten by {by.name}, {len(made.pairs)} kept")
    if failed:
        say(f"    rewrites: {made.exclusions}")
    if requested is not None and len(made.pairs) < requested:
        say(f"    note: {requested} were asked for; going on with {len(made.pairs)}")
    return made


def _anchors(
    rows: Sequence[LabelledPair], bias: Bias, recipe: Recipe, by: Rewriter, rng: np.random.Generator
) -> Iterator[TrainingPair]:
    """Examples that keep the base model's preference on a bias that is not taught."""
    n, size = recipe.synthesize.anchors, None if recipe.llm.mode == "batch" else BATCH
    made = make_anchors(rows, bias, by, n, rng, batch_size=size)
    say(f"  {bias.name}, not taught: {len(made.pairs)} anchors, on which the base model's preference is kept")
    if made.exclusions.dropped:
        say(f"    rewrites: {made.exclusions}")
    keep = next(objective for objective in recipe.objectives if objective.kind == "keep")
    for row in made.pairs:
        yield replace(row, example=keep.example(row.pair, bias.name), kind="contrast")


def _supplementary(
    rows: list[LabelledPair],
    supplement: list[LabelledPair],
    bias: Bias,
    made: Counterfactuals,
    requested: int,
    rng: np.random.Generator,
) -> list[TrainingPair]:
    used = {row.source_id for row in made.pairs}
    taken = {text_key(row.pair.prompt, row.pair.chosen, row.pair.rejected) for row in rows if row.pair.id in used}
    extra = draw_supplementary(supplement, bias, label_frequencies(rows, bias), requested, taken, rng)
    if requested:
        say(f"    {len(extra)} supplementary pairs, in the proportions of the labels")
    if len(extra) < requested:
        say(f"    note: {requested} were asked for; the data hold fewer of some label combination")
    return extra
