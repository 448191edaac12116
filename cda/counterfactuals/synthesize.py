"""Stage `synthesize`: counterfactual pairs for each bias, contrasts of a file, unchanged pairs beside them: the training mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cda.auditing.sources import audited_prompts, taught_contrasts
from cda.biases import Bias
from cda.counterfactuals import label
from cda.counterfactuals.examples import (
    IN_AUDIT,
    Objective,
    contrast_examples,
    counterfactual_examples,
    split_prompts,
    teachable,
    unchanged_examples,
)
from cda.counterfactuals.label import LABEL_TOKENS
from cda.counterfactuals.pairs import (
    Counterfactuals,
    eligible_pairs,
    label_frequencies,
    make_counterfactuals,
    supplementary_pairs,
)
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.launch import say
from cda.llm.money import request_tokens, tokens_of
from cda.recipe.load import LoadedRecipe
from cda.records import Exclusions, LabelledPair, Pair, RewriteRequest, TrainingPair, prompt_id, text_key
from cda.resources.artifacts import read_labelled, training_row
from cda.resources.llm_access import llm_access, llm_settings
from cda.resources.sources import bias_settings, prompt_name, prompt_settings, rewriter, source_fingerprint
from cda.resources.spending import Planned
from cda.results.facts import Dropped, MixSize, Rewritten, SynthesizeCounts, TaughtContrasts
from cda.rewriting.asked import Rewriter, rewrite_request
from cda.rewriting.gate import Gated
from cda.run import RunFolder, Stage, fingerprint
from cda.stats.streams import Stream, drawn, generator

MIX = "train.jsonl"
NO_COUNTERFACTUALS = Counterfactuals((), 0, 0, 0, Exclusions(0, {}))


def stage(loaded: LoadedRecipe, run_folder: RunFolder) -> Stage:
    """What decides the training mix."""
    recipe = loaded.recipe
    settings = {
        "synthesize": recipe.synthesize.model_dump(mode="json"),
        "objectives": [one.model_dump(mode="json") for one in recipe.objectives],
        "biases": bias_settings(loaded.biases),
        "seed": recipe.seed,
        "schema_version": SynthesizeCounts.schema_version,
    }
    # What the audit measures is not taught.
    inputs = {"label": run_folder.output_of("label"), "audited prompts": fingerprint(sorted(_audited(loaded)))}
    if recipe.data.contrasts is not None:
        settings |= recipe.data.model_dump(
            mode="json", include={"contrast_columns", "max_contrasts", "validation_share"}
        )
        inputs["contrasts"] = source_fingerprint(recipe.data.contrasts)
    if recipe.rewrites_by_llm:
        settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(loaded.prompts, "rewrite", "label")}
    return Stage("synthesize", settings, inputs)


def run(loaded: LoadedRecipe, run_folder: RunFolder, folder: Path) -> SynthesizeCounts:
    """Write the training mix and return what was counted."""
    source = run_folder.stage("label")
    audited = _audited(loaded)
    in_audit: dict[str, Dropped] = {}
    biases: dict[str, Rewritten] = {}
    rows = _not_audited(source / label.PAIRS, audited, loaded.recipe.data.pairs, in_audit)
    supplement = rows
    if (source / label.SUPPLEMENT).is_file():
        supplement = _not_audited(source / label.SUPPLEMENT, audited, str(loaded.recipe.data.supplement), in_audit)
    objectives = _objectives(loaded)
    mix: list[TrainingPair] = []
    for number, bias in enumerate(loaded.biases):
        rng = generator(loaded.recipe.seed, Stream.REWRITTEN, number)
        by = rewriter(loaded.recipe.synthesize, loaded.biases, loaded.recipe.seed, llm_access(loaded))
        wants_rewrites = wanted(loaded.recipe.synthesize.counterfactuals, bias, len(loaded.biases)) != 0
        if wants_rewrites and loaded.recipe.rewrites_by_llm:
            pool = [row.pair for row in eligible_pairs(rows, bias)]
            llm_access(loaded).confirm(planned_calls(pool, bias, loaded))
        made = _counterfactuals(rows, bias, loaded, by, rng) if wants_rewrites else NO_COUNTERFACTUALS
        extra = _supplementary(rows, supplement, bias, made, loaded, rng)
        mix += [*counterfactual_examples(made.pairs, rows, objectives), *unchanged_examples(extra, objectives)]
        asks = loaded.recipe.rewrites_by_llm
        biases[bias.name] = Rewritten(
            by=by.name,
            requested=made.requested,
            eligible=made.eligible,
            tried=made.tried,
            made=len(made.pairs),
            rejected=dict(made.exclusions.reasons),
            supplementary=len(extra),
            prompt=prompt_name(loaded.recipe.rewrite.prompt, loaded.prompts.rewrite) if asks else None,
            gate=by.report(bias) if isinstance(by, Gated) else None,
        )
    contrasts: TaughtContrasts | None = None
    if loaded.recipe.data.contrasts is not None:
        taught, contrasts = _contrasts(loaded, [*rows, *supplement], objectives, audited)
        mix += taught
    _check_examples(mix, loaded)
    write_jsonl(folder / MIX, map(training_row, mix))
    n_validation = sum(row.split == "validation" for row in mix)
    say(f"  training mix: {len(mix) - n_validation} pairs, and {n_validation} for validation")
    return SynthesizeCounts(
        in_audit=in_audit,
        biases=biases,
        contrasts=contrasts,
        mix=MixSize(train=len(mix) - n_validation, validation=n_validation),
        kinds=dict(sorted(Counter(row.kind for row in mix).items())),
    )


def _audited(loaded: LoadedRecipe) -> set[str]:
    """`prompt_id` of everything that the audit measures on."""
    return {prompt_id(prompt) for prompt in audited_prompts(loaded)}


def _not_audited(path: Path, audited: set[str], name: str, counts: dict[str, Dropped]) -> list[LabelledPair]:
    """Labelled pairs whose prompt is none of the audit's; the others are counted and said.

    Raises:
        DataError: None is left.
    """
    rows = list(read_labelled(path))
    kept, in_audit = teachable(rows, audited)
    counts[path.stem] = _dropped(in_audit)
    if in_audit.dropped:
        say(f"  {name}: {in_audit}: nothing is audited on what was taught")
    if not kept:
        raise DataError(
            f"{name}: the audit measures on the prompts of all {len(rows)} pairs; teach on others (data.pairs, "
            "data.supplement), or audit on others (audit.contrasts, audit.quality, audit.triples)"
        )
    return kept


def _check_examples(mix: Sequence[TrainingPair], loaded: LoadedRecipe) -> None:
    """Every bias must be taught by something: unchanged pairs alone do not debias.

    Raises:
        DataError: Names the biases that are not.
    """
    taught = {row.bias for row in mix if row.kind not in ("supplementary", "contrast") and row.split == "train"}
    missing = [bias.name for bias in loaded.biases if bias.name not in taught]
    if missing:
        raise DataError(
            f"{', '.join(missing)}: nothing in the training part teaches against it under the objectives "
            f"{', '.join(one.kind for one in loaded.recipe.objectives)}. Give more pairs (data.pairs), contrasts of it "
            "(data.contrasts), or lower data.validation_share"
        )


def _objectives(loaded: LoadedRecipe) -> list[Objective]:
    """The recipe's objectives with a target for each bias."""
    names = [bias.name for bias in loaded.biases]
    found = []
    for one in loaded.recipe.objectives:
        target = one.target
        targets = target if isinstance(target, dict) else {} if target is None else dict.fromkeys(names, target)
        found.append(Objective(one.kind, targets, one.margin, one.weight))
    return found


def _contrasts(
    loaded: LoadedRecipe, rows: Sequence[LabelledPair], objectives: Sequence[Objective], audited: set[str]
) -> tuple[list[TrainingPair], TaughtContrasts]:
    """Training examples on the contrasts of the recipe's file, and what was counted."""
    recipe = loaded.recipe
    cleaned = taught_contrasts(loaded)
    kept, in_audit = teachable(cleaned.contrasts, audited)
    say(f"  {recipe.data.contrasts}: {cleaned.exclusions}")
    if in_audit.dropped:
        say(f"    {in_audit}: nothing is audited on what was taught")
    if not kept:
        raise DataError(
            f"{recipe.data.contrasts}: the audit measures on the prompts of all {len(cleaned.contrasts)} contrasts; teach on "
            "others (data.contrasts), or audit on others (audit.contrasts)"
        )
    names = dict.fromkeys(one.bias for one in kept)
    drawn_ones = [
        one
        for name in names
        for one in drawn([c for c in kept if c.bias == name], recipe.data.max_contrasts, recipe.seed)
    ]
    known = {prompt_id(row.pair.prompt): row.split for row in rows}
    rng = generator(recipe.seed, Stream.TAUGHT_SPLIT)
    splits = split_prompts(drawn_ones, known, recipe.data.validation_share, rng)
    examples = list(contrast_examples(drawn_ones, splits, [bias.name for bias in loaded.biases], objectives))
    if not examples:
        raise DataError(
            f"{recipe.data.contrasts}: no contrast teaches anything under the objectives "
            f"{', '.join(one.kind for one in recipe.objectives)}; those of a debiased bias need paired or neutral, others keep. "
            "Or teach none (data.contrasts=null)"
        )
    taught_ids = {example.source_id for example in examples}
    used = TaughtContrasts(
        file=_dropped(cleaned.exclusions),
        left_out={
            IN_AUDIT: in_audit.dropped,
            "not drawn (data.max_contrasts)": len(kept) - len(drawn_ones),
            "no objective teaches its bias": sum(one.id not in taught_ids for one in drawn_ones),
        },
        taught={name: sum(one.bias == name for one in examples) for name in names},
    )
    say(f"    {len(examples)} lessons on contrasts")
    return examples, used


def _dropped(exclusions: Exclusions) -> Dropped:
    return Dropped(seen=exclusions.seen, dropped=dict(exclusions.reasons))


def planned_calls(pairs: Sequence[Pair], bias: Bias, loaded: LoadedRecipe) -> Planned:
    """Rewrites of every counterfactual that is asked for, each labelled again where the gate asks; none twice.

    Args:
        pairs: That can become counterfactuals.
        bias: The bias to add.
        loaded: The recipe.
    """
    recipe = loaded.recipe
    asked = wanted(recipe.synthesize.counterfactuals, bias, len(loaded.biases))
    n = len(pairs) if asked is None else min(asked, len(pairs))
    relabelled = recipe.synthesize.gate.on and bias.label_by == "ask"
    sample = pairs[:: max(1, len(pairs) // 200)]
    requests = [RewriteRequest(pair.prompt, pair.rejected, "add", pair.chosen) for pair in sample]
    told, show = loaded.prompts.rewrite, recipe.synthesize.show_prompt
    mean_in = sum(request_tokens(rewrite_request(one, bias, show, told=told)) for one in requests) / max(
        1, len(requests)
    )
    mean_out = sum(tokens_of(one.response) for one in requests) / max(1, len(requests))
    if relabelled:
        # A label reads what the rewrite wrote, and answers in a few words: two calls of half the output each.
        mean_out = (mean_out + LABEL_TOKENS) / 2
    return Planned(f"rewriting for {bias.name}", n * (2 if relabelled else 1), mean_in, mean_out)


def wanted(count: int | dict[str, int] | None, bias: Bias, n_biases: int) -> int | None:
    """The number meant for a bias by one number, a number by name (`joint` for the others of several), or null."""
    if isinstance(count, dict):
        return count[bias.name] if n_biases == 1 or bias.name in count else count["joint"]
    return count


def _counterfactuals(
    rows: list[LabelledPair], bias: Bias, loaded: LoadedRecipe, by: Rewriter, rng: np.random.Generator
) -> Counterfactuals:
    recipe = loaded.recipe
    requested = wanted(recipe.synthesize.counterfactuals, bias, len(loaded.biases))
    by_rules = not recipe.rewrites_by_llm
    made = make_counterfactuals(
        rows,
        bias,
        by,
        requested,
        rng,
        check_measure=by_rules or bias.label_by == "measure",
        specific_chosen=recipe.synthesize.specific_chosen and "specific" in bias.aspects,
        stop_above=recipe.synthesize.max_failed,
        **({"batch_size": None} if recipe.llm.mode == "batch" else {}),
    )
    if not made.eligible:
        rule = "chosen is longer" if bias.eligible == "chosen_longer" else "neither side exhibits the bias"
        raise DataError(
            f"{bias.name}: none of {len(rows)} pairs is eligible (needed: {rule}). "
            "Use other pairs (data.pairs=...), or look at the labels in the run folder's label/pairs.jsonl"
        )
    failed = made.exclusions.dropped
    if failed > recipe.synthesize.max_failed * made.tried:
        raise DataError(
            f"{bias.name}: {made.exclusions} while rewriting, more than synthesize.max_failed={recipe.synthesize.max_failed:g} allows"
        )
    say(f"  {bias.name}: {made.eligible} eligible, {made.tried} rewritten by {by.name}, {len(made.pairs)} kept")
    if failed:
        say(f"    rewrites: {made.exclusions}")
    if requested is not None and len(made.pairs) < requested:
        say(f"    note: {requested} were asked for; going on with {len(made.pairs)}")
    return made


def _supplementary(
    rows: list[LabelledPair],
    supplement: list[LabelledPair],
    bias: Bias,
    made: Counterfactuals,
    loaded: LoadedRecipe,
    rng: np.random.Generator,
) -> list[TrainingPair]:
    requested = wanted(loaded.recipe.synthesize.supplementary, bias, len(loaded.biases)) or 0
    used = {row.source_id for row in made.pairs}
    taken = {text_key(row.pair.prompt, row.pair.chosen, row.pair.rejected) for row in rows if row.pair.id in used}
    extra = supplementary_pairs(supplement, bias, label_frequencies(rows, bias), requested, taken, rng)
    if requested:
        say(f"    {len(extra)} supplementary pairs, in the proportions of the labels")
    if len(extra) < requested:
        say(f"    note: {requested} were asked for; the data hold fewer of some label combination")
    return extra
