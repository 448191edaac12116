"""Training examples to token ids, cut at the same length as every score, with the cut ones counted; and their batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cda.models.template import Template
from cda.records import TrainingExample

if TYPE_CHECKING:
    from torch import Tensor


TAUGHT = ("target", "margin", "weight", "kept", "shift")
"""Columns of the training signal of a pair."""


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """A dataset for the trainer: columns chosen_ids, rejected_ids, length (of the longer side, for grouping), and those of TAUGHT;
    the numbers of pairs with a side cut, and of those left out because both sides are the same after cutting."""

    dataset: Any
    n_truncated: int
    n_identical: int


def encode_pairs(examples: Sequence[TrainingExample], template: Template) -> EncodedPairs:
    """Encode examples in order; ValueError if a target is still to be asked of the base model."""
    from datasets import Dataset

    columns: dict[str, list[object]] = {name: [] for name in ("chosen_ids", "rejected_ids", "length", *TAUGHT)}
    n_truncated = n_identical = 0
    for example in examples:
        if example.target is None:
            raise ValueError("a target is the base model's preference, which was not filled in")
        prompt = example.pair.prompt
        chosen, rejected = template.encode(prompt, example.pair.chosen), template.encode(prompt, example.pair.rejected)
        n_truncated += chosen.truncated or rejected.truncated
        if chosen.ids == rejected.ids:
            n_identical += 1
            continue
        columns["chosen_ids"].append(chosen.ids)
        columns["rejected_ids"].append(rejected.ids)
        columns["length"].append(max(len(chosen.ids), len(rejected.ids)))
        for name in TAUGHT:
            columns[name].append(getattr(example, name))
    return EncodedPairs(Dataset.from_dict(columns), n_truncated, n_identical)


def collator(pad_token_id: int) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    """TRL's batches of pairs, with targets and weights besides the margins."""
    import torch
    from trl.trainer.reward_trainer import DataCollatorForPreference

    pairs = DataCollatorForPreference(pad_token_id=pad_token_id)

    def collate(examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, object] = pairs(examples)
        return batch | {name: torch.tensor([row[name] for row in examples], dtype=torch.float) for name in TAUGHT}

    return collate


# Cost of one more pass, in tokens that could be computed in its place.
# CPU: some hundred small operations, and products of matrices that are efficient from a few dozen rows on. Chosen so
# that a single text may be its own chunk.
CPU_OVERHEAD_TOKENS = 64
# GPU: on an H200 900 tokens in 8-bit and 600 in bf16, 8B; on an H100 up to 1,700 (evals/results/bench_training_gpu.json).
# Above all of them, for cards that compute more in the time of a launch.
GPU_OVERHEAD_TOKENS = 2048


def default_overhead_tokens(device_type: str) -> int:
    return CPU_OVERHEAD_TOKENS if device_type == "cpu" else GPU_OVERHEAD_TOKENS


def partition(lengths: Sequence[int], overhead_tokens: int) -> list[list[int]]:
    """The cheapest cut of a batch, sorted by length in tokens, into chunks of rows, long texts first, fewest among equals:
    least sum of rows × longest row + overhead_tokens (at least 0). Attention's square is left out: it only speaks for
    cutting."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    cheapest: list[tuple[int, int]] = [(0, 0)]  # of the first so many rows: cost, number of chunks
    starts = [0]  # where the last chunk of that cut begins
    for end in range(1, len(order) + 1):
        cost, n_chunks, start = min(
            (cost + (end - start) * lengths[order[start]] + overhead_tokens, n_chunks + 1, start)
            for start, (cost, n_chunks) in enumerate(cheapest)
        )
        cheapest.append((cost, n_chunks))
        starts.append(start)
    bounds = [len(order)]
    while bounds[-1] > 0:
        bounds.append(starts[bounds[-1]])
    return [sorted(order[start:end]) for start, end in pairwise(reversed(bounds))]


def chunked_rewards(model: Any, input_ids: Tensor, attention_mask: Tensor, overhead_tokens: int) -> Tensor:
    """Rewards of a padded batch (n, width), computed in chunks: shape (n,), in its order and the logits' dtype. The model is a
    classifier with one label, PEFT and wrappers included. Only columns behind a chunk's last real token are cut off: padding on
    the left gives right rewards too, and saves nothing."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    columns = torch.arange(1, attention_mask.shape[1] + 1, device=attention_mask.device)
    # Columns up to each row's last real token, at least one.
    ends: list[int] = ((attention_mask != 0) * columns).amax(dim=1).clamp(min=1).tolist()
    chunks = [list(range(len(ends)))] if _waits_in_every_pass(model) else partition(ends, overhead_tokens)
    rewards: list[Tensor] = []
    for number, rows in enumerate(chunks):
        width = max(ends[row] for row in rows)
        passes = model if number == 0 or not isinstance(model, DistributedDataParallel) else model.module
        output = passes(input_ids=input_ids[rows, :width], attention_mask=attention_mask[rows, :width])
        rewards.append(output.logits.squeeze(-1))
    if len(chunks) == 1:
        return rewards[0]
    places = torch.tensor([row for rows in chunks for row in rows], device=input_ids.device).argsort()
    return torch.cat(rewards)[places]


def _waits_in_every_pass(model: Any) -> bool:
    """True if each pass needs the other processes: weights are sharded, or DDP lies deeper than at the top."""
    import torch

    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    # DeepSpeed marks the weights that it shards. Several passes through its engine are untried even if it does not.
    by_deepspeed = any(kind.__name__ == "DeepSpeedEngine" for kind in type(model).__mro__)
    return (
        by_deepspeed
        or any(isinstance(module, FSDPModule | FullyShardedDataParallel) for module in model.modules())
        or any(isinstance(module, DistributedDataParallel) and module is not model for module in model.modules())
        or any(hasattr(weights, "ds_id") for weights in model.parameters())
    )
