"""Claim: on a GPU, chunks train large models at least as fast as batches padded to their longest text.

Llama-3.1-8B- and Gemma-2-27B-shaped reward models with random weights made on the device, in 8-bit and bf16, LoRA as in
recipes/models but for its dropout, texts of at most 512 tokens. Reported for each layout of a batch of 16 pairs, with gradient
checkpointing: real tokens a second, peak memory, and share of the chip's measured rate of bf16 matrix products (a real token does 4 operations
a weight: forward, and back to the inputs; what checkpointing computes again is no work done). `longest` is what TRL does;
`chunks` is ours, with 8-bit layers that let go of their inputs; `longest, freed` shows what that alone does. Beside
them what one more pass costs, in tokens that could be computed in its place, and the memory of the recipe's own batch and
checkpointing where all texts are 512 tokens long.

    python -m evals.speed.bench_training --gpu      (about 12 minutes on a GPU with 80 GB)
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evals.shared import ROOT, Check, finish, peak_bytes

MAX_LENGTH_TOKENS, N_PAIRS, N_STEPS = 512, 16, 3
LAYOUTS = ("padded to 512", "longest", "longest, freed", "chunks")
Shape = tuple[str, dict[str, int]]
"""Family of the model's classes, and its sizes."""
LLAMA_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
GEMMA_27B = {
    "hidden_size": 4608,
    "intermediate_size": 36864,
    "num_hidden_layers": 46,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "query_pre_attn_scalar": 144,
    "vocab_size": 256000,
}
RECIPES = {"Llama-3.1-8B": (8, False), "Gemma-2-27B": (2, True)}
"""Pairs a step and gradient checkpointing, as in recipes/models."""
SHAPES: dict[str, Shape] = {
    "Llama-3.1-8B": ("Llama", LLAMA_8B),
    "Gemma-2-27B": ("Gemma2", GEMMA_27B),
}


def on_a_gpu(names: Sequence[str] = ()) -> int:
    import torch

    if not torch.cuda.is_available():
        print("skipped: no CUDA GPU")
        return 0
    found = {}
    for name, precision in itertools.product(names or SHAPES, ("8bit", "bf16")):
        label = f"{name} {precision}"
        found[label] = in_a_process(name, precision)
        print(f"  {label}: {found[label]}", flush=True)
    return report(torch.cuda.get_device_name(), found)


def report(device: str, found: Mapping[str, Mapping[str, Any]]) -> int:
    """Checks and results of the models measured."""
    numbers = {"command": "python -m evals.speed.bench_training --gpu", "device": device, "models": found}
    asked = [check(label, one) for label, one in found.items()]
    return finish("bench_training_gpu", (__doc__ or "").split("\n\n")[0], asked, numbers)


def check(label: str, one: Mapping[str, Any]) -> Check:
    ours, theirs = one.get("chunks", one), one.get("longest", one)
    said, passed = ours.get("failed", ""), "failed" not in ours
    if passed:
        peer = theirs.get("failed") or f"{theirs['tokens_per_s']:.0f} tokens/s in {theirs['peak_gigabytes']:.0f} GB"
        said = f"{ours['tokens_per_s']:.0f} tokens/s in {ours['peak_gigabytes']:.0f} GB against {peer}"
        said += f"; {ours['share_of_matmul_rate']:.0%} of the matmul rate"
        passed = ours["tokens_per_s"] >= theirs.get("tokens_per_s", 0.0)
    return Check(f"{label}: chunks at least as fast as padding to the longest", said, passed)


def in_a_process(name: str, precision: str) -> dict[str, Any]:
    """One model in a fresh process, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "evals.speed.bench_training_gpu", name, precision],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if "OutOfMemoryError" in done.stderr:
        return {"failed": "out of memory"}
    if done.returncode:
        raise SystemExit(f"{name} in {precision} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def gpu_run(name: str, precision: str, device: str, shape: Shape | None = None) -> dict[str, Any]:
    """Train a large random model for a few steps in each layout: tokens/s, memory, share of the matmul rate."""
    import torch
    from peft import get_peft_model

    from cda.models.eight_bit import free_inputs
    from cda.quiet import quiet_libraries
    from cda.training.arguments import Lora
    from cda.training.lora import lora_config

    quiet_libraries()
    torch.manual_seed(0)
    base = random_model(shape or SHAPES[name], precision, device)
    # Each weight outside the embedding multiplies and adds once a token forward, and once back to its input.
    sizes = [p.numel() for n, p in base.named_parameters() if "embed" not in n]
    flops_per_token = 4 * sum(sizes)
    model = get_peft_model(base, lora_config(Lora(dropout=0.0), ["score"]))
    for weights in model.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()
    model.enable_input_require_grads()
    checkpointed(model, True)
    rate = matmul_rate(device)
    found: dict[str, Any] = {"matmul_teraflops": rate / 1e12, "parameters": sum(sizes)}
    for layout in LAYOUTS:
        handles = free_inputs(model) if layout in LAYOUTS[2:] else []
        found[layout] = unless_out_of_memory(lambda: gpu_layout(model.train(), layout, device))  # noqa: B023
        if "tokens_per_s" in found[layout]:
            found[layout]["share_of_matmul_rate"] = found[layout]["tokens_per_s"] * flops_per_token / rate
        for handle in handles:
            handle.remove()
    free_inputs(model)
    found["one more pass, tokens"] = unless_out_of_memory(lambda: {"value": pass_cost_tokens(model, device)})
    n_pairs, checkpoints = RECIPES[name]
    checkpointed(model, checkpoints)
    found["as in recipes/models"] = unless_out_of_memory(
        lambda: gpu_layout(model, "padded to 512", device, n_pairs, longest_only=True)
    )
    return found


def checkpointed(model: Any, on: bool) -> None:
    if on:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()


def unless_out_of_memory(measure: Callable[[], dict[str, float]]) -> dict[str, Any]:
    import torch

    try:
        found: dict[str, Any] = measure()
    except torch.OutOfMemoryError:
        found = {"failed": "out of memory"}
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return found


def pass_cost_tokens(model: Any, device: str) -> float:
    """What a further forward and backward pass costs, in tokens: the same 8,192 tokens in one pass and in four."""
    import torch

    ids = torch.randint(1, 100, (32, 256), device=device)

    def seconds(n_passes: int) -> float:
        taken = []
        for _ in range(4):
            start = time.perf_counter()
            with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
                found = [
                    model(input_ids=one, attention_mask=torch.ones_like(one)).logits for one in ids.chunk(n_passes)
                ]
            torch.cat(found).float().sum().backward()
            if device != "cpu":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - start)
        return statistics.median(taken[1:])

    one, four = seconds(1), seconds(4)
    return (four - one) / 3 / (one / ids.numel())


def random_model(shape: Shape, precision: str, device: str) -> Any:
    """Random weights made on the device, in bf16 or in 8-bit."""
    import torch
    import transformers

    family, sizes = shape
    config = getattr(transformers, f"{family}Config")(**sizes, num_labels=1, pad_token_id=0, use_cache=False)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = getattr(transformers, f"{family}ForSequenceClassification")(config)
    finally:
        torch.set_default_dtype(before)
    if precision == "8bit":
        into_8bit(model, device)
    return model


def into_8bit(model: Any, device: str) -> None:
    """Quantize each linear layer but the head, one at a time, as loading in 8-bit would."""
    import bitsandbytes
    import torch

    inside = model.base_model
    for name, layer in list(inside.named_modules()):
        if isinstance(layer, torch.nn.Linear):
            new = bitsandbytes.nn.Linear8bitLt(
                layer.in_features, layer.out_features, bias=False, has_fp16_weights=False, threshold=6.0, device="meta"
            )
            # Weights are quantized on their way from the CPU.
            new.weight = bitsandbytes.nn.Int8Params(layer.weight.data.cpu(), requires_grad=False).to(device)
            layer.to("meta")  # two copies of the largest would not fit
            inside.set_submodule(name, new)
    model.is_loaded_in_8bit = True  # so that PEFT puts its 8-bit layers around them


def gpu_layout(
    model: Any, layout: str, device: str, n_pairs: int = N_PAIRS, longest_only: bool = False
) -> dict[str, float]:
    """Speed and peak memory of the steps in one layout."""
    import torch

    from cda.training.chunks import chunked_rewards, default_overhead_tokens

    overhead = default_overhead_tokens(device) if layout == "chunks" else 1 << 40
    optimizer = torch.optim.AdamW([weights for weights in model.parameters() if weights.requires_grad], lr=1e-5)
    on_gpu, seconds, tokens = device != "cpu", 0.0, 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    # The same batches first untimed: kernels are chosen, and memory is asked for, at each shape's first time.
    for number in range(2 * N_STEPS):
        ids, mask = random_batch(number % N_STEPS, device, n_pairs, longest_only)
        start = time.perf_counter()
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            if layout == LAYOUTS[0]:
                rewards = model(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
            else:
                rewards = chunked_rewards(model, ids, mask, overhead)
        chosen, rejected = rewards.float().chunk(2)
        (-torch.nn.functional.logsigmoid(chosen - rejected).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if on_gpu:
            torch.cuda.synchronize()
        if number >= N_STEPS:
            seconds, tokens = seconds + time.perf_counter() - start, tokens + int(mask.sum())
    gigabytes = (torch.cuda.max_memory_allocated() if on_gpu else peak_bytes()) / 1e9
    return {"tokens_per_s": tokens / seconds, "peak_gigabytes": gigabytes}


def random_batch(seed: int, device: str, n_pairs: int = N_PAIRS, longest_only: bool = False) -> tuple[Any, Any]:
    """Ids and mask padded to the limit; lengths spread as chat answers are (median 220, the longest cut), or all at the limit."""
    import numpy as np
    import torch

    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(np.log(220), 0.7, 2 * n_pairs).astype(int), 16, MAX_LENGTH_TOKENS)
    lengths = np.full_like(lengths, MAX_LENGTH_TOKENS) if longest_only else lengths
    mask = np.arange(MAX_LENGTH_TOKENS) < lengths[:, None]
    ids = np.where(mask, rng.integers(1, 100, mask.shape), 0)
    return torch.tensor(ids, device=device), torch.tensor(mask.astype(int), device=device)


def matmul_rate(device: str, repeats: int = 20) -> float:
    """Floating point operations a second in bf16 products of large square matrices."""
    import torch

    size = 8192 if device != "cpu" else 256
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    for count in (3, repeats):  # the first few warm up
        start = time.perf_counter()
        for _ in range(count):
            one @ one
        if device != "cpu":
            torch.cuda.synchronize()
    return 2 * size**3 * repeats / (time.perf_counter() - start)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="One model; `python -m evals.speed.bench_training --gpu` runs them all."
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("precision", choices=["8bit", "bf16"])
    asked = parser.parse_args()
    print(json.dumps(gpu_run(asked.shape, asked.precision, "cuda")))
