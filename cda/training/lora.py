"""Finetuning with LoRA: the adapter's configuration, its trainer, and the memory that training takes."""

from __future__ import annotations

import copy
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cda.errors import DataError, ModelError, RecipeError
from cda.files.jsonl import read_json, write_json
from cda.launch import check_running, say, world_size
from cda.models.eight_bit import free_inputs
from cda.models.load import RewardModel, misreads_padding
from cda.records import TrainingExample
from cda.results.stages import KeptMargins, TrainCounts
from cda.training.arguments import Lora, reward_config
from cda.training.chunks import EncodedPairs, collator, default_overhead_tokens, encode_pairs
from cda.training.targets import chosen_targets

if TYPE_CHECKING:
    from trl import RewardConfig


def shard_blocks(plugin: Any, model: Any) -> None:
    """Have accelerate's FSDP plugin, if there is one, shard a model by its blocks, unless other parts are named."""
    if plugin is not None and not plugin.transformer_cls_names_to_wrap:
        plugin.transformer_cls_names_to_wrap = block_names(model)


def block_names(model: Any) -> list[str]:
    """Classes that the model names as not to be split (`_no_split_modules`), if they can be sharded by themselves: accelerate
    1.15 fails on the embeddings that encoders name ("Invariant encountered"), since the table has its own shard, and on classes
    that this model has not."""
    table = model.get_input_embeddings()
    holds_table: dict[str, bool] = {}
    for part in model.modules():
        name = type(part).__name__
        holds_table[name] = holds_table.get(name, False) or any(inside is table for inside in part.modules())
    return [name for name in model._no_split_modules or () if holds_table.get(name) is False]


def compile_blocks(model: Any) -> None:
    """Have a model's blocks compiled on their first batches, for batches of any shape; the whole of it, if it names no blocks. On an
    H200 the 8B shape trained 1.4 times as fast in bf16, after 80 seconds (evals/results/bench_training_gpu.json)."""
    import torch._dynamo

    # Blocks share what is compiled for one of them; training, validation, checkpointing and masks each need their own.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _COMPILED)
    names = block_names(model)
    for part in [part for part in model.modules() if type(part).__name__ in names] or [model]:
        part.compile(dynamic=True)


_COMPILED = 64
"""How often a block may be compiled; torch's own 8 were not tried."""
_EAGER_TOKENS = 1024
"""On a CPU torch 2.13 takes 5 times as long for the gradients of its fused attention in bf16 as for those of plain products: a step
of MiniLM takes 0.6 times as long without it. Plain attention keeps heads · length² numbers of each text, so texts are to be short."""
_MOST_IDENTICAL = 0.5
"""Share of the training pairs that may become the same on both sides by cutting."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The adapter of a finished training, its log, and counts of steps and pairs."""

    adapter: Path
    history: list[dict[str, Any]]
    counts: TrainCounts


def train_adapter(
    reward_model: RewardModel,
    train_examples: Sequence[TrainingExample],
    validation_examples: Sequence[TrainingExample],
    lora: Lora,
    arguments: Mapping[str, object],
    folder: Path,
    seed: int,
) -> TrainingResult:
    """Finetune the freshly loaded base in place and save `adapter/` in `folder`, resuming from the newest of `checkpoints/`.
    Validation accuracy selects the checkpoint, or loss with ties or soft targets. `arguments` is the recipe's `train:`.
    RecipeError: one is refused. DataError: no pair left, or over half the same after cutting. ModelError: LoRA targets match
    nothing, the loss is not finite, memory is too small, or the model reads padded texts elsewhere."""
    check_padding(reward_model.spec.name_or_path, reward_model.model.config, reward_model.reading is None)
    train = encode_pairs(train_examples, reward_model.template)
    validation = encode_pairs(validation_examples, reward_model.template)
    n_pairs = len(train.dataset) + train.n_identical
    if not n_pairs or train.n_identical > _MOST_IDENTICAL * n_pairs:
        raise DataError(
            f"{train.n_identical} of {n_pairs} training pairs are the same on both sides after cutting to "
            f"{reward_model.template.max_length_tokens} tokens (at most {_MOST_IDENTICAL:.0%} may be): what they differ in lies behind "
            "the cut. Raise model.max_length_tokens, as far as the model goes, or train on shorter texts"
        )
    if len(validation_examples) and not len(validation.dataset):
        say(
            f"  no validation pair is left: all {validation.n_identical} are the same on both sides after cutting, so nothing "
            "chooses a checkpoint, and the last one is kept (model.max_length_tokens)"
        )
    config = reward_config(
        arguments,
        folder / "checkpoints",
        seed,
        has_validation=len(validation.dataset) > 0,
        precision=reward_model.spec.precision,
        best_by_loss=any(example.target != 1 for example in validation_examples),
    )
    decided = any(example.target != 0.5 for example in validation_examples)
    if len(validation.dataset) and config.metric_for_best_model == "eval_accuracy" and not decided:
        raise RecipeError(
            ["train.metric_for_best_model: the validation part holds ties alone, which have no accuracy; use eval_loss "
             "(and train.greater_is_better=false)"]
        )  # fmt: skip
    if config.use_cpu and config.bf16 and reward_model.template.max_length_tokens <= _EAGER_TOKENS:
        reward_model.model.set_attn_implementation("eager")
    trainer = _trainer(reward_model, train, validation, lora, config)
    check_running(trainer.accelerator.num_processes)
    from cda.training.trainer import FindBest, newest_whole

    with _memory_advice(config, train):
        checkpoint = newest_whole(folder / "checkpoints", say)
        trainer.add_callback(FindBest(checkpoint))
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    adapter = folder / "adapter"
    trainer.check_weights()
    if trainer.args.should_save:
        shutil.rmtree(adapter, ignore_errors=True)  # what a kill left of an earlier save is no part of it
    trainer.accelerator.wait_for_everyone()
    trainer.save_model(str(adapter))
    if trainer.args.should_save:
        _sort_names(adapter / "adapter_config.json", reward_model.spec.revision)
        (adapter / "README.md").unlink(missing_ok=True)  # PEFT's form of a card, with the base's path on this machine
    trainer.accelerator.wait_for_everyone()
    state = trainer.state
    best_step = int(best.rsplit("-", 1)[1]) if (best := state.best_model_checkpoint) else None
    counts = TrainCounts(
        train=len(train.dataset),
        validation=len(validation.dataset),
        truncated=train.n_truncated + validation.n_truncated,
        identical_after_truncation=train.n_identical + validation.n_identical,
        steps=state.global_step,
        best_step=best_step,
        processes=world_size(),
        form=reward_model.template.form,
        notes=tuple(reward_model.template.notes()),
        kept=_kept_margins(validation, state.log_history, best_step),
    )
    # The library's last line holds a mean loss of the steps since the last start, which says nothing after a restart.
    history = [{name: value for name, value in entry.items() if name != "train_loss"} for entry in state.log_history]
    return TrainingResult(adapter, history, counts)


def _kept_margins(
    validation: EncodedPairs, history: Sequence[Mapping[str, float]], best_step: int | None
) -> KeptMargins | None:
    """The drift at a step, or at the last, of validation margins that were to stay; None without such a pair."""
    from cda.training.trainer import KEPT_DRIFT

    name = f"eval_{KEPT_DRIFT}"
    drifts = [entry[name] for entry in history if name in entry and best_step in (None, entry["step"])]
    if not drifts:
        return None
    kept, shift = (np.array(validation.dataset[name], dtype=np.float64) for name in ("kept", "shift"))
    kept = kept[np.isfinite(kept) & (shift == 0)]
    return KeptMargins(n=len(kept), drift_rewards=drifts[-1], spread_rewards=float(kept.std()))


def _trainer(
    reward_model: RewardModel, train: EncodedPairs, validation: EncodedPairs, lora: Lora, config: RewardConfig
) -> Any:
    from transformers import PrinterCallback

    from cda.training.trainer import EndAtBest, ObjectiveTrainer, Progress

    # TRL sets a padding token on the tokenizer it is given, or needs an eos token: it gets a copy.
    template = reward_model.template
    targets = chosen_targets(reward_model.model, reward_model.spec.name_or_path, lora.target_modules)
    padding_tokenizer = copy.deepcopy(template.tokenizer)
    padding_tokenizer.pad_token = padding_tokenizer.convert_ids_to_tokens(template.pad_token_id)
    # The trainer seeds everything itself, before it makes the adapter.
    with warnings.catch_warnings():
        # trl and peft warn about their internals here, which a user cannot act on.
        warnings.simplefilter("ignore")
        trainer = ObjectiveTrainer(
            model=reward_model.model,
            args=config,
            train_dataset=train.dataset,
            eval_dataset=validation.dataset if len(validation.dataset) else None,
            processing_class=padding_tokenizer,
            data_collator=collator(template.pad_token_id),
            peft_config=lora_config(lora, targets.names, reward_model.head_names),
            overhead_tokens=default_overhead_tokens(config.device.type),
        )
    # TRL casts the trainable weights of a quantized base to bf16, where steps of 2e-5 are rounded away.
    for parameter in trainer.model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    if reward_model.spec.precision == "8bit":
        free_inputs(trainer.model)
    shard_blocks(getattr(trainer.accelerator.state, "fsdp_plugin", None), trainer.model)
    if reward_model.spec.compile and not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
        compile_blocks(trainer.model)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Progress())
    trainer.add_callback(EndAtBest())
    return trainer


def check_padding(name: str, config: Any, decided_by_class: bool) -> None:
    """Raise ModelError if a model reads its reward elsewhere where a text is padded, as batches in training are; `decided_by_class`:
    its class decides where it is read."""
    if not (decided_by_class and misreads_padding(config)):
        return
    why = "so it can be audited, one text at a time, and not trained here; train a model that reads another token"
    if config.get_text_config().pad_token_id is None:
        why = 'and its config.json names no padding token. Add "pad_token_id" there, the id of the tokenizer\'s'
    raise ModelError(
        f"{name}: reads its reward at another place where a text is padded, as batches in training are, {why}"
    )


def lora_config(lora: Lora, targets: Sequence[str], head_names: Sequence[str]) -> object:
    """PEFT's configuration of the adapter: LoRA on the targets, the head trained whole and saved with it."""
    from peft import LoraConfig, TaskType

    return LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(targets),
        modules_to_save=list(head_names),
    )


@contextmanager
def _memory_advice(config: RewardConfig, train: EncodedPairs) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError" and "can't allocate memory" not in str(error):
            raise
        raise ModelError(
            f"out of memory in training: batches of {config.per_device_train_batch_size} pairs, the longest text "
            f"{max(train.dataset['length'])} tokens. Lower train.per_device_train_batch_size (and raise "
            "train.gradient_accumulation_steps by as much), lower model.max_length_tokens, or set "
            "train.gradient_checkpointing=true, which costs 20 to 60% of the time"
        ) from None


def _sort_names(config: Path, revision: str | None) -> None:
    """Sort the target modules: PEFT writes a set, in random order, and the same training has to leave the same files. The
    base's revision is noted too."""
    content = read_json(config) | ({} if revision is None else {"revision": revision})
    names = content.get("target_modules")
    write_json(config, content | {"target_modules": sorted(names)} if isinstance(names, list) else content)
