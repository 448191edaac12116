"""Stage `synthesize`: the training mix of counterfactual pairs for each bias, contrasts of a file, conversations and unchanged pairs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from cda.biases import Bias
from cda.counterfactuals import label
from cda.counterfactuals.label import LABEL_TOKENS
from cda.data.contrasts import CleanContrasts
from cda.errors import DataError
from cda.features import n_words
from cda.files.jsonl import write_jsonl
from cda.launch import say
from cda.llm.money import request_tokens, tokens_of
from cda.prompts import RewritePrompt
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ObjectiveSection, Recipe, SynthesizeSection
from cda.records import (
    Contrast,
    Exclusions,
    LabelledPair,
    Pair,
    Rewrite,
    RewriteRequest,
    Split,
    TrainingExample,
    TrainingPair,
    count_reasons,
    prompt_id,
    text_key,
)
from cda.resources.artifacts import read_labelled, training_row
from cda.resources.llm_access import Planned, llm_access, llm_settings
from cda.resources.sources import (
    AuditInputs,
    audit_inputs,
    bias_settings,
    prompt_name,
    prompt_settings,
    rewriter,
    source_fingerprint,
    taught_contrasts,
)
from cda.results.stages import Dropped, MixSize, Rewritten, SynthesizeCounts, TaughtContrasts
from cda.rewriting.fidelity import is_unchanged
from cda.rewriting.labels import exhibits
from cda.rewriting.rewriter import Gated, Rewriter, rewrite_request
from cda.run import RunFolder, Stage, fingerprint
from cda.stats.draws import Stream, drawn, generator

Row = TypeVar("Row", bound=Contrast | LabelledPair)
BATCH = 500
IN_AUDIT = "prompt is in the audit"
_ENOUGH_TO_JUDGE = 50
_MOST_TRIES_PER_PAIR = 3


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Counterfactual pairs of one bias, in the order they were drawn."""

    pairs: tuple[TrainingPair, ...]
    eligible: int
    """Number of pairs that could become a counterfactual pair."""
    exclusions: Exclusions
    """Number of tried rewrites, and failed ones by reason."""


def eligible_pairs(rows: Sequence[LabelledPair], bias: Bias) -> list[LabelledPair]:
    """Pairs that can become counterfactuals of the bias."""
    if bias.eligible == "chosen_longer":
        return [row for row in rows if n_words(row.pair.chosen) > n_words(row.pair.rejected)]
    return [row for row in rows if row.labels[bias.name] == {"chosen": False, "rejected": False}]


def make_counterfactuals(
    rows: Sequence[LabelledPair],
    bias: Bias,
    rewriter: Rewriter,
    requested: int | None,
    rng: np.random.Generator,
    check_measure: bool,
    *,
    specific_chosen: bool = False,
    stop_above: float = 1.0,
    batch_size: int | None = BATCH,
) -> Counterfactuals:
    """Draw eligible pairs, rewrite their rejected side, keep the rewrites that carry the bias.

    Failed rewrites are replaced by further eligible pairs, in batches of `batch_size` (None: all that are missing, for
    the Batch API, where each round takes a day), until the pairs run out, three times the requested pairs (None: every
    eligible one) were tried, or more than the share `stop_above` of the tried failed. `check_measure`: a rewrite must
    exhibit the bias as measured (off if an LLM labelled it). `specific_chosen`: also rewrite the chosen side with the
    bias's opposite (vagueness: more specific), so that the sides differ more; if that fails, the pair is dropped.
    """
    pool = eligible_pairs(rows, bias)
    order = [pool[index] for index in rng.permutation(len(pool))]
    most = len(order) if requested is None else min(len(order), _MOST_TRIES_PER_PAIR * requested)
    made: list[TrainingPair] = []
    reasons: list[str] = []
    tried = 0
    while tried < most and (requested is None or len(made) < requested):
        missing = most if requested is None else requested - len(made)
        batch = order[tried : min(tried + min(missing, batch_size or missing), most)]
        tried += len(batch)
        for row, result in zip(batch, _rewritten(batch, bias, rewriter, check_measure, specific_chosen), strict=True):
            if isinstance(result, str):
                reasons.append(result)
            else:
                made.append(TrainingPair(TrainingExample(result), row.split, "counterfactual", bias.name, row.pair.id))
        if tried >= _ENOUGH_TO_JUDGE and len(reasons) > stop_above * tried:
            break
    return Counterfactuals(tuple(made), len(pool), Exclusions(tried, count_reasons(reasons)))


def _rewritten(
    batch: Sequence[LabelledPair], bias: Bias, rewriter: Rewriter, check_measure: bool, specific_chosen: bool
) -> list[Pair | str]:
    """The counterfactual of each pair, or the reason why there is none."""
    requests = [RewriteRequest(row.pair.prompt, row.pair.rejected, "add", row.pair.chosen) for row in batch]
    results = [
        _counterfactual(row.pair, rewrite, bias, check_measure)
        for row, rewrite in zip(batch, rewriter.rewrite(requests, bias), strict=True)
    ]
    if not specific_chosen:
        return results
    kept = [(number, pair) for number, pair in enumerate(results) if isinstance(pair, Pair)]
    chosen = [RewriteRequest(pair.prompt, pair.chosen, "remove", flips=False) for _, pair in kept]
    for (number, pair), rewrite in zip(kept, rewriter.rewrite(chosen, bias), strict=True):
        if rewrite.text is None:
            results[number] = f"chosen side: {rewrite.reason}"
        elif any(is_unchanged(rewrite.text, side, bias) for side in (pair.chosen, pair.rejected)):
            results[number] = "chosen side: unchanged"
        elif check_measure and bias.shows(rewrite.text, pair.rejected):
            results[number] = "chosen side: exhibits the bias"
        else:
            results[number] = Pair(pair.prompt, rewrite.text, pair.rejected)
    return results


def _counterfactual(pair: Pair, rewrite: Rewrite, bias: Bias, check_measure: bool) -> Pair | str:
    """The pair with its rejected side rewritten, or the reason why the rewrite cannot be used."""
    if rewrite.text is None:
        return rewrite.reason or "no text"
    if any(is_unchanged(rewrite.text, side, bias) for side in (pair.rejected, pair.chosen)):
        return "unchanged"
    ratio = bias.min_words_of_chosen
    if ratio is not None and n_words(rewrite.text) < ratio * n_words(pair.chosen):
        return f"shorter than {ratio:g} times the chosen side"
    if check_measure and bias.measure is not None and not exhibits(rewrite.text, bias, pair.chosen):
        return "bias not measurable in the rewrite"
    return Pair(pair.prompt, pair.chosen, rewrite.text)


Combination = tuple[bool, bool]


def _combination(row: LabelledPair, bias: Bias) -> tuple[bool | None, bool | None]:
    labels = row.labels[bias.name]
    return labels["chosen"], labels["rejected"]


def label_frequencies(rows: Sequence[LabelledPair], bias: Bias) -> dict[Combination, int]:
    """Count of each (chosen exhibits, rejected exhibits); unparsed labels are left out."""
    counts = Counter(_combination(row, bias) for row in rows)
    return {(a, b): counts[a, b] for a in (True, False) for b in (True, False)}


def proportional_quota(frequencies: dict[Combination, int], total: int) -> dict[Combination, int]:
    """Whole numbers that sum to `total` in the given proportions (largest remainders; ties by combination).

    >>> proportional_quota({(True, True): 1, (True, False): 1, (False, True): 0, (False, False): 2}, 5)
    {(True, True): 1, (True, False): 1, (False, True): 0, (False, False): 3}
    """
    observed = sum(frequencies.values())
    if not observed:
        return dict.fromkeys(frequencies, 0)
    exact = {key: total * count / observed for key, count in frequencies.items()}
    quota = {key: int(value) for key, value in exact.items()}
    by_remainder = sorted(exact, key=lambda key: (quota[key] - exact[key], key))
    for key in by_remainder[: total - sum(quota.values())]:
        quota[key] += 1
    return quota


def draw_supplementary(
    source: Sequence[LabelledPair],
    bias: Bias,
    frequencies: dict[Combination, int],
    requested: int,
    taken: set[tuple[str, ...]],
    rng: np.random.Generator,
) -> list[TrainingPair]:
    """Draw unchanged pairs so that label combinations occur as often as in `frequencies`; fewer if one runs short.
    `taken`: `text_key` of prompt, chosen and rejected of pairs used as counterfactuals; they are not drawn again.
    """
    drawn: list[TrainingPair] = []
    for combination, quota in proportional_quota(frequencies, requested).items():
        pool = [
            row
            for row in source
            if _combination(row, bias) == combination
            and text_key(row.pair.prompt, row.pair.chosen, row.pair.rejected) not in taken
        ]
        for index in rng.permutation(len(pool))[:quota]:
            row = pool[index]
            drawn.append(TrainingPair(TrainingExample(row.pair), row.split, "supplementary", bias.name, row.pair.id))
    return drawn


def counterfactual_examples(
    counterfactuals: Iterable[TrainingPair], rows: Sequence[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Each counterfactual of `rows` under every objective: against the chosen response, and against its original."""
    originals = {row.pair.id: row.pair for row in rows}
    for made in counterfactuals:
        same_response = Pair(made.pair.prompt, originals[made.source_id].rejected, made.pair.rejected)
        for objective in objectives:
            if objective.kind == "pairs":
                yield replace(made, example=objective.example(made.pair, str(made.bias)))
            elif objective.kind != "keep":
                yield replace(made, example=objective.example(same_response, str(made.bias)), kind=objective.kind)


def contrast_examples(
    contrasts: Iterable[Contrast],
    splits: Mapping[str, Split],
    biases: Sequence[str],
    objectives: Sequence[ObjectiveSection],
) -> Iterator[TrainingPair]:
    """Contrasts under the objectives that are about one response and its biased version; `splits` by `prompt_id`. Those
    not of the debiased `biases` are taught only by `keep`: there the base model's preference is to stay.
    """
    for contrast in contrasts:
        pair, split = Pair(contrast.prompt, contrast.base, contrast.perturbed), splits[prompt_id(contrast.prompt)]
        for objective in objectives:
            example = objective.example(pair, contrast.bias)
            if contrast.bias in biases and objective.kind in ("paired", "neutral"):
                yield TrainingPair(example, split, objective.kind, contrast.bias, contrast.id)
            elif contrast.bias not in biases and objective.kind == "keep":
                yield TrainingPair(example, split, "contrast", contrast.bias, contrast.id)


def second_turn_examples(
    rows: Iterable[LabelledPair], objectives: Sequence[ObjectiveSection]
) -> Iterator[TrainingPair]:
    """Conversations, each labelled for one bias, under the first of `pairs` and `paired` that the recipe has: their two answers are
    a response and its own biased version, so that both objectives would teach the same. None under other objectives."""
    preferring = [objective for objective in objectives if objective.kind in ("pairs", "paired")][:1]
    for row in rows:
        for bias, objective in itertools.product(row.labels, preferring):
            yield TrainingPair(objective.example(row.pair, bias), row.split, "second_turn", bias, row.pair.id)


def unchanged_examples(pairs: Iterable[TrainingPair], objectives: Sequence[ObjectiveSection]) -> list[TrainingPair]:
    """Supplementary pairs: taught as labelled, or kept as the base model has them if the recipe asks for `keep`."""
    keep = next((objective for objective in objectives if objective.kind == "keep"), None)
    if keep is None:
        return list(pairs)
    return [replace(row, example=keep.example(row.pair, str(row.bias))) for row in pairs]


def teachable(rows: Sequence[Row], audited_prompts: set[str]) -> tuple[list[Row], Exclusions]:
    """Rows whose prompt (`prompt_id`) the audit does not measure on, and a count of the others, never trained on."""
    prompts = [row.pair.prompt if isinstance(row, LabelledPair) else row.prompt for row in rows]
    kept = [row for row, prompt in zip(rows, prompts, strict=True) if prompt_id(prompt) not in audited_prompts]
    return kept, Exclusions(len(rows), count_reasons([IN_AUDIT] * (len(rows) - len(kept))))


def assign_splits(
    contrasts: Sequence[Contrast], known: Mapping[str, Split], validation_share: float, rng: np.random.Generator
) -> dict[str, Split]:
    """Side of every contrast's prompt: one that has a side, as the preference pairs do, keeps it; of the others a share
    is drawn for validation, rounded to the nearest whole prompt.
    """
    ids = sorted({prompt_id(contrast.prompt) for contrast in contrasts})
    free = [name for name in ids if name not in known]
    held = set(rng.choice(free, size=round(validation_share * len(free)), replace=False).tolist()) if free else set()
    return {name: known.get(name, "validation" if name in held else "train") for name in ids}


MIX = "train.jsonl"


def stage(loaded: LoadedRecipe, run_folder: RunFolder) -> Stage:
    """The settings and inputs that determine the training mix."""
    recipe = loaded.recipe
    settings = {
        "synthesize": recipe.synthesize.model_dump(mode="json"),
        "objectives": [objective.model_dump(mode="json") for objective in recipe.objectives],
        "biases": bias_settings(loaded.biases),
        "seed": recipe.seed,
        "schema_version": SynthesizeCounts.schema_version,
    }
    # Texts that the audit measures are not trained on.
    inputs = {
        "label": run_folder.output_of("label"),
        "audited prompts": fingerprint(sorted(_audited(audit_inputs(loaded)))),
    }
    if recipe.data.contrasts is not None:
        settings |= recipe.data.model_dump(
            mode="json", include={"contrast_columns", "max_contrasts", "validation_share"}
        )
        inputs["contrasts"] = source_fingerprint(recipe.data.contrasts)
    if recipe.rewrites_by_llm:
        settings |= {"llm": llm_settings(recipe.llm), "prompts": prompt_settings(loaded.prompts, "rewrite", "label")}
    return Stage("synthesize", settings, inputs)


def run(loaded: LoadedRecipe, run_folder: RunFolder, folder: Path) -> SynthesizeCounts:
    """Write the training mix and return the counts."""
    recipe, llm, n_biases = loaded.recipe, llm_access(loaded), len(loaded.biases)
    source, audited = run_folder.stage("label"), _audited(audit_inputs(loaded))
    in_audit: dict[str, Dropped] = {}
    rows = _not_audited(source / label.PAIRS, audited, recipe.data.pairs, in_audit)
    supplement = rows
    if (source / label.SUPPLEMENT).is_file():
        supplement = _not_audited(source / label.SUPPLEMENT, audited, str(recipe.data.supplement), in_audit)
    objectives = recipe.objectives
    by = rewriter(recipe.synthesize, loaded.biases, recipe.seed, llm)
    biases: dict[str, Rewritten] = {}
    mix: list[TrainingPair] = []
    for number, bias in enumerate(loaded.biases):
        rng = generator(recipe.seed, Stream.REWRITTEN, number)
        requested = number_for(bias, recipe.synthesize.counterfactuals, n_biases)
        made = Counterfactuals((), 0, Exclusions(0, {}))
        if requested != 0:
            if recipe.rewrites_by_llm:
                pool = [row.pair for row in eligible_pairs(rows, bias)]
                llm.confirm(planned_rewrites(pool, bias, requested, recipe.synthesize, llm.prompts.rewrite))
            made = _counterfactuals(rows, bias, requested, recipe, by, rng)
        n_supplementary = number_for(bias, recipe.synthesize.supplementary, n_biases) or 0
        extra = _supplementary(rows, supplement, bias, made, n_supplementary, rng)
        mix += [*counterfactual_examples(made.pairs, rows, objectives), *unchanged_examples(extra, objectives)]
        biases[bias.name] = Rewritten(
            by=by.name,
            requested=requested,
            eligible=made.eligible,
            tried=made.exclusions.seen,
            made=len(made.pairs),
            rejected=dict(made.exclusions.reasons),
            supplementary=len(extra),
            prompt=prompt_name(recipe.rewrite.prompt, llm.prompts.rewrite) if recipe.rewrites_by_llm else None,
            gate=by.report(bias) if isinstance(by, Gated) else None,
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


def _audited(inputs: AuditInputs) -> set[str]:
    """`prompt_id` of everything that the audit measures on."""
    return {prompt_id(prompt) for prompt in inputs.existing_prompts()}


def _not_audited(path: Path, audited: set[str], name: str, counts: dict[str, Dropped]) -> list[LabelledPair]:
    """Labelled pairs whose prompt is not in the audit; the others are counted and reported. DataError if none is left."""
    rows = list(read_labelled(path))
    kept, in_audit = teachable(rows, audited)
    counts[path.stem] = _dropped(in_audit)
    if in_audit.dropped:
        say(f"  {name}: {in_audit}: nothing is audited on what was taught")
    if not kept:
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
            "bias need paired or neutral, others keep. Or teach none (data.contrasts=null)"
        )
    taught_ids = {example.source_id for example in examples}
    counts = TaughtContrasts(
        file=_dropped(cleaned.exclusions),
        left_out={
            IN_AUDIT: in_audit.dropped,
            "not drawn (data.max_contrasts)": len(kept) - len(used),
            "no objective teaches its bias": sum(contrast.id not in taught_ids for contrast in used),
        },
        taught={name: sum(example.bias == name for example in examples) for name in by_bias},
    )
    say(f"    {len(examples)} lessons on contrasts")
    return examples, counts


def _dropped(exclusions: Exclusions) -> Dropped:
    return Dropped(seen=exclusions.seen, dropped=dict(exclusions.reasons))


def planned_rewrites(
    pairs: Sequence[Pair], bias: Bias, requested: int | None, synthesize: SynthesizeSection, prompt: RewritePrompt
) -> Planned:
    """Distinct rewrites for every requested counterfactual (None: every pair), each labelled again if the gate asks."""
    n = len(pairs) if requested is None else min(requested, len(pairs))
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


def number_for(bias: Bias, count: int | dict[str, int] | None, n_biases: int) -> int | None:
    """The number meant for a bias by one number, a number by name (`joint` for the others of several), or null."""
    if isinstance(count, dict):
        return count[bias.name] if n_biases == 1 or bias.name in count else count["joint"]
    return count


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
        specific_chosen=recipe.synthesize.specific_chosen and "specific" in bias.aspects,
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
