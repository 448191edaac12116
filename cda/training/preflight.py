"""A trial of a recipe's `train:` section on a model of a few weights, before anything is spent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cda.errors import RecipeError, did_you_mean
from cda.launch import world_size
from cda.models.load import Precision
from cda.training.arguments import reward_config

_METRICS = ("loss", "accuracy", "margin", "min_reward", "mean_reward", "max_reward", "num_tokens",
            "runtime", "samples_per_second", "steps_per_second")  # fmt: skip
"""Measured by an evaluation, as `eval_<name>`."""
_OF_A_LAUNCH = ("fsdp", "fsdp_config", "deepspeed", "parallelism_config")
"""Refused in a process by itself, and checked by the launch."""
_NOT_TRIED: Mapping[str, object] = {
    "report_to": "none",
    "push_to_hub": False,
    "torch_compile": False,
    "eval_on_start": False,
}
"""They ask a service, or take minutes."""
_PROBLEM = "PROBLEM "


def check_arguments(train: Mapping[str, object], has_validation: bool, precision: Precision) -> None:
    """Build everything that a training builds of its arguments: trackers, configuration, trainer, optimizer, schedule, batches.

    Under a launch of several processes, which build theirs together, this is done by a process outside it.

    Raises:
        RecipeError: TRL, Transformers or a tracker refuses them; as many problems as can be seen at once.
    """
    problems = [*tracker_problems(train), *_metric_problems(train, has_validation), *_hub_problems(train)]
    tried = _tried if world_size() == 1 else _tried_outside
    problems += tried(train, has_validation, precision)
    if problems:
        raise RecipeError(problems)


def tracker_problems(train: Mapping[str, Any]) -> list[str]:
    """Trackers of `train.report_to` that are unknown, not installed, or without the key they would ask for."""
    from transformers.integrations import get_reporting_integration_callbacks
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    asked = train.get("report_to") or "none"
    names = [asked] if isinstance(asked, str) else list(asked)
    problems = []
    for name in names:
        if name in ("none", "all"):
            continue
        try:
            for callback in get_reporting_integration_callbacks([name]):
                callback()
        except Exception as error:  # each tracker's own: not known, not installed, not set up
            hint = "" if name in INTEGRATION_TO_CALLBACK else did_you_mean(str(name), INTEGRATION_TO_CALLBACK)
            problems.append(
                f"train.report_to={name}: {str(error).rstrip('.')}.{hint} Without a tracker: train.report_to=none"
            )
            continue
        if name == "wandb" and (problem := _wandb_problem()):
            problems.append(problem)
    return problems


def _wandb_problem() -> str | None:
    """Weights & Biases asks for a key once the training begins; without a terminal it ends the run there."""
    if os.environ.get("WANDB_MODE", "").lower() in ("offline", "disabled", "dryrun"):
        return None
    if import_module("wandb").api.api_key:
        return None
    return "train.report_to=wandb: no key of Weights & Biases is here; `wandb login`, or set WANDB_API_KEY or WANDB_MODE=offline"


def _metric_problems(train: Mapping[str, object], has_validation: bool) -> list[str]:
    metric = train.get("metric_for_best_model")
    if metric is None or not has_validation or str(metric).removeprefix("eval_") in _METRICS:
        return []
    known = [f"eval_{name}" for name in _METRICS]
    return [
        f"train.metric_for_best_model={metric}: not measured.{did_you_mean(str(metric), known)} Known: {', '.join(known)}"
    ]


def _hub_problems(train: Mapping[str, object]) -> list[str]:
    if not train.get("push_to_hub") or train.get("hub_token"):
        return []
    from huggingface_hub import get_token

    if get_token():
        return []
    return ["train.push_to_hub: no token of the Hugging Face hub is here; `hf auth login`, or set HF_TOKEN"]


def _tried(train: Mapping[str, object], has_validation: bool, precision: Precision) -> Sequence[str]:
    """Errors of one step of training a handful of weights, in a temporary folder and without compiling it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = reward_config({**train, **_NOT_TRIED}, Path(folder), 0, has_validation, precision)
            config.max_steps, config.save_strategy = 1, "no"
            trainer = _small_trainer(config, has_validation)
            trainer.train()
        except RecipeError as error:
            return error.problems
        except Exception as error:  # of any library that an argument may name
            return [f"train: {' '.join(str(error).split()) or type(error).__name__}"]
    return []


def _small_trainer(config: Any, has_validation: bool) -> Any:
    from datasets import Dataset
    from peft import LoraConfig, TaskType
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast, PrinterCallback

    from cda.training.chunks import collator
    from cda.training.trainer import ObjectiveTrainer

    n_rows = max(config.train_batch_size, config.eval_batch_size)  # one batch, also where smaller ones are dropped
    row = {"chosen_ids": [2, 3], "rejected_ids": [3, 2], "length": 2, "target": 1.0, "margin": 0.0, "weight": 1.0}
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
        [sys.executable, "-m", "cda.training.preflight"], input=asked, env=alone, capture_output=True, text=True
    )
    if done.returncode == 0:
        return [line.removeprefix(_PROBLEM) for line in done.stdout.splitlines() if line.startswith(_PROBLEM)]
    return [f"train: could not be tried beforehand: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"]


if __name__ == "__main__":
    for problem in _tried(*json.load(sys.stdin)):
        print(_PROBLEM + problem)
