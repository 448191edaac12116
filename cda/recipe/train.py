"""The recipe's `train:` section: keys that trl.RewardConfig has, and that nothing else sets; and `seeds`, which is ours."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cda.errors import RunError, did_you_mean
from cda.launch import check_processes

# Set by cda from other parts of the recipe; two places for one value would let them disagree.
_OWNED_TRAIN_KEYS = {
    "output_dir": "run.folder",
    "seed": "seed",
    "max_length": "model.max_length_tokens",
    "model_init_kwargs": "model.*",
    "trust_remote_code": "model.trust_remote_code",
    "disable_dropout": "lora.dropout",
    "resume_from_checkpoint": "the same command, which resumes by itself",
    "disable_tqdm": "nothing: progress is always shown",
    "remove_unused_columns": "nothing: the columns of a pair are all used",
    "eos_token": "nothing: texts are tokenized as the model's own template has them",
    "pad_token": "nothing: the model's own padding token is used",
    "chat_template_path": "nothing: the model's own template is used",
    "logging_nan_inf_filter": "nothing: a loss that is no number stops the training",
}

SEEDS = "seeds"
_MOST_SEEDS, _SEEDS_END = 100, 2**32
# Not allowed with several seeds: all trainings would write to one place, or would not differ in all that a seed decides.
_NOT_WITH_SEEDS = {
    "push_to_hub": "all trainings would be pushed to one repository; leave it out, and push one with `cda merge --push`",
    "hub_model_id": "all trainings would be pushed to one repository; leave it out, and push one with `cda merge --push`",
    "data_seed": "the order of the data would be the same in every training, and missing in the spread between them; leave it out",
}

# Fields that recipes usually set, and whether they are numbers. Anything else asks TRL, which takes seconds to import.
USUAL_TRAIN_KEYS = {
    "num_train_epochs": True, "per_device_train_batch_size": True, "gradient_accumulation_steps": True,
    "learning_rate": True, "lr_scheduler_type": False, "warmup_steps": True, "optim": False, "weight_decay": True,
    "max_grad_norm": True, "eval_strategy": False, "eval_steps": True, "save_strategy": False, "save_steps": True,
    "load_best_model_at_end": False, "metric_for_best_model": False, "greater_is_better": False,
    "gradient_checkpointing": False, "train_sampling_strategy": False, "max_steps": True, "report_to": False,
    "run_name": False, "push_to_hub": False, "hub_model_id": False, "logging_steps": True, "bf16": False,
}  # fmt: skip


def training_seeds(train: Mapping[str, Any], seed: int) -> tuple[int, ...]:
    """Seeds of a recipe's trainings: as many as `train.seeds` says, counted from the recipe's own, or those that it lists."""
    seeds = train.get(SEEDS, 1)
    return tuple(seeds) if isinstance(seeds, list) else tuple(range(seed, seed + seeds))


def seed_problems(train: object, seed: object, only_audit: bool, path: Path) -> list[str]:
    """Mistakes in `train.seeds`, each in a line; `seed` is the recipe's, `path` its file."""
    if not isinstance(train, dict) or SEEDS not in train:
        return []
    seeds, where = train[SEEDS], f"{path}: train.{SEEDS}"
    if only_audit:
        return [f"{where}: nothing is trained here; leave it out"]
    form = f"give their number (train.{SEEDS}=3) or a list of them (train.{SEEDS}=[42,43,44])"
    if _is_whole(seeds):
        if not 1 <= seeds <= _MOST_SEEDS:
            return [f"{where}: from 1 to {_MOST_SEEDS} trainings, found {seeds}; {form}"]
        if isinstance(seed, int) and seed + seeds > _SEEDS_END:
            return [f"{where}: {seeds} seeds counted from seed={seed} pass {_SEEDS_END - 1}; lower seed, or list them"]
    elif isinstance(seeds, list) and seeds and all(map(_is_whole, seeds)):
        if outside := [number for number in seeds if not 0 <= number < _SEEDS_END]:
            return [f"{where}: a seed is a number from 0 to {_SEEDS_END - 1}, found {outside[0]}"]
        if twice := sorted({number for number in seeds if seeds.count(number) > 1}):
            return [f"{where}: {twice[0]} is listed twice; the same seed gives the same training"]
        if len(seeds) > _MOST_SEEDS:
            return [f"{where}: from 1 to {_MOST_SEEDS} trainings, found {len(seeds)}"]
    else:
        return [f"{where}: expected whole numbers, found {str(seeds)[:60]!r}; {form}"]
    if len(seeds) == 1 if isinstance(seeds, list) else seeds == 1:
        return []
    given = [name for name in _NOT_WITH_SEEDS if train.get(name) not in (None, False)]
    # Trackers that stay open take a second training for more steps of the first; TensorBoard writes into each one's folder.
    trackers = train.get("report_to") or []
    trackers = trackers if isinstance(trackers, list) else [trackers]
    return [f"{path}: train.{name}: not with several seeds: {_NOT_WITH_SEEDS[name]}" for name in given] + [
        f"{path}: train.report_to: {tracker} would take several trainings for one; use tensorboard or none, or train one seed "
        f"a run folder (train.{SEEDS}=[42])"
        for tracker in trackers
        if tracker not in ("none", "tensorboard")
    ]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def unknown_train_keys(train: object, path: Path) -> list[str]:
    """Mistakes in the keys and values of a recipe's `train:` section, each in a line; `path` is the recipe's."""
    if not isinstance(train, dict) or all(_is_usual(key, value) for key, value in train.items()):
        return []
    import dataclasses

    from trl import RewardConfig  # late: takes seconds

    types = {field.name: str(field.type) for field in dataclasses.fields(RewardConfig) if field.init}
    problems = []
    for key, value in train.items():
        if key == SEEDS:
            continue
        if key in _OWNED_TRAIN_KEYS:
            problems.append(f"{path}: train.{key}: set it by {_OWNED_TRAIN_KEYS[key]}")
        elif key not in types:
            problems.append(
                f"{path}: train.{key}: not a field of trl.RewardConfig.{did_you_mean(str(key), sorted(types))}"
            )
        elif isinstance(value, str) and re.search("int|float", types[key]) and "str" not in types[key]:
            problems.append(f"{path}: train.{key}: expected a number, found {value!r}")
    return problems


def _is_usual(key: object, value: object) -> bool:
    return key == SEEDS or (key in USUAL_TRAIN_KEYS and not (USUAL_TRAIN_KEYS[str(key)] and isinstance(value, str)))


_ZERO_3 = 3


def check_launch(precision: str, train: Mapping[str, object]) -> None:
    """Check the launcher's environment against the recipe's `train:` section.

    Args:
        precision: Precision of the base: 8bit, bf16, fp32 or auto.
        train: The recipe's `train:` section.

    Raises:
        RunError: Processes are missing, or 8-bit weights would have to be sharded; all problems at once, a line each.
    """
    problems = []
    try:
        check_processes()
    except RunError as error:
        problems.append(str(error))
    sharding = sharded_by(train)
    if precision == "8bit" and sharding is not None:
        problems.append(
            f"model.precision: 8bit weights cannot be sharded, but {sharding} was asked for. "
            "Set model.precision=bf16, or keep 8bit with one whole copy on each GPU: recipes/accelerate/ddp.yaml"
        )
    if problems:
        raise RunError("\n".join(problems))


def sharded_by(train: Mapping[str, object]) -> str | None:
    """The library that would shard the base over the processes, and its setting; None if every process has all of it.

    Asked for by `accelerate launch` (ACCELERATE_USE_FSDP; ACCELERATE_USE_DEEPSPEED with its stage, or its own config file)
    or by the fields `fsdp` and `deepspeed` of the recipe's `train:` section.
    """
    if train.get("fsdp"):
        return "FSDP (train.fsdp)"
    if _is_zero_3(train.get("deepspeed")):
        return "DeepSpeed ZeRO-3 (train.deepspeed)"
    if _is_set("ACCELERATE_USE_FSDP"):
        return "FSDP (accelerate launch)"
    if _is_set("ACCELERATE_USE_DEEPSPEED"):
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE")
        file = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
        # A separate DeepSpeed file overrides the stage that the launcher names.
        if stage == str(_ZERO_3) if file == "none" else _is_zero_3(file):
            return "DeepSpeed ZeRO-3 (accelerate launch)"
    return None


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes", "on")


def _is_zero_3(config: object) -> bool:
    """True for a DeepSpeed configuration, given whole or as the path of its JSON file, with stage 3."""
    if isinstance(config, str):
        try:
            config = json.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False  # DeepSpeed says what is wrong with its file
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    return isinstance(zero, dict) and str(zero.get("stage")) == str(_ZERO_3)
