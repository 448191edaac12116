"""Claim: on a GPU, chunks train large models at least as fast as batches padded to their longest text.

Llama-3.1-8B- and Gemma-2-27B-shaped reward models with random weights made on the device, in 8-bit and bf16, LoRA as in
recipes/models, gradient checkpointing, texts of at most 512 tokens. Reported for each layout of the batch: real tokens
a second, peak memory, and share of the chip's measured rate of bf16 matrix products (a real token does 4 operations a
weight: forward, and back to the inputs; what checkpointing computes again is no work done).

    python evals/bench_training.py --gpu      (untried; a few minutes on a GPU with 80 GB or more)
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

from outcome import Check, finish

MAX_LENGTH_TOKENS, N_PAIRS, N_STEPS, N_WARM_UP = 512, 16, 5, 2
LAYOUTS = ("padded to 512", "longest", "chunks")
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
SHAPES: dict[str, Shape] = {
    "Llama-3.1-8B": ("Llama", LLAMA_8B),
    "Gemma-2-27B": ("Gemma2", GEMMA_27B),
}


def on_a_gpu() -> int:
    import torch

    if not torch.cuda.is_available():
        print("skipped: no CUDA GPU")
        return 0
    device = torch.cuda.get_device_name()
    found, asked = {}, []
    for name in SHAPES:
        for precision in ("8bit", "bf16"):
            one = in_a_process(name, precision)
            found[f"{name} {precision}"] = one
            for layout in LAYOUTS:
                print(f"  {name} {precision} {layout}: {one[layout]}", flush=True)
            ours, theirs = one["chunks"]["tokens_per_s"], one["longest"]["tokens_per_s"]
            asked.append(
                Check(
                    f"{name}, {precision}: chunks at least as fast as padding to the longest",
                    f"{ours:.0f} against {theirs:.0f} tokens/s; {one['chunks']['share_of_matmul_rate']:.0%} of the matmul rate",
                    ours >= theirs,
                )
            )
    return finish("bench_training_gpu", (__doc__ or "").split("\n\n")[0], asked, {"device": device, "models": found})


def in_a_process(name: str, precision: str) -> dict[str, Any]:
    """One model in a fresh process, so that its memory is its own."""
    done = subprocess.run([sys.executable, __file__, name, precision], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} in {precision} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def gpu_run(shape: Shape, precision: str, device: str) -> dict[str, Any]:
    """Train a large random model for a few steps in each layout: tokens/s, memory, share of the matmul rate."""
    import torch

    from cda.train.lora import Lora, lora_config

    torch.manual_seed(0)
    base = random_model(shape, precision, device)
    # Each weight outside the embedding multiplies and adds once a token forward, and once back to its input.
    sizes = [p.numel() for n, p in base.named_parameters() if "embed" not in n]
    flops_per_token = 4 * sum(sizes)
    from peft import get_peft_model

    model = get_peft_model(base, lora_config(Lora(16, 32, 0.0, ["q_proj", "v_proj"]), ["score"]))
    for weights in model.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    rate = matmul_rate(device)
    found: dict[str, Any] = {"matmul_teraflops": rate / 1e12, "parameters": sum(sizes)}
    for layout in LAYOUTS:
        found[layout] = gpu_layout(model.train(), layout, device)
        found[layout]["share_of_matmul_rate"] = found[layout]["tokens_per_s"] * flops_per_token / rate
    return found


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
                layer.in_features, layer.out_features, bias=False, has_fp16_weights=False, device="meta"
            )
            # Weights are quantized on their way from the CPU.
            new.weight = bitsandbytes.nn.Int8Params(layer.weight.data.cpu(), requires_grad=False).to(device)
            inside.set_submodule(name, new)
    model.is_loaded_in_8bit = True  # so that PEFT puts its 8-bit layers around them


def gpu_layout(model: Any, layout: str, device: str) -> dict[str, float]:
    """Speed and peak memory of the steps in one layout."""
    import torch

    from cda.train.chunks import chunked_rewards, default_overhead_tokens

    overhead = default_overhead_tokens(device) if layout == "chunks" else 1 << 40
    optimizer = torch.optim.AdamW([weights for weights in model.parameters() if weights.requires_grad], lr=1e-5)
    on_gpu, seconds, tokens = device != "cpu", 0.0, 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for step in range(N_WARM_UP + N_STEPS):
        ids, mask = random_batch(step, device)
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
        if step >= N_WARM_UP:
            seconds, tokens = seconds + time.perf_counter() - start, tokens + int(mask.sum())
    gigabytes = (
        torch.cuda.max_memory_allocated() / 1e9 if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    )
    return {"tokens_per_s": tokens / seconds, "peak_gigabytes": gigabytes}


def random_batch(seed: int, device: str) -> tuple[Any, Any]:
    """Ids and mask padded to the limit; lengths spread as chat answers are (median 220, the longest cut)."""
    import numpy as np
    import torch

    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(np.log(220), 0.7, 2 * N_PAIRS).astype(int), 16, MAX_LENGTH_TOKENS)
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
    parser = argparse.ArgumentParser(description="One model; bench_training.py --gpu runs them all.")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("precision", choices=["8bit", "bf16"])
    asked = parser.parse_args()
    print(json.dumps(gpu_run(SHAPES[asked.shape], asked.precision, "cuda")))
