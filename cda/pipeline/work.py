"""The work of a run as far as it can be counted beforehand, for the time left that the progress bars show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cda.auditing.groups import contrast_comparisons, pair_comparisons
from cda.auditing.rate import triple_comparisons
from cda.counterfactuals.label import asks_for
from cda.counterfactuals.pairs import number_for
from cda.counterfactuals.synthesize import is_made_specific
from cda.embedded.texts import WITH_CONTRASTS, authored_triples
from cda.finetuning.train import Training
from cda.launch import world_size
from cda.pipeline.plan import dose_lines, is_local
from cda.progress import RunProgress, StageWork
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.recipe.sections import judges_of
from cda.records import Contrast, Triple
from cda.resources.named_scorer import texts_of
from cda.resources.sources import AuditInputs, audit_inputs, training_pairs
from cda.scorers.compared import distinct_texts
from cda.stats.draws import drawn
from cda.training.arguments import PAPER_DEFAULTS

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
    if recipe.model.kind == "function":
        return StageWork(name)  # scored at once, without a bar
    n_texts, is_open = _audited_texts(loaded, audit_inputs(loaded).names if loaded.only_audit else None)
    if recipe.model.is_judge:
        n_orders = 2 if loaded.prompts.judge.orders == "both" else 1
        calls = n_texts / 2 * n_orders * len(judges_of(recipe.model.name_or_path))
        return StageWork(name, calls=calls, is_open=is_open)
    if recipe.model.kind in ("served", "grade"):
        return StageWork(name, calls=n_texts, is_open=is_open)
    n_scorings = 1 if loaded.only_audit else 1 + len(recipe.seeds)
    shared_by = world_size() if recipe.model.is_trainable else 1
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
    """Triples that exist already: the file's, else the embedded ones, and the release's."""
    if inputs.audit.triples is None:
        return []
    embedded = authored_triples([name for name in inputs.names if name in WITH_CONTRASTS])
    released = (triple for texts in inputs.released().values() for triple in texts.triples.triples)
    return [*(inputs.triples().triples or (authored.triple for authored in embedded)), *released]


def _n_pairs(loaded: LoadedRecipe) -> int:
    """Training pairs, 0 if they are not on this machine."""
    data = loaded.recipe.data
    if not is_local(data.pairs):
        return 0
    return len(training_pairs(data, loaded.opened).pairs[: data.max_pairs])


def _n_each(loaded: LoadedRecipe) -> list[int]:
    """Counterfactuals of each bias, at most."""
    recipe, n_pairs = loaded.recipe, _n_pairs(loaded)
    counts = (number_for(bias, recipe.synthesize.counterfactuals, len(recipe.biases)) for bias in loaded.biases)
    return [n_pairs if count is None else min(count, n_pairs) for count in counts]


def _n_rewrites(loaded: LoadedRecipe) -> int:
    """Calls for rewrites, and for the labels of the fidelity gate."""
    recipe = loaded.recipe
    if not recipe.rewrites_by_llm:
        return 0
    asked = [
        (2 if recipe.synthesize.gate.on and bias.label_by == "ask" else 1)
        * (2 if is_made_specific(bias, recipe.synthesize) else 1)
        for bias in loaded.biases
    ]
    return sum(n * calls for n, calls in zip(_n_each(loaded), asked, strict=True))


def _n_mix(loaded: LoadedRecipe) -> int:
    recipe = loaded.recipe
    unchanged = (number_for(bias, recipe.synthesize.supplementary, len(recipe.biases)) for bias in loaded.biases)
    return sum(_n_each(loaded)) + sum(count or 0 for count in unchanged)


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
