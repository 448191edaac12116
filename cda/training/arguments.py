"""Training arguments: those of the paper's experiment as defaults, any field of trl.RewardConfig on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cda.errors import RecipeError
from cda.models.load import Precision

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
        output_dir: Where checkpoints go.
        seed: For head, data order and dropout.
        has_validation: Without validation pairs nothing is evaluated, and the last weights are kept.
        precision: Of the base weights; decides whether activations are in bf16, unless `train` says so itself.
        best_by_loss: Ties and soft targets are taught, of which accuracy says little: the best checkpoint is the one with the
            lowest validation loss.

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
    # A loss that is no number must reach the log as such, to stop the training.
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
    """Whether training computes under bf16 autocast: with a bf16 base, and with an 8-bit one on a GPU; never with fp32."""
    return precision == "bf16" or (precision == "8bit" and on_gpu)


# What the trainer takes without a word, to train nothing at all, or to fail hours later.
_ABOVE_ZERO = (
    "num_train_epochs",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "eval_steps",
    "save_steps",
)
_WHOLE = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "max_steps")
_NOT_BELOW_ZERO = ("learning_rate", "weight_decay", "max_grad_norm")


def _out_of_range(arguments: Mapping[str, object]) -> list[str]:
    # With max_steps the epochs decide nothing.
    asked = {name: value for name, value in arguments.items() if isinstance(value, int | float)}
    if asked.get("max_steps", -1) > 0:
        asked.pop("num_train_epochs", None)
    return (
        [
            f"train.{name}: input should be greater than 0, found {asked[name]}"
            for name in _ABOVE_ZERO
            if name in asked and not asked[name] > 0
        ]
        + [
            f"train.{name}: input should be 0 or greater, found {asked[name]}"
            for name in _NOT_BELOW_ZERO
            if name in asked and not asked[name] >= 0
        ]
        + [
            f"train.{name}: a whole number is needed, found {asked[name]}"
            for name in _WHOLE
            if name in asked and not float(asked[name]).is_integer()
        ]
    )
