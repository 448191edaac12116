"""Resolve and check everything before anything is spent, then say what will be done."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cda.auditing.paper import release_lines
from cda.auditing.sources import (
    check_opinions,
    given_labels,
    load_quality,
    own_contrasts,
    own_triples,
    released,
    taught_contrasts,
)
from cda.counterfactuals.label import planned_labels
from cda.counterfactuals.synthesize import number_for, planned_rewrites
from cda.data.load import looks_like_path
from cda.dosing import stage as dose
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.rules import rules_of
from cda.embedded.texts import BIASES as EMBEDDED_BIASES
from cda.errors import CdaError, RunError
from cda.finetuning.applied import NAME
from cda.finetuning.train import trainings
from cda.prompts import OURS
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import ModelSection, Recipe
from cda.recipe.scoring import judges_of
from cda.recipe.train import check_launch, sharded_by
from cda.resources.llm_access import llm_client
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import model_spec, supplementary_pairs, training_pairs
from cda.resources.spending import sentence
from cda.rewriting.labels import measure_of
from cda.run import RunFolder
from cda.training.arguments import PAPER_DEFAULTS
from cda.training.lora import adapter_bytes, check_targets
from cda.training.preflight import check_arguments

_MIN_FREE_BYTES = 500 * 2**20
_ASKED = {"served": "a server", "function": "code of your own"}
_ORDERS = {"both": "an LLM, in both orders", "one": "an LLM, in one order"}


def run_folder(loaded: LoadedRecipe) -> RunFolder:
    """The folder of a recipe's run."""
    return RunFolder(loaded.recipe.run_path)


def check(loaded: LoadedRecipe) -> None:
    """Look at every input that is on this machine: files, columns, model, adapters, keys, disk.

    Raises:
        RunError: Lists every problem found.
    """
    recipe = loaded.recipe
    problems: list[str] = []

    def attempt(action: Callable[[], Any]) -> None:
        try:
            action()
        except CdaError as error:
            problems.extend(str(error).splitlines())

    if not loaded.only_audit:
        _check_training(loaded, attempt)
    elif recipe.audit.contrasts == EMBEDDED:
        attempt(partial(_check_rewriting, loaded))
    if _is_local(recipe.audit.contrasts):
        attempt(lambda: own_contrasts(loaded))
        attempt(lambda: check_opinions(loaded))
    attempt(lambda: own_triples(loaded))
    if recipe.audit.quality is not None and _is_local(recipe.audit.quality):
        attempt(lambda: load_quality(loaded))
    if recipe.audit.release is not None:
        attempt(lambda: released(loaded))
    if recipe.audit.labels is not None:
        if loaded.only_audit:
            attempt(lambda: given_labels(loaded))
        else:
            problems.append(
                f"{loaded.path}: audit.labels: a training takes the labels of its own pairs; leave it out, or audit a model "
                "by itself (`cda audit MODEL audit.labels=...`)"
            )
    attempt(lambda: problems.extend(open_scorer(Subject("model", recipe.model), scorer_settings(loaded)).problems()))
    if recipe.dose.on == "yes" and not loaded.only_audit and not problems:
        attempt(lambda: dose.check(loaded))
    training_asks = recipe.labels_by_llm or recipe.rewrites_by_llm
    if training_asks and not recipe.model.is_judge:
        problems += llm_client(recipe.llm).check()
    problems += _disk_problems(run_folder(loaded).path, _MIN_FREE_BYTES + (_adapters_bytes(loaded) or 0))
    if problems:
        raise RunError("\n".join(dict.fromkeys(problems)))  # two checks may find the same


def _check_rewriting(loaded: LoadedRecipe) -> None:
    """Rules of every bias that an audit has no contrasts of, if no LLM rewrites embedded answers for it.

    Raises:
        RecipeError: A bias has none.
    """
    if loaded.recipe.rewrites_by_llm or loaded.recipe.audit.release is not None:
        return
    for bias in loaded.biases:
        if bias.name not in EMBEDDED_BIASES:
            rules_of(bias)


def _check_training(loaded: LoadedRecipe, attempt: Callable[[Callable[[], Any]], None]) -> None:
    """What only a training needs: labels and rewrites by rules, pairs, trainer settings."""
    recipe = loaded.recipe
    # Not an attempt: under a wrong launch the trainer's settings below would wait for processes that never come.
    check_launch(recipe.model.precision, recipe.train)
    attempt(partial(_check_sharded_seeds, loaded))
    attempt(partial(_check_prompts, recipe))
    for bias in loaded.biases:
        if not recipe.labels_by_llm or bias.label_by == "measure":
            attempt(partial(measure_of, bias))
        if not recipe.rewrites_by_llm:
            attempt(partial(rules_of, bias))
    if Path(recipe.model.name_or_path).is_dir():
        attempt(lambda: check_targets(model_spec(recipe.model), recipe.lora.target_modules))
    data = recipe.data
    if _is_local(data.pairs):
        attempt(lambda: training_pairs(loaded.recipe.data, loaded.opened))
    if data.contrasts is not None and _is_local(data.contrasts):
        attempt(lambda: taught_contrasts(loaded))
    if data.supplement is not None and _is_local(data.supplement):
        attempt(lambda: supplementary_pairs(loaded.recipe.data, loaded.opened))
    attempt(lambda: check_arguments(recipe.trainer, data.validation_share > 0, model_spec(recipe.model).precision))


def _check_sharded_seeds(loaded: LoadedRecipe) -> None:
    """A launch that shards the base lays it out once: a second training in it has never been tried.

    Raises:
        RunError: More than one training is still to be made.
    """
    recipe, folder = loaded.recipe, run_folder(loaded)
    to_make = [
        one.seed
        for one in trainings(recipe.seeds)
        if folder.record(one.stage("train")).settings.get("seed") != one.seed
    ]
    if (sharding := sharded_by(recipe.train)) and len(to_make) > 1:
        done = [seed for seed in recipe.seeds if seed not in to_make]
        raise RunError(
            f"train.seeds: {sharding} takes one training a launch, and {len(to_make)} are still to be made. Start with "
            f"train.seeds={[*done, to_make[0]]}, then {[*done, *to_make[:2]]}, and so on: finished ones are reused"
        )


def _check_prompts(recipe: Recipe) -> None:
    """A prompt that nobody would read.

    Raises:
        RunError: Names it.
    """
    named = {"label": (recipe.label.prompt, recipe.label.by), "rewrite": (recipe.rewrite.prompt, recipe.synthesize.by)}
    unread = [
        f"{section}.prompt={prompt}: rules {section} here, and no LLM reads it; set llm.model=..., or leave it out"
        for section, (prompt, by) in named.items()
        if prompt != OURS and not recipe.llm.used_for(by)
    ]
    if unread:
        raise RunError("\n".join(unread))


def describe(loaded: LoadedRecipe) -> str:
    """The resolved recipe as YAML."""
    return yaml.safe_dump(
        loaded.recipe.model_dump(mode="json", exclude_none=True), sort_keys=False, allow_unicode=True
    ).rstrip()


def plan(loaded: LoadedRecipe) -> str:
    """What each stage will do, one line each."""
    recipe = loaded.recipe
    audit = (
        f"audit       contrasts: {_in_order(recipe.audit.contrasts, recipe)}; quality: {recipe.audit.quality or 'none'}"
        + _rate(loaded)
    )
    report = f"report      {run_folder(loaded).path / 'report' / 'report.html'}"
    if loaded.only_audit:
        spec = recipe.model
        judges = judges_of(spec.name_or_path) if spec.is_judge else ()
        asked = _ORDERS[loaded.prompts.judge.orders] if judges else _ASKED.get(spec.kind)
        asked = asked or f"in {_precision(spec)}"
        if len(judges) > 1:
            asked = f"a panel of {len(judges)} judges, each {asked}"
        names = ", ".join(bias.name for bias in loaded.biases)
        of_model = f"model       {spec.name_or_path}, {asked}"
        return "\n".join(
            [
                of_model,
                f"{audit}; biases: {names}",
                *release_lines(loaded),
                report,
                *(f"note        {note}" for note in loaded.notes),
            ]
        )
    names = ", ".join(bias.name for bias in loaded.biases)
    by_llm = recipe.labels_by_llm, recipe.rewrites_by_llm
    counts = "; ".join(
        f"{bias.name} {_amount(number_for(bias, recipe.synthesize.counterfactuals, len(loaded.biases)))}"
        f" + {number_for(bias, recipe.synthesize.supplementary, len(loaded.biases)) or 0} unchanged"
        for bias in loaded.biases
    )
    train = recipe.train
    dosed = []
    ties = recipe.aims_at_ties
    if recipe.dose.on == "yes" or (recipe.dose.on == "auto" and (ties or dose.may_have_votes(loaded))):
        when = (
            f", for a tie{'' if recipe.dose.aim == 'tie' else ' where too few people voted'}"
            if ties
            else ", where people voted on enough contrasts"
        )
        when = "" if recipe.dose.on == "yes" and not ties else when
        dosed = [f"dose        {len(recipe.dose.doses)} doses from 0 to {recipe.dose.doses[-1]:g}{when}"]
    lines = [
        f"label       {recipe.data.pairs}: {names}, by {_who(recipe, by_llm[0], recipe.label.prompt)}",
        f"synthesize  {counts}, by {_who(recipe, by_llm[1], recipe.rewrite.prompt)}",
        f"train       {_objectives(recipe)}",
        f"            {recipe.model.name_or_path}, {recipe.model.precision} base, LoRA r {recipe.lora.r} on "
        f"{'/'.join(recipe.lora.target_modules)} + head, {_how_long(train)}, "
        f"batch {train.get('per_device_train_batch_size', 16)}, learning rate {train.get('learning_rate', 2e-5)}",
        *_several(loaded, bool(dosed)),
        *dosed,
        f"adapter     {run_folder(loaded).path / NAME}: the result, at {'the dose that is chosen' if dosed else 'dose 1'}"
        + (f", of the training with seed {recipe.seeds[0]}" if len(recipe.seeds) > 1 else ""),
        audit,
        *release_lines(loaded),
        report,
    ]
    return "\n".join([*lines, *_spending(loaded), *(f"note        {note}" for note in loaded.notes)])


def _several(loaded: LoadedRecipe, dosed: bool) -> list[str]:
    """How many trainings there are, how much longer they take, and the room that their adapters need."""
    seeds = loaded.recipe.seeds
    if len(seeds) == 1:
        return []
    again = "to train, to choose a dose and to score after" if dosed else "to train and to score after"
    size = _adapters_bytes(loaded)
    room = "the adapters of all" if size is None else f"the weights of all adapters, {max(1, round(size / 2**20))} MB,"
    return [
        f"            {len(seeds)} trainings one after another, seeds {', '.join(map(str, seeds))}: {len(seeds)} times the time "
        f"{again}; labels, rewrites and scores before are shared",
        f"            on the disk stay {room} and checkpoints of one training at a time",
    ]


def _adapters_bytes(loaded: LoadedRecipe) -> int | None:
    """Room that the adapters of several trainings need, as trained and at their dose; None where that is not known, as of a
    model that is not on this machine, and not asked, as of one training."""
    recipe = loaded.recipe
    if len(recipe.seeds) == 1 or not recipe.model.is_trainable:
        return None
    try:
        spec = model_spec(recipe.model)
        size = (
            adapter_bytes(spec, recipe.lora.r, recipe.lora.target_modules) if Path(spec.name_or_path).is_dir() else None
        )
    except CdaError:  # the check of the model says what is wrong
        return None
    copies = 1 + (1 + len(loaded.biases) if recipe.lora.per_bias and len(loaded.biases) > 1 else 1)
    return None if size is None else len(recipe.seeds) * copies * size


def _spending(loaded: LoadedRecipe) -> list[str]:
    """What the LLM will be asked at most, as far as the number of pairs is known here."""
    recipe = loaded.recipe
    llm = recipe.llm
    labels, rewrites = recipe.labels_by_llm, recipe.rewrites_by_llm
    if not (labels or rewrites):
        return []
    budget = "no budget is set (llm.budget_usd)" if llm.budget_usd is None else f"stops at ${llm.budget_usd:g}"
    lines = [
        f"llm         {llm.model} at {llm.base_url or 'OpenAI'}, mode {llm.mode}; {budget}; answers in {loaded.recipe.llm_cache}"
    ]
    if not _is_local(recipe.data.pairs):
        return [*lines, "            what it costs is said, and asked, once the pairs are loaded"]
    pairs = training_pairs(loaded.recipe.data, loaded.opened).pairs[: recipe.data.max_pairs]
    planned = [
        planned_labels(pairs, bias, loaded.prompts.label) for bias in loaded.biases if labels and bias.label_by == "ask"
    ]
    planned += [
        planned_rewrites(
            pairs,
            bias,
            number_for(bias, recipe.synthesize.counterfactuals, len(loaded.biases)),
            recipe.synthesize,
            loaded.prompts.rewrite,
        )
        for bias in loaded.biases
        if rewrites
    ]
    return [*lines, *(f"            {sentence(one, llm)}" for one in planned)]


def _in_order(given: str, recipe: Recipe) -> str:
    """Where texts of a bias are looked for: the user's file, the paper's release, the embedded ones."""
    if recipe.audit.release is None:
        return given
    return ", else ".join([*([given] if given != EMBEDDED else []), "the paper's release", EMBEDDED])


def _rate(loaded: LoadedRecipe) -> str:
    """Where the RATE triples of the recipe's biases come from."""
    recipe = loaded.recipe
    rate, triples = recipe.audit.rate, recipe.audit.triples
    parts = []
    if triples is not None and (triples != EMBEDDED or not rate):
        covered = triples != EMBEDDED or any(bias.name in EMBEDDED_BIASES for bias in loaded.biases)
        parts += [f"RATE triples: {_in_order(triples, recipe)}"] if covered else []
    if rate:
        parts.append(f"RATE on {rate} answers with and without each bias{' that the file is not of' if parts else ''}")
    by_rules = not recipe.rewrites_by_llm
    own = [bias.name for bias in loaded.biases if bias.name not in EMBEDDED_BIASES and bias.offline is not None]
    if rate is None and triples == EMBEDDED and by_rules and own:
        parts.append(f"RATE by rules on embedded answers: {', '.join(own)}")
    return "; " + ("; ".join(parts) or "no RATE")


def _objectives(recipe: Recipe) -> str:
    """What is taught, and on which file of contrasts."""
    kinds = ", ".join(one.kind for one in recipe.objectives)
    each = "; an adapter for each bias, and their sum" if recipe.lora.per_bias and len(recipe.biases) > 1 else ""
    return f"objectives: {kinds}{each}" + (f"; contrasts: {recipe.data.contrasts}" if recipe.data.contrasts else "")


def _who(recipe: Recipe, by_llm: bool, prompt: str) -> str:
    """Who labels or rewrites, and by which prompt where it is not ours."""
    if not by_llm:
        return "embedded rules (no LLM is set)"
    return f"{recipe.llm.model}{'' if prompt == OURS else f' (prompt {prompt})'}"


def _precision(section: ModelSection) -> str:
    return "bf16 on a GPU, fp32 without one" if section.precision == "auto" else section.precision


def _how_long(train: Mapping[str, object]) -> str:
    """Steps where they are limited, which goes before the number of epochs."""
    steps = train.get("max_steps", -1)
    if isinstance(steps, int) and steps > 0:
        return f"{steps} {'step' if steps == 1 else 'steps'}"
    epochs = train.get("num_train_epochs", PAPER_DEFAULTS["num_train_epochs"])
    return f"{epochs} {'epoch' if epochs == 1 else 'epochs'}"


def _amount(count: int | None) -> str:
    return "every eligible pair" if count is None else f"{count} counterfactuals"


def _is_local(reference: str) -> bool:
    return reference == EMBEDDED or looks_like_path(reference)


def _disk_problems(folder: Path, needed: int) -> list[str]:
    existing = next(parent for parent in [folder, *folder.absolute().parents] if parent.exists())
    if not os.access(existing, os.W_OK):
        return [f"{existing}: cannot be written; choose another place with run.folder=..."]
    free = shutil.disk_usage(existing).free
    if free < needed:
        return [
            f"{existing}: only {free // 2**20} MB free; a run needs at least {needed // 2**20} MB. Free some, or set run.folder=..."
        ]
    return []
