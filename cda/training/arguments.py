"""Settings of a training, LoRA's and TRL's, and a trial of them on a model of a few weights before anything is spent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cda.errors import RecipeError, did_you_mean
from cda.launch import world_size
from cda.models.config import Precision
from cda.records import Pair, TrainingExample, user_prompt
from cda.training.hub import hub_problems
from cda.training.trackers import tracker_problems

if TYPE_CHECKING:
    from trl import RewardConfig


class Lora(BaseModel):
    """LoRA hyperparameters, in PEFT's names: the recipe's `lora`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    r: Annotated[int, Field(ge=1)] = 16
    """Rank of the update."""
    alpha: Annotated[int, Field(ge=1)] = 32
    """The update is scaled by alpha / r."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Dropout of the adapter's input in training."""
    target_modules: Annotated[
        list[str] | None, BeforeValidator(lambda given: [given] if isinstance(given, str) else given)
    ] = Field(default=None, min_length=1)
    """Names of the layers that get an adapter, whole or their ends behind a dot. null: PEFT's choice for the architecture, such as
    query and value for BERT; of one that PEFT's table lacks, attention's queries and values. `all-linear`: every linear layer but the
    head. The plan names them."""
    per_bias: bool = False
    """Several biases: train an adapter for each and add them up, in place of one adapter on all their pairs."""


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
    """The trl.RewardConfig of a run: `train:` over the defaults; RecipeError for a refused value. Without validation pairs the
    last weights are kept. `best_by_loss`: lowest validation loss is best, since accuracy says little of ties and soft
    targets."""
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
    if arguments.get("use_liger_kernel"):
        # Liger's default puts a language model's loss in place of the forward pass, which fails on a classifier.
        arguments["liger_kernel_config"] = {"fused_linear_cross_entropy": False} | (
            arguments.get("liger_kernel_config") or {}
        )
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
_ABOVE_0 = ("num_train_epochs", *_COUNTS, "eval_steps", "save_steps")
_LIMITS: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (_ABOVE_0, lambda value: value > 0, "input should be greater than 0"),
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


_METRICS = ("loss", "accuracy", "margin", "min_reward", "mean_reward", "max_reward", "num_tokens",
            "runtime", "samples_per_second", "steps_per_second")  # fmt: skip
"""Measured by an evaluation, as `eval_<name>`."""
_OF_A_LAUNCH = ("fsdp", "fsdp_config", "deepspeed", "parallelism_config")
"""Refused in a process by itself, and checked by the launch."""
_NOT_TRIED = {"report_to": "none", "push_to_hub": False, "torch_compile": False, "eval_on_start": False}
"""They ask a service, or take minutes."""
_PROBLEM = "PROBLEM "


def check_arguments(
    train: Mapping[str, object], has_validation: bool, precision: Precision, done: bool = False
) -> None:
    """Build all that a training builds of its arguments, unless it is `done`: RecipeError with as many problems of trackers,
    configuration, trainer, optimizer, schedule and batches as can be seen at once. Of several processes, which build theirs
    together, one outside does it."""
    problems = [*tracker_problems(train), *_metric_problems(train, has_validation), *hub_problems(train)]
    tried = _tried if world_size() == 1 else _tried_outside
    problems += [] if done else tried(train, has_validation, precision)
    if problems:
        raise RecipeError(problems)


def _metric_problems(train: Mapping[str, object], has_validation: bool) -> list[str]:
    metric = train.get("metric_for_best_model")
    if metric is None or not has_validation or str(metric).removeprefix("eval_") in _METRICS:
        return []
    known = [f"eval_{name}" for name in _METRICS]
    return [
        f"train.metric_for_best_model={metric}: not measured.{did_you_mean(str(metric), known)} Known: {', '.join(known)}"
    ]


def _tried(train: Mapping[str, object], has_validation: bool, precision: Precision) -> Sequence[str]:
    """Errors of one step of training a handful of weights, in a temporary folder and without compiling it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = reward_config({**train, **_NOT_TRIED}, Path(folder), 0, has_validation, precision)
            config.max_steps, config.save_strategy = 1, "no"
            _small_trainer(config, has_validation).train()
        except RecipeError as error:
            return error.problems
        except Exception as error:  # of any library that an argument may name
            return [f"train: {' '.join(str(error).split()) or type(error).__name__}"]
    return []


def _small_trainer(config: RewardConfig, has_validation: bool) -> Any:
    from datasets import Dataset
    from peft import LoraConfig, TaskType
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast, PrinterCallback

    from cda.training.chunks import TAUGHT, collator
    from cda.training.trainer import ObjectiveTrainer

    n_rows = max(config.train_batch_size, config.eval_batch_size)  # one batch, also where smaller ones are dropped
    example = TrainingExample(Pair(user_prompt("a"), "a b", "b a"))
    taught = {name: getattr(example, name) for name in TAUGHT}
    row = {"chosen_ids": [2, 3], "rejected_ids": [3, 2], "length": 2} | taught
    rows = Dataset.from_list([row] * n_rows)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForSequenceClassification(LlamaConfig(vocab_size=4, num_labels=1, pad_token_id=0, **shape))
    words = Tokenizer(WordLevel({"<pad>": 0, "<unk>": 1, "a": 2, "b": 3}, unk_token="<unk>"))
    trainer = ObjectiveTrainer(
        model=model,
        args=config,
        train_dataset=rows,
        eval_dataset=rows if has_validation else None,
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>"),
        data_collator=collator(0),
        peft_config=LoraConfig(task_type=TaskType.SEQ_CLS, r=1, target_modules=["q_proj"], modules_to_save=["score"]),
        overhead_tokens=0,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _tried_outside(train: Mapping[str, object], has_validation: bool, precision: Precision) -> list[str]:
    ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    alone = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith(("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "PARALLELISM_"))
    }
    alike = {name: value for name, value in train.items() if name not in _OF_A_LAUNCH}
    asked = json.dumps([alike, has_validation, precision], default=str)
    done = subprocess.run(
        [sys.executable, "-m", "cda.training.arguments"], input=asked, env=alone, capture_output=True, text=True
    )
    if done.returncode == 0:
        return [line.removeprefix(_PROBLEM) for line in done.stdout.splitlines() if line.startswith(_PROBLEM)]
    return [f"train: could not be tried beforehand: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"]


if __name__ == "__main__":
    for problem in _tried(*json.load(sys.stdin)):
        print(_PROBLEM + problem)
