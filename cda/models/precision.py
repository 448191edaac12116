"""Precisions of a model's weights, and the one that `auto` stands for on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal

Precision = Literal["8bit", "bf16", "fp32"]

_SHARE_OF_GPU = 0.7
"""What bf16 weights may take of a GPU's memory; the rest is for the adapter, its optimizer and activations. The 27B shape, 0.64 of an
H100, trains in it (evals/results/bench_training_gpu.json)."""


BF16_SPEED = "1.2 times as fast as in 8-bit (8B shape, H200)"
"""evals/results/bench_training_gpu.json, as the recipe trains: 9,430 and 8,021 tokens/s."""


def automatic(n_weights: Callable[[], int], prefers_8bit: bool = False) -> tuple[Precision, str]:
    """The precision for this machine, and the reason as a sentence. `prefers_8bit`: 8-bit on every GPU.

    On a GPU bf16 if its weights fit, else 8-bit; by its whole memory, so that every run on the machine chooses the same. On a
    CPU bf16 if it multiplies in bf16 (MiniLM then scores in 0.6 times the time of fp32, and its rewards are off by 1.5% of their
    spread), else fp32: without such units bf16 is three times slower. `n_weights` counts the model's weights.
    """
    import torch

    if not torch.cuda.is_available():
        if units := bf16_units():
            return "bf16", f"this CPU multiplies in it ({', '.join(units)})"
        return "fp32", "this CPU has no units that multiply in bf16"
    needed, memory = 2 * n_weights(), torch.cuda.get_device_properties(0).total_memory
    if prefers_8bit:
        return "8bit", (
            f"the preset's on a GPU, as in the paper; the weights take {needed / 2e9:.1f} of its {memory / 1e9:.0f} GB. With "
            f"model.precision=bf16 {needed / 1e9:.1f}, and training was {BF16_SPEED}"
        )
    fits = needed <= _SHARE_OF_GPU * memory
    why = f"in bf16 the weights take {needed / 1e9:.1f} of the GPU's {memory / 1e9:.0f} GB"
    return ("bf16", why) if fits else ("8bit", f"{why}, of which at most {_SHARE_OF_GPU:.0%} is used")


@cache
def bf16_units() -> tuple[str, ...]:
    """Names of this CPU's units that multiply in bf16, as torch finds them at run time."""
    import torch

    ask = getattr(torch.cpu, "get_capabilities", None)  # earlier versions of torch do not tell
    capabilities: Mapping[str, object] = ask() if ask is not None else {}
    return tuple(sorted(name for name, has_it in capabilities.items() if "bf16" in name and has_it is True))
