"""One batch in several forward passes, each trimmed to its own longest text: same gradients, nearly no padding.

A batch of pairs is padded to the longest of its texts, and a third to a half of what is computed is padding. Sorting
the texts by length and passing them in contiguous chunks leaves the batch, the loss over it and the one backward pass
as they are; only the padding goes. Sampling stays random, which grouping similar lengths into batches would give up.

Several processes: their chunks differ in number, so no pass but one may wait for the others.
- DistributedDataParallel: the first chunk goes through the wrapper, the others through the module inside. The wrapper's
  forward broadcasts buffers, and with more such passes on one process than on another these wait for ever. Gradients
  are reduced once, when the one backward pass has added up all chunks: also with find_unused_parameters (every chunk
  uses the same weights), with static_graph, and with gradient checkpointing. Only the reentrant kind of it
  (use_reentrant=True) reduces once a chunk, which DDP refuses ("mark a variable ready only once").
- FSDP and DeepSpeed gather weights in every pass, and a wrapper around DDP cannot be passed by: these get the whole
  batch in one pass.

8-bit multiplication treats outliers by batch, so there rewards move a little with the chunk, as with any batch-mates.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

# What one more pass costs, in tokens that could be computed in its place.
# CPU: some hundred small operations, and products of matrices that are efficient from a few dozen rows on. Chosen so
# that a single text may be a chunk of its own.
CPU_OVERHEAD_TOKENS = 64
# GPU: on an H100 1,100 to 1,700 tokens in 8-bit, 100 to 800 in bf16 (models of 27B and 8B; evals/results/bench_training_gpu.json).
# Above all of them, for cards that compute more in the time of a launch.
GPU_OVERHEAD_TOKENS = 2048


def default_overhead_tokens(device_type: str) -> int:
    """What one more forward and backward pass costs in tokens, for torch's name of the kind of device."""
    return CPU_OVERHEAD_TOKENS if device_type == "cpu" else GPU_OVERHEAD_TOKENS


def partition(lengths: Sequence[int], overhead_tokens: int) -> list[list[int]]:
    """The cheapest cut of a batch, sorted by length, into contiguous chunks.

    Minimises the sum over chunks of rows × longest row + overhead_tokens; of two equally cheap cuts, the one with fewer
    chunks. The square that attention adds to the cost of a long text is left out: it only speaks for cutting.

    Args:
        lengths: Tokens of each text. Length n, in any order.
        overhead_tokens: Cost of a chunk whatever is in it; at least 0.

    Returns:
        Row numbers of each chunk, in the batch's order within a chunk; chunks of long texts first.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    cheapest: list[tuple[int, int]] = [(0, 0)]  # of the first so many rows: cost, number of chunks
    starts = [0]  # where the last chunk of that cut begins
    for end in range(1, len(order) + 1):
        cost, n_chunks, start = min(
            (
                cheapest[start][0] + (end - start) * lengths[order[start]] + overhead_tokens,
                cheapest[start][1] + 1,
                start,
            )
            for start in range(end)
        )
        cheapest.append((cost, n_chunks))
        starts.append(start)
    bounds = [len(order)]
    while bounds[-1] > 0:
        bounds.append(starts[bounds[-1]])
    return [sorted(order[start:end]) for start, end in pairwise(reversed(bounds))]


def chunked_rewards(
    model: Any, input_ids: Tensor, attention_mask: Tensor, overhead_tokens: int, **kwargs: Any
) -> Tensor:
    """Rewards of a padded batch, computed in chunks.

    Args:
        model: Sequence classifier with one label, as the trainer hands it to its loss: with PEFT or not, wrapped for
            several processes or not.
        input_ids: Shape (n, width). Only columns behind a chunk's last real token are cut off, so padding on the left
            gives right rewards too, and saves nothing.
        attention_mask: Shape (n, width).
        overhead_tokens: See `partition`.
        kwargs: Passed on to the model as they are; nothing that has rows.

    Returns:
        Shape (n,), in the batch's order and the dtype of the model's logits; carries gradients where these are on.
    """
    import torch

    ends = _ends(attention_mask)
    chunks = [list(range(len(ends)))] if _waits_in_every_pass(model) else partition(ends, overhead_tokens)
    rewards: list[Tensor] = []
    for number, rows in enumerate(chunks):
        width = max(ends[row] for row in rows)
        passes = model if number == 0 else _inside_ddp(model)
        found = passes(input_ids=input_ids[rows, :width], attention_mask=attention_mask[rows, :width], **kwargs)
        rewards.append(found.logits.squeeze(-1))
    if len(chunks) == 1:
        return rewards[0]
    places = torch.tensor([row for rows in chunks for row in rows], device=input_ids.device).argsort()
    return torch.cat(rewards)[places]


def _ends(attention_mask: Tensor) -> list[int]:
    """Columns up to each row's last real token, at least one. Length n."""
    import torch

    columns = torch.arange(1, attention_mask.shape[1] + 1, device=attention_mask.device)
    ends: list[int] = ((attention_mask != 0) * columns).amax(dim=1).clamp(min=1).tolist()
    return ends


def _inside_ddp(model: Any) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return model.module if isinstance(model, DistributedDataParallel) else model


def _waits_in_every_pass(model: Any) -> bool:
    """Whether each pass needs the other processes: weights are sharded, or DDP lies deeper than at the top."""
    import torch

    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    # DeepSpeed marks the weights that it shards. Several passes through its engine are untried even where it does not.
    by_deepspeed = any(kind.__name__ == "DeepSpeedEngine" for kind in type(model).__mro__)
    waiting = (FSDPModule, FullyShardedDataParallel)
    return (
        by_deepspeed
        or any(isinstance(module, waiting) for module in model.modules())
        or any(isinstance(module, DistributedDataParallel) and module is not model for module in model.modules())
        or any(hasattr(weights, "ds_id") for weights in model.parameters())
    )
