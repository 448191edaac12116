"""Settings of a training: LoRA, and TRL's arguments; and the checkpoint that an interrupted training resumes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cda.errors import DataError, RecipeError
from cda.files.hashes import changed, contents
from cda.files.jsonl import read_json, write_json
from cda.models.load import Precision


class Lora(BaseModel):
    """LoRA hyperparameters, in PEFT's names: the recipe's `lora`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    r: Annotated[int, Field(ge=1)] = 16
    alpha: Annotated[int, Field(ge=1)] = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    target_modules: list[str] = Field(default=["q_proj", "v_proj"], min_length=1)
    per_bias: bool = False
    """Several biases: train an adapter for each and add them up, in place of one adapter on all their pairs."""


_LISTED, _STATE = "contents.json", "trainer_state.json"
_HASHED_BYTES = 64 * 2**20
"""Reading optimizer states of gigabytes again would take longer than a step; only the size of a larger file is kept."""


def seal(checkpoint: Path) -> None:
    """List the content of a checkpoint, once all of it is there but the trainer's state, which is written last."""
    write_json(checkpoint / _LISTED, contents(checkpoint, (_LISTED, f"{_LISTED}.partial", _STATE), _HASHED_BYTES))


def newest_whole(folder: Path, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint in a folder, if any, of which no file is cut, changed or gone; `say` tells of newer ones.

    Nor may a file of the best one until then be, which the end of the training loads.
    """
    paths = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    for checkpoint in sorted(paths, key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True):
        if _is_whole(checkpoint) and ((best := best_until(checkpoint)) is None or _is_whole(best)):
            return checkpoint
        say(f"  {checkpoint.name} is not whole; passed over")
    return None


def best_until(checkpoint: Path) -> Path | None:
    """The best checkpoint until then, if one was chosen, in the same folder: the run may have been moved since."""
    best = read_json(checkpoint / _STATE).get("best_model_checkpoint")
    return None if best is None else checkpoint.parent / Path(best).name


def _is_whole(checkpoint: Path) -> bool:
    try:
        listed, state = read_json(checkpoint / _LISTED), read_json(checkpoint / _STATE)
    except DataError:
        return False
    return bool(listed) and isinstance(listed, dict) and isinstance(state, dict) and not changed(checkpoint, listed)


# As the released code of "Flattery, Fluff, and Fog" trains (what the paper itself states: recipes/README.md): AdamW at a constant
# rate, weight decay 0.01, no warm-up, three epochs, validation accuracy looked at every 20 steps and the best checkpoint kept.
PAPER_DEFAULTS: Mapping[str, Any] = {
    "num_train_epochs": 3,
    "learning_rate": 2e-5,
    "lr_scheduler_type": "constant",
    "weight_decay": 0.01,
    "warmup_steps": 0,
    "optim": "adamw_torch",
    "per_device_train_batch_size": 16,
    "per_device_eval_batch_size": 16,
    "eval_strategy": "steps",
    "eval_steps": 20,
    "save_strategy": "steps",
    "save_steps": 20,
    "save_total_limit": 2,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_accuracy",
    "greater_is_better": True,
    "logging_steps": 5,
    "report_to": "none",
    # Every trainable weight takes part in every step.
    "ddp_find_unused_parameters": False,
    # Grouping by length needs the length column, which the trainer would drop.
    "remove_unused_columns": False,
    # On by default in TRL, at 20–60% of the time; presets of large models turn it on.
    "gradient_checkpointing": False,
}


def reward_config(
    train: Mapping[str, object],
    output_dir: Path,
    seed: int,
    has_validation: bool,
    precision: Precision = "8bit",
    best_by_loss: bool = False,
) -> Any:
    """The trl.RewardConfig of a run.

    Args:
        train: The recipe's `train:` section; wins over the defaults.
        output_dir: Folder of the checkpoints.
        seed: Seed of head, data order and dropout.
        has_validation: Without validation pairs nothing is evaluated, and the last weights are kept.
        precision: Precision of the base weights; determines whether activations are in bf16, unless `train` sets it.
        best_by_loss: The best checkpoint is the one with the lowest validation loss: accuracy says little of ties and soft
            targets.

    Raises:
        RecipeError: TRL or Transformers refuses a value.
    """
    import torch
    from trl import RewardConfig

    on_gpu = torch.cuda.is_available()
    arguments: dict[str, Any] = {
        **PAPER_DEFAULTS,
        "use_cpu": not on_gpu,
        "bf16": in_bf16(precision, on_gpu),
        "dataloader_pin_memory": on_gpu,
    }
    if best_by_loss:
        arguments |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
    if not has_validation:
        arguments |= {"eval_strategy": "no", "load_best_model_at_end": False}
    arguments |= train
    # TRL zeroes every dropout by default; the paper's released code trains with LoRA dropout 0.05.
    # Pairs are cut to length before they reach TRL, which would drop the long ones without a word.
    # A NaN or infinite loss must reach the log as such, to stop the training.
    arguments |= {
        "output_dir": str(output_dir),
        "seed": seed,
        "disable_dropout": False,
        "max_length": None,
        "disable_tqdm": True,
        "logging_nan_inf_filter": False,
    }
    if problems := _out_of_range(arguments):
        raise RecipeError(problems)
    try:
        config = RewardConfig(**arguments)
    except (ValueError, TypeError, ImportError) as error:
        raise RecipeError([f"train: {error}"]) from None
    if not (config.bf16 or config.fp16):
        # Otherwise `accelerate launch`, whose files here say bf16, would decide over the recipe's precision.
        config.mixed_precision = "no"
    return config


def in_bf16(precision: Precision, on_gpu: bool) -> bool:
    """True if training computes under bf16 autocast: with a bf16 base, and with an 8-bit one on a GPU; never with fp32."""
    return precision == "bf16" or (precision == "8bit" and on_gpu)


# The trainer takes other values without a word, to train nothing at all, or to fail hours later.
_COUNTS = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps")
_LIMITS: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (
        ("num_train_epochs", *_COUNTS, "eval_steps", "save_steps"),
        lambda value: value > 0,
        "input should be greater than 0",
    ),
    (("learning_rate", "weight_decay", "max_grad_norm"), lambda value: value >= 0, "input should be 0 or greater"),
    ((*_COUNTS, "max_steps"), lambda value: float(value).is_integer(), "a whole number is needed"),
)


def _out_of_range(arguments: Mapping[str, object]) -> list[str]:
    # With max_steps the epochs decide nothing.
    asked = {name: value for name, value in arguments.items() if isinstance(value, int | float)}
    if asked.get("max_steps", -1) > 0:
        asked.pop("num_train_epochs", None)
    return [
        f"train.{name}: {needed}, found {asked[name]}"
        for names, is_met, needed in _LIMITS
        for name in names
        if name in asked and not is_met(asked[name])
    ]
