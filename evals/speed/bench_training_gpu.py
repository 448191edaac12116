"""Claim: on a GPU, chunks train large models at least as fast as batches padded to their longest text.

Llama-3.1-8B- and Gemma-2-27B-shaped reward models with random weights made on the device, in 8-bit and bf16, LoRA as in
recipes/models but for its dropout, texts of at most 512 tokens. Reported for each layout of a batch of 16 pairs, with gradient
checkpointing: real tokens a second, peak memory, and share of the chip's measured rate of bf16 matrix products (a real token does 4 operations
a weight: forward, and back to the inputs; what checkpointing computes again is no work done). `longest` is what TRL does;
`chunks` is ours, with 8-bit layers that multiply inputs that are not rounded; `longest, freed` and `chunks, freed` show bitsandbytes' own
layers that let go of their inputs. Beside them what one more pass costs, in tokens that could be computed in its place. Then the
recipe's own batch and checkpointing: its memory where all texts are 512 tokens long, and texts as above in chunks, which is what
`cda train` does; with a profile of where the GPU's time goes, and in bf16 with compiled blocks (`model.compile=true`). Asked of the 8B
shape by default, checkpointed and as its recipe trains: 35% of the rate of products in bf16, and 0.6 times bf16's speed in 8-bit. Every
step's shapes were computed once before it is timed: a training that meets new shapes is slower. Every model is added to the result as it
is measured; shapes that are not named stay in it, if hardware and versions are the same.

    python -m evals.speed.bench_training --gpu [SHAPE ...]      (about 12 minutes on a GPU with 80 GB)
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

from cda.files.jsonl import read_json
from evals.shared import ROOT, SKIPPED, Check, finish, on_this_gpu, peak_bytes

RESULT = ROOT / "evals" / "results" / "bench_training_gpu.json"

MAX_LENGTH_TOKENS, N_PAIRS, N_STEPS = 512, 16, 3
LAYOUTS = {
    "8bit": ("longest", "longest, freed", "chunks, freed", "chunks"),
    "bf16": ("longest", "chunks"),
}
AS_TRAINED = "as in recipes/models, in chunks"
COMPILED = ", compiled"
ASKED_OF, OF_MATMUL, OF_BF16 = "Llama-3.1-8B", 0.35, 0.6
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
        return SKIPPED
    hardware, status = on_this_gpu("peft", "bitsandbytes"), 0
    earlier = read_json(RESULT) if RESULT.exists() else {}
    found = dict(earlier["numbers"]["models"]) if earlier.get("hardware") == hardware else {}
    for name, precision in itertools.product(names or SHAPES, ("bf16", "8bit")):
        label, start = f"{name} {precision}", time.perf_counter()
        found[label] = in_a_process(name, precision)
        found[label]["seconds"] = round(time.perf_counter() - start)
        print(f"  {label}: {found[label]}", flush=True)
        status = report(hardware, found)
    return status


def report(hardware: str, found: Mapping[str, Mapping[str, Any]]) -> int:
    """Checks and results of the models measured."""
    numbers = {"command": "python -m evals.speed.bench_training --gpu", "models": found}
    asked = [check(label, one) for label, one in found.items()] + asked_of(found)
    return finish("bench_training_gpu", (__doc__ or "").split("\n\n")[0], asked, numbers, hardware)


def asked_of(found: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Share of the matmul rate in bf16, and speed in 8-bit next to it, of the shape that they are asked of."""
    in_bf16, in_8bit = (found.get(f"{ASKED_OF} {precision}", {}) for precision in ("bf16", "8bit"))
    asked = []
    for layout, said in (("chunks", "checkpointed"), (AS_TRAINED, "as its recipe trains")):
        one, other = in_bf16.get(layout, {}), in_8bit.get(layout, {})
        if "tokens_per_s" in one:
            share = one["share_of_matmul_rate"]
            rate = f"{share:.0%} of {in_bf16['matmul_teraflops']:.0f} TFLOP/s"
            asked.append(
                Check(f"{ASKED_OF} bf16, {said}: {OF_MATMUL:.0%} of the matmul rate", rate, share >= OF_MATMUL)
            )
        if "tokens_per_s" in one and "tokens_per_s" in other:
            ratio = other["tokens_per_s"] / one["tokens_per_s"]
            speeds = f"{ratio:.2f} times: {other['tokens_per_s']:.0f} and {one['tokens_per_s']:.0f} tokens/s"
            asked.append(
                Check(
                    f"{ASKED_OF} 8bit, {said}: at least {OF_BF16:g} times the speed of bf16", speeds, ratio >= OF_BF16
                )
            )
    return asked


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

    from cda.models.eight_bit import free_inputs, multiply_by_rounded_weights
    from cda.terminal import quiet_libraries
    from cda.training.arguments import Lora
    from cda.training.lora import compile_blocks, lora_config

    quiet_libraries()
    torch.manual_seed(0)
    base = random_model(shape or SHAPES[name], precision, device)
    # Each weight outside the embedding multiplies and adds once a token forward, and once back to its input.
    sizes = [p.numel() for n, p in base.named_parameters() if "embed" not in n]
    flops_per_token = 4 * sum(sizes)
    model = get_peft_model(base, lora_config(Lora(dropout=0.0), ["q_proj", "v_proj"], ["score"]))
    for weights in model.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()
    model.enable_input_require_grads()
    checkpointed(model, True)
    rate = matmul_rate(device)
    found: dict[str, Any] = {"matmul_teraflops": rate / 1e12, "parameters": sum(sizes)}

    def measure(name: str, *given: Any) -> None:
        found[name] = unless_out_of_memory(lambda: gpu_layout(model.train(), *given))
        if "tokens_per_s" in found[name]:
            found[name]["share_of_matmul_rate"] = found[name]["tokens_per_s"] * flops_per_token / rate

    for layout in LAYOUTS[precision]:
        if layout == "chunks" and precision == "8bit":
            multiply_by_rounded_weights(model, once=False)
        handles = free_inputs(model) if layout.endswith("freed") else []
        measure(layout, layout, device)
        for handle in handles:
            handle.remove()
    found["one more pass, tokens"] = unless_out_of_memory(lambda: {"value": pass_cost_tokens(model, device)})
    n_pairs, checkpoints = RECIPES[name]
    checkpointed(model, checkpoints)
    measure("as in recipes/models", "padded to 512", device, n_pairs, True)
    measure(AS_TRAINED, "chunks", device, n_pairs)
    found[f"profile of {2 * N_STEPS} such steps"] = step_profile(model, device, n_pairs)
    if precision == "bf16":
        compile_blocks(model)
        measure(AS_TRAINED + COMPILED, "chunks", device, n_pairs)
        checkpointed(model, True)
        measure("chunks" + COMPILED, "chunks", device)
    return found


def step_profile(model: Any, device: str, n_pairs: int) -> dict[str, float]:
    """Seconds of steps in chunks by the clock, and those in which the GPU computed products, attention, and all else."""
    from evals.speed.bench_scoring_gpu import profile

    return profile(lambda: gpu_layout(model, "chunks", device, n_pairs), device)


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

    overhead = default_overhead_tokens(device) if layout.startswith("chunks") else 1 << 40
    optimizer = torch.optim.AdamW([weights for weights in model.parameters() if weights.requires_grad], lr=1e-5)
    on_gpu, seconds, tokens = device != "cpu", 0.0, 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    # The same batches first untimed: kernels are chosen, and memory is asked for, at each shape's first time.
    for number in range(2 * N_STEPS):
        ids, mask = random_batch(number % N_STEPS, device, n_pairs, longest_only)
        start = time.perf_counter()
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            if layout == "padded to 512":
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
