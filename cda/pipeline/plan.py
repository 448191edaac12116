"""Check everything before anything is spent; the plan as lines, and as work for a progress bar."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cda.auditing.groups import contrast_comparisons, pair_comparisons
from cda.auditing.rate import triple_comparisons
from cda.biases import Bias
from cda.counterfactuals.label import asks_for, planned_labels, planned_supplement
from cda.counterfactuals.synthesize import anchored, planned_rewrites, rewrites_wanted
from cda.data.load import looks_like_path
from cda.data.pairs import CleanPairs
from cda.dosing import stage as dose
from cda.embedded.model import ADAPTERS, EMBEDDED
from cda.embedded.rules import rules_of
from cda.embedded.texts import EMBEDDED_BIASES, WITH_CONTRASTS, authored_triples, second_turn_names
from cda.errors import CdaError, RunError, refuse
from cda.files.paths import nearest_existing, unwritable
from cda.finetuning.applied import NAME
from cda.finetuning.fit import fit_of, is_here, length_words, template_of
from cda.finetuning.train import Training, trainings
from cda.finetuning.train import stage as train_stage
from cda.launch import check_processes, world_size
from cda.models.own_files import is_cached
from cda.progress import RunProgress, StageWork, say_waiting
from cda.prompts import OURS, Prompts
from cda.recipe.checks import check_launch, sharded_by
from cda.recipe.load import LoadedRecipe, Opened
from cda.recipe.schema import Recipe
from cda.records import Contrast, Prompt, Triple
from cda.resources.llm_access import asked_at, cost_sentence, llm_problems
from cda.resources.named_scorer import Subject, precision_words, scorer_settings, texts_of
from cda.resources.scorers import open_scorer
from cda.resources.sources import (
    AuditInputs,
    audit_inputs,
    model_spec,
    pair_weights,
    supplementary_pairs,
    taught_contrasts,
    training_pairs,
    unchanged_source,
)
from cda.rewriting.labels import measure_of
from cda.run import RunFolder
from cda.scorers.compared import distinct_texts
from cda.stats.choice_weights import effective_n
from cda.stats.draws import drawn
from cda.training.arguments import PAPER_DEFAULTS, check_arguments
from cda.training.hub import asked_repository, only_here

_MIN_FREE_BYTES = 500 * 2**20
"""For each training: its adapter, and checkpoints of one."""
Placed = list[tuple[str, Prompt]]
"""Prompts of a file, each with its place."""


def check(loaded: LoadedRecipe) -> None:
    """Look at every input on this machine: files, columns, model, adapters, keys, disk; RunError lists every problem found."""
    recipe, audit, inputs = loaded.recipe, loaded.recipe.audit, audit_inputs(loaded)
    problems: list[str] = []
    say_waiting("Loading libraries and checking the settings")

    def attempt(action: Callable[[], Any]) -> None:
        try:
            action()
        except CdaError as error:
            problems.extend(str(error).splitlines())

    if loaded.only_audit:
        check_processes()
    if not loaded.only_audit:
        # Raised at once: under a wrong launch the trainer's settings below would wait for processes that never come.
        sharded = sharded_by(recipe.train) is not None
        check_launch(model_spec(recipe.model).precision if sharded else recipe.model.precision, recipe.train)
        attempt(partial(_check_sharded_seeds, recipe))
        problems += [
            f"{section}.prompt={prompt}: rules {section} here, and no LLM reads it; set llm.model=..., or leave it out"
            for section, prompt, by_llm in (
                ("label", recipe.label.prompt, recipe.labels_by_llm),
                ("rewrite", recipe.rewrite.prompt, recipe.rewrites_by_llm),
            )
            if prompt != OURS and not by_llm
        ]
        for bias in loaded.biases:
            if not recipe.labels_by_llm or bias.label_by == "measure":
                attempt(partial(measure_of, bias))
            if not recipe.rewrites_by_llm:
                attempt(partial(rules_of, bias))
        attempt(partial(_check_push, recipe))
        if is_here(loaded):
            attempt(lambda: fit_of(loaded))
        validates = recipe.data.validation_share > 0
        precision = model_spec(recipe.model).precision
        attempt(lambda: check_arguments(recipe.trainer, validates, precision, _is_trained(loaded)))
    elif audit.contrasts == EMBEDDED and not recipe.rewrites_by_llm:
        attempt(lambda: [rules_of(bias) for bias in loaded.biases if bias.name not in WITH_CONTRASTS])
    for name, read, _ in _files(loaded):
        if is_local(name):
            attempt(read)
    if not loaded.only_audit and is_local(unchanged_source(recipe.data)[0]) and not problems:
        attempt(partial(pair_weights, recipe.data, loaded.opened))
    if audit.contrasts is not None and is_local(audit.contrasts):
        attempt(inputs.check_opinions)
    attempt(inputs.triples)
    if audit.labels is not None and loaded.only_audit:
        attempt(inputs.labels)
    elif audit.labels is not None:
        problems.append(
            f"{loaded.path}: audit.labels: a training takes the labels of its own pairs; leave it out, or audit a model "
            "by itself (`cda audit MODEL audit.labels=...`)"
        )
    attempt(partial(check_conversations, loaded))
    attempt(lambda: problems.extend(_scorer_problems(loaded)))
    if recipe.dose.on == "yes" and not loaded.only_audit and not problems:
        attempt(lambda: dose.check_counts(loaded))
    if (recipe.labels_by_llm or recipe.rewrites_by_llm) and not recipe.model.kind.asks_llm:
        problems += llm_problems(recipe.llm, [str(recipe.llm.model)])
    problems += _disk_problems(recipe.run_path, len(recipe.seeds) * _MIN_FREE_BYTES)
    if problems:
        raise RunError("\n".join(dict.fromkeys(problems)))  # two checks may find the same


def _is_trained(loaded: LoadedRecipe) -> bool:
    """True if every training of the run has finished with these settings."""
    folder = RunFolder(loaded.recipe.run_path)
    several = trainings(loaded.recipe.seeds)
    begun = is_here(loaded) and folder.record("synthesize") and folder.record("train")
    return bool(begun) and all(folder.is_done(train_stage(loaded, folder, training)) for training in several)


def _scorer_problems(loaded: LoadedRecipe) -> list[str]:
    """What can be found of the model before anything is scored."""
    scorer = open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded))
    problems = scorer.problems()
    if audit_inputs(loaded).sampled_from is not None and not problems and scorer.compares:
        problems = [
            f"audit.samples: samples need rewards, and {scorer.name} compares two answers and gives none of a single one; leave "
            "--samples (audit.samples) out"
        ]
    return problems


def _check_push(recipe: Recipe) -> None:
    """RunError if the hub would be given an adapter whose base is here alone."""
    if asked_repository(recipe.trainer) is None or not Path(model_spec(recipe.model).name_or_path).is_dir():
        return
    base = only_here(recipe.model.name_or_path, recipe.model.name_or_path == EMBEDDED)
    raise RunError(
        f"train.push_to_hub: {base}. Leave it out, and push the merged model with `cda merge --push`, or set model.name_or_path "
        "to the base's hub id"
    )


def _check_sharded_seeds(recipe: Recipe) -> None:
    """RunError if more than one training is to be made in a launch that shards the base, which was never tried."""
    folder = RunFolder(recipe.run_path)
    to_make = [
        training.seed
        for training in trainings(recipe.seeds)
        if folder.record(training.stage("train")).settings.get("seed") != training.seed
    ]
    if (sharding := sharded_by(recipe.train)) and len(to_make) > 1:
        done = [seed for seed in recipe.seeds if seed not in to_make]
        raise RunError(
            f"train.seeds: {sharding} takes one training a launch, and {len(to_make)} are still to be made. Start with "
            f"train.seeds={[*done, to_make[0]]}, then {[*done, *to_make[:2]]}, and so on: finished ones are reused"
        )


def check_conversations(loaded: LoadedRecipe, download: bool = False) -> None:
    """Refuse the user's data with a DataError: for each file the number of such conversations and the first one's place.

    A model and data on a hub are left out unless `download`, and all the rest then, which was looked at before. Nothing is said of a
    model that cannot be loaded: its own check says it.
    """
    section = loaded.recipe.model
    here = looks_like_path(section.name_or_path) or is_cached(section.name_or_path, section.revision)
    if not section.kind.trainable or section.name_or_path in ADAPTERS or not (here or download):
        return
    try:
        template = template_of(loaded)
    except CdaError:
        return
    lines = []
    for name, read, prompts in _files(loaded):
        if name == EMBEDDED or not (download or looks_like_path(name)) or (download and here and looks_like_path(name)):
            continue
        placed = prompts(read())
        by_turns: dict[tuple[tuple[str, bool], ...], Placed] = {}
        for place, prompt in placed:
            # Templates look at roles, and at whether there is a text: conversations that are alike in both are tried once.
            turns = tuple((turn.role, bool(turn.content.strip())) for turn in prompt)
            by_turns.setdefault(turns, []).append((place, prompt))
        found = [(own, why) for own in by_turns.values() if (why := template.refusal(own[0][1])) is not None]
        if found:
            lines.append(
                f"{name}: {sum(len(own) for own, _ in found)} of {len(placed)} conversations cannot be scored (the first is "
                f"{found[0][0][0][0]}): {found[0][1]}, or leave these rows out"
            )
    refuse(lines)


def _files(loaded: LoadedRecipe) -> list[tuple[str, Callable[[], Any], Callable[[Any], Placed]]]:
    """Data that the recipe names: their name, how they are read, and the prompts in what was read; places of pairs are rows."""
    data, audit, inputs = loaded.recipe.data, loaded.recipe.audit, audit_inputs(loaded)

    def rows(found: CleanPairs) -> Placed:
        return [(f"row {row}", pair.prompt) for row, pair in zip(found.numbers, found.pairs, strict=True)]

    def numbered(of: str) -> Callable[[Any], Placed]:
        return lambda found: [(f"{of} {at}", one.prompt) for at, one in enumerate(getattr(found, f"{of}s"), 1)]

    taught = [
        (data.pairs, partial(training_pairs, data, loaded.opened), rows),
        (data.supplement, partial(supplementary_pairs, data, loaded.opened), rows),
        (data.contrasts, partial(taught_contrasts, data, loaded.biases, loaded.opened), numbered("contrast")),
    ]
    audited = [
        (audit.contrasts, inputs.contrasts, numbered("contrast")),
        (audit.triples, inputs.triples, numbered("triple")),
        (audit.quality, inputs.quality, lambda found: [(f"row {item.row}", item.prompt) for item in found.items]),
        (inputs.sampled_from, inputs.samples, numbered("prompt")),
    ]
    named = [*(() if loaded.only_audit else taught), *audited]
    return [(name, read, prompts) for name, read, prompts in named if name is not None]


def is_local(reference: str) -> bool:
    """True if data are embedded or lie on this machine."""
    return reference == EMBEDDED or looks_like_path(reference)


def _disk_problems(folder: Path, needed: int) -> list[str]:
    if problem := unwritable(folder):
        return [f"{problem}; choose another place with --out (run.folder=...)"]
    existing = nearest_existing(folder)
    free = shutil.disk_usage(existing).free
    if free >= needed:
        return []
    room = f"only {free // 2**20} MB free; a run needs at least {needed // 2**20} MB"
    return [f"{existing}: {room}. Free some, or choose another place with --out (run.folder=...)"]


STAGES = ("label", "synthesize", "train", "dose", "adapter", "audit", "report")
"""Stages in order: the dose is chosen before the audit, so that the audit measures the run's result."""

_OF_THE_MODEL = ("model", "lora", "objectives", "train", "dose", "score", "audit")
UNUSED: Mapping[str, tuple[str, ...]] = {"label": ("synthesize", *_OF_THE_MODEL), "synthesize": _OF_THE_MODEL}
"""Sections of settings without effect on a run that ends with a stage."""


def plan(loaded: LoadedRecipe, last: str = "report", only: bool = False) -> str:
    """The plan of a run up to the stage `last`, or (`only`) of this stage alone, as lines."""
    recipe, contrasts = loaded.recipe, loaded.recipe.audit.contrasts
    rate = _rate(recipe, loaded.biases)
    inputs, local = audit_inputs(loaded), contrasts is not None and is_local(contrasts)
    beside, untaught = (inputs.second_turns(), inputs.untaught()) if local else ([], [])
    contrasts = contrasts or "none, but both rewrites of triples"
    contrasts += f" (also of {', '.join(untaught)}, not taught)" if untaught and not loaded.only_audit else ""
    contrasts += f", and {', '.join(beside)}" if beside else ""
    audit = f"audit       contrasts: {contrasts}; quality: {recipe.audit.quality or 'none'}; {rate}"
    audit += f"; samples: {inputs.sampled_from}" if inputs.sampled_from else ""
    stages: dict[str, list[str]] = {}
    if loaded.only_audit:
        scorer = open_scorer(Subject("model", recipe.model), scorer_settings(loaded))
        stages["model"] = [f"model       {scorer.name}, {scorer.how}", *_endpoints(recipe), *scorer.read_lines()]
        audit += f"; biases: {_names(loaded.biases)}"
    else:
        stages |= _training(loaded)
        stages["synthesize"] += _weights(loaded)
    stages["audit"] = [audit]
    stages["report"] = [f"report      {recipe.run_path / 'report' / 'report.html'}"]
    shown = stages_of(loaded, last, only)
    lines = [line for stage, own in stages.items() if stage in ("model", *shown) for line in own]
    if not loaded.only_audit:
        lines += _spending(recipe, loaded.biases, loaded.prompts, loaded.opened, shown)
    return "\n".join(filter(None, [*lines, notes(loaded)]))


def notes(loaded: LoadedRecipe) -> str:
    """Presets that were made for another model or other data, a line each."""
    return "\n".join(f"note        {note}" for note in loaded.notes)


def pays(loaded: LoadedRecipe, last: str = "report", only: bool = False) -> bool:
    """True if an LLM may be asked, so that the plan is shown before."""
    recipe, shown = loaded.recipe, stages_of(loaded, last, only)
    labels, rewrites = recipe.labels_by_llm and "label" in shown, recipe.rewrites_by_llm and "synthesize" in shown
    audits = recipe.llm.model is not None and "audit" in shown
    return audits or labels or rewrites


def stages_of(loaded: LoadedRecipe, last: str, only: bool = False) -> tuple[str, ...]:
    """Stages up to the last one, or it alone; a command that only chooses a dose also writes the adapter at that dose."""
    end = STAGES.index("adapter" if last == "dose" else last) + 1
    return STAGES[-2:] if loaded.only_audit else STAGES[STAGES.index(last) if only else 0 : end]


def _names(biases: Sequence[Bias]) -> str:
    return ", ".join(bias.name for bias in biases)


def _endpoints(recipe: Recipe) -> list[str]:
    """A line for every LLM that judges or grades at a further endpoint."""
    where = [(name, asked_at(recipe.llm.named(name))) for name in recipe.model.llms]
    return [f"            {name}, asked at {place}" for name, place in where if place]


def _training(loaded: LoadedRecipe) -> dict[str, list[str]]:
    """The lines of each stage before the audit."""
    recipe, biases = loaded.recipe, loaded.biases
    lora, train, dosed = recipe.lora, recipe.train, dose_lines(recipe)
    asked, longest = recipe.model.max_length_tokens, f"texts of at most {recipe.model.max_length_tokens:,} tokens"
    layers = ", ".join(lora.target_modules or ["the layers that suit its architecture"])
    notes: list[str] = []
    if is_here(loaded):
        fit = fit_of(loaded)
        layers, longest = str(fit.targets), length_words(fit.template, asked)
        own = recipe.model.name_or_path not in ADAPTERS
        notes = [f"            {note}" for note in fit.template.notes() if own]
    counts = "; ".join(
        f"{bias.name} {'every eligible pair' if count is None else f'{count} counterfactuals'} + "
        f"{'up to ' if unchanged < (recipe.n_pairs('supplementary', bias.name) or 0) else ''}{unchanged} unchanged"
        for bias in biases
        for count, unchanged in [(recipe.n_pairs("counterfactuals", bias.name), _unchanged(loaded, bias))]
    )
    kinds = ", ".join(objective.kind for objective in recipe.objectives)
    others = ", ".join(bias.name for bias in anchored(recipe, biases))
    kept = f"; {recipe.synthesize.anchors} anchors each of {others}" if others else ""
    each = "; an adapter for each bias, and their sum" if lora.per_bias and len(recipe.biases) > 1 else ""
    taught = f"; contrasts: {recipe.data.contrasts}" if recipe.data.contrasts else ""
    if recipe.data.second_turn == "yes":
        taught += f"; conversations: {', '.join(second_turn_names([bias.name for bias in biases]))}"
    labels_by = _who(recipe.llm.model if recipe.labels_by_llm else None, recipe.label.prompt)
    rewrites_by = _who(recipe.llm.model if recipe.rewrites_by_llm else None, recipe.rewrite.prompt)
    seed = f", of the training with seed {recipe.seeds[0]}" if len(recipe.seeds) > 1 else ""
    return {
        "label": [f"label       {recipe.data.pairs}: {_names(biases)}, by {labels_by}"],
        "synthesize": [f"synthesize  {counts}{kept}, by {rewrites_by}"],
        "train": [
            f"train       objectives: {kinds}{each}{taught}",
            f"            {recipe.model.name_or_path}, base in {precision_words(recipe.model)}",
            f"            LoRA r {lora.r} on {layers}, and the head",
            f"            {_how_long(train)}, batch {train.get('per_device_train_batch_size', 16)}, learning rate "
            f"{train.get('learning_rate', 2e-5)}, {longest}",
            *notes,
            *_several(recipe, bool(dosed)),
        ],
        "dose": dosed,
        "adapter": [
            f"adapter     {recipe.run_path / NAME}: the result, at {'the dose that is chosen' if dosed else 'dose 1'}{seed}",
            *_pushed(recipe),
        ],
    }


def _weights(loaded: LoadedRecipe) -> list[str]:
    """The line of `data.weights`, with what the weights are worth as far as the file is here; none without it."""
    data = loaded.recipe.data
    if data.weights is None:
        return []
    file, _ = unchanged_source(data)
    line = f"            unchanged pairs weighted by column '{data.weights}' of {file}"
    if not is_local(file):
        return [line]
    weights = np.array([*pair_weights(data, loaded.opened).values()])
    n_zero = int((weights == 0).sum())
    zero = f", {n_zero} of weight 0 left out" if n_zero else ""
    return [f"{line}: effective n {effective_n(weights):,.0f} of {len(weights):,}{zero}"]


def _pushed(recipe: Recipe) -> list[str]:
    """The line of `train.push_to_hub`; none without it."""
    repository = asked_repository(recipe.trainer)
    if repository is None:
        return []
    kinds = {True: "private if new", False: "public if new", None: "public if new, unless your default is private"}
    return [f"            pushed with its card to {repository.name} on the hub, {kinds[repository.private]}"]


def _who(llm: str | None, prompt: str) -> str:
    """The labeller or rewriter, and its prompt if it is not ours."""
    if llm is None:
        return "embedded rules (no LLM is set)"
    return llm if prompt == OURS else f"{llm} (prompt {prompt})"


def _how_long(train: Mapping[str, object]) -> str:
    """Maximum number of steps, if set; it overrides the number of epochs."""
    steps = train.get("max_steps", -1)
    if isinstance(steps, int) and steps > 0:
        return f"{steps} {'step' if steps == 1 else 'steps'}"
    epochs = train.get("num_train_epochs", PAPER_DEFAULTS["num_train_epochs"])
    return f"{epochs} {'epoch' if epochs == 1 else 'epochs'}"


def _several(recipe: Recipe, dosed: bool) -> list[str]:
    """Number of trainings, their additional time, and what stays on the disk."""
    seeds = recipe.seeds
    if len(seeds) == 1:
        return []
    again = "to train, to choose a dose and to score after" if dosed else "to train and to score after"
    return [
        f"            {len(seeds)} trainings one after another, seeds {', '.join(map(str, seeds))}: {len(seeds)} times the time "
        f"{again}; labels, rewrites and scores before are shared",
        "            on the disk stay the adapters of all and checkpoints of one training at a time",
    ]


def dose_lines(recipe: Recipe) -> list[str]:
    """The line of the stage `dose`; none if no dose is chosen."""
    section, ties = recipe.dose, recipe.aims_at_ties
    if not dose.may_be_wanted(recipe):
        return []
    when = "" if section.on == "yes" else ", where people voted on enough contrasts"
    if ties:
        when = f", for a tie{'' if section.aim == 'tie' else ' where too few people voted'}"
    return [f"dose        {len(section.doses)} doses from 0 to {section.doses[-1]:g}{when}"]


def _spending(
    recipe: Recipe, biases: Sequence[Bias], prompts: Prompts, opened: Opened, shown: Sequence[str]
) -> list[str]:
    """The LLM's calls at most in the stages shown, as far as the number of pairs is known here."""
    llm = recipe.llm
    labels, rewrites = recipe.labels_by_llm and "label" in shown, recipe.rewrites_by_llm and "synthesize" in shown
    if not (labels or rewrites):
        return []
    budget = "no budget is set (llm.budget_usd)" if llm.budget_usd is None else f"stops at ${llm.budget_usd:g}"
    server = llm.asked.base_url or "OpenAI"
    lines = [f"llm         {llm.model} at {server}, mode {llm.mode}; {budget}; answers in {recipe.llm_cache}"]
    if not is_local(recipe.data.pairs):
        return [*lines, "            the cost is shown, and confirmed, once the pairs are loaded"]
    pairs = training_pairs(recipe.data, opened).pairs[: recipe.data.max_pairs]
    planned = [planned_labels(pairs, bias, prompts.label) for bias in biases if labels and bias.label_by == "ask"]
    if labels and recipe.data.supplement is not None and is_local(recipe.data.supplement):
        extra = supplementary_pairs(recipe.data, opened).pairs
        steps = (planned_supplement(extra, bias, recipe, prompts.label) for bias in biases if bias.label_by == "ask")
        planned += [step for step in steps if step.calls]
    if rewrites:
        wanted = rewrites_wanted(recipe, biases)
        planned += [planned_rewrites(pairs, *one, recipe.synthesize, prompts.rewrite) for one in wanted]
    return [*lines, *(f"            {cost_sentence(calls, llm)}" for calls in planned)]


def _rate(recipe: Recipe, biases: Sequence[Bias]) -> str:
    rate, triples = recipe.audit.rate, recipe.audit.triples
    parts = []
    some_embedded = not rate and any(bias.name in EMBEDDED_BIASES for bias in biases)
    if triples is not None and (triples != EMBEDDED or some_embedded):
        parts.append(f"RATE triples: {triples}")
    if rate:
        parts.append(f"RATE on {rate} answers with and without each bias{' that the file is not of' if parts else ''}")
    own = [bias.name for bias in biases if bias.name not in WITH_CONTRASTS and bias.offline is not None]
    if rate is None and triples == EMBEDDED and not recipe.rewrites_by_llm and own:
        parts.append(f"RATE by rules on embedded answers: {', '.join(own)}")
    return "; ".join(parts) or "no RATE"


_FORWARDS_A_TRAINING_PASS = 3.0
"""Time of forward and backward pass in forward passes, as a first guess."""


def planned_progress(loaded: LoadedRecipe, steps: Sequence[tuple[str, Training]]) -> RunProgress:
    """Stages of a run with their texts, calls and trainings; a stage whose data are elsewhere, or which asks an LLM for texts that
    nobody can count yet, is open."""
    batch = _number(loaded.recipe, "per_device_train_batch_size") * _number(
        loaded.recipe, "gradient_accumulation_steps"
    )
    texts_a_step = 2 * batch * _FORWARDS_A_TRAINING_PASS
    without_dose = not dose_lines(loaded.recipe)
    stages = [_work(kind, training, loaded) for kind, training in steps if not (kind == "dose" and without_dose)]
    return RunProgress(stages, 0.0 if loaded.only_audit else _n_steps(loaded.recipe, _n_mix(loaded)), texts_a_step)


def _work(kind: str, training: Training, loaded: LoadedRecipe) -> StageWork:
    name, recipe = training.stage(kind), loaded.recipe
    match kind:
        case "label":
            n_biases = sum(asks_for(bias, recipe) for bias in loaded.biases)
            is_open = not is_local(recipe.data.pairs) or (n_biases > 0 and recipe.data.supplement is not None)
            return StageWork(name, calls=n_biases * _n_pairs(loaded), is_open=is_open)
        case "synthesize":
            return StageWork(name, calls=_n_rewrites(loaded))
        case "train":
            each = len(recipe.biases) if recipe.lora.per_bias else 1
            return StageWork(name, trainings=each)
        case "dose":
            n_texts, is_open = _audited_texts(loaded, audit_inputs(loaded).names)
            return StageWork(name, texts=n_texts * len(recipe.dose.doses), is_open=is_open)
        case "audit":
            return _audit_work(name, loaded)
    return StageWork(name)


def _audit_work(name: str, loaded: LoadedRecipe) -> StageWork:
    recipe = loaded.recipe
    n_texts, is_open = _audited_texts(loaded, audit_inputs(loaded).names if loaded.only_audit else None)
    calls = open_scorer(Subject("model", recipe.model), scorer_settings(loaded)).calls(n_texts)
    if calls is not None:
        return StageWork(name, calls=calls, is_open=is_open and calls > 0)
    n_scorings = 1 if loaded.only_audit else 1 + len(recipe.seeds)
    shared_by = world_size() if recipe.model.kind.trainable else 1
    return StageWork(name, texts=n_texts * n_scorings / shared_by, is_open=is_open)


def _audited_texts(loaded: LoadedRecipe, names: Sequence[str] | None) -> tuple[int, bool]:
    """Distinct texts of the contrasts of these biases (None: of all), of quality pairs and of triples, as far as they exist; True if
    there are more."""
    audit, inputs = loaded.recipe.audit, audit_inputs(loaded)
    sources = (audit.contrasts, audit.triples, audit.quality)
    if not all(source is None or is_local(source) for source in sources):
        return 0, True
    groups = _contrasts(inputs, names)
    kept = [contrast for group in groups.values() for contrast in drawn(group, audit.max_contrasts, loaded.recipe.seed)]
    quality = inputs.quality()
    pairs = drawn(quality.pairs if quality else (), audit.max_quality, loaded.recipe.seed)
    in_triples = [compared for triple in _triples(inputs) for compared in triple_comparisons(triple)]
    texts = distinct_texts(texts_of([*contrast_comparisons(kept), *pair_comparisons(pairs), *in_triples]))
    missing = any(bias.name not in groups for bias in loaded.biases)
    return len(texts), missing or bool(audit.rate)


def _contrasts(inputs: AuditInputs, names: Sequence[str] | None) -> dict[str, list[Contrast]]:
    """Contrasts by bias; the file's stand for the embedded ones of their biases."""
    own, existing = inputs.contrasts().contrasts, inputs.existing_contrasts()
    covered = {contrast.bias for contrast in own}
    wanted = None if names is None else {*names, *inputs.second_turns()}
    groups: dict[str, list[Contrast]] = {}
    for at, contrast in enumerate(existing):
        is_used = at < len(own) or contrast.bias not in covered
        if is_used and (wanted is None or contrast.bias in wanted):
            groups.setdefault(contrast.bias, []).append(contrast)
    return groups


def _triples(inputs: AuditInputs) -> list[Triple]:
    """Triples that exist already: the file's, else the embedded ones."""
    if inputs.audit.triples is None:
        return []
    embedded = authored_triples([name for name in inputs.names if name in WITH_CONTRASTS])
    return list(inputs.triples().triples or (authored.triple for authored in embedded))


def _n_pairs(loaded: LoadedRecipe) -> int:
    """Training pairs, 0 if they are not on this machine."""
    data = loaded.recipe.data
    if not is_local(data.pairs):
        return 0
    return len(training_pairs(data, loaded.opened).pairs[: data.max_pairs])


def _n_each(loaded: LoadedRecipe) -> list[int]:
    """Counterfactuals of each bias, at most."""
    recipe, n_pairs = loaded.recipe, _n_pairs(loaded)
    counts = (recipe.n_pairs("counterfactuals", bias.name) for bias in loaded.biases)
    return [n_pairs if count is None else min(count, n_pairs) for count in counts]


def _n_rewrites(loaded: LoadedRecipe) -> int:
    """Calls for rewrites, and for the labels of the fidelity gate."""
    recipe = loaded.recipe
    if not recipe.rewrites_by_llm:
        return 0
    n_pairs = _n_pairs(loaded)
    return sum(
        (n_pairs if n is None else min(n, n_pairs))
        * each
        * (1 + (recipe.synthesize.gate.on and bias.label_by == "ask"))
        for bias, n, each in rewrites_wanted(recipe, loaded.biases)
    )


def _unchanged(loaded: LoadedRecipe, bias: Bias) -> int:
    """Unchanged pairs of a bias: those that are asked for, and of a file on this machine at most all of its pairs."""
    data, wanted = loaded.recipe.data, loaded.recipe.n_pairs("supplementary", bias.name) or 0
    if not wanted or not is_local(unchanged_source(data)[0]):
        return wanted
    if data.supplement is not None:
        return min(wanted, len(supplementary_pairs(data, loaded.opened).pairs))
    return min(wanted, len(training_pairs(data, loaded.opened).pairs[: data.max_pairs]))


def _n_mix(loaded: LoadedRecipe) -> int:
    """Examples of the training mix, at most."""
    recipe = loaded.recipe
    unchanged = sum(_unchanged(loaded, bias) for bias in loaded.biases)
    teaching = sum(objective.kind != "keep" for objective in recipe.objectives)
    anchors = recipe.synthesize.anchors * len(anchored(recipe, loaded.biases))
    return teaching * sum(_n_each(loaded)) + anchors + unchanged


def _n_steps(recipe: Recipe, n_mix: int) -> int:
    """Steps of one training on so many pairs."""
    if (most := _number(recipe, "max_steps", -1)) > 0:
        return int(most)
    batch = _number(recipe, "per_device_train_batch_size") * _number(recipe, "gradient_accumulation_steps")
    n_train = n_mix * (1 - recipe.data.validation_share) / (len(recipe.biases) if recipe.lora.per_bias else 1)
    return math.ceil(_number(recipe, "num_train_epochs") * math.ceil(n_train / (batch * world_size())))


def _number(recipe: Recipe, name: str, default: float = 1) -> float:
    value = recipe.train.get(name, PAPER_DEFAULTS.get(name, default))
    return float(value) if isinstance(value, int | float) else default
