"""The trainings of a run, one for each seed of `train.seeds`, and the names of their stages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cda.counterfactuals.synthesize import MIX
from cda.data.load import looks_like_path
from cda.embedded.model import ADAPTERS
from cda.errors import DataError, RunError
from cda.files.jsonl import read_json, write_json, write_jsonl
from cda.finetuning.fit import length_words, targets_of
from cda.launch import is_main, say, world_size
from cda.models.load import RewardModel, free_memory, load_reward_model
from cda.recipe.checks import sharded_by
from cda.recipe.load import LoadedRecipe
from cda.recipe.schema import Recipe
from cda.records import Pair, TrainingExample, TrainingPair
from cda.resources.artifacts import read_training
from cda.resources.model_scorers import classifier_scores
from cda.resources.named_scorer import ScorerSettings, scorer_settings
from cda.resources.sources import model_kernels, model_source, model_spec
from cda.results.stages import TrainCounts
from cda.run import RunFolder, Stage
from cda.scorers.compared import Text, text_id
from cda.training.dose import compose_adapters, read_head
from cda.training.hub import HUB_KEYS
from cda.training.lora import train_adapter
from cda.training.targets import chosen_targets
from cda.training.trackers import TRACKER_KEYS, Tracked

ADAPTER = "adapter"
_COUNTS = "counts.json"
BaseScores = Callable[[RewardModel, Sequence[Text]], Mapping[str, float]]
"""Rewards of the base model by `text_id`."""
_SUMMED = ("train", "validation", "truncated", "identical_after_truncation", "steps")


@dataclass(frozen=True, slots=True)
class Training:
    """One of a run's trainings, by the seed of LoRA weights, data order and dropout. The first is the result (`adapter/`),
    since the best on the audit's contrasts would look better than it is. The label is that of its scoring, if it is not the
    result."""

    seed: int
    is_first: bool = True

    @property
    def label(self) -> str:
        return f"seed-{self.seed}"

    def stage(self, name: str) -> str:
        """Name of its stage `train`, `dose` or `adapter`: a separate folder for every training."""
        return name if self.is_first else f"{name}-{self.label}"


def trainings(seeds: Sequence[int]) -> list[Training]:
    return [Training(seed, number == 0) for number, seed in enumerate(seeds)]


def stage(loaded: LoadedRecipe, run_folder: RunFolder, training: Training) -> Stage:
    """The settings and inputs that determine a training's adapter."""
    recipe = loaded.recipe
    settings = {
        "model": recipe.model.model_dump(
            mode="json", exclude={"preset", "dequantize_once", "attn_implementation", "compile"}
        )
        | model_kernels(recipe.model)
        | {"precision": model_spec(recipe.model).precision},
        "lora": recipe.lora.model_dump(mode="json")
        | {"target_modules": recipe.lora.target_modules or [*targets_of(loaded).names]},
        "train": {name: value for name, value in recipe.trainer.items() if name not in (*TRACKER_KEYS, *HUB_KEYS)},
        "seed": training.seed,
        "processes": world_size(),
    }
    if any(objective.kind in ("keep", "shift") for objective in recipe.objectives):
        # Stored scores are the base's own, and 8-bit scores depend on their batches.
        settings["score"] = {"batch_tokens": recipe.score.batch_tokens}
    inputs = {"synthesize": run_folder.output_of("synthesize"), "model": model_source(recipe.model)}
    return Stage(training.stage("train"), settings, inputs)


def run(loaded: LoadedRecipe, run_folder: RunFolder, training: Training, folder: Path) -> TrainCounts:
    rows = list(read_training(run_folder.stage("synthesize") / MIX))
    if not any(row.split == "train" for row in rows):
        raise DataError("no training pair: all of them fell into validation; lower data.validation_share")
    # Processes of a launch hand each other scores in scoring/.
    base_scores = partial(_base_scores, settings=scorer_settings(loaded), launched=run_folder.path / "scoring")
    names = [bias.name for bias in loaded.biases]
    if loaded.recipe.lora.per_bias and len(names) > 1:
        return _one_adapter_each(loaded.recipe, names, rows, training.seed, folder, base_scores)
    return _train(loaded.recipe, rows, training.seed, folder, base_scores)


def _base_scores(
    reward_model: RewardModel, texts: Sequence[Text], settings: ScorerSettings, launched: Path
) -> Mapping[str, float]:
    label = "  base preferences" if is_main() else None
    # Long texts are cut whatever score.over_length says: so they are in training, and every example needs its target.
    return classifier_scores(reward_model, texts, settings, label, over_length="cut", launched=launched).by_text


def _train(
    recipe: Recipe, rows: Sequence[TrainingPair], seed: int, folder: Path, base_scores: BaseScores
) -> TrainCounts:
    sharding = sharded_by(recipe.train)
    if sharding is not None and any(map(asks_base, rows)):
        raise RunError(
            f"objectives: keep and shift ask the whole base model beforehand, which {sharding} lays out over the processes only "
            "in training. Leave them out, or use recipes/accelerate/ddp.yaml"
        )
    reward_model = load_reward_model(model_spec(recipe.model), sharded=sharding is not None)
    template, asked = reward_model.template, recipe.model.max_length_tokens
    if not (
        looks_like_path(recipe.model.name_or_path) or recipe.model.name_or_path in ADAPTERS
    ):  # the plan may not have known
        targets = chosen_targets(reward_model.model, recipe.model.name_or_path, recipe.lora.target_modules)
        say(f"  LoRA on {targets}; {length_words(template, asked)}")
    for note in template.notes():
        say(f"  {note}")
    examples = with_base_preferences(rows, partial(base_scores, reward_model))
    train, validation = (
        [example for example, row in zip(examples, rows, strict=True) if row.split == split]
        for split in ("train", "validation")
    )
    if not validation:
        say("  no validation pairs: nothing chooses a checkpoint, and the last one is kept (data.validation_share)")
    with tracked(recipe, seed, folder).training():
        result = train_adapter(reward_model, train, validation, recipe.lora, recipe.trainer, folder, seed)
    del reward_model
    free_memory()
    if is_main():
        write_jsonl(folder / "history.jsonl", result.history)
        _clear(folder)
    counts = result.counts
    if counts.truncated:
        say(f"  {counts.truncated} of {len(rows)} pairs were cut at {template.max_length_tokens} tokens")
    if counts.identical_after_truncation:
        say(f"  {counts.identical_after_truncation} pairs left out: both sides the same after cutting")
    return counts


def tracked(recipe: Recipe, seed: int, folder: Path) -> Tracked:
    """A training as trackers know it, by its folder; the run's first one has the run's name."""
    name = str(recipe.trainer.get("run_name") or recipe.name)
    name += "" if seed == recipe.seeds[0] else f"-seed-{seed}"
    stages = [each.stage("train") for each in trainings(recipe.seeds)]
    of_bias = "" if folder.name.removeprefix(".").removesuffix(".partial") in stages else f"-{folder.name}"
    return Tracked.of(recipe.trainer, name + of_bias, folder)


def _clear(folder: Path) -> None:
    """Remove checkpoints; a tracker's files next to them, such as TensorBoard's (`train.report_to`), stay as `logs/`."""
    written = folder / "checkpoints" / "runs"
    if written.is_dir():
        shutil.copytree(written, folder / "logs", dirs_exist_ok=True)  # a run killed just here has some already
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _one_adapter_each(
    recipe: Recipe, names: Sequence[str], rows: Sequence[TrainingPair], seed: int, folder: Path, base_scores: BaseScores
) -> TrainCounts:
    """An adapter for each bias, on its own examples and on those that keep other biases; then their sum."""
    counts: dict[str, TrainCounts] = {}
    for name in names:
        done = folder / name / _COUNTS
        if done.is_file():
            # An earlier call was stopped after this one.
            say(f"  adapter against {name}: done before")
            counts[name] = TrainCounts.model_validate(read_json(done))
            continue
        say(f"  adapter against {name}")
        own = [row for row in rows if row.bias == name or row.bias not in names]
        counts[name] = _train(recipe, own, seed, folder / name, base_scores)
        if is_main():
            write_json(done, counts[name].model_dump())
    if is_main():
        head = read_head(model_spec(recipe.model))
        compose_adapters([(folder / name / ADAPTER, 1.0) for name in names], head, folder / ADAPTER)
    each = list(counts.values())
    return each[0].model_copy(
        update={
            **{field: sum(getattr(counted, field) for counted in each) for field in _SUMMED},
            "best_step": ", ".join(f"{counted.best_step} ({name})" for name, counted in counts.items()),
            "kept": None,  # each adapter kept the margins of its own pairs
            "per_bias": counts,
        }
    )


def with_base_preferences(
    rows: Sequence[TrainingPair], score: Callable[[Sequence[Text]], Mapping[str, float]]
) -> list[TrainingExample]:
    """Examples with every target known. `keep` teaches the margin of the base model, whose rewards `score` gives by `text_id`, and `shift` that
    margin moved by `shifts`."""
    import numpy as np

    asked = [row.pair for row in rows if asks_base(row)]
    texts = [(pair.prompt, text) for pair in asked for text in (pair.chosen, pair.rejected)]
    rewards = score(texts) if texts else {}

    def margin(pair: Pair) -> float:
        first, second = (rewards[text_id(pair.prompt, text)] for text in (pair.chosen, pair.rejected))
        return first - second

    moved = shifts(rows, margin)

    def known(row: TrainingPair) -> TrainingExample:
        if not asks_base(row):
            return row.example
        own, by = margin(row.pair), moved.get(row.bias, 0.0) if row.kind == "shift" else 0.0
        target = float(1 / (1 + np.exp(-np.clip(own + by, -50, 50))))
        return replace(row.example, target=target, kept=own, shift=by)

    return [known(row) for row in rows]


def shifts(rows: Sequence[TrainingPair], margin: Callable[[Pair], float]) -> dict[str | None, float]:
    """By bias, what moves the base model's margins so that the target's share t of the pairs that train is above 0, in reward units: −Q(1 − t), with
    Q their quantiles. Said in a sentence each.

    A target of each pair alone would have to be in reward units, of which a model's margins may span a tenth or ten, and would draw all pairs to the
    same margin, so that a little more or less of it turns all of them.
    """
    import numpy as np

    found = {}
    taught = [row for row in rows if row.kind == "shift" and row.split == "train"]
    for bias in dict.fromkeys(row.bias for row in taught):
        own = [row for row in taught if row.bias == bias]
        margins, share = np.array([margin(row.pair) for row in own]), float(own[0].example.target or 0.0)
        found[bias] = 0.0 - float(np.quantile(margins, 1 - share))
        say(
            f"  {bias}: margins of its pairs move by {found[bias]:+.2g}; the unbiased side is then preferred in {share:.0%} of those that "
            f"train (n = {len(own)}, {np.mean(margins > 0):.0%} before)"
        )
    return found


def asks_base(row: TrainingPair) -> bool:
    """True if the row is taught by the base model's margin on it."""
    return row.example.target is None or row.kind == "shift"
